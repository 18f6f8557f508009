import { accessSync, constants, existsSync, statfsSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { type Finding, fail, ok, warn } from './finding.ts';

const CHECK = 'data folder';
const MIB = 1_048_576;
const TOO_LITTLE_BYTES = 128 * MIB;
const LITTLE_BYTES = 2_048 * MIB;

export interface FolderFacts {
  readonly path: string;
  /** Of the running user; undefined where the platform has none. */
  readonly uid: number | undefined;
}

/** Exists, belongs to whoever asks, can be written, has room. Changes nothing. */
export function dataFolderFindings({ path, uid }: FolderFacts): Finding[] {
  if (!existsSync(path)) {
    const parent = nearestParent(path);
    const detail = `${path} does not exist yet`;
    if (!isWritable(parent)) return [fail(CHECK, `${detail}, and ${parent} cannot be written`, advice(path))];
    return [ok(CHECK, `${detail}; the first start makes it`), roomFinding(parent)];
  }
  const { uid: owner } = statSync(path);
  if (!statSync(path).isDirectory()) return [fail(CHECK, `${path} is no folder`, 'move it, or set dataDir', 78)];
  const isForeign = uid !== undefined && uid !== owner;
  const findings = isWritable(path)
    ? [isForeign ? foreign(path, owner) : ok(CHECK, `${path} can be written`)]
    : [fail(CHECK, `${path} cannot be written by user ${uid ?? '?'}; it belongs to user ${owner}`, advice(path))];
  return [...findings, roomFinding(path)];
}

const foreign = (path: string, owner: number) =>
  warn(
    CHECK,
    `${path} belongs to user ${owner}, not to you`,
    'run commands as that user, so that it can read what they write',
  );

const advice = (path: string) => `run as its owner, or: chown -R USER ${path}; in a unit: StateDirectory=`;

function roomFinding(path: string): Finding {
  const { bavail, bsize } = statfsSync(path);
  return roomIn(bavail * bsize, path);
}

export function roomIn(freeBytes: number, path: string): Finding {
  const detail = `${Math.floor(freeBytes / MIB).toLocaleString('en')} MiB free`;
  const what = 'make room, or set dataDir to another disk';
  if (freeBytes < TOO_LITTLE_BYTES) return fail('disk', `${detail} below ${path}`, what);
  return freeBytes < LITTLE_BYTES ? warn('disk', `${detail} below ${path}`, what) : ok('disk', detail);
}

function nearestParent(path: string): string {
  let parent = dirname(path);
  while (!existsSync(parent) && dirname(parent) !== parent) parent = dirname(parent);
  return parent;
}

function isWritable(path: string): boolean {
  try {
    accessSync(path, constants.W_OK | constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
