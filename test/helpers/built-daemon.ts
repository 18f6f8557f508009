import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Role } from '../../src/ports/daemon-view.ts';

const MAIN = fileURLToPath(new URL('../../dist/src/cli/main.js', import.meta.url));
const WARM_START = new URL('warm-start.mjs', import.meta.url).href;
const SETPRIV = '/usr/bin/setpriv';
const MAX_LINES = 2_000;
export const BOOTSTRAP_KEY = '0b7e4a52-6d0f-4a5e-9a44-3f1f2b6f0c11';

export interface BuiltDaemon {
  readonly child: ChildProcess;
  /** Begins the life of a warm daemon. */
  go(): void;
  /** What it printed last, for the message of a failed assertion. */
  output(): string;
  /** Resolves with its addresses once it listens; rejects when it ends before. */
  ready(): Promise<{ readonly api: string; readonly admin: string }>;
  /** Resolves when it has ended by itself, with its exit code. */
  ended: Promise<number | null>;
  /** Waits for its end; nothing happens when it has ended already. */
  kill(signal: NodeJS.Signals): Promise<void>;
}

export interface BuiltDaemonOptions {
  readonly configFile: string;
  readonly dataDir: string;
  /** One role instead of all. */
  readonly role?: Role;
  /** Runs it under another program: `['strace', '-f', …]`. */
  readonly wrapper?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** The process only loads its modules until `go`: the next daemon is ready to begin when the last one has ended. */
  readonly warm?: boolean;
}

/** Starts the built daemon as a service manager would: `node dist/src/cli/main.js serve --config FILE`. */
export function startBuiltDaemon(options: BuiltDaemonOptions): BuiltDaemon {
  const { configFile, dataDir, role, wrapper = [], warm = false } = options;
  const args = role === undefined ? [] : ['--role', role];
  const runFile = join(dataDir, role === undefined ? 'run.json' : `run-${role}.json`);
  const node = warm ? [process.execPath, '--import', WARM_START] : [process.execPath];
  const [command, ...rest] = [...withTheTest(), ...wrapper, ...node, MAIN, 'serve', '--config', configFile, ...args];
  const child = spawn(command as string, rest, {
    stdio: [warm ? 'pipe' : 'ignore', 'pipe', 'pipe'],
    env: { ...process.env, NODE_ENV: 'production', PARHELION_BOOTSTRAP_KEY: BOOTSTRAP_KEY, ...options.env },
  });
  const lines: string[] = [];
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on('data', (chunk: Buffer) => {
      lines.push(chunk.toString());
      if (lines.length > MAX_LINES) lines.shift();
    });
  }
  const output = () => lines.join('');
  const isOver = () => child.exitCode !== null || child.signalCode !== null;
  const gone = once(child, 'close');
  const forget = () => {
    if (existsSync(runFile)) rmSync(runFile, { force: true });
  };
  if (!warm) forget();
  return {
    child,
    go() {
      forget();
      child.stdin?.on('error', () => undefined);
      child.stdin?.end('.');
    },
    output,
    ended: gone.then(() => child.exitCode),
    async ready() {
      for (;;) {
        const run = readRunFile(runFile);
        // Under another program the process has another number.
        if (run !== null && (run.pid === child.pid || wrapper.length > 0)) return run;
        if (isOver()) throw new Error(`the daemon ended with ${child.exitCode}:\n${output()}`);
        await sleep(20);
      }
    },
    async kill(signal) {
      if (!isOver()) child.kill(signal);
      await gone;
    },
  };
}

/** A test that runs out of time is killed itself: nothing of it stays behind. */
export function withTheTest(): readonly string[] {
  return existsSync(SETPRIV) ? [SETPRIV, '--pdeathsig', 'KILL', '--'] : [];
}

function readRunFile(path: string): { readonly pid: number; readonly api: string; readonly admin: string } | null {
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as ReturnType<typeof readRunFile>;
  } catch {
    return null;
  }
}
