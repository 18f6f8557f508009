/**
 * Webhooks of every kind under a seeded schedule: blocks, edits, switching on and off, receivers that change their mood, processes that
 * are killed and, with even seeds, a wall clock that jumps, all from one seed. On PostgreSQL transactions take time and overlap. Meanwhile
 * nobody gets what he may not get, and at the end everything that was matched has come to its end, once.
 */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { Clock, Random } from '../../../src/ports/clock.ts';
import type { Store } from '../../../src/ports/store.ts';
import { addressOf, makeBlock, signatureOf } from '../../conformance/webhooks/blocks.ts';
import { type Harness, startHarness } from '../../conformance/webhooks/harness.ts';
import { createManualClock, type ManualClock } from '../../helpers/manual-clock.ts';
import { mortalStore } from '../../helpers/mortal-store.ts';
import { pacedStore } from '../../helpers/paced-store.ts';
import { bySeed } from '../../helpers/run-part.ts';
import { createSfc32, type Sfc32 } from '../../helpers/sfc32.ts';
import { eachStore, type StoreEngine } from '../../helpers/store.ts';
import { createNetwork, type Mood, type Network } from './network.ts';

const STEPS = 150;
const TIMEOUT_MS = 2_000;
const MOODS: readonly Mood[] = ['good', 'good', 'bad', 'mixed', 'silent', 'gone', 'refused'];
/** What was loaded for a delivery may be so old when it is sent, with the time that a turn takes. */
const STALE_MS = 1_500;
/** The longest pause of a transaction, before it and before its commit. */
const PAUSE_MS = 15;
const DRIVE_MS = 5;
const webhooks = {
  retry: {
    durable: { steps: [1, 5, 20], timeoutMs: TIMEOUT_MS },
    compat: { steps: [1, 1], timeoutMs: TIMEOUT_MS },
  },
  autoDisable: { minFinished: 5, failureRate: 0.8, quietMinutes: 0 },
};

interface Hook {
  readonly id: string;
  readonly ordered: boolean;
  active: boolean;
  onInactive: 'drop' | 'hold';
  /** Of the clock that never jumps; null while it is on. */
  offSinceMs: number | null;
  /** Unix milliseconds. */
  graceUntil: number;
  wasEverOff: boolean;
  readonly events: Set<string>;
}

interface World {
  readonly t: TestContext;
  readonly store: Store;
  readonly steady: ManualClock;
  readonly clock: Clock;
  readonly draw: Sfc32;
  readonly random: Random;
  readonly network: Network;
  readonly hooks: Hook[];
  process: { harness: Harness; life: { isDead: boolean } };
  slot: number;
  jumpMs: number;
}

function randomOf(draw: Sfc32): Random {
  return {
    float: () => draw.float(),
    bytes: (count) => draw.fill(new Uint8Array(count)),
    uuid: () => {
      const hex = Buffer.from(draw.fill(new Uint8Array(16))).toString('hex');
      return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
    },
  };
}

async function startProcess(world: Omit<World, 'process'>): Promise<World['process']> {
  const { life, store } = mortalStore(world.store, world.draw);
  const harness = await startHarness(world.t, {
    store,
    clock: world.clock,
    random: world.random,
    webhooks,
    isDead: () => life.isDead,
    outbound: world.network.outbound(life),
    jobs: { pollMs: 5_000, writeDelayMs: 5 },
  });
  await harness.start();
  return { harness, life };
}

/** Moves time on until the work is over. */
async function drive<T>({ steady }: Pick<World, 'steady'>, work: Promise<T>): Promise<T> {
  let isOver = false;
  const end = () => {
    isOver = true;
  };
  work.then(end, end);
  await steady.advance(0);
  while (!isOver) await steady.advance(DRIVE_MS);
  return await work;
}

/** The calls of the API are those of a process that is not killed. */
const call = (world: World, method: string, path: string, body?: unknown) =>
  drive(world, world.process.harness.call(method, `/v0/webhooks${path}`, body));

async function create(world: World): Promise<void> {
  const { draw } = world;
  const ordered = draw.below(3) === 0;
  const onInactive = draw.below(2) === 0 ? ('hold' as const) : ('drop' as const);
  const { body } = await call(world, 'POST', '', {
    webhookURL: 'https://receiver.example/',
    webhookType: 'raw',
    accountAddresses: [addressOf(1)],
    retryPreset: draw.below(2) === 0 ? 'durable' : 'compat',
    batchSize: draw.below(2) === 0 ? 1 : 3,
    ordered,
    onInactive,
  });
  const events = new Set<string>();
  const state = { active: true, offSinceMs: null, graceUntil: 0, wasEverOff: false, events };
  world.hooks.push({ id: body.webhookID, ordered, onInactive, ...state });
}

