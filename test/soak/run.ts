/**
 * `npm run soak -- --minutes 30 [--clients 8] [--seed 1] [--store URL] [--json FILE]`: the built daemon under full load, with clients that
 * call without a pause and a sample every ten seconds. Ends with 0 when memory, descriptors, threads, lags, latency, the outbox and the
 * growth of the data stay flat and no busy client saw a 5xx, else with 1. Needs `npm run build`.
 */
import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { QUANTITIES, type Sample } from './samples.ts';
import { runSoak } from './soak.ts';

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '10' },
    clients: { type: 'string', default: '8' },
    seed: { type: 'string', default: '1' },
    store: { type: 'string' },
    json: { type: 'string' },
  },
});
const COLUMN = 16;
const PAY_EVERY_MS = 50;
const row = (cells: readonly unknown[]) => cells.map((cell) => String(cell).padStart(COLUMN)).join('');
const print = (sample: Sample) => console.log(row([sample.atSeconds, ...QUANTITIES.map((name) => sample[name])]));

console.log(row(['seconds', ...QUANTITIES]));
const report = await runSoak({
  seconds: Number(values.minutes) * 60,
  sampleSeconds: 10,
  seed: Number(values.seed),
  clients: Number(values.clients),
  payEveryMs: PAY_EVERY_MS,
  onSample: print,
  ...(values.store === undefined ? {} : { store: values.store }),
});
console.log(`\n${row(['', 'second quarter', 'last quarter', 'per hour', 'flat'])}`);
for (const { quantity, secondQuarter, lastQuarter, perHour, isFlat } of report.trends)
  console.log(row([quantity, secondQuarter, lastQuarter, perHour.toFixed(1), isFlat ? 'yes' : 'NO']));
console.log(JSON.stringify({ ...report.counts, delivered: report.delivered, exitCode: report.exitCode }));
if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(report, null, 2)}\n`);
const isServed = Object.keys(report.counts.answers).every((status) => Number(status) < 500);
process.exit(report.isFlat && isServed && report.exitCode === 0 ? 0 : 1);
