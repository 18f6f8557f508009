import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createAccountSource } from '../../../plugins/token-metadata/records.ts';
import { createChainHistory } from '../../../plugins/wallet/tracking/chain-history.ts';
import { createCallQueue } from '../../../src/adapters/chain/rpc/transport.ts';
import { createBudgets } from '../../../src/budgets.ts';
import { assignTenant, OWN_WORK } from '../../../src/ports/access.ts';
import type { ChainReader } from '../../../src/ports/chain.ts';
import { createSemaphore } from '../../../src/runtime/semaphore.ts';
import { createManualClock } from '../../helpers/manual-clock.ts';

/** A queue that all tenants share, as seen by somebody who waits in it. */
interface SharedQueue {
  /** Asks for a piece of work; `started` when its turn comes. Throws or calls `refused` when there is no place. */
  enter(tenant: string, started: () => void, refused: () => void): void;
  /** Ends the oldest piece of work in flight. */
  finish(): void;
  /** Pieces of work at once. */
  readonly places: number;
}

const ledger = createBudgets();
const tenantOf = (projectId: string) => ledger.tenantOf({ projectId, keyId: projectId, plan: 'p', wallet: null }, '');

function createPermits(): { readonly add: (end: () => void) => void; readonly finish: () => void } {
  const open: (() => void)[] = [];
  return { add: (end) => void open.push(end), finish: () => open.shift()?.() };
}

function callQueue(): SharedQueue {
  const queue = createCallQueue(8);
  const { add, finish } = createPermits();
  const { signal } = new AbortController();
  return {
    enter(name, started, refused) {
      const tenant = tenantOf(name);
      const begin = () => {
        started();
        add(() => queue.leave(tenant));
      };
      try {
        const turn = queue.enter(tenant, { signal });
        if (turn === null) begin();
        else void turn.then(begin);
      } catch {
        refused();
      }
    },
    finish,
    places: 8,
  };
}

function semaphore(): SharedQueue {
  const places = createSemaphore({ concurrency: 8, perGroup: 6, maxWaiting: 200 });
  const { add, finish } = createPermits();
  return {
    enter(group, started, refused) {
      const permit = places.acquire({ group });
      if (permit === null) refused();
      void permit?.then((release) => {
        started();
        add(release);
      });
    },
    finish,
    places: 8,
  };
}

/** Up to 100 accounts are read by one call. */
function accounts(): SharedQueue {
  const clock = createManualClock();
  const { add, finish } = createPermits();
  const startedBy = new Map<string, () => void>();
  let count = 0;
  const source = createAccountSource({
    read: (keys) =>
      new Promise((resolve) => {
        for (const key of keys) startedBy.get(key)?.();
        add(() => resolve({ slot: 1, accounts: keys.map(() => null) }));
      }),
    clock,
    ttlMs: 1_000,
    concurrency: 2,
    maxWaiting: 1_000,
    cacheBytes: 1_000,
    config: { upstreamTimeoutMs: 600_000 },
  });
  return {
    enter(group, started, refused) {
      count += 1;
      const key = `${group} ${count}`;
      startedBy.set(key, started);
      void source.load([key], { group }).then((loaded) => {
        if (loaded.get(key)?.ok === false) refused();
      });
    },
    finish,
    places: 200,
  };
}

const settle = () => new Promise((resolve) => setImmediate(resolve));
/** More than any of the queues takes. */
const FLOOD = 1_300;

for (const [name, create] of Object.entries({
  'calls of an upstream': callQueue,
  semaphore,
  'accounts of tokens': accounts,
}))
  test(`${name}: whoever floods the queue delays others by no more turns than there are places`, async () => {
    const queue = create();
    let turns = 0;
    let refusals = 0;
    const flood = (count: number) => {
      for (let at = 0; at < count; at += 1)
        queue.enter(
          'flood',
          () => {
            turns += 1;
          },
          () => {
            refusals += 1;
          },
        );
    };
    flood(FLOOD);
    await settle();
    assert.ok(refusals > 0, 'the queue is full');
    for (let call = 0; call < 20; call += 1) {
      const before = turns;
      let delay = -1;
      queue.enter(
        'neighbour',
        () => {
          delay = turns - before;
        },
        () => assert.fail('the neighbour is refused'),
      );
      await settle();
      for (let at = 0; delay < 0 && at < queue.places; at += 1) {
        queue.finish();
        await settle();
      }
      assert.ok(delay >= 0 && delay <= queue.places, `call ${call} started after ${delay} turns of the other one`);
      // Who floods never stops.
      flood(queue.places + 1);
      await settle();
    }
  });

test('histories of wallets: a project with many calls delays others by no more turns than there are places', async () => {
  const { add, finish } = createPermits();
  const started: string[] = [];
  const chain = {
    call: (_: string, [[address]]: readonly [readonly string[]]) =>
      new Promise((resolve) => {
        started.push(address!);
        add(() => resolve({ context: { slot: 1 }, value: [null] }));
      }),
    status: () => ({ finalizedSlot: null }),
  } as unknown as ChainReader;
  const history = createChainHistory(chain, { concurrency: 2, historyFloorSlot: 0 });
  const askFor = (project: string, address: string) => {
    const { signal } = new AbortController();
    assignTenant(signal, tenantOf(project));
    void history.account(address, { commitment: 'confirmed', signal });
  };
  for (let at = 0; at < 100; at += 1) askFor('flood', `flood ${at}`);
  askFor('neighbour', 'neighbour');
  await settle();
  for (let at = 0; at < 3; at += 1) {
    finish();
    await settle();
  }
  assert.ok(started.includes('neighbour'), started.join(', '));
});

test('work of the daemon itself is a tenant without limits and without a count', () => {
  const lease = OWN_WORK.take('answerBytes', 1e12);
  lease.set(2e12);
  lease.release();
  assert.equal(OWN_WORK.limit('upstreamCalls'), null);
  assert.equal(ledger.held().has(OWN_WORK.id), false);
});
