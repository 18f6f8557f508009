import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { EXIT } from '../kernel/errors.ts';
import { CodedError, messageOf } from '../lib/coded-error.ts';

/** What a running daemon tells other commands on the same machine. */
export interface RunFile {
  readonly pid: number;
  readonly api: string;
  readonly websocket: string | null;
  readonly admin: string;
  readonly chain: 'local' | 'rpc';
  /** Folder of the store; for a throw-away chain it lies deeper than `dataDir`. */
  readonly storeDir: string;
}

const NAME = 'run.json';

/** Writes the file so that a reader never sees half of it. */
export function writeRunFile(dataDir: string, content: RunFile): void {
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const temporary = join(dataDir, `${NAME}.${content.pid}`);
  writeFileSync(temporary, `${JSON.stringify(content, null, 2)}\n`, { mode: 0o600 });
  renameSync(temporary, join(dataDir, NAME));
}

/** Removes the file if it is this process's own. */
export function removeRunFile(dataDir: string, pid: number): void {
  if (findRunFile(dataDir)?.pid === pid) rmSync(join(dataDir, NAME), { force: true });
}

/** The running daemon of a data folder, or null when there is none; a file left by a dead process counts as none. */
export function findRunFile(dataDir: string): RunFile | null {
  let content: RunFile;
  try {
    content = JSON.parse(readFileSync(join(dataDir, NAME), 'utf8')) as RunFile;
  } catch {
    return null;
  }
  return isAlive(content.pid) ? content : null;
}

/** Errors: UPSTREAM_CONNECT, exit 75, when no daemon runs. */
export function needRunFile(dataDir: string): RunFile {
  const found = findRunFile(dataDir);
  if (found !== null) return found;
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
