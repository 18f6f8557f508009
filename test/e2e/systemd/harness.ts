import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { cliArguments } from '../../helpers/daemon.ts';
import { freePort } from '../../helpers/free-port.ts';
import { findProjectRoot } from '../../helpers/project-root.ts';

export const root = findProjectRoot();

/** Why a suite cannot run here, or null; said aloud once. */
export function missingProgram(...programs: readonly string[]): string | null {
  const absent = programs.filter((program) => spawnSync(program, ['--version']).status !== 0);
  if (absent.length === 0) return null;
  const reason = `not installed: ${absent.join(', ')}`;
  console.error(`SKIPPED: ${reason}`);
  return reason;
}

interface Cleanup {
  after(fn: () => unknown): void;
}

function temporary(t: Cleanup): string {
  const dir = mkdtempSync(join(tmpdir(), 'parhelion-systemd-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

export async function eventually(
  what: string,
  ask: () => boolean | Promise<boolean>,
  explain = () => '',
): Promise<void> {
  for (let tries = 0; tries < 1200; tries++) {
    if (await ask()) return;
    await sleep(50);
  }
  throw new Error(`never: ${what}\n${explain()}`);
}

/** The service manager's end of the notify protocol: an AF_UNIX datagram socket, which Node does not have. */
const RECEIVER = `
import json, os, socket, sys
path, port = sys.argv[1], int(sys.argv[2])
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(path)
print('[]', flush=True)
while True:
    lines = s.recv(65536).decode().split('\\n')
    if lines == ['BARRIER=1']: continue
    connects = None
    if 'READY=1' in lines and port:
        with socket.socket() as c: connects = c.connect_ex(('127.0.0.1', port)) == 0
    print(json.dumps({'lines': lines, 'connects': connects}), flush=True)
`;

export interface Message {
  readonly lines: readonly string[];
  /** On READY: whether the API's port took a connection at the moment the message was read. */
  readonly connects: boolean | null;
}

export interface Receiver {
  readonly path: string;
  readonly messages: readonly Message[];
  has(line: string | RegExp, from?: number): boolean;
  count(line: string): number;
}

export async function startReceiver(t: Cleanup, apiPort = 0): Promise<Receiver> {
  const path = join(temporary(t), 'notify');
  const child = spawn('python3', ['-c', RECEIVER, path, String(apiPort)], { stdio: ['ignore', 'pipe', 'inherit'] });
  t.after(() => child.kill('SIGKILL'));
  const messages: Message[] = [];
  const lines = createInterface({ input: child.stdout });
  await once(lines, 'line');
  lines.on('line', (line) => messages.push(JSON.parse(line) as Message));
  const matches = (line: string | RegExp) => (text: string) =>
    typeof line === 'string' ? text === line : line.test(text);
  return {
    path,
    messages,
    has: (line, from = 0) => messages.slice(from).some((message) => message.lines.some(matches(line))),
    count: (line) => messages.filter((message) => message.lines.includes(line)).length,
  };
}

const built = join(root, 'dist/src/cli/main.js');

/** The built command line where there is one, as a unit would start it. */
export const mainArguments: readonly string[] = existsSync(built) ? [built] : cliArguments;

export interface ConfigFile {
  readonly dataDir: string;
  readonly file: string;
  readonly port: number;
  write(more?: Readonly<Record<string, unknown>>): void;
}

/** A daemon without chain on a port that was free a moment ago. */
export async function makeConfig(t: Cleanup, fixed: Readonly<Record<string, unknown>> = {}): Promise<ConfigFile> {
  const dataDir = temporary(t);
  const file = join(dataDir, 'parhelion.yaml');
  const port = await freePort();
  const base = {
    dataDir,
    plugins: ['access', 'proxy', 'sender'],
    http: { port },
    admin: { port: 0 },
    log: { level: 'info', format: 'json' },
    follow: { enabled: false },
    upstream: { urls: ['http://127.0.0.1:9'] },
    ...fixed,
  };
  const write = (more: Readonly<Record<string, unknown>> = {}) =>
    writeFileSync(file, JSON.stringify({ ...base, ...more }));
  write();
  return { dataDir, file, port, write };
}

export interface Service {
  readonly child: ChildProcess;
  output(): string;
  readonly ended: Promise<number | null>;
}

/** Starts a program whose end the test waits for; whatever is left is killed afterwards. */
export function startService(t: Cleanup, program: string, args: readonly string[], env: NodeJS.ProcessEnv): Service {
  const child = spawn(program, args, { cwd: root, env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
  const output: string[] = [];
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => output.push(String(chunk)));
  const ended = once(child, 'exit').then(([code]) => code as number | null);
  t.after(async () => {
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL');
    await ended;
  });
  return { child, output: () => output.join(''), ended };
}

export const startDaemonService = (t: Cleanup, { file }: ConfigFile, env: NodeJS.ProcessEnv): Service =>
  startService(t, process.execPath, [...mainArguments, 'serve', '--config', file], { NODE_ENV: 'test', ...env });
