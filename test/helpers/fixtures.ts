/** Recorded chain data. It is not part of the repository: PARHELION_FIXTURES names its folder, tests that need it skip without. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { findProjectRoot } from './project-root.ts';

const folder = process.env['PARHELION_FIXTURES'] ?? `${findProjectRoot()}../shared/fixtures`;

/** Option of a test that needs recordings: `test(name, { skip: skipWithoutFixtures }, ...)`. */
export const skipWithoutFixtures: string | false = existsSync(`${folder}/chain`)
  ? false
  : 'no recorded chain data: set PARHELION_FIXTURES to its folder';

/** Absolute path of a recording. */
function fixturePath(name: string): string {
  return `${folder}/${name}`;
}

export function readFixture(name: string): Buffer {
  return readFileSync(fixturePath(name));
}

export function readJsonFixture<T = unknown>(name: string): T {
  return JSON.parse(readFixture(name).toString('utf8')) as T;
}

/** Names of the files in a folder of recordings, sorted, each with the folder before it. */
export function listFixtures(name: string): string[] {
  return readdirSync(fixturePath(name), { withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => `${name}/${entry.name}`)
    .sort();
}
