import type { CodedError } from '../../../src/lib/coded-error.ts';
import { EXIT } from '../../../src/lib/coded-error.ts';
import { listOf } from '../follower/fake-accounts.ts';
import { honest } from '../follower/fake-node.ts';
import { misbehave, positionFault } from '../follower/random-run.ts';
import type { Mood } from '../webhooks/network.ts';
import { create, list, randomCall, type WalletPage } from './calls.ts';
import { type ApiAnswer, callAll } from './client.ts';
import { createDaemonRig, type DaemonRig } from './daemon-harness.ts';
import { createHookBook } from './hook-book.ts';
import { newLife } from './process.ts';
import { demand, type Planned, type Scene, Wrong } from './scene.ts';
import { createUsageBook } from './usage-book.ts';

export interface LifeReport {
  readonly seed: number;
  /** In words; null when everything came to the truth. */
  readonly fault: string | null;
  readonly deliveries: number;
  readonly calls: number;
  readonly processes: number;
}

const ROUNDS = { least: 3, most: 7 };
const MOODS: readonly Mood[] = ['good', 'good', 'good', 'bad', 'mixed', 'silent', 'lost'];
const ALL_MOODS: readonly Mood[] = [...MOODS, 'good', 'refused'];
const START_TRIES = 2;
const RESTART_MS = 500;
const SETTLE_MS = 300_000;
const JUMP_MS = 20_000;
const SLOW_ANSWER_MS = 3_000;
const SLOW_WRITE_MS = 60;
/** What receivers answered last is written by then. */
const WRITTEN_MS = 3_000;

/**
 * One random life of a whole daemon: the chain grows, skips and forks; upstreams lie and fail; writes fail before, in and after their
 * commits, wait, and find the disk full; receivers are down, slow, refuse or lose answers; the wall clock jumps; the daemon stops in order or is killed at a write; and all the
 * while webhooks are made, changed and deleted, wallets and usage are read. Then the faults end, and everything has to come to the truth.
 */
export async function randomLife(seed: number): Promise<LifeReport> {
  const rig = await createDaemonRig(seed);
  const scene = await begin(rig);
  let fault: string | null = null;
  try {
    await callNow(scene, [create(scene, [0, 1])]);
    const rounds = rig.draw.between(ROUNDS.least, ROUNDS.most);
    for (let round = 0; round < rounds; round += 1) await liveOn(scene);
    await heal(scene);
    await checkEnd(scene);
  } catch (error) {
    fault = error instanceof Wrong ? error.message : `the life itself failed: ${(error as Error).stack}`;
  }
  await endLife(scene);
  const { length: deliveries } = rig.network.requests;
  await rig.close();
  return { seed, fault, deliveries, calls: scene.calls, processes: scene.processes };
}

async function begin(rig: DaemonRig): Promise<Scene> {
  const process = await rig.start();
  const hooks = createHookBook();
  hooks.look(rig.world);
  return {
    rig,
    process,
    hooks,
    usage: createUsageBook(rig.network.requests),
    wallets: new Set(),
    endings: [],
    projectId: process.daemon.first().key?.projectId ?? '',
    processes: 1,
    calls: 0,
    failing: null,
    checked: 0,
  };
}

async function liveOn(scene: Scene): Promise<void> {
  const { rig, hooks } = scene;
  const { draw, world, clock } = rig;
  const { isHarsh } = rig.faults;
  const moods = isHarsh ? ALL_MOODS : MOODS;
  for (const upstream of rig.upstreams) {
    misbehave(upstream, draw, world);
    upstream.slowMs = isHarsh && draw.float() < 0.15 ? draw.below(SLOW_ANSWER_MS) : 0;
  }
  rig.faults.slowMs = isHarsh && draw.float() < 0.2 ? SLOW_WRITE_MS : 0;
  setFaults(scene, draw.float() < 0.3 ? 0.15 : 0);
  for (const hook of hooks.hooks) {
    if (draw.float() >= 0.4) continue;
    const mood = moods[draw.below(moods.length)]!;
    rig.network.moods.set(hook.id, mood);
    if (mood === 'refused') hook.wasRefused = true;
  }
  if (draw.float() < 0.15) rig.jump(draw.between(-JUMP_MS, JUMP_MS));
  for (let part = 0; part < 2; part += 1) {
    const blocks = draw.below(5);
    for (let made = 0; made < blocks; made += 1) world.grow(draw.float() < 0.2 ? draw.below(12) : 0);
    if (draw.float() < 0.3) world.fork(1 + draw.below(9));
    hooks.look(world);
    if (draw.float() < 0.15) scene.process.life.writesToLive = draw.below(12);
    await callNow(scene, randomCalls(scene));
    await clock.advance(200 + draw.below(1_500));
    demand(hooks.requestFault(rig.network.requests, scene.checked));
    scene.checked = rig.network.requests.length;
    demand(fatalOf(scene));
    const { life, fatals } = scene.process;
    if (life.isDead || fatals.length > 0 || draw.float() < 0.1) await restart(scene);
  }
}

