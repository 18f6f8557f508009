/** A real follower on a real store, over HTTP and websockets to scripted nodes with views of their own on one made-up chain. */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { createFooterStream } from '../../../src/adapters/chain/finality/footer-stream.ts';
import { createYellowstoneStream, loadClientPackage } from '../../../src/adapters/chain/geyser/block-stream.ts';
import { createRpcChainSource, createUpstreamPool } from '../../../src/adapters/chain/rpc/index.ts';
import { createSystemClock, createSystemRandom } from '../../../src/adapters/clock.ts';
import { createFollower } from '../../../src/chain/follower.ts';
import type { FollowerOptions } from '../../../src/chain/run.ts';
import { followerMigrations } from '../../../src/chain/tables.ts';
import type { CoreConfig } from '../../../src/config/core.ts';
import type { BlockProcessor } from '../../../src/plugin/plugin.ts';
import type { Store } from '../../../src/ports/store.ts';
import { createMetricsRegistry } from '../../../src/runtime/metrics.ts';
import { migrate } from '../../../src/store/migrate.ts';
import { followConfig } from '../../helpers/follow-config.ts';
import {
  createLedgerProcessor,
  type LedgerView,
  ledgerMigrations,
  readLedger,
} from '../../helpers/ledger-processor.ts';
import { createMemoryLog } from '../../helpers/memory-log.ts';
import { GEYSER_DIR } from '../../helpers/packages.ts';
import { createSfc32 } from '../../helpers/sfc32.ts';
import { sqliteStore } from '../../helpers/store.ts';
import { pauseAfter } from '../../helpers/until.ts';
import { type Behaviour, type SeenCall, startUpstream, type TestUpstream } from '../../helpers/upstream.ts';
import { createFakeNode, type FakeUpstream, honest } from '../../simulation/follower/fake-node.ts';
import { createWorld, FIRST_SLOT, type World } from '../../simulation/follower/world.ts';
import { createFastClock } from './fast-clock.ts';

const SPEED = 25;
const systemClock = createSystemClock();

/** What stands between a call and the node's own answer; undefined lets the node answer. */
export type Interruption = (call: SeenCall) => Behaviour | undefined;

export interface BedNode {
  readonly view: FakeUpstream;
  readonly server: TestUpstream;
  /** Asked before each call of following; null for none. */
  interrupt: Interruption | null;
}

export interface BedOptions {
  readonly nodes?: number;
  readonly finalityDepth?: number;
  readonly follow?: Partial<CoreConfig['follow']>;
  readonly upstream?: Partial<CoreConfig['upstream']>;
  readonly processors?: readonly BlockProcessor[];
  /** Default: SQLite. */
  readonly store?: Store;
  /** Opens the ledger; absent for none. */
  readonly openLedger?: NonNullable<FollowerOptions['openLedger']>;
  /** Address of a stream of blocks. */
  readonly streamUrl?: string;
  /** Address of a stream of footers. */
  readonly footersUrl?: string;
}

export const errorOf = (code: number): Behaviour => ({
  chunks: [`{"jsonrpc":"2.0","error":{"code":${code},"message":"no"},"id":1}`],
});

async function startNode(world: World, label: string, genesisHash?: string): Promise<BedNode> {
  const view = honest(label);
  const answer = createFakeNode(world, view, createSfc32(label.length));
  const server = await startUpstream(genesisHash === undefined ? {} : { genesisHash });
  const node: BedNode = { view, server, interrupt: null };
  for (const method of ['getSlot', 'getBlocks', 'getBlock', 'getFirstAvailableBlock'])
    server.on(method, (call) => {
      const instead = node.interrupt?.(call);
      if (instead !== undefined) return instead;
      const own = answer(method, call.params as unknown[]);
      if ('result' in own) return own;
      return { chunks: [JSON.stringify({ jsonrpc: '2.0', error: own.error, id: call.id })] };
    });
  return node;
}

