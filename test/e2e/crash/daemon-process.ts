import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const MAIN = fileURLToPath(new URL('../../../dist/src/cli/main.js', import.meta.url));
export const BOOTSTRAP_KEY = '0b7e4a52-6d0f-4a5e-9a44-3f1f2b6f0c11';

export interface DaemonProcess {
  readonly child: ChildProcess;
  /** What the daemon printed, for the message of a failed assertion. */
  output(): string;
  /** Resolves with the address of the API once it listens. */
  ready(): Promise<string>;
  kill(signal: NodeJS.Signals): Promise<void>;
}

/** Starts the built daemon as systemd would: `node dist/src/cli/main.js serve --config FILE`. */
export function startDaemonProcess(configFile: string, dataDir: string): DaemonProcess {
  rmSync(join(dataDir, 'run.json'), { force: true });
  const child = spawn(process.execPath, [MAIN, 'serve', '--config', configFile], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, NODE_ENV: 'production', PARHELION_BOOTSTRAP_KEY: BOOTSTRAP_KEY },
  });
  const lines: string[] = [];
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk: Buffer) => {
      lines.push(chunk.toString());
      if (lines.length > 200) lines.shift();
    });
  }
  return {
    child,
    output: () => lines.join(''),
    ready: () => waitForAddress(child, dataDir, () => lines.join('')),
    async kill(signal) {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const gone = once(child, 'exit');
      child.kill(signal);
      await gone;
    },
  };
}

async function waitForAddress(child: ChildProcess, dataDir: string, output: () => string): Promise<string> {
  for (;;) {
    if (child.exitCode !== null) throw new Error(`the daemon ended with ${child.exitCode}:\n${output()}`);
    try {
      const run = JSON.parse(readFileSync(join(dataDir, 'run.json'), 'utf8')) as { pid: number; api: string };
      if (run.pid === child.pid) return run.api;
    } catch {
      // not written yet
    }
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
}

/** Any free ports, one upstream, receivers on loopback. */
export function configFor(rpcUrl: string, dataDir: string): string {
  return [
    `dataDir: ${dataDir}`,
    'http: { port: 0 }',
    'admin: { port: 0 }',
    `upstream: { urls: ['${rpcUrl}'] }`,
    'follow: { pollMs: 100 }',
    'log: { level: info, format: json }',
    'webhooks: { allowCidrs: [127.0.0.0/8] }',
    '',
  ].join('\n');
}
