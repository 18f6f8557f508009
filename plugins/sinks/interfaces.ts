import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { messageOf } from '../../src/lib/coded-error.ts';
import { nativeInterfaces } from '../../src/solana/idl/native.ts';
import { type ProgramInterface, readIdl } from '../../src/solana/idl/read-idl.ts';
import { misconfigured } from './errors.ts';
import type { FindProgram } from './rows/read-rows.ts';

const FILE = /^([1-9A-HJ-NP-Za-km-z]{32,44})\.json$/;

/**
 * Interfaces by which instructions get names: those of a folder, then the built-in ones. They do not change while the daemon runs, so a block
 * gives the same rows whenever it is read. Errors: SINKS_CONFIG.
 */
export function readInterfaces(folder: string | null): FindProgram {
  const own = new Map<string, ProgramInterface>();
  if (folder !== null) {
    try {
      for (const name of readdirSync(folder)) {
        const program = FILE.exec(name)?.[1];
        if (program === undefined) continue;
        const found = readIdl(readFileSync(join(folder, name), 'utf8'));
        if (found === null) throw new Error(`${name} has no interface in a known form`);
        own.set(program, found);
      }
    } catch (error) {
      throw misconfigured(`interfaces in ${folder} cannot be read: ${messageOf(error)}`, 'sinks.idlFolder');
    }
  }
  const builtIn = nativeInterfaces();
  return (program) => own.get(program) ?? builtIn.get(program) ?? null;
}
