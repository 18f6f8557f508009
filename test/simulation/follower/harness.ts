import { createRpcChainSource, createUpstreamPool } from '../../../src/adapters/chain/rpc/index.ts';
import { createFollower, type Follower } from '../../../src/chain/follower.ts';

import { followerMigrations } from '../../../src/chain/tables.ts';
import type { CoreConfig } from '../../../src/config/core.ts';
import type { BlockProcessor } from '../../../src/plugin/plugin.ts';
import type { Random } from '../../../src/ports/clock.ts';
import type { Store } from '../../../src/ports/store.ts';
import type { UpstreamPool } from '../../../src/ports/upstream.ts';
import { createMetricsRegistry } from '../../../src/runtime/metrics.ts';
import { migrate } from '../../../src/store/migrate.ts';
import { followConfig } from '../../helpers/follow-config.ts';
import {
  createLedgerProcessor,
  type LedgerView,
  ledgerMigrations,
  readLedger,
} from '../../helpers/ledger-processor.ts';
import { createManualClock } from '../../helpers/manual-clock.ts';
import { createMemoryLog } from '../../helpers/memory-log.ts';
import { createSfc32, type Sfc32 } from '../../helpers/sfc32.ts';
import { createStoreWatch } from '../../helpers/store-watch.ts';
import { deliveryScopes } from './deliveries.ts';
import { type FakeUpstream, honest } from './fake-node.ts';
import { createFakeStream } from './fake-stream.ts';
import { createFakeTransport } from './fake-transport.ts';
import { createWorld, FIRST_SLOT, type World } from './world.ts';

export interface RigOptions {
  readonly seed?: number;
  readonly upstreams?: readonly FakeUpstream[];
  readonly follow?: Partial<CoreConfig['follow']>;
  readonly processors?: readonly BlockProcessor[];
  readonly finalityDepth?: number;
  /** Where the chain begins that upstreams may become. */
  readonly otherFirstSlot?: number;
  /** Length of a slot by the times of the blocks; default 1,000. */
  readonly slotMs?: number;
  /** Whether blocks are pushed beside the polling. */
  readonly hasStream?: boolean;
  /** Whether the chain makes blocks only for transactions. */
  readonly isOnDemand?: boolean;
  /** How many upstreams have to agree on a block; default: one is enough. */
  readonly agree?: number;
}

/** A real follower on a real store, in a made-up world with a clock that is moved by hand. */
export async function createRig(given: Store, options: RigOptions = {}) {
  const draw: Sfc32 = createSfc32(options.seed ?? 1);
  const watch = createStoreWatch(given.dialect);
  const store = watch.of(given);
  const clock = createManualClock(undefined, watch.settle);
  const log = createMemoryLog();
  const world: World = createWorld(draw, options.finalityDepth, undefined, undefined, undefined, options.slotMs);
  // With numbers of its own, so that lives without it stay what they were.
  const other: World = createWorld(
    createSfc32((options.seed ?? 1) ^ 0x77),
    options.finalityDepth,
    'other ',
    options.otherFirstSlot,
  );
  const upstreams = options.upstreams ?? [honest('upstream-0'), honest('upstream-1')];
  const random: Random = { float: draw.float, bytes: (count) => new Uint8Array(count), uuid: () => 'none' };
  let core = followConfig({ startSlot: FIRST_SLOT, auditIntervalMs: 1_000, ...options.follow });
  core.upstream.quorum.agree = options.agree ?? 0;
  const fatals: unknown[] = [];
  const stream = options.hasStream === true ? { stream: createFakeStream(world, draw, clock) } : {};
  let processors = options.processors ?? [createLedgerProcessor()];
  let running: { readonly follower: Follower; readonly pool: UpstreamPool } | null = null;
  let registry = createMetricsRegistry();
  await migrate(store, [
    { scope: 'kernel.follower', migrations: followerMigrations },
    { scope: 'test.ledger', migrations: ledgerMigrations },
    ...deliveryScopes,
  ]);

  async function start(
    with_: { processors?: readonly BlockProcessor[]; store?: Store; follow?: Partial<CoreConfig['follow']> } = {},
  ): Promise<Follower> {
    processors = with_.processors ?? processors;
    core = { ...core, follow: { ...core.follow, ...with_.follow } };
    registry = createMetricsRegistry();
    const pool = createUpstreamPool({
      label: 'main',
      core,
      clock,
      log,
      metrics: registry.scope('upstream'),
      upstreams: upstreams.map(({ label }) => ({ url: `http://${label}.invalid` })),
      makeTransport: ({ label }) => createFakeTransport(world, upstreams[Number(label.split('-')[1])]!, draw, clock),
    });
    pool.bind(world.genesisHash);
    const follower = createFollower({
      // Never started: hints are sockets, which the simulation has none of.
      source: createRpcChainSource({ chain: 'main', pool, core, clock, random, log, ...stream }),
      chain: 'main',
      processors,
      core,
      clock,
      random,
      log,
      store: with_.store ?? store,
      metrics: registry.scope('follow'),
      isOnDemand: options.isOnDemand ?? false,
      fatal: (error) => void fatals.push(error),
    });
    // Not waited for: its first round needs the clock.
    void pool.start();
    await follower.start();
    running = { follower, pool };
    return follower;
  }

  async function stop(): Promise<void> {
    await running?.follower.stop();
    await running?.pool.stop();
    running = null;
  }

  /** What a replay of the canonical chain into an empty store would give. */
  function truth(fromSlot = FIRST_SLOT): LedgerView {
    const blocks = world.chain.filter(({ slot }) => slot >= fromSlot);
    const entries = blocks.flatMap(({ slot, signatures, unread }) =>
      [...signatures, ...unread].sort().map((each) => `${slot}:${each}`),
    );
    return { entries, count: entries.length, lastSlot: blocks.at(-1)?.slot ?? -1 };
  }

  async function isSettled(owner?: string): Promise<boolean> {
    return JSON.stringify(await readLedger(store, owner)) === JSON.stringify(truth());
  }

  return {
    /** The given one, whose statements the clock waits for: what stands before it in a test goes around this. */
    store,
    world,
    other,
    upstreams,
    clock,
    random,
    log,
    fatals,
    draw,
    start,
    truth,
    isSettled,
    metrics: () => registry.text(),
    ledger: (owner?: string) => readLedger(store, owner),
    get follower() {
      if (running === null) throw new Error('not started');
      return running.follower;
    },
    /** What the follower of now thinks of its upstreams. */
    upstreamStates: () => running?.pool.states() ?? [],
    /** Stops and begins anew, as a new process would. */
    async restart(with_: Parameters<typeof start>[0] = {}) {
      await stop();
      return await start(with_);
    },
    /** Lets time pass until the store holds the truth, at most `maxMs`. */
    async settle(maxMs = 300_000, owner?: string): Promise<void> {
      for (let passed = 0; passed < maxMs && !(await isSettled(owner)); passed += 500) await clock.advance(500);
    },
    stop,
  };
}
