import { classify } from '../../../src/solana/parsers/classify.ts';
import { PARSERS } from '../../../src/solana/parsers/registry.ts';
import { createView, DEFAULT_OPTIONS } from '../../../src/solana/parsers/view.ts';
import type { Digest, DigestKind } from '../tracking/digests.ts';
import type { Loaded, WalletView } from '../tracking/view.ts';
import { historyElement, scaledMints } from './element.ts';

/** An element of a page, finished unless a mint of it shows its amounts with interest or a multiplier. */
export interface HistoryDigest extends Digest {
  /** JSON, with plain amounts. */
  readonly text: string;
  /** The mints that may do so. */
  readonly mints: readonly string[];
  /** Null where nobody asked for it. */
  readonly type: string | null;
}

const NO_FACTS = new Map();
const NONE: readonly string[] = [];

function digestOf(loaded: Loaded, view: WalletView, type: string | null): HistoryDigest {
  const mints = scaledMints(loaded);
  return {
    signature: loaded.signature,
    text: JSON.stringify(historyElement(loaded, view.key, NO_FACTS)),
    mints: mints.length === 0 ? NONE : mints,
    type,
  };
}

const typeOf = ({ tx, block }: Loaded): string => classify(createView(tx, block, DEFAULT_OPTIONS), PARSERS).type;
const bytesOf = ({ text, signature, mints }: HistoryDigest): number =>
  text.length + signature.length + mints.length * 60;

export const historyDigest: DigestKind<HistoryDigest> = {
  ...{ name: 'h', bytesOf },
  make: (loaded, view) => digestOf(loaded, view, null),
};

/** With its type, which takes as long to find as all the rest. */
export const typedDigest: DigestKind<HistoryDigest> = {
  ...{ name: 't', bytesOf },
  make: (loaded, view) => digestOf(loaded, view, typeOf(loaded)),
};
