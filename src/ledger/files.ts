import { open, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { CodedError, codeOf, messageOf } from '../lib/coded-error.ts';
import { EXIT } from '../runtime/errors.ts';

/** Names of the files of a ledger, and the errors of all that touches them. */

const NAME = /^(\d{10})\.ledger$/;
export const RUN_NAME = /^(\d{10})\.run$/;

export const segmentPath = (dir: string, number: number) => join(dir, `${String(number).padStart(10, '0')}.ledger`);

/** Oldest first. Errors: those of the file system. */
export async function listSegments(
  dir: string,
): Promise<readonly { readonly number: number; readonly path: string }[]> {
  const names = (await readdir(dir)).filter((name) => NAME.test(name)).toSorted();
  return names.map((name) => ({ number: Number(NAME.exec(name)![1]), path: join(dir, name) }));
}

/** Files of the index. Errors: those of the file system. */
export const listRuns = async (dir: string): Promise<readonly string[]> =>
  (await readdir(dir)).filter((name) => RUN_NAME.test(name)).toSorted();

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