async function block(world: World): Promise<void> {
  await observe(world);
  world.slot += 1;
  const names = Array.from({ length: 1 + world.draw.below(3) }, (_, at) => `${world.slot}/${at}`);
  const transactions = names.map((name) => ({ name, keys: [1] }));
  const before = new Map(world.hooks.map(({ id, active }) => [id, active]));
  await drive(world, world.process.harness.apply(makeBlock({ slot: world.slot, transactions })));
  const rows = await world.store.read.selectFrom('outbox').select('key').where('slot', '=', world.slot).execute();
  const keys = new Set(rows.map(({ key }) => key));
  await observe(world);
  for (const hook of world.hooks) {
    for (const name of names) {
      const isThere = keys.has(`${hook.id}:${signatureOf(name)}`);
      // One that was disabled meanwhile may have got it or not.
      const isSure = hook.active === before.get(hook.id);
      if (isSure) assert.equal(isThere, hook.active || hook.onInactive === 'hold', `slot ${world.slot} of ${hook.id}`);
      if (isThere) hook.events.add(signatureOf(name));
    }
  }
}

/** Learns which webhooks were switched off by themselves, and that none was within its grace. */
async function observe({ store, hooks, clock, steady }: World): Promise<void> {
  const rows = await store.read.selectFrom('webhooks').select(['id', 'active', 'disabled_at']).execute();
  for (const hook of hooks) {
    const row = rows.find(({ id }) => id === hook.id);
    if (row?.['active'] !== 0 || !hook.active) continue;
    assert.ok(Number(row['disabled_at']) >= hook.graceUntil, `${hook.id} was disabled in its grace`);
    assert.ok(clock.now() >= 0);
    Object.assign(hook, { active: false, wasEverOff: true, offSinceMs: steady.monotonic() });
  }
}

async function toggle(world: World, hook: Hook, active: boolean): Promise<void> {
  await observe(world);
  const { body } = await call(world, 'PATCH', `/${hook.id}`, { active });
  assert.equal(body.active, active);
  if (active && body.graceUntil !== undefined)
    Object.assign(hook, { graceUntil: Date.parse(body.graceUntil), wasEverOff: true });
  if (!active && hook.active) Object.assign(hook, { wasEverOff: true, offSinceMs: world.steady.monotonic() });
  if (active) hook.offSinceMs = null;
  hook.active = active;
}

async function edit(world: World, hook: Hook): Promise<void> {
  await observe(world);
  if (world.draw.below(2) === 0) {
    await call(world, 'PUT', `/${hook.id}`, { batchSize: 1 + world.draw.below(4) });
    return;
  }
  // A webhook that stops holding drops what it held.
  hook.onInactive = hook.onInactive === 'hold' ? 'drop' : 'hold';
  hook.wasEverOff ||= !hook.active;
  await call(world, 'PUT', `/${hook.id}`, { onInactive: hook.onInactive });
}

async function kill(world: World): Promise<void> {
  world.process.life.isDead = true;
  await world.steady.advance(world.draw.below(200));
  world.process = await drive(world, startProcess(world));
}

/** What must hold of every request, looked at after each step. */
function check({ network, hooks }: World, from: number): void {
  const bodies = new Map<string, string>();
  for (const [at, request] of network.requests.entries()) {
    const known = bodies.get(request.id);
    assert.ok(known === undefined || known === request.body, `${request.id} has two bodies`);
    bodies.set(request.id, request.body);
    if (at < from) continue;
    const hook = hooks.find(({ id }) => id === request.hook);
    assert.ok(hook);
    const isLate = hook.offSinceMs !== null && request.startedMs > hook.offSinceMs + STALE_MS;
    assert.equal(isLate, false, `${request.hook} is off`);
    for (const signature of request.signatures)
      assert.ok(hook.events.has(signature), 'nobody gets what he did not watch');
  }
  for (const hook of hooks.filter(({ ordered }) => ordered)) {
    const open = network.requests.filter((one) => one.hook === hook.id && one.isOpen && !one.process.isDead);
    assert.ok(open.length <= 1, 'two requests of an ordered webhook at once');
    // A set keeps the order in which its members were put in: that of the chain, and that of the first attempts.
    const tried = new Set(network.requests.filter((one) => one.hook === hook.id).flatMap((one) => one.signatures));
    const wanted = [...hook.events].filter((signature) => tried.has(signature));
    assert.deepEqual([...tried], wanted, 'an ordered webhook got an event before its turn');
  }
}

