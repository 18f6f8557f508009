import { encode32 } from '../../../../lib/base58.ts';
import { isStaticWritable, type MessageParts } from '../vm/transaction.ts';
import type { VmAccount } from '../vm/vm.ts';

const TABLE_PROGRAM = 'AddressLookupTab1e1111111111111111111111111';
const TABLE_HEADER_BYTES = 56;

export interface ResolvedKeys {
  /** Static, loaded writable, loaded readonly. */
  readonly all: readonly string[];
  readonly writable: readonly boolean[];
  readonly loaded: { readonly writable: readonly string[]; readonly readonly: readonly string[] };
}

/**
 * All keys of a message in the order in which instructions count them. Entries that no table holds are left out: the engine
 * refuses such a transaction, so nobody counts in the result.
 */
export function resolveKeys(message: MessageParts, account: (key: string) => VmAccount | null): ResolvedKeys {
  const loaded = { writable: [] as string[], readonly: [] as string[] };
  for (const lookup of message.lookups) {
    const table = account(lookup.accountKey);
    if (table === null || table.owner !== TABLE_PROGRAM) continue;
    loaded.writable.push(...entries(table.data, lookup.writableIndexes));
    loaded.readonly.push(...entries(table.data, lookup.readonlyIndexes));
  }
  return {
    all: [...message.staticKeys, ...loaded.writable, ...loaded.readonly],
    writable: [
      ...message.staticKeys.map((_, index) => isStaticWritable(message, index)),
      ...loaded.writable.map(() => true),
      ...loaded.readonly.map(() => false),
    ],
    loaded,
  };
}

function entries(data: Uint8Array, indexes: readonly number[]): string[] {
  const found: string[] = [];
  for (const index of indexes) {
    const at = TABLE_HEADER_BYTES + 32 * index;
    if (at + 32 <= data.length) found.push(encode32(data, at));
  }
  return found;
}
