import { decode } from '../../../../lib/base58.ts';
import { isTokenAccount } from '../ledger/token-state.ts';
import type { VmAccount } from '../vm/vm.ts';
import { invalidParams } from './rpc-error.ts';

const MAX_FILTERS = 4;
const MAX_MEMCMP_BYTES = 128;

type Match = (account: VmAccount) => boolean;

/** Filters of getProgramAccounts and programSubscribe. Throws -32602. */
export function filtersOf(value: unknown): Match {
  if (value === undefined || value === null) return () => true;
  if (!Array.isArray(value)) throw invalidParams('Invalid params: filters must be a list');
  if (value.length > MAX_FILTERS) throw invalidParams(`Too many filters provided; max ${MAX_FILTERS}`);
  const filters = value.map(oneFilter);
  return (account) => filters.every((match) => match(account));
}

function oneFilter(filter: unknown): Match {
  if (filter === 'tokenAccountState') return isTokenAccount;
  if (typeof filter !== 'object' || filter === null) throw invalidParams('Invalid params: unknown filter');
  const { dataSize, memcmp, tokenAccountState } = filter as Record<string, unknown>;
  if (tokenAccountState !== undefined) return isTokenAccount;
  if (typeof dataSize === 'number') return (account) => account.data.length === dataSize;
  if (typeof memcmp === 'object' && memcmp !== null) return memcmpFilter(memcmp as Record<string, unknown>);
  throw invalidParams('Invalid params: unknown filter');
}

function memcmpFilter({ offset, bytes, encoding }: Record<string, unknown>): Match {
  if (!Number.isSafeInteger(offset) || (offset as number) < 0) throw invalidParams('Invalid params: memcmp offset');
  const wanted = memcmpBytes(bytes, encoding);
  if (wanted === null) throw invalidParams('Invalid param: could not decode memcmp bytes');
  if (wanted.length > MAX_MEMCMP_BYTES) throw invalidParams('Invalid param: Data too large, max 128 bytes');
  const start = offset as number;
  return ({ data }) =>
    start + wanted.length <= data.length && Buffer.compare(data.subarray(start, start + wanted.length), wanted) === 0;
}

function memcmpBytes(bytes: unknown, encoding: unknown): Uint8Array | null {
  if (Array.isArray(bytes)) return bytes.length > MAX_MEMCMP_BYTES ? null : Uint8Array.from(bytes as number[]);
  if (typeof bytes !== 'string' || bytes.length > 2 * MAX_MEMCMP_BYTES) return null;
  return encoding === 'base64' ? Buffer.from(bytes, 'base64') : decode(bytes);
}
