import { deflateSync, inflateSync } from 'node:zlib';
import type { Migration, Queries, Store, StoreTx } from '../../src/ports/store.ts';
import { MAX_IDL_BYTES } from '../../src/solana/idl/read-idl.ts';

/** An interface that a program published, valid from one slot to another. */
export interface StoredVersion {
  readonly from: number;
  /** Null: it is the newest one. */
  readonly to: number | null;
  /** It was valid up to this slot when it was written. */
  readonly checkedSlot: number;
  /** SHA-256 of the text in hex; empty without a text. */
  readonly hash: string;
  /** Null: the program had taken its interface back. */
  readonly text: string | null;
}

interface VersionRow {
  program: string;
  from_slot: number;
  to_slot: number | null;
  checked_slot: number;
  hash: string;
  /** zlib; null: none. */
  idl: Uint8Array | null;
}

interface Tables {
  parsed_interfaces: VersionRow;
  parsed_uploads: {
    project_id: string;
    program: string;
    /** From 1 on, never used again. */
    version: number;
    from_slot: number;
    name: string | null;
    hash: string;
    bytes: number;
    /** zlib */
    idl: Uint8Array;
    created_at: number;
  };
  /** Counts the changes of a project's uploads. */
  parsed_upload_states: { project_id: string; changes: number };
}

const tables = (db: Queries): Queries<Tables> => db as Queries<Tables>;

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
  {
    version: 2,
    name: 'create interfaces that projects upload',
    breaking: false,
    async up(tx) {
      await tx.db.schema
        .createTable('parsed_uploads')
        .addColumn('project_id', 'text', (column) => column.notNull())
        .addColumn('program', 'text', (column) => column.notNull())
        .addColumn('version', 'bigint', (column) => column.notNull())
        .addColumn('from_slot', 'bigint', (column) => column.notNull())
        .addColumn('name', 'text')
        .addColumn('hash', 'text', (column) => column.notNull())
        .addColumn('bytes', 'bigint', (column) => column.notNull())
        .addColumn('idl', tx.dialect === 'sqlite' ? 'blob' : 'bytea', (column) => column.notNull())
        .addColumn('created_at', 'bigint', (column) => column.notNull())
        .addPrimaryKeyConstraint('parsed_uploads_pkey', ['project_id', 'program', 'version'])
        .execute();
      await tx.db.schema
        .createTable('parsed_upload_states')
        .addColumn('project_id', 'text', (column) => column.notNull().primaryKey())
        .addColumn('changes', 'bigint', (column) => column.notNull())
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
    const text = idl === null ? null : inflateIdl(idl);
    if (text === undefined) continue;
    entry.left -= text?.length ?? 0;
    if (entry.left < 0 && entry.versions.length > 0) continue;
    entry.versions.unshift({ from: from_slot, to: to_slot, checkedSlot: checked_slot, hash, text });
    found.set(program, entry);
  }
  return new Map(Array.from(found, ([program, { versions }]) => [program, versions]));
}

/** Undefined for what cannot be read: it must not fail the other programs of a call. */
function inflateIdl(idl: Uint8Array): string | undefined {
  try {
    return inflateSync(idl, { maxOutputLength: MAX_IDL_BYTES }).toString('utf8');
  } catch {
    return undefined;
  }
}

/**
 * Ends the version before, if there is one, adds the newest and removes the oldest ones. Another process may have written the same.
 * `isDoubted`: what is stored between the two, up to the slot of the reading, may be of a fork that the chain has left; it is replaced.
 */
export async function writeVersion(
  store: Store,
  program: string,
  { from, checkedSlot, hash, text }: StoredVersion,
  {
    previous,
    isDoubted,
  }: { readonly previous: { readonly from: number; readonly to: number } | null; readonly isDoubted: boolean },
): Promise<void> {
  const idl = text === null ? null : deflateSync(text);
  await store.write(async (tx) => {
    const { db } = tx;
    if (previous !== null)
      await tables(db)
        .updateTable('parsed_interfaces')
        .set({ to_slot: previous.to })
        .where('program', '=', program)
        // Another process may have found that it reaches farther back.
        .where('from_slot', '=', (eb) =>
          eb
            .selectFrom('parsed_interfaces as known')
            .select(({ fn }) => fn.max<number>('known.from_slot').as('from_slot'))
            .where('known.program', '=', program)
            .where('known.from_slot', '<=', previous.from),
        )
        .execute();
    if (isDoubted)
      await tables(db)
        .deleteFrom('parsed_interfaces')
        .where('program', '=', program)
        .where('from_slot', '>', previous?.from ?? -1)
        .where('from_slot', '<=', checkedSlot)
        .execute();
    const columns = ['program', 'from_slot', 'to_slot', 'checked_slot', 'hash', 'idl'];
    await tx.insertMany('parsed_interfaces', columns, [[program, from, null, checkedSlot, hash, idl]], 'ignore');
    await removeOldest(db, program);
  });
}

