import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { messageOf } from '../../../src/lib/coded-error.ts';
import { refused } from '../errors.ts';

/** A client that is installed only where its kind of target is used. */
export interface OptionalPackage {
  readonly name: string;
  /** The version that is tested. */
  readonly version: string;
}

/**
 * Loads it from beside the daemon, or from one of the folders; `T` has what is used of it. Errors: SINKS_REFUSED with how to install it, or why it
 * does not load.
 */
export async function loadOptional<T>({ name, version }: OptionalPackage, folders: readonly string[]): Promise<T> {
  let reason = 'it is not installed';
  for (const base of [import.meta.url, ...folders.map((folder) => join(folder, 'package.json'))]) {
    const path = locate(base, name);
    if (path === null) continue;
    try {
      return (await import(pathToFileURL(path).href)) as T;
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
