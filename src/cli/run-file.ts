import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { CodedError, messageOf } from '../lib/coded-error.ts';
import { ROLES, type Role } from '../ports/daemon-view.ts';
import { EXIT } from '../runtime/errors.ts';

/** Data of a running daemon for commands on the same machine. */
export interface RunFile {
  readonly pid: number;
  /** Roles of this process. */
  readonly roles: readonly Role[];
  /** Null without the role `api`. */
  readonly api: string | null;
  readonly websocket: string | null;
  readonly admin: string;
  readonly chain: 'local' | 'rpc';
  /** Folder of the store; for a local chain a subfolder of `dataDir`. */
  readonly storeDir: string;
}

const NAME = /^run(-[a-z-]+)?\.json$/;

/** `run.json`; if a process has only some of the roles, others may use the same folder, so the name contains the roles. */
function nameOf(roles: readonly Role[]): string {
  return roles.length === ROLES.length ? 'run.json' : `run-${roles.join('-')}.json`;
}

/** Writes the file atomically. */
export function writeRunFile(dataDir: string, content: RunFile): void {
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const path = join(dataDir, nameOf(content.roles));
  const temporary = `${path}.${content.pid}`;
  writeFileSync(temporary, `${JSON.stringify(content, null, 2)}\n`, { mode: 0o600 });
  renameSync(temporary, path);
}

/** Removes the file if it belongs to this process. */
export function removeRunFile(dataDir: string, pid: number): void {
  const own = findRunFiles(dataDir).find((file) => file.pid === pid);
  if (own !== undefined) rmSync(join(dataDir, nameOf(own.roles)), { force: true });
}

/** The running process of a data folder, preferably the one with the role `api`; null: none is running. */
export function findRunFile(dataDir: string): RunFile | null {
  return findRunFiles(dataDir)[0] ?? null;
}

/** All running processes of a data folder, the one with the API first; files of dead processes are ignored. */
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

/** All running processes of a data folder. Errors: UPSTREAM_CONNECT, exit 75, if none is running. */
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
    // EPERM: the process exists and belongs to another user.
    return messageOf(error).includes('EPERM');
  }
}
