import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { CodedError, messageOf } from '../lib/coded-error.ts';
import { ROLES, type Role } from '../ports/daemon-view.ts';
import { EXIT } from '../runtime/errors.ts';

/** What a running daemon tells other commands on the same machine. */
export interface RunFile {
  readonly pid: number;
  /** What this process does. */
  readonly roles: readonly Role[];
  /** Null without the role `api`. */
  readonly api: string | null;
  readonly websocket: string | null;
  readonly admin: string;
  readonly chain: 'local' | 'rpc';
  /** Folder of the store; for a throw-away chain it lies deeper than `dataDir`. */
  readonly storeDir: string;
}

const NAME = /^run(-[a-z-]+)?\.json$/;

/** `run.json`; a process that has only some of the roles stands beside others with the same folder. */
function nameOf(roles: readonly Role[]): string {
  return roles.length === ROLES.length ? 'run.json' : `run-${roles.join('-')}.json`;
}

/** Writes the file so that a reader never sees half of it. */
export function writeRunFile(dataDir: string, content: RunFile): void {
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const path = join(dataDir, nameOf(content.roles));
  const temporary = `${path}.${content.pid}`;
  writeFileSync(temporary, `${JSON.stringify(content, null, 2)}\n`, { mode: 0o600 });
  renameSync(temporary, path);
}

/** Removes the file if it is this process's own. */
export function removeRunFile(dataDir: string, pid: number): void {
  const own = findRunFiles(dataDir).find((file) => file.pid === pid);
  if (own !== undefined) rmSync(join(dataDir, nameOf(own.roles)), { force: true });
}

/** The running daemon of a data folder, or the part of it that takes requests; null when there is none. */
export function findRunFile(dataDir: string): RunFile | null {
  return findRunFiles(dataDir)[0] ?? null;
}

/** All processes of a data folder, that with the API first; a file left by a dead process counts as none. */
export function findRunFiles(dataDir: string): RunFile[] {
  const names = existsSync(dataDir) ? readdirSync(dataDir).filter((name) => NAME.test(name)) : [];
  const files = names.sort().flatMap((name) => {
    const file = readRunFile(join(dataDir, name));
    return file !== null && isAlive(file.pid) ? [file] : [];
  });
  return [...files.filter(({ api }) => api !== null), ...files.filter(({ api }) => api === null)];
}

function readRunFile(path: string): RunFile | null {
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as RunFile;
  } catch {
    return null;
  }
}

/** All processes of a data folder. Errors: UPSTREAM_CONNECT, exit 75, when there is none. */
export function needRunFiles(dataDir: string): RunFile[] {
  const found = findRunFiles(dataDir);
  if (found.length > 0) return found;
  throw new CodedError('UPSTREAM_CONNECT', `no daemon runs with the data folder ${dataDir}`, {
    exitCode: EXIT.temporary,
  });
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // Someone else's process is a living one too.
    return messageOf(error).includes('EPERM');
  }
}
