import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { findRunFiles, type RunFile } from '../../../src/cli/running-daemon.ts';
import { cpuUsOf } from '../http.ts';
import { programModule } from '../sibling.ts';

export interface RoleProcess extends Pick<RunFile, 'api' | 'admin'> {
  readonly child: ChildProcess;
  /** One sample of its metrics; 0 when it is not there yet. */
  metric(name: string): Promise<number>;
  /** All samples as text. */
  metrics(): Promise<string>;
  /** CPU time of its process so far in milliseconds, all threads; null where the system does not tell. */
  cpuMs(): number | null;
  /** Kibibytes of a field of /proc/<pid>/status. */
  memory(field: 'VmRSS' | 'VmHWM'): number;
  stop(): Promise<void>;
}

const READY_TIMEOUT_MS = 120_000;

/** Starts the command line with one role, or several with commas, in production, perhaps below another program. */
export async function startRole(
  role: string,
  place: { readonly file: string; readonly dataDir: string },
  options: { readonly env?: Readonly<Record<string, string>>; readonly wrapper?: readonly string[] } = {},
): Promise<RoleProcess> {
  const { path, execArgv } = programModule(import.meta.url);
  const line = [process.execPath, ...execArgv, path, 'serve', '--config', place.file, '--role', role];
  const [program, ...args] = [...(options.wrapper ?? []), ...line];
  const env = { PATH: process.env['PATH'], NODE_ENV: 'production', ...options.env };
  const child = spawn(program!, args, { env, stdio: ['ignore', 'ignore', 'inherit'] });
  const found = await untilListening(place.dataDir, role, child);
  const metrics = async () => await (await fetch(`${found.admin}/metrics`)).text();
  return {
    child,
    api: found.api,
    admin: found.admin,
    metrics,
    metric: async (name) => Number(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\S+)`, 'm').exec(await metrics())?.[1] ?? 0),
    memory: (field) =>
      Number(new RegExp(`^${field}:\\s+(\\d+)`, 'm').exec(readFileSync(`/proc/${found.pid}/status`, 'utf8'))?.[1]),
    cpuMs: () => {
      const us = cpuUsOf(found.pid);
      return us === null ? null : us / 1_000;
    },
    async stop() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const gone = once(child, 'exit');
      process.kill(found.pid, 'SIGTERM');
      await gone;
    },
  };
}

async function untilListening(dataDir: string, role: string, child: ChildProcess): Promise<RunFile> {
  for (const start = performance.now(); performance.now() - start < READY_TIMEOUT_MS; await sleep(50)) {
    const found = findRunFiles(dataDir).find(({ roles }) =>
      role.split(',').every((wanted) => roles.includes(wanted as never)),
    );
    if (found !== undefined) return found;
    if (child.exitCode !== null) break;
  }
  throw new Error(`the role ${role} did not start`);
}
