import { execFile } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

/** CPU seconds of the work below that count as pace 1. An estimate: a slow virtual machine needed 1.9 to 3.2 s. */
const REFERENCE_SECONDS = 1;
const LIBRARY = fileURLToPath(new URL('../../node_modules/typescript/lib/', import.meta.url));

/** What tests mostly do: load code, compile it, and allocate. The versions of packages are fixed, so the work is. */
const WORK = `
const ts = require(${JSON.stringify(`${LIBRARY}typescript.js`)});
const path = ${JSON.stringify(`${LIBRARY}lib.dom.d.ts`)};
ts.createSourceFile(path, require('node:fs').readFileSync(path, 'utf8'), ts.ScriptTarget.Latest, true);
const { user, system } = process.cpuUsage();
console.log((user + system) / 1e6);`;

/**
 * How much more CPU time this machine needs for the same work than the one for which budgets are stated, with all cores at work as in a run
 * of the tests. A second of CPU is no unit: virtual machines of one name differ by a factor of three.
 */
export async function machinePace(): Promise<number> {
  const measure = async () => Number((await promisify(execFile)(process.execPath, ['-e', WORK])).stdout);
  const seconds = await Promise.all(Array.from({ length: availableParallelism() }, measure));
  return Math.min(...seconds) / REFERENCE_SECONDS;
}
