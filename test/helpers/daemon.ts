import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { createLog } from '../../src/adapters/log.ts';
import type { CliIo } from '../../src/cli/command.ts';
import { chainSetups, composeParts } from '../../src/cli/compose.ts';
import { loadCliConfig } from '../../src/cli/load-config.ts';
import { runCli } from '../../src/cli/run.ts';
import { findRunFile } from '../../src/cli/running-daemon.ts';
import { createDaemon, type Daemon } from '../../src/daemon/daemon.ts';
import type { DaemonParts } from '../../src/daemon/parts.ts';
import { findProjectRoot } from './project-root.ts';

const root = findProjectRoot();
const READY_TIMEOUT_MS = 60_000;

type Section = Readonly<Record<string, unknown>>;

export interface StartDaemonOptions {
  /** Sections of the configuration, laid over the test defaults section by section. */
  readonly config?: Readonly<Record<string, unknown>>;
  /** The upstream; without one the daemon has none and follows nothing. */
  readonly chain?: { readonly rpcUrl: string; readonly wsUrl?: string };
  /** `store.url`; default SQLite in the data folder. */
  readonly store?: string;
  /** Default: a new folder that goes away when the daemon stops. */
  readonly dataDir?: string;
  /** Key of the first project; give it again when a daemon restarts on the same store. */
  readonly key?: string;
  /** Environment beside the configuration. */
  readonly env?: Readonly<Record<string, string>>;
  /** Changes the outside world of a daemon in this process: a store, clock or client that fails. */
  readonly parts?: (parts: DaemonParts) => DaemonParts;
  /** Where the data folder with the configuration is made: packages of plugins are looked for from there up. */
  readonly folder?: string;
}

export interface TestDaemon {
  readonly apiUrl: string;
  readonly wsUrl: string;
  readonly adminUrl: string;
  readonly key: string;
  readonly projectId: string;
  readonly dataDir: string;
  readonly configFile: string;
  /** Drains and stops; resolves with the exit code of a process, 0 in process. */
  stop(): Promise<number | null>;
  /** SIGKILL; in process the same as `stop`. */
  kill(): Promise<void>;
}

export interface DaemonInProcess extends TestDaemon {
  readonly daemon: Daemon;
}

export interface DaemonProcess extends TestDaemon {
  readonly child: ChildProcess;
  /** Everything it wrote so far. */
  output(): string;
}

/** A whole daemon with its real adapters in this process. */
export async function startDaemon(options: StartDaemonOptions = {}): Promise<DaemonInProcess> {
  const place = prepare(options);
  const config = await loadCliConfig({ config: place.configFile }, place.io);
  const log = createLog({ level: process.env['TEST_LOG'] ?? 'error', format: 'json' });
  const parts = composeParts(config.core, log, undefined, config.file);
  const daemon = await createDaemon({
    config,
    parts: options.parts?.(parts) ?? parts,
    version: '0.0.0-test',
    chains: chainSetups(config.core, null),
    dataDir: place.dataDir,
    firstProject: { key: place.key },
  });
  try {
    await daemon.start();
  } catch (error) {
    await place.remove();
    throw error;
  }
  const stop = async () => {
    await daemon.stop();
    await place.remove();
    return 0;
  };
  const { api, websocket, admin } = daemon.addresses();
  if (api === null) throw new Error('it has all roles');
  const projectId = daemon.first().key?.projectId ?? (await firstProjectId(place));
  return {
    daemon,
    apiUrl: api,
    wsUrl: websocket ?? api.replace('http', 'ws'),
    adminUrl: admin,
    key: place.key,
    projectId,
    dataDir: place.dataDir,
    configFile: place.configFile,
    stop,
    async kill() {
      await stop();
    },
  };
}

/** Like `startDaemon`, in a process of its own that the command line starts. */
export async function startDaemonProcess(options: StartDaemonOptions = {}): Promise<DaemonProcess> {
  const place = prepare(options);
  const child = spawn(process.execPath, [...cliArguments, 'serve', '--config', place.configFile], {
    cwd: root,
    env: { ...process.env, ...options.env, NODE_ENV: 'test', PARHELION_BOOTSTRAP_KEY: place.key },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const output: string[] = [];
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk: Buffer) => output.push(chunk.toString()));
  const gone = once(child, 'exit');
  const { api, ...run } = await untilListening(place.dataDir, child, () => output.join(''));
  if (api === null) throw new Error('it has all roles');
  return {
    child,
    apiUrl: api,
    wsUrl: run.websocket ?? api.replace('http', 'ws'),
    adminUrl: run.admin,
    key: place.key,
    projectId: await firstProjectId(place),
    dataDir: place.dataDir,
    configFile: place.configFile,
    output: () => output.join(''),
    async stop() {
      child.kill('SIGTERM');
      await gone;
      await place.remove();
      return child.exitCode;
    },
    async kill() {
      child.kill('SIGKILL');
      await gone;
    },
  };
}

