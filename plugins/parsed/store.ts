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

/** Newest versions that are kept of a program. */
export const MAX_VERSIONS = 32;

/**
 * The newest known versions of programs, oldest first, as many as have no more than `mostCharacters` together, at least one. Rows that
 * cannot be read are left out: their slots are unknown.
 */
export async function readVersions(
  { read }: Store,
  programs: readonly string[],
  mostCharacters: number,
): Promise<ReadonlyMap<string, readonly StoredVersion[]>> {
  const ranked = tables(read)
    .selectFrom('parsed_interfaces')
    .selectAll()
    .select(({ fn }) =>
      fn
        .agg<number>('row_number')
        .over((over) => over.partitionBy('program').orderBy('from_slot', 'desc'))
        .as('age'),
    )
    .where('program', 'in', programs);
  const rows = await tables(read)
    .selectFrom(ranked.as('ranked'))
    .selectAll()
    .where('age', '<=', MAX_VERSIONS)
    .orderBy('from_slot', 'desc')
    .execute();
  const found = new Map<string, { readonly versions: StoredVersion[]; left: number }>();
  for (const { program, from_slot, to_slot, checked_slot, hash, idl } of rows) {
    const entry = found.get(program) ?? { versions: [], left: mostCharacters };
    // Older ones are not even decompressed.
    if (entry.left < 0) continue;
    const text = idl === null ? null : textOf(idl);
    if (text === undefined) continue;
    entry.left -= text?.length ?? 0;
    if (entry.left < 0 && entry.versions.length > 0) continue;
    entry.versions.unshift({ from: from_slot, to: to_slot, checkedSlot: checked_slot, hash, text });
    found.set(program, entry);
  }
  return new Map(Array.from(found, ([program, { versions }]) => [program, versions]));
}

/** Undefined for what cannot be read: it must not fail the other programs of a call. */
function textOf(idl: Uint8Array): string | undefined {
  try {
    return inflateSync(idl, { maxOutputLength: MAX_IDL_BYTES }).toString('utf8');
  } catch {
    return undefined;
  }
}

/** Ends the version before, if there is one, adds the newest and removes the oldest ones. Another process may have written the same. */
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
    const oldest = await tables(db)
      .selectFrom('parsed_interfaces')
      .select('from_slot')
      .where('program', '=', program)
      .orderBy('from_slot', 'desc')
      .offset(MAX_VERSIONS - 1)
      .limit(1)
      .executeTakeFirst();
    if (oldest !== undefined)
      await tables(db)
        .deleteFrom('parsed_interfaces')
        .where('program', '=', program)
        .where('from_slot', '<', oldest.from_slot)
        .execute();
  });
}
