import { decode32 } from '../../lib/base58.ts';

/** What all methods of the asset API refuse of ids, in the words of the contract. */
export const MOST_IDS = 1_000;
export const TOO_MANY_IDS = `Batch Size Error. Batch size should not be greater than ${MOST_IDS}.`;

/** Why a value is not 32 bytes in base58; null if it is. */
export function refusedKey(value: unknown): string | null {
  if (typeof value === 'string' && value.length <= 44 && decode32(value) !== null) return null;
  return `Pubkey Validation Err: ${shown(value)} is invalid`;
}

/** A value of a request in an error; lists and objects have no text of their own. */
export const shown = (value: unknown): string =>
  typeof value === 'object' && value !== null ? 'it' : String(value).slice(0, 64);
