import { deflateSync, inflateSync } from 'node:zlib';
import type { Migration, Queries, Store } from '../../src/ports/store.ts';
import { MAX_IDL_BYTES } from '../../src/solana/idl/read-idl.ts';

/** An interface that a program published, valid from one slot to another. */
export interface StoredVersion {
  readonly from: number;
  /** Null: it is the newest one. */
  readonly to: number | null;
  /** It was valid up to this slot when it was written. */
  readonly checkedSlot: number;
  /** Of the text; empty without one. */
  readonly hash: string;
  /** Null: the program had taken its interface back. */
  readonly text: string | null;
}

interface Row {
  program: string;
  from_slot: number;
  to_slot: number | null;
  checked_slot: number;
  hash: string;
  /** zlib; null: none. */
  idl: Uint8Array | null;
}

const tables = (db: Queries): Queries<{ parsed_interfaces: Row }> => db as Queries<{ parsed_interfaces: Row }>;

export const migrations: readonly Migration[] = [
  {
    version: 1,
    name: 'create interfaces of programs',
    breaking: false,
    async up(tx) {
      await tx.db.schema
        .createTable('parsed_interfaces')
        .addColumn('program', 'text', (column) => column.notNull())
        .addColumn('from_slot', 'bigint', (column) => column.notNull())
        .addColumn('to_slot', 'bigint')
        .addColumn('checked_slot', 'bigint', (column) => column.notNull())
        .addColumn('hash', 'text', (column) => column.notNull())
        .addColumn('idl', tx.dialect === 'sqlite' ? 'blob' : 'bytea')
        .addPrimaryKeyConstraint('parsed_interfaces_pkey', ['program', 'from_slot'])
        .execute();
    },
  },
];

/** The known versions of programs, oldest first, without rows that cannot be read: their slots are unknown. */
export async function readVersions(
  { read }: Store,
  programs: readonly string[],
): Promise<ReadonlyMap<string, readonly StoredVersion[]>> {
  const rows = await tables(read)
    .selectFrom('parsed_interfaces')
    .selectAll()
    .where('program', 'in', programs)
    .orderBy('from_slot')
    .execute();
  const found = new Map<string, StoredVersion[]>();
  for (const { program, from_slot, to_slot, checked_slot, hash, idl } of rows) {
    const text = idl === null ? null : textOf(idl);
    if (text === undefined) continue;
    const list = found.get(program) ?? [];
    list.push({ from: from_slot, to: to_slot, checkedSlot: checked_slot, hash, text });
    found.set(program, list);
  }
  return found;
}

/** Undefined for what cannot be read: it must not fail the other programs of a call. */
function textOf(idl: Uint8Array): string | undefined {
  try {
    return inflateSync(idl, { maxOutputLength: MAX_IDL_BYTES }).toString('utf8');
  } catch {
    return undefined;
  }
}

/** Ends the version before, if there is one, and adds the newest. Another process may have written the same. */
export async function writeVersion(
  store: Store,
  program: string,
  { from, checkedSlot, hash, text }: StoredVersion,
  previous: { readonly from: number; readonly to: number } | null,
): Promise<void> {
  const idl = text === null ? null : deflateSync(text);
  await store.write(async (tx) => {
    const { db } = tx;
    if (previous !== null)
      await tables(db)
        .updateTable('parsed_interfaces')
        .set({ to_slot: previous.to })
        .where('program', '=', program)
        .where('from_slot', '=', previous.from)
        .execute();
    const columns = ['program', 'from_slot', 'to_slot', 'checked_slot', 'hash', 'idl'];
    await tx.insertMany('parsed_interfaces', columns, [[program, from, null, checkedSlot, hash, idl]], 'ignore');
  });
}