/** What was found between the stored versions of a program, and which of these reach farther than it was known. */
export interface Gaps {
  readonly added: readonly (StoredVersion & { readonly to: number })[];
  /** `stored`: from which slot it was valid so far. */
  readonly moved: readonly { readonly stored: number; readonly from: number; readonly to: number | null }[];
}

/** Another process may have written the same. */
export async function fillVersions(store: Store, program: string, { added, moved }: Gaps): Promise<void> {
  const columns = ['program', 'from_slot', 'to_slot', 'checked_slot', 'hash', 'idl'];
  const rows = added.map(({ from, to, checkedSlot, hash, text }) => [
    program,
    from,
    to,
    checkedSlot,
    hash,
    text === null ? null : deflateSync(text),
  ]);
  await store.write(async (tx) => {
    for (const { stored, from, to } of moved) {
      const [row] = await tables(tx.db)
        .deleteFrom('parsed_interfaces')
        .where('program', '=', program)
        .where('from_slot', '=', stored)
        .returningAll()
        .execute();
      if (row === undefined) continue;
      const { to_slot, checked_slot, hash, idl } = row;
      // Where another process has the same from that slot on, one is enough.
      await tx.insertMany(
        'parsed_interfaces',
        columns,
        [[program, from, to ?? to_slot, checked_slot, hash, idl]],
        'ignore',
      );
    }
    if (rows.length > 0) await tx.insertMany('parsed_interfaces', columns, rows, 'ignore');
    await removeOldest(tx.db, program);
  });
}

async function removeOldest(db: Queries, program: string): Promise<void> {
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
}

// ------------------------------------------------------------------------------------------------------------- uploads

/** An interface that a project has uploaded, without its text. */
export interface Upload {
  readonly program: string;
  readonly version: number;
  readonly fromSlot: number;
  readonly name: string | null;
  /** SHA-256 of its text in hex. */
  readonly hash: string;
  /** Size of the text. */
  readonly bytes: number;
  /** Unix milliseconds. */
  readonly createdAt: number;
}

/** The changes of a project's uploads so far; 0 without any. */
export async function uploadChanges(db: Queries, project: string): Promise<number> {
  const row = await tables(db)
    .selectFrom('parsed_upload_states')
    .select('changes')
    .where('project_id', '=', project)
    .executeTakeFirst();
  return row?.changes ?? 0;
}

/** The uploads of a project, or of one of its programs, oldest first. */
export async function listUploads(db: Queries, project: string, program?: string): Promise<readonly Upload[]> {
  let query = tables(db)
    .selectFrom('parsed_uploads')
    .select(['program', 'version', 'from_slot', 'name', 'hash', 'bytes', 'created_at'])
    .where('project_id', '=', project);
  if (program !== undefined) query = query.where('program', '=', program);
  const rows = await query.orderBy('program').orderBy('version').execute();
  return rows.map(({ from_slot, created_at, ...row }) => ({ ...row, fromSlot: from_slot, createdAt: created_at }));
}

/** Uploaded interfaces of a project with their texts. */
export async function readUploads(
  db: Queries,
  project: string,
): Promise<readonly { readonly program: string; readonly fromSlot: number; readonly text: string }[]> {
  const rows = await tables(db)
    .selectFrom('parsed_uploads')
    .select(['program', 'from_slot', 'idl'])
    .where('project_id', '=', project)
    .orderBy('program')
    .orderBy('version')
    .execute();
  return rows.flatMap(({ program, from_slot, idl }) => {
    const text = inflateIdl(idl);
    return text === undefined ? [] : [{ program, fromSlot: from_slot, text }];
  });
}

/** Counts a change; other changes of the project wait until this transaction ends. To be called first. */
export async function noteUploadChange(tx: StoreTx, project: string): Promise<void> {
  await tables(tx.db)
    .insertInto('parsed_upload_states')
    .values({ project_id: project, changes: 1 })
    .onConflict((conflict) =>
      conflict.column('project_id').doUpdateSet((eb) => ({ changes: eb('parsed_upload_states.changes', '+', 1) })),
    )
    .execute();
}

export async function insertUpload(tx: StoreTx, project: string, upload: Upload, text: string): Promise<void> {
  const { fromSlot, createdAt, ...row } = upload;
  await tables(tx.db)
    .insertInto('parsed_uploads')
    .values({ ...row, project_id: project, from_slot: fromSlot, created_at: createdAt, idl: deflateSync(text) })
    .execute();
}

/** Deletes the uploads of a project, of a program, or one version. Returns how many there were. */
export async function deleteUploads(
  tx: StoreTx,
  project: string,
  { program, version }: { readonly program?: string; readonly version?: number } = {},
): Promise<number> {
  let query = tables(tx.db).deleteFrom('parsed_uploads').where('project_id', '=', project);
  if (program !== undefined) query = query.where('program', '=', program);
  if (version !== undefined) query = query.where('version', '=', version);
  return Number((await query.executeTakeFirst()).numDeletedRows);
}

/** Everything of a project that is deleted. */
export async function forgetUploads(tx: StoreTx, project: string): Promise<void> {
  await deleteUploads(tx, project);
  await tables(tx.db).deleteFrom('parsed_upload_states').where('project_id', '=', project).execute();
}
