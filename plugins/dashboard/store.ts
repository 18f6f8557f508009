import { createHash, timingSafeEqual } from 'node:crypto';
import { sql } from 'kysely';
import { inList } from '../../src/lib/in-list.ts';
import type { Clock, Random, Store } from '../../src/plugin/plugin.ts';
import type { Migration, Queries, StoreTx } from '../../src/ports/store.ts';

/** An action of a logged-in user, or a login attempt. */
export interface AuditRow {
  id: string;
  /** Orders actions within one millisecond. */
  seq: number;
  /** Unix milliseconds. */
  at: number;
  /** `operator`, `operator:<name>`, `project:<id>`, `portal:<id>`, `command line` or `nobody`. */
  actor: string;
  address: string;
  /** Area and verb, such as `keys.revoke`. */
  action: string;
  /** Object of the action, without secrets. */
  target: string;
  /** `started`: the process ended before the action finished. */
  outcome: 'started' | 'done' | 'failed';
}

interface ProjectSecretRow {
  project_id: string;
  /** SHA-256; the secret itself is not stored. */
  hash: Uint8Array;
  created_at: number;
}

interface OperatorRow {
  id: number;
  /** SHA-256; the token itself is not stored. */
  hash: Uint8Array;
  created_at: number;
}

/** `operator` may do everything; `viewer` sees everything and changes nothing. */
export const OPERATOR_ROLES = ['operator', 'viewer'] as const;
export type OperatorRole = (typeof OPERATOR_ROLES)[number];

/** An operator with a token of its own. */
interface NamedOperatorRow {
  name: string;
  role: OperatorRole;
  /** SHA-256; the token itself is not stored. */
  hash: Uint8Array;
  created_at: number;
}

interface SessionEndsRow {
  /** `operator`, `operator:<name>`, `project:<id>`, `portal:<id>`, or `*` for all. */
  name: string;
  times: number;
}

/** What one thread measured, or (with a `step_ms` of 0) holds now; see series.ts. */
export interface SeriesRow {
  step_ms: number;
  /** Unix milliseconds of the start of the span, or of the report. */
  at: number;
  source: string;
  /** JSON */
  share: string;
}

interface KeyUseRow {
  key_id: string;
  /** Unix milliseconds. */
  used_at: number;
}

interface DashboardTables {
  dashboard_audit: AuditRow;
  dashboard_secrets: ProjectSecretRow;
  dashboard_operator: OperatorRow;
  dashboard_operators: NamedOperatorRow;
  dashboard_session_ends: SessionEndsRow;
  dashboard_series: SeriesRow;
  dashboard_key_uses: KeyUseRow;
}

/** Narrows the open handle of the store to the tables of this plugin. */
export const tables = (db: Queries): Queries<DashboardTables> => db as Queries<DashboardTables>;

export const migrations: readonly Migration[] = [
  {
    version: 1,
    name: 'create audit log, secrets, ended sessions, time series and last uses of keys',
    breaking: false,
    async up({ db: { schema }, dialect }) {
      const bytes = dialect === 'postgres' ? 'bytea' : 'blob';
      await schema
        .createTable('dashboard_audit')
        .addColumn('id', 'text', (column) => column.primaryKey())
        .addColumn('seq', 'integer', (column) => column.notNull())
        .addColumn('at', 'bigint', (column) => column.notNull())
        .addColumn('actor', 'text', (column) => column.notNull())
        .addColumn('address', 'text', (column) => column.notNull())
        .addColumn('action', 'text', (column) => column.notNull())
        .addColumn('target', 'text', (column) => column.notNull())
        .addColumn('outcome', 'text', (column) => column.notNull())
        .execute();
      await schema.createIndex('dashboard_audit_at').on('dashboard_audit').columns(['at', 'seq']).execute();
      await schema
        .createTable('dashboard_secrets')
        .addColumn('project_id', 'text', (column) => column.primaryKey())
        .addColumn('hash', bytes, (column) => column.notNull())
        .addColumn('created_at', 'bigint', (column) => column.notNull())
        .execute();
      await schema
        .createTable('dashboard_operator')
        .addColumn('id', 'integer', (column) => column.primaryKey())
        .addColumn('hash', bytes, (column) => column.notNull())
        .addColumn('created_at', 'bigint', (column) => column.notNull())
        .execute();
      await schema
        .createTable('dashboard_session_ends')
        .addColumn('name', 'text', (column) => column.primaryKey())
        .addColumn('times', 'integer', (column) => column.notNull())
        .execute();
      await schema
        .createTable('dashboard_series')
        .addColumn('step_ms', 'bigint', (column) => column.notNull())
        .addColumn('at', 'bigint', (column) => column.notNull())
        .addColumn('source', 'text', (column) => column.notNull())
        .addColumn('share', 'text', (column) => column.notNull())
        .addPrimaryKeyConstraint('dashboard_series_pk', ['step_ms', 'at', 'source'])
        .execute();
      await schema
        .createTable('dashboard_key_uses')
        .addColumn('key_id', 'text', (column) => column.primaryKey())
        .addColumn('used_at', 'bigint', (column) => column.notNull())
        .execute();
    },
  },
  {
    version: 2,
    name: 'create named operators',
    breaking: false,
    async up({ db: { schema }, dialect }) {
      await schema
        .createTable('dashboard_operators')
        .addColumn('name', 'text', (column) => column.primaryKey())
        .addColumn('role', 'text', (column) => column.notNull())
        .addColumn('hash', dialect === 'postgres' ? 'bytea' : 'blob', (column) => column.notNull().unique())
        .addColumn('created_at', 'bigint', (column) => column.notNull())
        .execute();
    },
  },
];

