import {
  appendFileSync,
  closeSync,
  existsSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { CodedError, EXIT, messageOf } from '../../lib/coded-error.ts';
import { isPlainObject } from '../../lib/json.ts';

/**
 * `creating`: about to be created, or created while the answer was lost; the next run looks for it. `created`: `ours` is its webhook.
 * `refused`: our daemon does not take it.
 */
export type MoveMode = 'creating' | 'created' | 'refused';

export interface MoveEntry {
  readonly mode: MoveMode;
  /** Id of our webhook; null unless created. */
  readonly ours: string | null;
  /** Why it was refused. */
  readonly reason: string | null;
  /** Whether theirs was on when it was last read. */
  readonly active: boolean;
}

export interface MoveState {
  /** Service and host that the webhooks come from, and our daemon: a file is of one move. */
  readonly from: string;
  readonly to: string;
  /** After the switch ours deliver, and theirs are no longer followed. */
  switched: boolean;
  /** By the id of the hosted webhook. */
  readonly entries: Record<string, MoveEntry>;
}

const wrong = (text: string) => new CodedError('MOVE_STATE', text, { exitCode: EXIT.config });

/** Error: MOVE_STATE. */
export function readMoveState(file: string, from: string, to: string): MoveState {
  if (!existsSync(file)) return { from, to, switched: false, entries: {} };
  let found: unknown = null;
  try {
    found = JSON.parse(readFileSync(file, 'utf8'));
  } catch (error) {
    throw wrong(`${file} cannot be read: ${messageOf(error)}`);
  }
  if (!isPlainObject(found) || !isPlainObject(found['entries'])) throw wrong(`${file} is no file of a move`);
  if (found['from'] !== from || found['to'] !== to)
    throw wrong(
      `${file} is of a move from ${String(found['from'])} to ${String(found['to'])}: choose another file with --state`,
    );
  return found as unknown as MoveState;
}

/** Atomic, and readable only by its owner. */
export function writeState(file: string, state: MoveState): void {
  const temporary = `${file}.${process.pid}`;
  writeFileSync(temporary, `${JSON.stringify(state)}\n`, { mode: 0o600, flush: true });
  renameSync(temporary, file);
}

/** Two runs at once would create everything twice. The lock of a process that is gone does not count. Error: MOVE_STATE, exit 75. */
export function lockState(file: string): () => void {
  const lock = `${file}.lock`;
  for (let attempt = 0; ; attempt += 1) {
    try {
      const descriptor = openSync(lock, 'wx', 0o600);
      writeFileSync(descriptor, String(process.pid));
      closeSync(descriptor);
      return () => rmSync(lock, { force: true });
    } catch (error) {
      if ((error as { code?: string }).code !== 'EEXIST') throw wrong(`${lock}: ${messageOf(error)}`);
      if (attempt > 0 || isAlive(lock))
        throw new CodedError('MOVE_STATE', `another move uses ${file}`, { exitCode: EXIT.temporary });
      rmSync(lock, { force: true });
    }
  }
}

function isAlive(lock: string): boolean {
  try {
    const pid = Number(readFileSync(lock, 'utf8'));
    if (!Number.isSafeInteger(pid) || pid <= 0) return false;
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as { code?: string }).code === 'EPERM';
  }
}

/** Signing secrets, one line of JSON per webhook; the newest line of a webhook counts. */
export function createSecrets(file: string | null) {
  const known = new Set<string>();
  if (file !== null && existsSync(file))
    for (const line of readFileSync(file, 'utf8').split('\n')) {
      // The last line may be cut by a kill.
      const id = /^\{"webhook":"([^"]+)","signingSecret":"[^"]+"\}$/.exec(line)?.[1];
      if (id !== undefined) known.add(id);
    }
  return {
    isWanted: file !== null,
    has: (webhook: string) => known.has(webhook),
    add(webhook: string, signingSecret: unknown): void {
      if (file === null || typeof signingSecret !== 'string') return;
      appendFileSync(file, `${JSON.stringify({ webhook, signingSecret })}\n`, { mode: 0o600, flush: true });
      known.add(webhook);
    },
  };
}
