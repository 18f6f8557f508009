import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { messageOf } from '../lib/coded-error.ts';

/** A package that is installed only where it is used. */
export interface OptionalPackage {
  readonly name: string;
  /** The version that is tested. */
  readonly version: string;
  /** One of its modules, with a leading slash; without it, the package itself. */
  readonly path?: string;
}

/**
 * Loads it from beside the daemon, or from one of the folders; `T` has what is used of it. Errors: that of `refused`, with how to install it, or why
 * it does not load.
 */
export async function loadOptional<T>(
  { name, path = '', version }: OptionalPackage,
  folders: readonly string[],
  refused: (reason: string) => Error,
): Promise<T> {
  let reason = 'it is not installed';
  for (const base of [import.meta.url, ...folders.map((folder) => join(folder, 'package.json'))]) {
    const found = locate(base, `${name}${path}`);
    if (found === null) continue;
    try {
      return (await import(pathToFileURL(found).href)) as T;
    } catch (error) {
      reason = messageOf(error).split('\n')[0] ?? 'it does not load';
    }
  }
  throw refused(
    `the package ${name} cannot be used: ${reason}. In the folder in which the daemon starts: npm install ${name}@${version}`,
  );
}

function locate(base: string, name: string): string | null {
  try {
    return createRequire(base).resolve(name);
  } catch {
    return null;
  }
}
