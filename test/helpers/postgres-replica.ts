/** A streaming replica of a throw-away PostgreSQL server, which can take its place. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { freePort } from './free-port.ts';
import {
  crashServer,
  POSTGRES_FLAGS,
  POSTGRES_PASSWORD,
  type PostgresServer,
  reviveServer,
} from './postgres-server.ts';

export interface PostgresReplica extends PostgresServer {
  /** Ends recovery: from then on it takes writes. */
  promote(): Promise<void>;
}

const NAME = 'replica';
const READY = 'ready to accept';
const TRIES = 600;

/** Runs statements on a connection of its own; gives the rows of the last one. */
export async function runSql(
  url: string,
  ...statements: readonly string[]
): Promise<readonly Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString: url });
  // A server that is killed takes its connections with it.
  client.on('error', () => undefined);
  await client.connect();
  try {
    let rows: readonly Record<string, unknown>[] = [];
    for (const statement of statements) rows = (await client.query(statement)).rows as Record<string, unknown>[];
    return rows;
  } finally {
    await client.end();
  }
}

const textOf = async (url: string, statement: string): Promise<string> =>
  String(Object.values((await runSql(url, statement))[0] ?? {})[0]);

/** Copies the server while it runs, into a folder beside its own, and follows it. From then on the server answers no commit that its replica has not taken. */
export async function startReplica(primary: Pick<PostgresServer, 'url' | 'port'>): Promise<PostgresReplica> {
  const from = await textOf(primary.url, 'show data_directory');
  const binaries = await textOf(primary.url, `select setting from pg_config() where name = 'BINDIR'`);
  const directory = await mkdtemp(join(dirname(from), 'parhelion-replica-'));
  await copyRunning(primary.url, from, directory);
  const { user, password } = { user: 'parhelion', password: POSTGRES_PASSWORD };
  const source = `host=127.0.0.1 port=${primary.port} user=${user} password=${password} application_name=${NAME}`;
  const port = await freePort();
  const { uid, gid } = await stat(from);
  const args = ['-D', directory, '-p', String(port), ...POSTGRES_FLAGS, '-c', `primary_conninfo=${source}`];
  const start = () => run(join(binaries, 'postgres'), args, process.getuid?.() === 0 ? { uid, gid } : {});
  let server = await start();
  const url = `postgres://${user}:${password}@127.0.0.1:${port}/postgres`;
  await demandReplica(primary.url);
  const down = async (signal: NodeJS.Signals) => {
    const gone = once(server, 'exit');
    if (server.exitCode === null && server.signalCode === null && server.kill(signal)) await gone;
  };
  return {
    url,
    port,
    down: () => down('SIGINT'),
    async up() {
      server = await start();
    },
    crash: () => crashServer(directory),
    revive: () =>
      reviveServer(url, async () => {
        server = await start();
      }),
    async stop() {
      await down('SIGINT');
      await rm(directory, { recursive: true, force: true });
    },
    async promote() {
      const isOver = await textOf(url, 'select pg_promote(true, 60)');
      if (isOver !== 'true') throw new Error('the replica was not promoted');
    },
  };
}

/** Copies a running server like a base backup: files are copied as they are, and the log between begin and end makes them consistent. */
async function copyRunning(url: string, from: string, to: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(`select pg_backup_start('${NAME}', true)`);
    await copyFolder(from, to);
    const { rows } = await client.query('select labelfile from pg_backup_stop(false)');
    await writeFile(join(to, 'backup_label'), String(rows[0]?.labelfile));
  } finally {
    await client.end();
  }
  await rm(join(to, 'postmaster.pid'), { force: true });
  // What the server was told of its own replica is not for the copy.
  await rm(join(to, 'postgresql.auto.conf'), { force: true });
  await writeFile(join(to, 'postgresql.auto.conf'), '');
  await writeFile(join(to, 'standby.signal'), '');
  const { uid, gid } = await stat(from);
  if (process.getuid?.() === 0) await spawnOver('chown', ['-R', `${uid}:${gid}`, to]);
}

/** Files that go while they are copied were temporary. */
async function copyFolder(from: string, to: string): Promise<void> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await cp(from, to, { recursive: true, preserveTimestamps: true });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || tries >= 5) throw error;
    }
  }
}

async function spawnOver(command: string, args: readonly string[]): Promise<void> {
  const [code] = (await once(spawn(command, args, { stdio: 'ignore' }), 'exit')) as [number | null];
  if (code !== 0) throw new Error(`${command} ended with ${code}`);
}

async function run(
  program: string,
  args: readonly string[],
  owner: { uid?: number; gid?: number },
): Promise<ChildProcess> {
  const env = { ...process.env, LC_MESSAGES: 'C' };
  const child = spawn(program, args, { ...owner, env, stdio: ['ignore', 'ignore', 'pipe'] });
  const said: string[] = [];
  await new Promise<void>((resolve, reject) => {
    child.stderr?.on('data', (chunk: Buffer) => {
      said.push(chunk.toString());
      if (said.join('').includes(READY)) resolve();
    });
    child.once('exit', () => reject(new Error(`PostgreSQL did not start: ${said.join('')}`)));
  });
  process.once('exit', () => child.kill('SIGKILL'));
  return child;
}

/** Every commit waits for the replica from here on. */
async function demandReplica(url: string): Promise<void> {
  await runSql(url, `alter system set synchronous_standby_names = '${NAME}'`, 'select pg_reload_conf()');
  for (let tries = 0; tries < TRIES; tries += 1) {
    const rows = await runSql(url, `select 1 from pg_stat_replication where sync_state = 'sync'`);
    if (rows.length > 0) return;
    await sleep(50);
  }
  throw new Error('the replica does not follow');
}
