/**
 * `tsx test/soak/run.ts --minutes 10 [--seed 1] [--store URL] [--json FILE]`: the built daemon under steady traffic, with a sample
 * every ten seconds. Ends with 0 when memory, descriptors, threads, lags, latency, the outbox and the growth of the data stay flat, else with 1. Needs `npm run build`.
 */
import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { QUANTITIES, type Sample } from './samples.ts';
import { runSoak } from './soak.ts';

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '10' },
    seed: { type: 'string', default: '1' },
    store: { type: 'string' },
    json: { type: 'string' },
  },
});
const COLUMN = 16;
const row = (cells: readonly unknown[]) => cells.map((cell) => String(cell).padStart(COLUMN)).join('');
const print = (sample: Sample) => console.log(row([sample.atSeconds, ...QUANTITIES.map((name) => sample[name])]));

console.log(row(['seconds', ...QUANTITIES]));
const report = await runSoak({
  seconds: Number(values.minutes) * 60,
  sampleSeconds: 10,
  seed: Number(values.seed),
  onSample: print,
  ...(values.store === undefined ? {} : { store: values.store }),
});
console.log(`\n${row(['', 'second quarter', 'last quarter', 'per hour', 'flat'])}`);
for (const { quantity, secondQuarter, lastQuarter, perHour, isFlat } of report.trends)
  console.log(row([quantity, secondQuarter, lastQuarter, perHour.toFixed(1), isFlat ? 'yes' : 'NO']));
console.log(JSON.stringify({ ...report.counts, delivered: report.delivered, exitCode: report.exitCode }));
if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(report, null, 2)}\n`);
process.exit(report.isFlat && report.exitCode === 0 ? 0 : 1);
