import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createRpcChainSource, createUpstreamPool } from '../../../src/adapters/chain/rpc/index.ts';
import { createSystemClock, createSystemRandom } from '../../../src/adapters/clock.ts';
import { createFollower } from '../../../src/chain/follower.ts';
import { followerMigrations } from '../../../src/chain/tables.ts';
import type { Store } from '../../../src/ports/store.ts';
import { createMetricsRegistry } from '../../../src/runtime/metrics.ts';
import { migrate } from '../../../src/store/migrate.ts';
import { chainMissing, startChain, type TestChain } from '../../helpers/chain.ts';
import { followConfig } from '../../helpers/follow-config.ts';
import {
  createLedgerProcessor,
  type LedgerView,
  ledgerMigrations,
  readLedger,
} from '../../helpers/ledger-processor.ts';
import { createMemoryLog } from '../../helpers/memory-log.ts';
import { byCase } from '../../helpers/run-part.ts';
import { sqliteStore } from '../../helpers/store.ts';

const missing = await chainMissing();
const skip = missing ?? false;
const ADDRESS = '11111111111111111111111111111112';

async function begin(t: TestContext) {
  const stops: (() => Promise<void>)[] = [];
  // Hooks run in the order of their making: this one comes before the one that closes the store.
  t.after(async () => {
    for (const stop of stops.reverse()) await stop();
  });
  const chain = await startChain();
  stops.push(() => chain.stop());
  const store = await sqliteStore(t);
  await migrate(store, [
    { scope: 'kernel.follower', migrations: followerMigrations },
    { scope: 'test.ledger', migrations: ledgerMigrations },
  ]);
  return { chain, store, stops };
}

