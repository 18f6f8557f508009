import { invalid } from '../errors.ts';
import { key32, listOf, optional } from '../fields.ts';
import type { Column } from './find.ts';

/** Fields of methods about one account. */
export const oneAccountFields = () => ({
  address: optional(key32('address of the account')),
  hash: optional(key32('hash of the account')),
});

/** Fields of methods about many accounts. */
export const manyAccountsFields = () => ({
  hashes: optional(listOf(key32('hash'), { items: 'hashes', empty: 'No hashes provided' })),
  addresses: optional(listOf(key32('address'), { items: 'addresses', empty: 'No addresses provided' })),
});

/** The address goes first when both are given. Errors: -32602 when none is. */
export function whichOne(given: { readonly address: Uint8Array | null; readonly hash: Uint8Array | null }): {
  readonly column: Column;
  readonly key: Uint8Array;
} {
  if (given.address !== null) return { column: 'address', key: given.address };
  if (given.hash !== null) return { column: 'hash', key: given.hash };
  throw invalid('Either address or hash must be provided');
}

/** Errors: -32602 unless exactly one of the lists is given. */
export function whichMany(given: {
  readonly hashes: readonly Uint8Array[] | null;
  readonly addresses: readonly Uint8Array[] | null;
}): { readonly column: Column; readonly keys: readonly Uint8Array[] } {
  const { hashes, addresses } = given;
  if (hashes !== null && addresses !== null) throw invalid('Cannot provide both hashes and addresses');
  if (hashes !== null) return { column: 'hash', keys: hashes };
  if (addresses !== null) return { column: 'address', keys: addresses };
  throw invalid('Either hashes or addresses must be provided');
}
