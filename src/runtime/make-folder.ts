import { chownSync, existsSync, mkdirSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { codeOf } from '../lib/coded-error.ts';

const PRIVATE = 0o700;

/** Creates a folder and its parents, for this user only. Not with `recursive`: Node never returns where a parent cannot be created. */
export function makeFolder(path: string): void {
  if (existsSync(path)) return;
  if (dirname(path) !== path) makeFolder(dirname(path));
  try {
    mkdirSync(path, { mode: PRIVATE });
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error;
    return;
  }
  giveToOwnerOf(dirname(path), path);
}

/** What root creates in the folder of another user belongs to that user: the service has to open it. */
export function giveToOwnerOf(folder: string, path: string): void {
  if (process.getuid?.() !== 0) return;
  const { uid, gid } = statSync(folder);
  if (uid !== 0) chownSync(path, uid, gid);
}
