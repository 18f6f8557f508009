import { cpSync, mkdirSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { findProjectRoot } from '../helpers/project-root.ts';

/** Files and folders that `.dockerignore` lets into the build: it refuses everything and names what may pass. */
export function contextEntries(): string[] {
  const lines = readFileSync(`${findProjectRoot()}.dockerignore`, 'utf8').split('\n');
  return lines.filter((line) => line.startsWith('!')).map((line) => line.slice(1));
}

/** Copies what a build of the image sees. */
export function copyContext(to: string): void {
  for (const entry of contextEntries()) {
    mkdirSync(dirname(join(to, entry)), { recursive: true });
    cpSync(join(findProjectRoot(), entry), join(to, entry), {
      recursive: true,
      filter: (path) => basename(path) !== 'node_modules',
    });
  }
}