export interface AuditEntry {
  readonly actor: string;
  readonly address: string;
  readonly action: string;
  readonly target: string;
}

export interface AuditLog {
  /** Logs the start of an action, runs it, and logs its outcome. An action that cannot be logged is not run. */
  record<T>(entry: AuditEntry, work: () => Promise<T>): Promise<T>;
  /** The newest entries, or those before a given one. */
  list(page: { readonly limit: number; readonly before: Position | null }): Promise<readonly AuditRow[]>;
  prune(olderThanMs: number): Promise<void>;
}

export interface Position {
  readonly at: number;
  readonly seq: number;
}

const MAX_TARGET = 500;

export function createAuditLog(store: Store, clock: Clock, random: Random): AuditLog {
  let seq = 0;
  const settle = (id: string, outcome: 'done' | 'failed') =>
    store.write((tx) => tables(tx.db).updateTable('dashboard_audit').set({ outcome }).where('id', '=', id).execute());
  return {
    async record(entry, work) {
      const id = random.uuid();
      seq = (seq + 1) % 1_000_000_000;
      const row: AuditRow = { id, seq, at: clock.now(), ...entry, outcome: 'started' };
      const target = entry.target.slice(0, MAX_TARGET);
      await store.write((tx) =>
        tables(tx.db)
          .insertInto('dashboard_audit')
          .values({ ...row, target })
          .execute(),
      );
      try {
        const result = await work();
        await settle(id, 'done');
        return result;
      } catch (error) {
        await settle(id, 'failed').catch(() => undefined);
        throw error;
      }
    },
    async list({ limit, before }) {
      let query = tables(store.read).selectFrom('dashboard_audit').selectAll();
      if (before !== null)
        query = query.where((of) =>
          of.or([of('at', '<', before.at), of.and([of('at', '=', before.at), of('seq', '<', before.seq)])]),
        );
      return query.orderBy('at', 'desc').orderBy('seq', 'desc').limit(limit).execute();
    },
    async prune(olderThanMs) {
      await store.write((tx) => tables(tx.db).deleteFrom('dashboard_audit').where('at', '<', olderThanMs).execute());
    },
  };
}

/** The operator token, if none is configured. Stored as its hash. */
export interface OperatorToken {
  /** Creates the first token, exactly once even if several processes start together; null if one exists. */
  ensure(): Promise<string | null>;
  isRight(token: string): Promise<boolean>;
}

const TOKEN_BYTES = 24;
/** Id of the only row. */
const ID = 1;

export function createOperatorToken(store: Store, clock: Clock, random: Random): OperatorToken {
  return {
    async ensure() {
      const token = makeToken(random);
      const made = await store.write((tx) =>
        tx.insertMany('dashboard_operator', ['id', 'hash', 'created_at'], [[ID, hashOf(token), clock.now()]], 'ignore'),
      );
      return made === 0 ? null : token;
    },
    async isRight(token) {
      const row = await tables(store.read).selectFrom('dashboard_operator').select('hash').executeTakeFirst();
      return timingSafeEqual(row?.hash ?? new Uint8Array(32), hashOf(token)) && row !== undefined;
    },
  };
}

/** Replaces the token; the new one is returned only here. */
export async function renewOperatorToken(store: Store, clock: Clock, random: Random): Promise<string> {
  const token = makeToken(random);
  const row = { id: ID, hash: hashOf(token), created_at: clock.now() };
  await store.write((tx) =>
    tables(tx.db)
      .insertInto('dashboard_operator')
      .values(row)
      .onConflict((on) => on.column('id').doUpdateSet({ hash: row.hash, created_at: row.created_at }))
      .execute(),
  );
  return token;
}

export const makeToken = (random: Random): string =>
  `op_${Buffer.from(random.bytes(TOKEN_BYTES)).toString('base64url')}`;
export const hashOf = (token: string): Uint8Array => createHash('sha256').update(token).digest();

/** The login secrets of project owners. */
export interface ProjectSecrets {
  /** Creates or replaces the secret; it is returned only here. */
  renew(projectId: string): Promise<string>;
  isRight(projectId: string, secret: string): Promise<boolean>;
}

const SECRET_BYTES = 24;

