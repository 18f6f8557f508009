/** Long mode: npm run drills -- --count 100 [--seed 1] [--only "NAME"]... Needs a build, and prints a line for each drill. */
import type { TestContext } from 'node:test';
import { parseArgs } from 'node:util';
import { runDrills } from './drills.ts';

const { values } = parseArgs({
  options: {
    count: { type: 'string', default: '100' },
    seed: { type: 'string', default: '1' },
    only: { type: 'string', multiple: true },
  },
});
const ends: (() => unknown)[] = [];
const say = (line: object) => console.log(JSON.stringify(line));
let isWell = false;
try {
  const after = (end: () => unknown) => void ends.push(end);
  const { only } = values;
  const asked = { seed: Number(values.seed), count: Number(values.count), ...(only === undefined ? {} : { only }) };
  const { drills, ...report } = await runDrills({ after } as Pick<TestContext, 'after'>, asked, say);
  say({ ...asked, ...report, drills: drills.length });
  // Those that were asked for by name may all be left out.
  isWell = drills.length > 0;
} catch (error) {
  console.error(error);
} finally {
  for (const end of ends.reverse()) await end();
}
// Said outright: the library that runs PostgreSQL ends a process that just comes to its end with 0.
process.exit(isWell ? 0 : 1);
