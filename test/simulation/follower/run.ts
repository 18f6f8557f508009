/** Long mode: node --import tsx test/simulation/follower/run.ts --seeds 1000 --from 1 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { openSqliteStore } from '../../../src/adapters/store/sqlite/index.ts';
import { randomRun } from './random-run.ts';

const { values } = parseArgs({
  options: { seeds: { type: 'string', default: '1000' }, from: { type: 'string', default: '1' } },
});
const from = Number(values.from);
let wrong = 0;
for (let seed = from; seed < from + Number(values.seeds); seed += 1) {
  const directory = await mkdtemp(join(tmpdir(), 'parhelion-follow-'));
  const store = openSqliteStore({ path: join(directory, 'parhelion.db'), busyTimeoutMs: 5_000 });
  const report = await randomRun(seed, store);
  await store.close();
  await rm(directory, { recursive: true, force: true });
  const isGood = report.isRight && report.fatals.length === 0 && report.stalled === null;
  if (!isGood) wrong += 1;
  if (!isGood || seed % 50 === 0) console.log(JSON.stringify({ ...report, wrong }));
}
console.log(JSON.stringify({ seeds: Number(values.seeds), from, wrong }));
process.exitCode = wrong === 0 ? 0 : 1;
