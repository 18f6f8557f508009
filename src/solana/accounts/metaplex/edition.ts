import { METADATA_PROGRAM } from '../../address/known-programs.ts';
import { createByteReader } from '../../byte-reader.ts';
import { attempt, type Decoded, undecoded } from '../decoded.ts';
import { keyText } from '../fields.ts';
import type { RawAccount } from '../raw-account.ts';

/** The edition account of a mint. */
export type Edition =
  /** `supply` prints exist, of at most `maxSupply`; null: no limit. */
  | { readonly kind: 'master'; readonly supply: bigint; readonly maxSupply: bigint | null }
  /** A print: its number, and the edition account of the original, base58. */
  | { readonly kind: 'print'; readonly parent: string; readonly edition: bigint };

const KEY = { none: 0, print: 1, masterV1: 2, masterV2: 6 } as const;

/** Reads the edition account of a mint, of both lengths. */
export function decodeEdition({ owner, lamports, data }: RawAccount): Decoded<Edition> {
  if (lamports === 0n || data.length === 0 || data[0] === KEY.none) return undecoded('missing');
  if (owner !== METADATA_PROGRAM) return undecoded('foreign');
  const reader = createByteReader(data, 1);
  switch (data[0]) {
    case KEY.print:
      return attempt(() => ({ kind: 'print', parent: keyText(reader), edition: reader.u64() }));
    case KEY.masterV1:
    case KEY.masterV2:
      return attempt(() => ({ kind: 'master', supply: reader.u64(), maxSupply: reader.option(reader.u64) }));
    default:
      return undecoded('foreign');
  }
}
