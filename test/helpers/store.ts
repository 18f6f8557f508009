/** Runs a suite on every store engine, each database fresh. */
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, type TestContext } from 'node:test';
import pg from 'pg';
import type { Dialect, Store } from '../../src/ports/store.ts';
import { openPostgresStore } from '../../src/store/postgres.ts';
import { openSqliteStore } from '../../src/store/sqlite.ts';
import { type PostgresServer, startPostgresServer } from './postgres-server.ts';
import { onEngine } from './run-part.ts';

/** One empty database. It can be opened more than once, as several processes would. */
export interface TestDatabase {
  /** `sqlite:/path` or `postgres://…`, as in `store.url`. */
  readonly url: string;
  open(): Promise<Store>;
  /** Closes what is open; a file goes at once, a database of a server with that. */
  destroy(): Promise<void>;
}

export interface StoreEngine {
  readonly dialect: Dialect;
  /** An empty database that lives until the test ends. */
  database(t: TestContext): Promise<TestDatabase>;
  /** The same, opened once. */
  store(t: TestContext): Promise<Store>;
}

const LIMITS = { busyTimeoutMs: 5_000, poolSize: 10, statementTimeoutMs: 60_000 };

/** Declares `suite` once per engine of this run. */
export function eachStore(name: string, suite: (engine: StoreEngine) => void): void {
  onEngine('sqlite', () => {
    describe(`${name} (sqlite)`, () => suite(engineOf('sqlite', createSqliteDatabase)));
  });
  onEngine('postgres', () => {
    describe(`${name} (postgres)`, () => {
      let server: SharedServer | null = null;
      before(async () => {
        server = await sharedServer();
      });
      after(() => server?.stop());
      suite(
        engineOf('postgres', async () => {
          if (server === null) throw new Error('databases are made inside of tests');
          return await createPostgresDatabase(server.url);
        }),
      );
    });
  });
}

/** A fresh SQLite store for suites that need only one engine. */
export async function sqliteStore(t: TestContext): Promise<Store> {
  return await engineOf('sqlite', createSqliteDatabase).store(t);
}

/** A fresh PostgreSQL database for suites that need only one engine; it goes away when the test ends. */
export async function postgresDatabase(t: TestContext): Promise<TestDatabase> {
  const server = await sharedServer();
  const database = await createPostgresDatabase(server.url);
  t.after(async () => {
    await database.destroy();
    await server.stop();
  });
  return database;
}

function engineOf(dialect: Dialect, create: () => Promise<TestDatabase>): StoreEngine {
  const database = async (t: TestContext) => {
    const made = await create();
    t.after(() => made.destroy());
    return made;
  };
  return { dialect, database, store: async (t) => await (await database(t)).open() };
}

type SharedServer = Pick<PostgresServer, 'url' | 'stop'>;

/** The server of the whole test run, or one of our own. */
async function sharedServer(): Promise<SharedServer> {
  const url = process.env['PARHELION_TEST_POSTGRES_URL'];
  return url === undefined || url === '' ? await startPostgresServer() : { url, stop: async () => {} };
}

async function createSqliteDatabase(): Promise<TestDatabase> {
  const directory = await mkdtemp(join(tmpdir(), 'parhelion-store-'));
  const path = join(directory, 'parhelion.db');
  const opened: Store[] = [];
  return {
    url: `sqlite:${path}`,
    async open() {
      const store = openSqliteStore({ path, busyTimeoutMs: LIMITS.busyTimeoutMs });
      opened.push(store);
      return store;
    },
    async destroy() {
      await Promise.all(opened.map((store) => store.close()));
      await rm(directory, { recursive: true, force: true });
    },
  };
}

async function createPostgresDatabase(serverUrl: string): Promise<TestDatabase> {
  const name = `test_${randomBytes(8).toString('hex')}`;
  // A copy of its files: through the log, as by default, takes twice the CPU and longer.
  await onServer(serverUrl, `create database ${name} template template0 strategy file_copy`);
  const url = new URL(serverUrl);
  url.pathname = `/${name}`;
  const opened: Store[] = [];
  return {
    url: url.href,
    async open() {
      const { poolSize, statementTimeoutMs } = LIMITS;
      const store = await openPostgresStore({ url: url.href, poolSize, statementTimeoutMs });
      opened.push(store);
      return store;
    },
    async destroy() {
      // The database goes with the server: dropping it takes as long as making it.
      await Promise.all(opened.map((store) => store.close()));
    },
  };
}

async function onServer(url: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
}