/** Arguments of node that run the command line from the source, as `npm start` does. */
export const sourceArguments: readonly string[] = [
  '--import',
  fileURLToPath(import.meta.resolve('tsx')),
  '--conditions=parhelion-source',
  join(root, 'src/cli/main.ts'),
];

/** Starts the built program under `npm test` and `npm run clients`, which have just built it: that costs a third of loading the source. */
export const cliArguments: readonly string[] = /^(test|test:all|clients|bench)$/.test(
  process.env['npm_lifecycle_event'] ?? '',
)
  ? [join(root, 'dist/src/cli/main.js')]
  : sourceArguments;

/** Runs a command of the CLI in this process. */
export async function runCommand(
  args: readonly string[],
  options: Partial<Pick<CliIo, 'env' | 'cwd'>> = {},
): Promise<{ readonly code: number; readonly out: string; readonly err: string }> {
  const out: string[] = [];
  const err: string[] = [];
  const io: CliIo = {
    // Not that of the machine.
    env: { PARHELION_CONFIG: '', ...options.env },
    cwd: options.cwd ?? root,
    out: (text) => void out.push(text),
    err: (text) => void err.push(text),
    isTerminal: false,
    program: 'parhelion',
  };
  const code = await runCli(args, io);
  return { code, out: out.join('\n'), err: err.join('\n') };
}

interface Place {
  readonly dataDir: string;
  readonly configFile: string;
  readonly key: string;
  readonly io: CliIo;
  remove(): Promise<void>;
}

/** The configuration of a test daemon: any free ports, quiet, quick to look at the chain. */
function prepare(options: StartDaemonOptions): Place {
  const dataDir = options.dataDir ?? mkdtempSync(join(options.folder ?? tmpdir(), 'parhelion-daemon-'));
  const { chain, store } = options;
  const defaults: Record<string, Section> = {
    http: { port: 0 },
    admin: { port: 0 },
    log: { level: process.env['TEST_LOG'] ?? 'warn', format: 'json' },
    lifecycle: { drainTimeoutMs: 5_000 },
    follow: { pollMs: 50, auditIntervalMs: 250, enabled: chain !== undefined },
    upstream: {
      urls: [{ url: chain?.rpcUrl ?? 'http://127.0.0.1:9', ...(chain?.wsUrl ? { websocketUrl: chain.wsUrl } : {}) }],
    },
    ...(store === undefined ? {} : { store: { url: store } }),
  };
  const config: Record<string, unknown> = { dataDir, ...defaults };
  for (const [key, value] of Object.entries(options.config ?? {})) {
    const section = defaults[key];
    config[key] = section !== undefined && !Array.isArray(value) ? { ...section, ...(value as Section) } : value;
  }
  const configFile = join(dataDir, 'test-config.yaml');
  writeFileSync(configFile, JSON.stringify(config));
  return {
    dataDir,
    configFile,
    key: options.key ?? `test-${randomUUID()}`,
    io: {
      env: options.env ?? {},
      cwd: root,
      out: () => {},
      err: () => {},
      isTerminal: false,
      program: 'parhelion',
    },
    async remove() {
      if (options.dataDir === undefined) await rm(dataDir, { recursive: true, force: true });
    },
  };
}

async function firstProjectId({ configFile, io }: Place): Promise<string> {
  const { code, out, err } = await runCommand(['projects', 'list', '--json', '--config', configFile], io);
  if (code !== 0) throw new Error(err);
  return (JSON.parse(out) as { id: string }[])[0]!.id;
}

async function untilListening(dataDir: string, child: ChildProcess, output: () => string) {
  for (const startedMs = performance.now(); performance.now() - startedMs < READY_TIMEOUT_MS; ) {
    const run = findRunFile(dataDir);
    if (run !== null && run.pid === child.pid) return run;
    if (child.exitCode !== null || child.signalCode !== null) throw new Error(`the daemon ended: ${output()}`);
    await sleep(25);
  }
  child.kill('SIGKILL');
  throw new Error(`the daemon is not ready: ${output()}`);
}
