/**
 * Servers that sinks write to, each in a folder of its own on loopback. What is tested is our use of them: they can be killed at any moment, and
 * come back with what they had.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { CHDB_DIR } from './clickhouse.ts';
import { freePort } from './free-port.ts';
import { until } from './until.ts';

/** The working directory from which a daemon finds the clients of these servers. */
export const SINK_CLIENTS_DIR = fileURLToPath(new URL('./sink-servers/', import.meta.url));

const path = (name: string) => join(SINK_CLIENTS_DIR, name);
const START_MS = 600_000;

/** Why these servers, or the clients for them, cannot be used here, or null. With REQUIRE_SINK_SERVERS=1 a reason is an error. */
export function sinkServersMissing(): string | null {
  const needed = ['node_modules/.package-lock.json', 'bin/nats-server', 'bin/gofakes3', 'lib'];
  const missing = needed.filter((name) => !existsSync(path(name)));
  if (missing.length === 0) return null;
  const reason = `${missing.join(', ')} missing: npm run packages, then test/helpers/sink-servers/install.sh`;
  if (process.env['REQUIRE_SINK_SERVERS'] === '1') throw new Error(reason);
  console.error(`SKIPPED: ${reason}`);
  return reason;
}

export interface SinkServer {
  readonly port: number;
  /** `target` of a sink; Kafka and NATS: of the server, whose topics and streams are named by options. */
  readonly target: string;
  /** Ends it at once, as a crash of the process would. */
  crash(): Promise<void>;
  /** Starts it again on what it had. */
  revive(): Promise<void>;
  stop(): Promise<void>;
}

interface Server {
  readonly name: string;
  readonly folder: string;
  readonly port: number;
  readonly target: string;
  readonly command: string;
  readonly args: readonly string[];
}

async function start({ name, folder, port, target, command, args }: Server): Promise<SinkServer> {
  const output = join(folder, 'output');
  let child: ChildProcess | null = null;
  const revive = async () => {
    const log = openSync(output, 'a');
    child = spawn(command, args, { cwd: folder, stdio: ['ignore', log, log] });
    await until(
      async () => {
        if (child!.exitCode !== null)
          throw new Error(`${name} has ended: ${readFileSync(output, 'utf8').slice(-2_000)}`);
        const socket = connect(port, '127.0.0.1');
        const isOpen = await Promise.race([
          once(socket, 'connect').then(() => true),
          once(socket, 'error').then(() => false),
        ]).catch(() => false);
        socket.destroy();
        return isOpen;
      },
      `${name} listens`,
      START_MS,
    );
  };
  const crash = async () => {
    if (child === null || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    child.kill('SIGKILL');
    await ended;
  };
  await revive();
  return {
    port,
    target,
    crash,
    revive,
    async stop() {
      await crash();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

const newFolder = (name: string, within: string) => mkdtempSync(join(within, `parhelion-${name}-`));

/** `within`: where its folder is made. */
export async function startNats(within = tmpdir()): Promise<SinkServer> {
  const folder = newFolder('nats', within);
  const port = await freePort();
  return await start({
    name: 'nats-server',
    folder,
    port,
    target: `nats://127.0.0.1:${port}`,
    command: path('bin/nats-server'),
    args: ['--addr', '127.0.0.1', '--port', String(port), '--jetstream', '--store_dir', join(folder, 'data')],
  });
}

/** A current ClickHouse, in the package chdb. See `chdbMissing`. */
export async function startChdb(within = tmpdir()): Promise<SinkServer> {
  const folder = newFolder('chdb', within);
  const port = await freePort();
  const script = fileURLToPath(new URL('./chdb-server.mjs', import.meta.url));
  return await start({
    name: 'chdb',
    folder,
    port,
    target: `clickhouse://127.0.0.1:${port}`,
    command: process.execPath,
    args: [script, join(folder, 'data'), String(port), join(CHDB_DIR, 'node_modules/chdb')],
  });
}

export const BUCKET = 'lake';

/** An S3-compatible store with one bucket. */
export async function startS3(within = tmpdir()): Promise<SinkServer> {
  const folder = newFolder('s3', within);
  const port = await freePort();
  return await start({
    name: 'gofakes3',
    folder,
    port,
    target: `s3://key:secret@127.0.0.1:${port}/${BUCKET}/rows?tls=false`,
    command: path('bin/gofakes3'),
    args: [
      '-host',
      `127.0.0.1:${port}`,
      '-backend',
      'bolt',
      '-bolt.db',
      join(folder, 's3.db'),
      '-initialbucket',
      BUCKET,
      '-quiet',
    ],
  });
}

export async function startKafka(within = tmpdir()): Promise<SinkServer> {
  const folder = newFolder('kafka', within);
  const [port, controller] = [await freePort(), await freePort()];
  const settings = {
    'process.roles': 'broker,controller',
    'node.id': 1,
    'controller.quorum.voters': `1@127.0.0.1:${controller}`,
    listeners: `PLAINTEXT://127.0.0.1:${port},CONTROLLER://127.0.0.1:${controller}`,
    'advertised.listeners': `PLAINTEXT://127.0.0.1:${port}`,
    'controller.listener.names': 'CONTROLLER',
    'log.dirs': join(folder, 'data'),
    'default.replication.factor': 1,
    'transaction.state.log.replication.factor': 1,
    'transaction.state.log.min.isr': 1,
    'transaction.state.log.num.partitions': 1,
    'offsets.topic.num.partitions': 1,
    'offsets.topic.replication.factor': 1,
  };
  mkdirSync(join(folder, 'data'));
  const file = join(folder, 'server.properties');
  writeFileSync(
    file,
    Object.entries(settings)
      .map(([name, value]) => `${name}=${value}\n`)
      .join(''),
  );
  const java = ['-Xmx384m', '-cp', `${path('lib')}/*`];
  const format = spawn(
    'java',
    [...java, 'kafka.tools.StorageTool', 'format', '-t', 'AAAAAAAAAAAAAAAAAAAAAA', '-c', file],
    { stdio: 'ignore' },
  );
  const [code] = await once(format, 'exit');
  if (code !== 0) throw new Error(`Kafka's folder was not made: ${String(code)}`);
  return await start({
    name: 'Kafka',
    folder,
    port,
    target: `kafka://127.0.0.1:${port}`,
    command: 'java',
    args: [...java, 'kafka.Kafka', file],
  });
}