/** Everything is on and well: what waits goes out. */
async function settle(world: World): Promise<void> {
  world.network.moods.clear();
  for (const hook of world.hooks) await toggle(world, hook, true);
  const open = async (): Promise<number> => {
    const { read } = world.store;
    const states = ['pending', 'running', 'held'] as const;
    const waiting = await read.selectFrom('outbox').select('id').where('state', 'in', states).execute();
    return waiting.length + (await read.selectFrom('webhook_batches').select('job_id').execute()).length;
  };
  // A lease that ran out, a batch whose leader died and a delivery that was held too late are found within minutes.
  for (let round = 0; round < 60 && (await open()) > 0; round += 1) await world.steady.advance(30_000);
}

async function checkEnd({ store, hooks, network }: World, seed: number): Promise<void> {
  const rows = await store.read.selectFrom('outbox').selectAll().execute();
  const taken = new Set<string>();
  const noted = new Set<string>();
  for (const { hook, signatures, status, process } of network.requests) {
    if (status === null || status >= 300) continue;
    for (const signature of signatures) taken.add(`${hook}:${signature}`);
    // A lease that a jump of the clock ended gives its delivery away.
    if (!process.isDead && seed % 2 === 1) for (const signature of signatures) noted.add(`${hook}:${signature}`);
  }
  for (const hook of hooks) {
    const own = rows.filter(({ grp }) => grp === hook.id);
    assert.equal(own.length, hook.events.size, `seed ${seed}: one delivery per event`);
    for (const { key, state, error } of own) {
      const what = `seed ${seed}: ${key} is ${state}: ${error}`;
      assert.ok(['done', 'failed', 'discarded'].includes(String(state)), what);
      if (noted.has(String(key))) assert.equal(state, 'done', `${what}, and it was delivered`);
      if (state === 'done') assert.ok(taken.has(String(key)), `${what}, and nobody took it`);
      if (state === 'discarded') assert.ok(hook.wasEverOff, what);
    }
  }
  assert.deepEqual(await store.read.selectFrom('webhook_batches').selectAll().execute(), [], `seed ${seed}`);
}

/** On SQLite writers follow each other anyway. */
async function openStore(t: TestContext, engine: StoreEngine, draw: Sfc32) {
  const store = await engine.store(t);
  if (engine.dialect === 'sqlite') return { store, steady: createManualClock() };
  const paced = pacedStore(store, () => steady.sleep(draw.below(PAUSE_MS)));
  const steady = createManualClock(undefined, paced.quiet);
  return { store: paced.store, steady };
}

async function simulate(t: TestContext, engine: StoreEngine, seed: number): Promise<void> {
  const draw = createSfc32(seed);
  const { store, steady } = await openStore(t, engine, draw);
  const network = createNetwork(steady, draw);
  let jumpMs = 0;
  const clock: Clock = {
    now: () => steady.now() + jumpMs,
    monotonic: steady.monotonic,
    timeout: steady.timeout,
    sleep: steady.sleep,
  };
  const parts = { t, store, steady, clock, draw, random: randomOf(draw), network };
  const begun = { ...parts, hooks: [], slot: 0, jumpMs: 0 };
  const world: World = { ...begun, process: await drive(begun, startProcess(begun)) };
  for (let at = 0; at < 4; at += 1) await create(world);
  let checked = 0;
  for (let step = 0; step < STEPS; step += 1) {
    const hook = world.hooks[draw.below(world.hooks.length)]!;
    const dice = draw.below(20);
    if (dice < 8) await block(world);
    else if (dice < 11) network.moods.set(hook.id, MOODS[draw.below(MOODS.length)]!);
    else if (dice < 14) await toggle(world, hook, draw.below(3) > 0);
    else if (dice < 16) await edit(world, hook);
    else if (dice === 16) await kill(world);
    else if (dice === 17 && seed % 2 === 0) jumpMs += draw.between(-30_000, 30_000);
    await steady.advance(draw.below(4_000));
    await observe(world);
    check(world, checked);
    checked = network.requests.length;
  }
  await settle(world);
  check(world, checked);
  await checkEnd(world, seed);
  const stopped = world.process.harness.runner.stop();
  await steady.advance(60_000);
  await stopped;
}

const given = process.env['PARHELION_SEEDS'];
const first = Number(process.env['PARHELION_FIRST_SEED'] ?? 1);

bySeed(Number(given ?? 4), (seeds) => {
  eachStore('webhooks under a random schedule', (engine) => {
    const own = engine.dialect === 'sqlite' || given !== undefined ? seeds : seeds.slice(0, 2);
    for (const seed of own) test(`seed ${first + seed - 1}`, (t) => simulate(t, engine, first + seed - 1));
  });
});
