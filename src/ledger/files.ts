import { type FileHandle, open, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { CodedError, codeOf, EXIT, messageOf } from '../lib/coded-error.ts';
import type { Clock } from '../ports/clock.ts';

/** Names of the files of a ledger, and the errors of all that touches them. */

const NAME = /^(\d{10})\.ledger$/;
export const RUN_NAME = /^(\d{10})(?:\.signatures)?\.run$/;

export const segmentPath = (dir: string, number: number) => join(dir, `${String(number).padStart(10, '0')}.ledger`);

export interface LedgerFiles {
  /** Oldest first. */
  readonly segments: readonly { readonly number: number; readonly path: string }[];
  /** Names of the files of the index. */
  readonly runs: readonly string[];
}

/** Errors: those of the file system. */
export async function listFiles(dir: string): Promise<LedgerFiles> {
  const names = (await readdir(dir)).toSorted();
  return {
    segments: names.flatMap((name) => {
      const number = NAME.exec(name)?.[1];
      return number === undefined ? [] : [{ number: Number(number), path: join(dir, name) }];
    }),
    runs: names.filter((name) => RUN_NAME.test(name)),
  };
}

/** Files that were not used for so long are closed. */
const IDLE_MS = 10_000;
const MAX_OPEN = 64;

/**
 * Files that are open for reading. Look-ups come in series, and opening and closing a file takes longer than reading a piece of it. A file that was
 * removed meanwhile is still read as it was.
 */
export interface OpenFiles {
  /** Errors: those of the file system, and of `work`. */
  use<T>(path: string, work: (file: FileHandle) => Promise<T>): Promise<T>;
  /** Closes all files, each when it is no longer used. A later `use` opens its file again. */
  close(): Promise<void>;
}

interface OpenFile {
  readonly path: string;
  readonly handle: Promise<FileHandle>;
  users: number;
  /** Monotonic ms. */
  usedAt: number;
}

export function createOpenFiles(clock: Clock): OpenFiles {
  /** The one that was used last is the last one. */
  const files = new Map<string, OpenFile>();
  let isTimed = false;

  async function end(file: OpenFile): Promise<void> {
    if (files.get(file.path) === file) files.delete(file.path);
    await file.handle.then((handle) => handle.close()).catch(() => undefined);
  }

  function closeIdle(): void {
    isTimed = false;
    const before = clock.monotonic() - IDLE_MS;
    for (const file of [...files.values()]) if (file.users === 0 && file.usedAt <= before) void end(file);
    if (files.size > 0) closeLater();
  }

  function closeLater(): void {
    if (isTimed) return;
    isTimed = true;
    clock.timeout(IDLE_MS, closeIdle);
  }

  return {
    async use(path, work) {
      const file = files.get(path) ?? { path, handle: open(path, 'r'), users: 0, usedAt: 0 };
      files.delete(path);
      files.set(path, file);
      file.users += 1;
      try {
        return await work(await file.handle);
      } catch (error) {
        // It may be of a file that is no more, as on storage that hosts share: the next user opens the path again.
        if (files.get(path) === file) files.delete(path);
        throw error;
      } finally {
        file.users -= 1;
        file.usedAt = clock.monotonic();
        if (file.users === 0 && files.get(path) !== file) await end(file);
        const oldest = files.size > MAX_OPEN ? [...files.values()].find(({ users }) => users === 0) : undefined;
        if (oldest !== undefined) await end(oldest);
        closeLater();
      }
    },
    async close() {
      const all = [...files.values()];
      files.clear();
      await Promise.all(all.filter(({ users }) => users === 0).map(end));
    },
  };
}

export async function syncFolder(dir: string): Promise<void> {
  const folder = await open(dir, 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

export function ledgerFailed(what: string, error: unknown): CodedError {
  const code = codeOf(error);
  if (error instanceof CodedError) return error;
  const isFull = code === 'ENOSPC' || code === 'EDQUOT';
  return new CodedError(isFull ? 'LEDGER_FULL' : 'LEDGER_IO', `cannot ${what} the ledger: ${messageOf(error)}`, {
    cause: error,
    retryable: isFull,
    exitCode: EXIT.temporary,
  });
}
