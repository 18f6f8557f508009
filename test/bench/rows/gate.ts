/** Not a goal of its own: what the gate costs a call, with few keys and with very many. */
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createSystemClock } from '../../../src/adapters/clock.ts';
import { openSqliteStore } from '../../../src/store/sqlite.ts';
import { pricedItem, startAccess } from '../../helpers/access-harness.ts';
import { createSfc32 } from '../../helpers/sfc32.ts';
import { ratioOf } from '../paired.ts';
import type { Row, RowResult, RunOptions } from '../row.ts';
import { fillWithKeys, keyOf } from '../samples/access-store.ts';

const SIZES = {
  full: { projects: 10_000, keys: 100_000, calls: 200_000, pairs: 5 },
  quick: { projects: 10_000, keys: 100_000, calls: 50_000, pairs: 3 },
  smoke: { projects: 20, keys: 100, calls: 500, pairs: 1 },
} as const;
const GOAL_PER_SECOND = 50_000;
const IN_FLIGHT = 64;

/** Calls per second of authenticate, admit and charge, some at once. */
async function measure(access: ReturnType<typeof startAccess>, calls: number, next: () => string): Promise<number> {
  const items = [pricedItem('getSlot')];
  let left = calls;
  const worker = async () => {
    while (left > 0) {
      left -= 1;
      const known = access.gate.authenticate({ query: [next()], header: undefined, bearer: undefined }, '127.0.0.1');
      const caller = known instanceof Promise ? await known : known;
      const granted = access.gate.admit(caller, items);
      (granted instanceof Promise ? await granted : granted).charge([{ charged: true, bytesOut: 100 }]);
    }
  };
  const startedMs = performance.now();
  await Promise.all(Array.from({ length: IN_FLIGHT }, worker));
  return (calls / (performance.now() - startedMs)) * 1_000;
}

async function run({ size, seed, say }: RunOptions): Promise<RowResult[]> {
  const { projects, keys, calls, pairs } = SIZES[size];
  const folder = await mkdtemp(join(tmpdir(), 'parhelion-bench-gate-'));
  const store = openSqliteStore({ path: join(folder, 'gate.db'), busyTimeoutMs: 5_000 });
  try {
    say(`${keys} keys of ${projects} projects`);
    await fillWithKeys(store, projects, keys);
    const access = startAccess(store, createSystemClock());
    await assert.rejects(async () => await access.ask({ header: 'nobody' }), { reason: 'bad-key' });
    const random = createSfc32(seed);
    // A key is read once, when it is first used.
    let next = 0;
    await measure(access, keys, () => keyOf(next++));
    const [many, one]: [number[], number[]] = [[], []];
    for (let pair = 0; pair < pairs; pair += 1) {
      one.push(await measure(access, calls, () => keyOf(7)));
      many.push(await measure(access, calls, () => keyOf(random.below(keys))));
    }
    await access.meter.stop();
    const least = Math.min(...one);
    return [
      {
        row: 'gate',
        name: 'gate over very many keys; baseline: one busy key',
        unit: 'calls/s',
        ours: many,
        baseline: one,
        ratio: ratioOf(many, one),
        goal: `>= ${GOAL_PER_SECOND} calls/s of one busy key`,
        verdict: size === 'smoke' ? 'not assessed' : least >= GOAL_PER_SECOND ? 'met' : 'missed',
        sizes: { projects, keys, calls },
        seed,
        notes: ['no HTTP: key, plan, credits, charge; all keys are cached, and usage is written beside the calls'],
      },
    ];
  } finally {
    await store.close();
    await rm(folder, { recursive: true, force: true });
  }
}

export const row: Row = { id: 'gate', name: 'cost of the gate', run };
