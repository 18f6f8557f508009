import { RequestError } from '../../../src/kernel/request.ts';
import { decode } from '../../../src/lib/base58.ts';
import type { WalletView } from '../tracking/view.ts';

const SIGNATURE_BYTES = 64;
const LONGEST = 88;

const invalid = (details?: string) => new RequestError(400, 'Invalid cursor', details === undefined ? {} : { details });

/** Where a signature stands on the chain. Errors: 400 for what is none, or unknown. */
export async function positionOfCursor(view: WalletView, signature: string): Promise<number> {
  if (!isSignature(signature)) throw invalid('a cursor is a transaction signature');
  const n = await view.locate(signature);
  if (n === null) throw invalid('signature not found');
  return n;
}

/** Refuses what can be no cursor before anything is read. */
export function checkSignatures(texts: readonly (string | undefined)[]): void {
  for (const text of texts)
    if (text !== undefined && !isSignature(text)) throw invalid('a cursor is a transaction signature');
}

export const isSignature = (text: string): boolean =>
  text.length <= LONGEST && decode(text)?.length === SIGNATURE_BYTES;