/** At most one of them is about the same thing: which one of two came last would not be known. */
function randomCalls(scene: Scene): readonly Planned[] {
  const calls = Array.from({ length: scene.rig.draw.below(3) }, () => randomCall(scene));
  const planned = calls.filter((call) => call !== null);
  return planned.filter(({ path }, at) => planned.findIndex((other) => other.path === path) === at);
}

function setFaults(scene: Scene, writes: number): void {
  const now = scene.rig.clock.monotonic();
  const isFailing = scene.failing !== null && scene.failing.untilMs === null;
  scene.rig.faults.writes = writes;
  if (writes > 0 && !isFailing) scene.failing = { sinceMs: now, untilMs: null };
  if (writes === 0 && scene.failing !== null && isFailing) scene.failing = { ...scene.failing, untilMs: now };
}

const isTemporary = (error: unknown) => (error as Partial<CodedError>).exitCode === EXIT.temporary;

/** Trouble that passes may end a process, which then begins anew. */
function fatalOf({ process: { fatals } }: Scene): string | null {
  const worst = fatals.find((error) => !isTemporary(error));
  return worst === undefined ? null : `it gave up: ${String(worst)}`;
}

/** Stops the process in order if it lives, and starts another one until that succeeds, as a service manager would. */
async function restart(scene: Scene): Promise<void> {
  const { rig, process } = scene;
  const wasFailing = rig.faults.writes > 0;
  demand(fatalOf(scene));
  const stopped = process.daemon.stop();
  if (process.life.isDead) scene.endings.push(stopped);
  else await rig.drive(stopped);
  await rig.clock.advance(0);
  const isClean = !process.life.isDead && !wasFailing;
  const atMs = process.life.diedAtMs ?? rig.clock.monotonic();
  demand(await scene.usage.processEnded(rig.store, { atMs, isClean, failing: scene.failing }));
  for (let tries = 1; ; tries += 1) {
    const life = newLife();
    if (rig.draw.float() < 0.1) life.writesToLive = rig.draw.below(6);
    scene.processes += 1;
    try {
      scene.process = await rig.start(life);
      return;
    } catch (error) {
      // Trouble that passes is a reason to try again, and nothing else is.
      if (!life.isDead && !isTemporary(error)) throw error;
      if (tries >= START_TRIES) setFaults(scene, 0);
      await rig.clock.advance(RESTART_MS);
    }
  }
}

async function callNow(scene: Scene, calls: readonly Planned[]): Promise<void> {
  if (calls.length === 0) return;
  scene.calls += calls.length;
  const answers = await callAll(scene.rig, scene.process, calls);
  answers.forEach((answer, at) => {
    const call = calls[at] as Planned;
    scene.usage.note(call.kind, answer);
    const { status } = answer;
    const isFine = status === null || status === 200 || status === 503 || status === 504 || status === 404;
    if (!isFine && !scene.process.life.isDead)
      demand(`${call.method} ${call.path} is answered ${status}: ${JSON.stringify(answer.body)}`);
    call.take(answer);
  });
}