export async function createBed(t: TestContext, options: BedOptions = {}) {
  const stops: (() => Promise<void>)[] = [];
  // Hooks run in the order of their making: this one comes before the one that closes the store.
  t.after(async () => {
    for (const stop of stops.reverse()) await stop();
  });
  const alive = setInterval(() => {}, 1_000);
  stops.push(async () => clearInterval(alive));
  const world = createWorld(createSfc32(7), options.finalityDepth ?? 32);
  const nodes: BedNode[] = [];
  for (let made = 0; made < (options.nodes ?? 1); made += 1) {
    const node = await startNode(world, `node-${made}`);
    nodes.push(node);
    stops.push(() => node.server.stop());
  }
  const store = options.store ?? (await sqliteStore(t));
  await migrate(store, [
    { scope: 'kernel.follower', migrations: followerMigrations },
    { scope: 'test.ledger', migrations: ledgerMigrations },
  ]);
  return {
    world,
    nodes,
    store,
    follow: (changes: BedOptions = {}) => follow(nodes, store, stops, { ...options, ...changes }),
  };
}

export type Bed = Awaited<ReturnType<typeof createBed>>;

async function follow(nodes: readonly BedNode[], store: Store, stops: (() => Promise<void>)[], options: BedOptions) {
  const clock = createFastClock(SPEED);
  const random = createSystemRandom();
  const log = createMemoryLog();
  const stream = { plugin: 'yellowstone', url: options.streamUrl ?? null, token: 'token-of-the-stream' } as const;
  const base = followConfig({ startSlot: FIRST_SLOT, auditIntervalMs: 1_000, stream, ...options.follow });
  const core = { ...base, upstream: { ...base.upstream, ...options.upstream } };
  const registry = createMetricsRegistry();
  const pool = createUpstreamPool({
    label: 'main',
    core,
    clock,
    log,
    metrics: registry.scope('upstream'),
    upstreams: nodes.map(({ server }) => ({ url: server.url })),
  });
  const load = () => loadClientPackage(GEYSER_DIR);
  const source = createRpcChainSource({
    chain: 'main',
    pool,
    core,
    clock,
    random,
    log,
    ...(options.streamUrl === undefined ? {} : { stream: createYellowstoneStream({ core, log, load }) }),
    // On the clock of the machine: a clock that runs ahead would take every pause of a busy one for a lost connection.
    ...(options.footersUrl === undefined
      ? {}
      : { footers: createFooterStream({ url: options.footersUrl, token: 'token-of-the-stream', clock: systemClock }) }),
  });
  const fatals: unknown[] = [];
  const follower = createFollower({
    chain: 'main',
    source,
    store,
    core,
    clock,
    random,
    log,
    metrics: registry.scope('follow'),
    // The chain grows when the test says so: between, it is not silent.
    isOnDemand: true,
    processors: options.processors ?? [createLedgerProcessor()],
    ...(options.openLedger === undefined ? {} : { openLedger: options.openLedger }),
    fatal: (error) => void fatals.push(error),
  });
  await pool.start();
  await source.start();
  await follower.start();
  let stopped = false;
  const stop = async () => {
    if (stopped) return;
    stopped = true;
    await follower.stop();
    await source.stop();
    await pool.stop();
  };
  stops.push(stop);
  return { follower, pool, log, clock, fatals, stop, metrics: () => registry.text() };
}

export type Running = Awaited<ReturnType<typeof follow>>;

export function grow(world: World, count: number): void {
  for (let made = 0; made < count; made += 1) world.grow(0, made % 3);
}

/** What an empty store would hold after a replay of the chain. */
export function truthOf(world: World, fromSlot = FIRST_SLOT): LedgerView {
  const blocks = world.chain.filter(({ slot }) => slot >= fromSlot);
  const entries = blocks.flatMap(({ slot, signatures }) => [...signatures].sort().map((each) => `${slot}:${each}`));
  return { entries, count: entries.length, lastSlot: blocks.at(-1)?.slot ?? -1 };
}

/** On a busy machine a daemon that begins again, or a healed fork, may take a minute alone. */
const TRIES = 6_000;
const LEAST_PAUSE_MS = 10;

/** Polls in real time. The suite's own limit ends a wait that never does; the last value tells what was missing. */
export async function until(check: () => boolean | Promise<boolean>, tries = TRIES): Promise<void> {
  for (let tried = 0; tried < tries; tried += 1) {
    const beganMs = performance.now();
    if (await check()) return;
    await pauseAfter(performance.now() - beganMs, LEAST_PAUSE_MS);
  }
}

export async function settles({ world, store }: Pick<Bed, 'world' | 'store'>, fromSlot?: number): Promise<void> {
  const expected = JSON.stringify(truthOf(world, fromSlot));
  await until(async () => JSON.stringify(await readLedger(store)) === expected);
  assert.deepEqual(await readLedger(store), truthOf(world, fromSlot));
}
