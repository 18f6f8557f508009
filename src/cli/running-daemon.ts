import { readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { get, type IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import type { Readiness } from '../http/health.ts';
import { CodedError, codeOf, EXIT, messageOf } from '../lib/coded-error.ts';
import { ROLES, type Role } from '../ports/daemon-view.ts';
import { makeFolder } from '../runtime/make-folder.ts';

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
  /** Addresses of the local chain of this process; absent with a real upstream, whose addresses may contain keys. */
  readonly localChain?: { readonly url: string; readonly websocketUrl: string };
}

const NAME = /^run(-[a-z-]+)?\.json$/;

/** `run.json`; if a process has only some of the roles, others may use the same folder, so the name contains the roles. */
function runFileName(roles: readonly Role[]): string {
  return roles.length === ROLES.length ? 'run.json' : `run-${roles.join('-')}.json`;
}

/** Writes the file atomically. */
export function writeRunFile(dataDir: string, content: RunFile): void {
  makeFolder(dataDir);
  const path = join(dataDir, runFileName(content.roles));
  const temporary = `${path}.${content.pid}`;
  writeFileSync(temporary, `${JSON.stringify(content, null, 2)}\n`, { mode: 0o600 });
  renameSync(temporary, path);
}

/** Removes the file if it belongs to this process. */
export function removeRunFile(dataDir: string, pid: number): void {
  const own = findRunFiles(dataDir).find((file) => file.pid === pid);
  if (own !== undefined) rmSync(join(dataDir, runFileName(own.roles)), { force: true });
}

/**
 * Before a daemon with all roles starts on a store that lies in its data folder: a second one there would write the same chain, and both would
 * answer. Errors: DAEMON_RUNNING, exit 75.
 */
export async function refuseSecond(dataDir: string): Promise<void> {
  const running = findRunFile(dataDir);
  if (running === null || running.pid === process.pid || running.roles.length < ROLES.length) return;
  // The number of a process that has ended may belong to another one.
  const answers = await askDaemon(running, '/healthz').then(
    () => true,
    () => false,
  );
  if (!answers) return;
  const where = running.api ?? running.admin;
  const advice = 'stop it, or give this one another folder and ports: --data-dir, http.port, admin.port';
  const text = `a daemon (process ${running.pid}, ${where}) already runs with the data folder ${dataDir}; ${advice}`;
  throw new CodedError('DAEMON_RUNNING', text, { exitCode: EXIT.temporary });
}

/** The running process of a data folder, preferably the one with the role `api`; null: none is running. */
export function findRunFile(dataDir: string): RunFile | null {
  return findRunFiles(dataDir)[0] ?? null;
}

/**
 * All running processes of a data folder, the one with the API first; files of dead processes are ignored. Errors: DATA_DIR_UNUSABLE, exit 78.
 */
export function findRunFiles(dataDir: string): RunFile[] {
  const names = namesIn(dataDir).filter((name) => NAME.test(name));
  const files = names.sort().flatMap((name) => {
    const file = readRunFile(join(dataDir, name));
    return file !== null && isAlive(file.pid) ? [file] : [];
  });
  return [...files.filter(({ api }) => api !== null), ...files.filter(({ api }) => api === null)];
}

/** A folder that this user may not read may belong to a running daemon, so the answer is unknown. */
function namesIn(dataDir: string): string[] {
  try {
    return readdirSync(dataDir);
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return [];
    throw unusable(dataDir, error);
  }
}

function readRunFile(path: string): RunFile | null {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    // Its process has just ended.
    if (codeOf(error) === 'ENOENT') return null;
    throw unusable(path, error);
  }
  try {
    return JSON.parse(text) as RunFile;
  } catch {
    return null;
  }
}

function unusable(path: string, error: unknown): CodedError {
  const advice = codeOf(error) === 'EACCES' ? ': run the command as the user of the daemon, or as root' : '';
  return new CodedError('DATA_DIR_UNUSABLE', `the data folder cannot be used: ${codeOf(error)}, ${path}${advice}`, {
    exitCode: EXIT.config,
    cause: error,
  });
}

/** All running processes of a data folder. Errors: DAEMON_NOT_RUNNING, exit 75. */
export function needRunFiles(dataDir: string): RunFile[] {
  const found = findRunFiles(dataDir);
  if (found.length > 0) return found;
  throw new CodedError('DAEMON_NOT_RUNNING', `no daemon runs with the data folder ${dataDir}`, {
    exitCode: EXIT.temporary,
  });
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // EPERM: the process exists and belongs to another user.
    return codeOf(error) === 'EPERM';
  }
}

const TIMEOUT_MS = 5_000;

/** The status of the running daemon, ready or not. Errors: DAEMON_UNREACHABLE, exit 75. */
export async function askReadiness(daemon: RunFile): Promise<Readiness> {
  try {
    const { text } = await askDaemon(daemon, '/readyz');
    return JSON.parse(text) as Readiness;
  } catch (error) {
    const why = codeOf(error) ?? messageOf(error);
    throw new CodedError('DAEMON_UNREACHABLE', `the admin listener ${daemon.admin} does not answer: ${why}`, {
      exitCode: EXIT.temporary,
    });
  }
}

/**
 * A GET on the admin listener. Its certificate is for its public name, not for the address in the run file, so it is not verified:
 * nothing secret is sent.
 */
export async function askDaemon(
  { admin }: RunFile,
  path: string,
): Promise<{ readonly status: number; readonly text: string }> {
  const secureGet = admin.startsWith('https:') ? (await import('node:https')).get : null;
  return await new Promise((resolve, reject) => {
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    const onAnswer = (response: IncomingMessage) => {
      text(response).then((body) => resolve({ status: response.statusCode ?? 0, text: body }), reject);
    };
    const request =
      secureGet === null
        ? get(admin + path, { signal, agent: false }, onAnswer)
        : secureGet(admin + path, { signal, agent: false, rejectUnauthorized: false }, onAnswer);
    request.once('error', reject);
  });
}