export function createProjectSecrets(store: Store, clock: Clock, random: Random): ProjectSecrets {
  return {
    async renew(projectId) {
      const secret = `ds_${Buffer.from(random.bytes(SECRET_BYTES)).toString('base64url')}`;
      const row = { project_id: projectId, hash: hashOf(secret), created_at: clock.now() };
      await store.write((tx) =>
        tables(tx.db)
          .insertInto('dashboard_secrets')
          .values(row)
          .onConflict((on) => on.column('project_id').doUpdateSet({ hash: row.hash, created_at: row.created_at }))
          .execute(),
      );
      return secret;
    },
    async isRight(projectId, secret) {
      const row = await tables(store.read)
        .selectFrom('dashboard_secrets')
        .select('hash')
        .where('project_id', '=', projectId)
        .executeTakeFirst();
      // Takes as long for an unknown project as for a wrong secret.
      return timingSafeEqual(row?.hash ?? new Uint8Array(32), hashOf(secret)) && row !== undefined;
    },
  };
}

/** Nobody logs in to a project that is deleted, and the sessions of its portal, which have no secret, end too. */
export async function endAccess(tx: StoreTx, projectId: string): Promise<void> {
  await tables(tx.db).deleteFrom('dashboard_secrets').where('project_id', '=', projectId).execute();
  await countEnd(tx, `${PORTAL}${projectId}`);
}

async function countEnd(tx: StoreTx, name: string): Promise<void> {
  await tables(tx.db)
    .insertInto('dashboard_session_ends')
    .values({ name, times: 1 })
    .onConflict((on) => on.column('name').doUpdateSet({ times: sql<number>`dashboard_session_ends.times + 1` }))
    .execute();
}

/** Name for all identities. */
export const EVERYBODY = '*';

/**
 * The standing of an identity: a text that changes when its token or secret is renewed, or its sessions are ended, by any process. Its
 * sessions are valid only while the standing is unchanged.
 */
export interface Standings {
  /**
   * By name of the identity: `operator`, `operator:<name>`, `project:<id>`, `portal:<id>`. No entry: it can no longer log in. `ends`: as they were
   * when a log-in began that does not say at once whose it is.
   */
  read(names: readonly string[], ends?: SessionEnds): Promise<ReadonlyMap<string, string>>;
  /** How often the sessions of each identity, and those of all, have been ended so far. */
  ends(): Promise<SessionEnds>;
  /** Ends the sessions of one identity, or all. */
  endSessions(name: string): Promise<void>;
}

/** By name, without those that were never ended. */
export type SessionEnds = ReadonlyMap<string, number>;

const PROJECT = 'project:';
const PORTAL = 'portal:';
const OPERATOR = 'operator:';

interface LogInWays {
  /** Operators log in with the configured token. */
  readonly isTokenConfigured: boolean;
  /** Some log in by an identity provider: their names contain `@` or `:`, which no other operator has. */
  readonly hasProvider: boolean;
}

export function createStandings(store: Store, { isTokenConfigured, hasProvider }: LogInWays): Standings {
  const readEnds = async (names: readonly string[] | null): Promise<SessionEnds> => {
    let query = tables(store.read).selectFrom('dashboard_session_ends').selectAll();
    if (names !== null) query = query.where(inList(store.dialect, 'name', names));
    return new Map((await query.execute()).map(({ name, times }) => [name, times]));
  };
  return {
    ends: () => readEnds(null),
    async read(names, given) {
      const db = tables(store.read);
      const after = (prefix: string) =>
        names.filter((name) => name.startsWith(prefix)).map((name) => name.slice(prefix.length));
      const secrets = await db
        .selectFrom('dashboard_secrets')
        .select(['project_id', 'hash'])
        .where(inList(store.dialect, 'project_id', after(PROJECT)))
        .execute();
      const named = await db
        .selectFrom('dashboard_operators')
        .select(['name', 'hash'])
        .where(inList(store.dialect, 'name', after(OPERATOR)))
        .execute();
      const operator = await db.selectFrom('dashboard_operator').select('hash').executeTakeFirst();
      const portals = after(PORTAL);
      const ends = given ?? (await readEnds([...names, ...portals.map((id) => `${PROJECT}${id}`), EVERYBODY]));
      const endsOf = (name: string): number => ends.get(name) ?? 0;
      const proofs = new Map(secrets.map(({ project_id, hash }) => [`${PROJECT}${project_id}`, hexOf(hash)]));
      for (const { name, hash } of named) proofs.set(`${OPERATOR}${name}`, hexOf(hash));
      if (hasProvider)
        for (const name of after(OPERATOR)) if (/[@:]/.test(name)) proofs.set(`${OPERATOR}${name}`, 'provider');
      // The owner ends all sessions of the project, also these.
      for (const id of portals) proofs.set(`${PORTAL}${id}`, `portal.${endsOf(`${PROJECT}${id}`)}`);
      if (isTokenConfigured) proofs.set('operator', 'configured');
      else if (operator !== undefined) proofs.set('operator', hexOf(operator.hash));
      return new Map(
        names.flatMap((name) => {
          const proof = proofs.get(name);
          return proof === undefined ? [] : [[name, `${proof}.${endsOf(name)}.${endsOf(EVERYBODY)}`] as const];
        }),
      );
    },
    async endSessions(name) {
      await store.write((tx) => countEnd(tx, name));
    },
  };
}

const hexOf = (hash: Uint8Array): string => Buffer.from(hash).toString('hex');
