/**
 * Long mode: npm run simulate -- [--daemon | --sockets | --polling] --seeds 10000 [--from SEED] [--workers 2]. Lives of the follower, with
 * --daemon of the whole daemon, with --sockets of subscriptions over breaking websockets, with --polling of clients that poll the history of
 * a wallet; by default from the first seed that draws all kinds of faults. A seed that fails is repeated with --from SEED --seeds 1.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import type { Store } from '../../../src/ports/store.ts';
import { ALL_FAULTS_FROM } from '../daemon/process.ts';
import { randomLife } from '../daemon/random-life.ts';
import { pollingLife, preparePolling } from '../polling/polling-life.ts';
import { socketLife } from '../sockets/life.ts';
import { quickStore } from './quick-store.ts';
import { isGood, type RunReport, randomRun } from './random-run.ts';

const { values } = parseArgs({
  options: {
    polling: { type: 'boolean', default: false },
    daemon: { type: 'boolean', default: false },
    sockets: { type: 'boolean', default: false },
    seeds: { type: 'string', default: '1000' },
    from: { type: 'string' },
    workers: { type: 'string', default: '1' },
    /** Every so many seeds one, for a worker. */
    step: { type: 'string', default: '1' },
  },
});
const from = Number(values.from ?? (values.daemon ? ALL_FAULTS_FROM + 1 : 1));
const end = from + Number(values.seeds);
const workers = Number(values.workers);

async function runHere(step: number): Promise<number> {
  let wrong = 0;
  const place = values.polling ? await quickStore() : null;
  if (place !== null) await preparePolling(place.store);
  for (let seed = from; seed < end; seed += step) {
    const { report, isRight } = await (place === null ? lifeOf(seed) : lifeOfPollers(seed, place.store));
    if (isRight) {
      if (seed % 50 === 0) console.log(JSON.stringify({ seed }));
      continue;
    }
    wrong += 1;
    console.log(JSON.stringify(report));
  }
  await place?.remove();
  return wrong;
}

async function lifeOfPollers(seed: number, store: Store) {
  const report = await pollingLife(seed, store);
  return { report, isRight: report.fault === null };
}

function lifeOf(seed: number) {
  if (values.sockets) return lifeOfSockets(seed);
  return values.daemon ? lifeOfDaemon(seed) : lifeOfFollower(seed);
}

async function lifeOfSockets(seed: number) {
  const fault = await socketLife(seed).catch(String);
  return { report: { seed, fault }, isRight: fault === null };
}

async function lifeOfDaemon(seed: number) {
  const report = await randomLife(seed).catch((error: unknown) => ({ seed, fault: String(error) }));
  return { report, isRight: report.fault === null };
}

async function lifeOfFollower(seed: number) {
  const place = await quickStore();
  const report = await randomRun(seed, place.store).catch((error: unknown) => failed(seed, error));
  await place.remove();
  return { report, isRight: isGood(report) };
}

const failed = (seed: number, error: unknown): RunReport => ({
  seed,
  isRight: false,
  expected: 0,
  found: 0,
  fatals: [],
  stalled: null,
  fault: `the run itself failed: ${String(error)}`,
});

async function runWorkers(): Promise<number> {
  const codes = Array.from({ length: workers }, async (_, index) => {
    const kinds = ['daemon', 'sockets', 'polling'] as const;
    const what = kinds.filter((kind) => values[kind]).map((kind) => `--${kind}`);
    const args = [
      ...what,
      '--from',
      String(from + index),
      '--seeds',
      String(end - from - index),
      '--step',
      String(workers),
    ];
    const child = spawn(process.execPath, [...process.execArgv, fileURLToPath(import.meta.url), ...args], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    for await (const line of createInterface({ input: child.stdout })) console.log(line);
    if (child.exitCode === null) await once(child, 'exit');
    return child.exitCode ?? 1;
  });
  return Math.max(...(await Promise.all(codes)));
}

const wrong = workers > 1 ? await runWorkers() : await runHere(Number(values.step));
console.log(JSON.stringify({ seeds: Number(values.seeds), from, workers, wrong }));
process.exitCode = wrong === 0 ? 0 : 1;