async function follow({ chain, store, stops }: Awaited<ReturnType<typeof begin>>) {
  const clock = createSystemClock();
  const random = createSystemRandom();
  const log = createMemoryLog();
  const core = followConfig({ startSlot: 1_000, pollMs: 10, auditIntervalMs: 20 });
  const metrics = createMetricsRegistry().scope('follow');
  const pool = createUpstreamPool({ label: 'main', upstreams: [{ url: chain.rpcUrl }], core, clock, log, metrics });
  const source = createRpcChainSource({ chain: 'main', pool, core, clock, random, log });
  const fatal = (error: unknown) => assert.fail(`the follower gave up: ${String(error)}`);
  const processors = [createLedgerProcessor()];
  const follower = createFollower({
    chain: 'main',
    source,
    store,
    processors,
    core,
    clock,
    random,
    log,
    metrics,
    fatal,
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
  return { follower, log, stop };
}

/** What an empty store would hold after a replay of the chain as it is now. */
async function truth({ connection }: TestChain): Promise<LedgerView> {
  const tip = await connection.getSlot('confirmed');
  const slots = await connection.getBlocks(1_000, tip, 'confirmed');
  const entries: string[] = [];
  for (const slot of slots) {
    const block = await connection.getBlock(slot, { maxSupportedTransactionVersion: 0, commitment: 'confirmed' });
    const signatures = (block?.transactions ?? []).map(({ transaction }) => transaction.signatures[0] as string);
    entries.push(...signatures.sort().map((signature) => `${slot}:${signature}`));
  }
  return { entries, count: entries.length, lastSlot: slots.at(-1) ?? -1 };
}

async function settles(chain: TestChain, store: Store): Promise<void> {
  const expected = await truth(chain);
  let seen = await readLedger(store);
  for (let tries = 0; tries < 500 && JSON.stringify(seen) !== JSON.stringify(expected); tries += 1) {
    await sleep(20);
    seen = await readLedger(store);
  }
  assert.deepEqual(seen, expected);
}

async function blocks(chain: TestChain, count: number): Promise<void> {
  for (let made = 0; made < count; made += 1) await chain.fund(ADDRESS, 1_000_000 + made);
}

test('a straight chain, runs of skips, empty blocks', { skip }, async (t) => {
  const place = await begin(t);
  const { chain, store } = place;
  await follow(place);
  await blocks(chain, 5);
  await chain.seal(3);
  for (const run of [1, 5, 40, 250]) {
    await chain.skip(run);
    await blocks(chain, 1);
  }
  await settles(chain, store);
});

test('a node that refuses batches', { skip }, async (t) => {
  const place = await begin(t);
  place.chain.faults.set([{ action: 'noBatch' }]);
  await follow(place);
  await blocks(place.chain, 5);
  await settles(place.chain, place.store);
});

/** From the deepest one on. */
const FORKS = ([31, 5, 1] as const).flatMap((depth) =>
  (['reverse', 'all', 'none'] as const).map((replay) => [depth, replay] as const),
);

byCase(FORKS, (own) => {
  for (const [depth, replay] of own) {
    test(`a fork of ${depth} blocks, replay ${replay}`, { skip }, async (t) => {
      const place = await begin(t);
      const { chain, store } = place;
      const { follower } = await follow(place);
      await blocks(chain, 36);
      await settles(chain, store);
      const { dropped } = await chain.fork({ depth, replay, gap: 2, extraBlocks: 2 });
      assert.equal(dropped.length, depth);
      await settles(chain, store);
      await blocks(chain, 2);
      await settles(chain, store);
      assert.equal(follower.status().openGaps, 0);
      assert.equal(follower.status().stalled, null);
    });
  }
});

test('a fork that the node itself notices late', { skip }, async (t) => {
  const place = await begin(t);
  const { chain, store } = place;
  const { follower } = await follow(place);
  await blocks(chain, 12);
  await settles(chain, store);
  await chain.fork({ depth: 5, replay: 'reverse', extraBlocks: 2, servesOld: 12 });
  await blocks(chain, 4);
  for (let tries = 0; tries < 40; tries += 1) await chain.connection.getSlot('confirmed');
  await sleep(1_000);
  await blocks(chain, 2);
  await settles(chain, store);
  assert.equal(follower.status().stalled, null);
});

test('a fork while the follower is down', { skip }, async (t) => {
  const place = await begin(t);
  const { chain, store } = place;
  const first = await follow(place);
  await blocks(chain, 10);
  await settles(chain, store);
  await first.stop();
  await chain.fork({ depth: 4, replay: 'none', extraBlocks: 1 });
  await blocks(chain, 3);
  await follow(place);
  await settles(chain, store);
});

test('finalized blocks are marked, and their undo rows dropped', { skip }, async (t) => {
  const place = await begin(t);
  const { chain, store } = place;
  const { follower } = await follow(place);
  await blocks(chain, 40);
  await settles(chain, store);
  const finalized = await chain.connection.getSlot('finalized');
  for (let tries = 0; tries < 250 && (follower.status().finalizedSlot ?? 0) < finalized; tries += 1) await sleep(20);
  assert.equal(follower.status().finalizedSlot, finalized);
});

test('a node that calls a real block skipped: the follower is stalled, says so, and goes on when the block comes', {
  skip,
}, async (t) => {
  const place = await begin(t);
  const { chain, store } = place;
  const { follower } = await follow(place);
  await blocks(chain, 3);
  await settles(chain, store);
  const lost = (await chain.connection.getSlot('confirmed')) + 1;
  chain.faults.set([{ action: 'wrongSkip', match: { method: 'getBlock', slot: lost } }]);
  await blocks(chain, 6);
  const says = () => follower.status().stalled ?? '';
  for (let tries = 0; tries < 500 && !says().includes('exists'); tries += 1) await sleep(20);
  assert.match(says(), new RegExp(`slot ${lost} exists and no upstream has it`));
  assert.equal(follower.status().cursorSlot, lost - 1);
  chain.faults.clear();
  await settles(chain, store);
  assert.equal(follower.status().stalled, null);
});