/** Nothing fails any more, and the last process begins; what was unsure is looked up. */
async function heal(scene: Scene): Promise<void> {
  const { rig, hooks } = scene;
  for (const upstream of rig.upstreams) {
    upstream.lost.clear();
    Object.assign(upstream, { ...honest(upstream.label), lost: upstream.lost });
  }
  rig.network.moods.clear();
  rig.faults.slowMs = 0;
  setFaults(scene, 0);
  const { life, fatals } = scene.process;
  if (life.isDead || fatals.length > 0 || rig.draw.below(2) === 0) await restart(scene);
  scene.process.life.writesToLive = Number.POSITIVE_INFINITY;
  while (scene.process.life.isDead) {
    await restart(scene);
    scene.process.life.writesToLive = Number.POSITIVE_INFINITY;
  }
  if (rig.faults.isHarsh) await rig.clock.advance(WRITTEN_MS);
  await callNow(scene, [list(scene)]);
  // A branch shows itself only by a block above the cursor.
  const { highestSlot, slot } = rig.world;
  for (let made = 0; made < 14; made += 1) rig.world.grow(made === 0 ? 40 + highestSlot - slot : 0);
  hooks.look(rig.world);
}

async function isSettled({ rig: { store, world } }: Scene): Promise<boolean> {
  const tip = world.chain.at(-1)!;
  const cursors = await store.read.selectFrom('follow_cursors').select('blockhash').execute();
  const isThere = cursors.length > 0 && cursors.every(({ blockhash }) => blockhash === tip.blockhash);
  const open = await store.read
    .selectFrom('outbox')
    .select('id')
    .where('kind', '=', 'webhooks.deliver')
    .where('state', 'in', ['pending', 'running'])
    .execute();
  return isThere && open.length === 0;
}

async function checkEnd(scene: Scene): Promise<void> {
  const { rig, hooks, usage } = scene;
  for (let passed = 0; passed < SETTLE_MS && !(await isSettled(scene)); passed += 1_000) await rig.clock.advance(1_000);
  demand((await isSettled(scene)) ? null : 'it does not come to rest');
  demand(fatalOf(scene));
  demand(await positionFault(rig.store, rig.world));
  demand(hooks.requestFault(rig.network.requests, scene.checked));
  demand(await hooks.endFault(rig.store, rig.world, rig.network));
  await callNow(scene, [list(scene)]);
  for (const address of scene.wallets) demand(await historyFault(scene, address));
  await rig.drive(scene.process.daemon.stop());
  const end = { atMs: rig.clock.monotonic(), isClean: true, failing: scene.failing };
  demand(await usage.processEnded(rig.store, end));
  demand(await usage.endFault(rig.store));
}

/** A history, page by page, against the chain. */
async function historyFault(scene: Scene, address: string): Promise<string | null> {
  const found: { readonly signature: string; readonly slot: number }[] = [];
  let before: string | null = null;
  for (let asked = 0; asked < 60; asked += 1) {
    let page: WalletPage | null = null;
    const path: string = `/v1/wallet/${address}/history?limit=25${before === null ? '' : `&before=${before}`}`;
    const take = ({ status, body }: ApiAnswer) => {
      if (status === 200) page = body as WalletPage;
    };
    await callNow(scene, [{ kind: 'wallet', method: 'GET', path, take }]);
    const got = page as WalletPage | null;
    // Being indexed: it is there soon.
    if (got === null) await scene.rig.clock.advance(2_000);
    else {
      found.push(...got.data);
      before = got.pagination.nextCursor;
      if (!got.pagination.hasMore) break;
    }
  }
  const shown = found.map(({ signature, slot }) => `${slot}:${signature}`);
  const wanted = listOf(scene.rig.world.chain, address).map(({ signature, slot }) => `${slot}:${signature}`);
  if (String(shown) === String(wanted)) return null;
  const at = wanted.findIndex((one, place) => shown[place] !== one);
  return `the history of ${address} has ${shown.length} of ${wanted.length}; at ${at} ${shown[at]} and not ${wanted[at]}`;
}

/** Whatever came of it, nothing of it runs on. */
async function endLife({ rig, process, endings }: Scene): Promise<void> {
  process.life.isDead = true;
  await rig.drive(Promise.allSettled([process.daemon.stop(), ...endings]));
}
