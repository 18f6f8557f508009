/** How long healthy receivers wait when a tenth of all receivers takes requests and never answers. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Store } from '../../../src/ports/store.ts';
import { openSqliteStore } from '../../../src/store/sqlite.ts';
import { addressOf, makeBlock } from '../../conformance/webhooks/blocks.ts';
import { type Harness, startHarness } from '../../conformance/webhooks/harness.ts';
import { ratioOf } from '../paired.ts';
import type { Row, RowResult, RunOptions } from '../row.ts';
import { type Arrivals, startArrivals, startSilence } from '../samples/arrivals.ts';

const DEAD_EVERY = 10;

interface World {
  readonly name: string;
  readonly harness: Harness;
  /** Numbers of the webhooks whose receivers answer. */
  readonly healthy: number;
  readonly all: readonly number[];
  slot: number;
}

async function run(options: RunOptions): Promise<RowResult[]> {
  const hooks = options.size === 'smoke' ? 40 : 1_000;
  const rounds = options.size === 'full' ? 20 : options.size === 'quick' ? 8 : 1;
  const folder = mkdtempSync(join(tmpdir(), 'parhelion-bench-'));
  const [arrivals, silence] = [await startArrivals(), await startSilence()];
  const ends: (() => unknown)[] = [];
  const stores: Store[] = [];
  const begin = async (name: string, urlOf: (at: number) => string | null): Promise<World> => {
    const store = openSqliteStore({ path: join(folder, `${name}.db`), busyTimeoutMs: 5_000 });
    stores.push(store);
    return await startWorld(name, store, hooks, urlOf, ends);
  };
  try {
    const isDead = (at: number): boolean => at % DEAD_EVERY === 0;
    const mixed = await begin('mixed', (at) => (isDead(at) ? silence.url : arrivals.url));
    const sound = await begin('sound', (at) => (isDead(at) ? null : arrivals.url));
    return [await measure(mixed, sound, arrivals, rounds, hooks, options)];
  } finally {
    arrivals.close();
    silence.close();
    for (const end of ends) await end();
    for (const store of stores) await store.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function startWorld(
  name: string,
  store: Store,
  hooks: number,
  urlOf: (at: number) => string | null,
  ends: (() => unknown)[],
): Promise<World> {
  const after = (end?: unknown) => void ends.push(end as () => unknown);
  const webhooks = { maxPerProject: hooks, autoDisable: { enabled: false } };
  const harness = await startHarness({ after } as never, { store, webhooks });
  const all: number[] = [];
  for (let at = 0; at < hooks; at += 1) {
    const url = urlOf(at);
    if (url === null) continue;
    all.push(at);
    await harness.call('POST', '/v0/webhooks', {
      webhookURL: `${url}/${name}/${at}`,
      webhookType: 'raw',
      accountAddresses: [addressOf(at)],
    });
  }
  return { name, harness, all, healthy: hooks - hooks / DEAD_EVERY, slot: 100 };
}

/** One event for every webhook; the 99th percentile of what healthy ones waited, in milliseconds. */
async function round(world: World, arrivals: Arrivals): Promise<number> {
  world.slot += 1;
  const transactions = world.all.map((at) => ({ name: `${world.name}/${world.slot}/${at}`, keys: [at] }));
  const block = makeBlock({ slot: world.slot, transactions });
  const start = performance.now();
  await world.harness.apply(block);
  const waited = (await arrivals.take(world.healthy)).map(({ at }) => at - start).sort((a, b) => a - b);
  return waited[Math.ceil(waited.length * 0.99) - 1] ?? Number.NaN;
}

async function measure(
  mixed: World,
  sound: World,
  arrivals: Arrivals,
  rounds: number,
  hooks: number,
  { say, seed }: RunOptions,
): Promise<RowResult> {
  // At first nobody knows which ones are dead.
  for (const world of [mixed, sound, mixed, sound]) await round(world, arrivals);
  const ours: number[] = [];
  const baseline: number[] = [];
  for (let at = 0; at < rounds; at += 1) {
    const turns = [
      async () => void ours.push(await round(mixed, arrivals)),
      async () => void baseline.push(await round(sound, arrivals)),
    ];
    for (const turn of at % 2 === 0 ? turns : turns.reverse()) await turn();
    say(`p99 of round ${at + 1}: ${ours.at(-1)?.toFixed(0)} ms, without dead ones ${baseline.at(-1)?.toFixed(0)} ms`);
  }
  return {
    row: 'webhook-fairness',
    name: 'p99 of healthy receivers beside dead ones',
    unit: 'ms',
    ours,
    baseline,
    ratio: ratioOf(ours, baseline),
    goal: 'a report: times the p99 without dead receivers',
    verdict: 'not assessed',
    sizes: { webhooks: hooks, dead: hooks / DEAD_EVERY, deliveries: rounds * mixed.healthy },
    seed,
    notes: [
      'from the block to the arrival of each event; dead receivers take the request and are silent; durable retries, default limits',
      'SQLite; receivers in this process',
    ],
  };
}

export const row: Row = { id: 'webhook-fairness', name: 'healthy receivers beside dead ones', run };
