import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import type { Budgets } from '../../../src/ports/access.ts';
import type { ChainBlock } from '../../../src/ports/block.ts';
import type { Store } from '../../../src/ports/store.ts';
import { createManualClock } from '../../helpers/manual-clock.ts';
import { eachStore } from '../../helpers/store.ts';
import { addressOf, makeBlock, signatureOf, type TransactionPlan } from './blocks.ts';
import { type Harness, startHarness } from './harness.ts';

const URL = 'http://127.0.0.1:9/';

async function createHook(harness: Harness, patch: object): Promise<string> {
  const body = { webhookURL: URL, webhookType: 'raw', ...patch };
  const reply = await harness.call('POST', '/v0/webhooks', body);
  assert.equal(reply.status, 200, JSON.stringify(reply.body));
  return reply.body.webhookID;
}

interface Row {
  readonly id: number;
  readonly grp: string;
  readonly key: string;
  readonly state: string;
  readonly slot: number;
  readonly payload: string;
}

async function rows(store: Store): Promise<readonly Row[]> {
  return (await store.read.selectFrom('outbox').selectAll().orderBy('id').execute()) as Row[];
}

/** What waits, as `webhook:transaction@slot`. */
async function waiting(store: Store): Promise<string[]> {
  const found = (await rows(store)).filter(({ state }) => state === 'pending');
  return found.map((row) => `${row.grp}:${JSON.parse(row.payload).signature}@${row.slot}`).sort();
}

eachStore('webhook outbox', (engine) => {
  const start = async (t: TestContext, webhooks: object = {}) =>
    startHarness(t, { store: await engine.store(t), deliver: false, webhooks });

  test('static, loaded and owner keys match; owners can be switched off; failed ones come too', async (t) => {
    const harness = await start(t);
    const plain = await createHook(harness, { accountAddresses: [1, 2, 3].map(addressOf) });
    const keysOnly = await createHook(harness, { accountAddresses: [1, 2, 3].map(addressOf), matchTokenOwners: false });
    const good = await createHook(harness, { accountAddresses: [addressOf(1)], txnStatus: 'success' });
    const bad = await createHook(harness, { accountAddresses: [addressOf(1)], txnStatus: 'failed' });
    await harness.apply(
      makeBlock({
        slot: 10,
        transactions: [
          { name: 'static', keys: [1] },
          { name: 'loaded', loaded: [2] },
          { name: 'owner', owners: [3] },
          { name: 'both', keys: [2], owners: [3, 1] },
          { name: 'failed', keys: [1], failed: true },
          { name: 'none', keys: [77], loaded: [78], owners: [79] },
        ],
      }),
    );
    const of = async (id: string) =>
      (await rows(harness.store)).filter(({ grp }) => grp === id).map(({ payload }) => JSON.parse(payload).signature);
    assert.deepEqual(await of(plain), ['static', 'loaded', 'owner', 'both', 'failed'].map(signatureOf));
    assert.deepEqual(await of(keysOnly), ['static', 'loaded', 'both', 'failed'].map(signatureOf));
    assert.deepEqual(await of(good), ['static', 'both'].map(signatureOf));
    assert.deepEqual(await of(bad), ['failed'].map(signatureOf));
    // The element is stored once for all webhooks.
    assert.equal((await harness.store.read.selectFrom('webhook_elements').selectAll().execute()).length, 5);
  });

  test('a transaction that lands again is delivered once when it was tried, and from its new block when not', async (t) => {
    const harness = await start(t);
    const tried = await createHook(harness, { accountAddresses: [addressOf(1)] });
    const untried = await createHook(harness, { accountAddresses: [addressOf(1)] });
    const old = makeBlock({ slot: 10, fork: 'a', transactions: [{ name: 'x', keys: [1] }] });
    await harness.apply(old);
    await harness.store.write(async (tx) => {
      const patch = { state: 'done', claims: 1, attempts: 1, finished_at: 1 };
      await tx.db.updateTable('outbox').set(patch).where('grp', '=', tried).execute();
    });
    await harness.revert(old);
    assert.deepEqual(await waiting(harness.store), []);
    await harness.apply(makeBlock({ slot: 12, fork: 'b', transactions: [{ name: 'x', keys: [1] }] }));
    assert.deepEqual(await waiting(harness.store), [`${untried}:${signatureOf('x')}@12`]);
    const mine = (await rows(harness.store)).filter(({ grp }) => grp === tried);
    assert.deepEqual(
      mine.map(({ state, slot }) => [state, slot]),
      [['done', 12]],
    );
    // Each delivery shows the element of the block it was made from.
    for (const [id, slot] of [
      [tried, 10],
      [untried, 12],
    ] as const) {
      const list = (await harness.call('GET', `/v0/webhooks/${id}/deliveries`)).body.data;
      const one = await harness.call('GET', `/v0/webhooks/${id}/deliveries/${list[0].deliveryId}`);
      assert.deepEqual(
        one.body.body.map((element: { slot: number }) => element.slot),
        [slot],
      );
    }
    // The same block again changes nothing.
    await harness.apply(makeBlock({ slot: 12, fork: 'b', transactions: [{ name: 'x', keys: [1] }] }));
    assert.equal((await waiting(harness.store)).length, 1);
  });

  test('100,000 addresses match, each of them', async (t) => {
    const harness = await start(t);
    const id = await createHook(harness, {
      accountAddresses: Array.from({ length: 100_000 }, (_, at) => addressOf(at)),
    });
    const keys = [0, 1, 65_535, 65_536, 99_999, 100_000];
    const transactions = keys.map((key): TransactionPlan => ({ name: `t${key}`, keys: [key] }));
    await harness.apply(makeBlock({ slot: 10, transactions }));
    assert.equal((await waiting(harness.store)).length, 5);
    await harness.call('DELETE', `/v0/webhooks/${id}`);
    await harness.apply(
      makeBlock({ slot: 11, transactions: transactions.map((one) => ({ ...one, name: `${one.name}b` })) }),
    );
    assert.deepEqual(await waiting(harness.store), []);
  });

  test('a webhook takes no more than its bound; the others go on', async (t) => {
    const harness = await start(t, { outbox: { maxRows: 1_000, maxPerWebhook: 5 } });
    const one = await createHook(harness, { accountAddresses: [addressOf(1)] });
    const two = await createHook(harness, { accountAddresses: [addressOf(2)] });
    const block = (slot: number, count: number, key: number) =>
      makeBlock({
        slot,
        transactions: Array.from({ length: count }, (_, at) => ({ name: `${slot}/${at}`, keys: [key] })),
      });
    for (let slot = 1; slot <= 8; slot += 1) await harness.apply(block(slot, 2, 1));
    await harness.apply(block(9, 2, 2));
    const counts = new Map<string, number>();
    for (const { grp, state } of await rows(harness.store))
      counts.set(`${grp} ${state}`, (counts.get(`${grp} ${state}`) ?? 0) + 1);
    assert.deepEqual(Object.fromEntries(counts), { [`${one} pending`]: 4, [`${two} pending`]: 2 });
    // Nothing of the others is stored but how many they were, and where they can be read again.
    assert.equal((await harness.store.read.selectFrom('webhook_elements').selectAll().execute()).length, 6);
    const missedOf = async (id: string) =>
      (await harness.call('GET', `/v0/webhooks/${id}/deliveries`)).body.missed.map(
        ({ since, ...range }: { since: string }) => range,
      );
    const range = { network: 'main', fromSlot: 3, toSlot: 8, events: 12, reason: 'queue_full' };
    assert.deepEqual([await missedOf(one), await missedOf(two)], [[range], []]);
  });

  test('a project stores no more than its plan allows, of which kind ever', async (t) => {
    const budgets = { storedEvents: 10, storedEventBytes: null };
    const options = { store: await engine.store(t), deliver: false, clock: createManualClock() };
    const plans = { budgets: async (_: unknown, id: string) => (id === 'p' ? (budgets as unknown as Budgets) : null) };
    const harness = await startHarness(t, { ...options, plans });
    const stranger = await startHarness(t, { ...options, plans, projectId: 'q' });
    const ids = [
      await createHook(harness, { accountAddresses: [addressOf(1)] }),
      await createHook(harness, { accountAddresses: [addressOf(1)] }),
    ];
    const other = await createHook(stranger, { accountAddresses: [addressOf(1)] });
    const state = async (changed: string) =>
      await options.store.write(async (tx) => {
        const patch = { state: changed, finished_at: 1 };
        await tx.db.updateTable('outbox').set(patch).where('state', '=', 'pending').execute();
      });
    for (let slot = 1; slot <= 3; slot += 1) {
      await harness.apply(makeBlock({ slot, transactions: [{ name: `${slot}`, keys: [1] }] }));
      // Also what failed stays stored.
      await state('failed');
    }
    for (let slot = 4; slot <= 9; slot += 1)
      await harness.apply(makeBlock({ slot, transactions: [{ name: `${slot}`, keys: [1] }] }));
    const all = await rows(options.store);
    assert.equal(all.filter(({ grp }) => ids.includes(grp)).length, 10);
    assert.equal(all.filter(({ grp }) => grp === other).length, 9);
    const { body } = await harness.call('GET', `/v0/webhooks/${ids[0]}/deliveries`);
    const [{ since, ...missed }] = body.missed;
    assert.deepEqual(missed, { network: 'main', fromSlot: 6, toSlot: 9, events: 4, reason: 'plan_full' });
    assert.ok(Date.parse(since) >= 0);
    // What was delivered makes room again.
    await state('done');
    await options.clock.advance(20_000);
    await harness.apply(makeBlock({ slot: 10, transactions: [{ name: '10', keys: [1] }] }));
    assert.equal((await rows(options.store)).filter(({ grp }) => grp === ids[0]).length, 6);
  });

  test('the bytes of a project are bounded too, and a replay fetches what had no room', async (t) => {
    const budgets = { storedEvents: null, storedEventBytes: 1, replays: 1 };
    const options = { store: await engine.store(t), deliver: false, clock: createManualClock() };
    const plans = { budgets: async () => budgets as unknown as Budgets };
    const harness = await startHarness(t, { ...options, plans });
    const id = await createHook(harness, { accountAddresses: [addressOf(1)] });
    const second = await createHook(harness, { accountAddresses: [addressOf(2)] });
    const blocks = [5, 6, 2_000].map((slot) => makeBlock({ slot, transactions: [{ name: `${slot}`, keys: [1] }] }));
    for (const block of blocks) await harness.apply(block);
    assert.deepEqual(await rows(options.store), []);
    const missed = async () =>
      (await harness.call('GET', `/v0/webhooks/${id}/deliveries`)).body.missed.map(
        ({ fromSlot, toSlot, events }: { fromSlot: number; toSlot: number; events: number }) => [
          fromSlot,
          toSlot,
          events,
        ],
      );
    assert.deepEqual(await missed(), [
      [2_000, 2_000, 1],
      [5, 6, 2],
    ]);
    budgets.storedEventBytes = 1_000_000;
    await options.clock.advance(20_000);
    const replay = (hook: string) => harness.call('POST', `/v0/webhooks/${hook}/replay`, { fromSlot: 5, toSlot: 6 });
    assert.equal((await replay(id)).status, 202);
    const refused = await replay(second);
    assert.deepEqual([refused.status, refused.body.error], [429, 'at most 1 replays of a project run at once']);
    for (const block of blocks.slice(0, 2)) await harness.replay(block);
    assert.equal((await waiting(options.store)).length, 2);
    // The range is forgotten when all of its blocks were read, and not before.
    await harness.start();
    await options.clock.advance(61_000);
    assert.equal((await missed()).length, 2);
    await options.store.write(async (tx) => {
      await tx.db.updateTable('follow_gaps').set({ status: 'filled' }).execute();
    });
    for (let tries = 0; (await missed()).length > 1 && tries < 100; tries += 1) {
      await options.clock.advance(61_000);
      await sleep(20);
    }
    assert.deepEqual(await missed(), [[2_000, 2_000, 1]]);
    assert.equal((await replay(second)).status, 202);
  });

  test('at its global bound the outbox holds the block loop back', async (t) => {
    const harness = await start(t, { outbox: { maxRows: 3, maxPerWebhook: 100 } });
    await createHook(harness, { accountAddresses: [addressOf(1)] });
    assert.deepEqual(harness.processor.pressure?.(), { ok: true });
    const transactions = Array.from({ length: 3 }, (_, at) => ({ name: `${at}`, keys: [1] }));
    await harness.apply(makeBlock({ slot: 1, transactions }));
    const pressure = harness.processor.pressure?.();
    assert.equal(pressure?.ok, false);
  });

  test('a second process sees changes of the first at its next block', async (t) => {
    const database = await engine.database(t);
    const [first, second] = [await database.open(), await database.open()];
    const api = await startHarness(t, { store: first, deliver: false });
    const indexer = await startHarness(t, { store: second, deliver: false });
    await indexer.apply(makeBlock({ slot: 1, transactions: [{ name: 'early', keys: [1] }] }));
    const id = await createHook(api, { accountAddresses: [addressOf(1)] });
    await indexer.apply(makeBlock({ slot: 2, transactions: [{ name: 'a', keys: [1] }] }));
    await api.call('POST', `/v0/webhooks/${id}/addresses`, { accountAddresses: [addressOf(2)] });
    await indexer.apply(makeBlock({ slot: 3, transactions: [{ name: 'b', keys: [2] }] }));
    await api.call('DELETE', `/v0/webhooks/${id}/addresses`, { accountAddresses: [addressOf(1)] });
    await indexer.apply(makeBlock({ slot: 4, transactions: [{ name: 'c', keys: [1] }] }));
    await api.call('PATCH', `/v0/webhooks/${id}`, { active: false });
    await indexer.apply(makeBlock({ slot: 5, transactions: [{ name: 'd', keys: [2] }] }));
    await api.call('PATCH', `/v0/webhooks/${id}`, { active: true });
    // When the log of changes is gone, everything is reloaded.
    await first.write(async (tx) => {
      await tx.db.deleteFrom('webhook_changes').execute();
    });
    await indexer.apply(makeBlock({ slot: 6, transactions: [{ name: 'e', keys: [2] }] }));
    const names = new Map(['early', 'a', 'b', 'c', 'd', 'e'].map((name) => [signatureOf(name), name]));
    const seen = (await rows(first)).map(({ payload }) => names.get(JSON.parse(payload).signature));
    assert.deepEqual(seen, ['a', 'b', 'e']);
  });

  test('any sequence of blocks, forks and edits leaves what the model says', async (t) => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
        const harness = await start(t);
        await runModel(harness, steps);
      }),
      { numRuns: engine.dialect === 'sqlite' ? 40 : 8 },
    );
  });
});

type Step =
  | { readonly kind: 'create'; readonly keys: readonly number[]; readonly owners: boolean }
  | { readonly kind: 'put' | 'add' | 'remove'; readonly hook: number; readonly keys: readonly number[] }
  | { readonly kind: 'toggle'; readonly hook: number; readonly active: boolean }
  | { readonly kind: 'delete'; readonly hook: number }
  | { readonly kind: 'block'; readonly transactions: readonly TransactionPlan[] }
  | { readonly kind: 'fork'; readonly depth: number }
  | { readonly kind: 'try'; readonly hook: number };

const keys = fc.uniqueArray(fc.integer({ min: 1, max: 6 }), { maxLength: 4 });
const hook = fc.nat({ max: 3 });
const transaction = fc.record({
  name: fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'),
  keys: keys,
  loaded: fc.uniqueArray(fc.integer({ min: 1, max: 6 }), { maxLength: 2 }),
  owners: fc.uniqueArray(fc.integer({ min: 1, max: 6 }), { maxLength: 2 }),
});
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ kind: fc.constant('create' as const), keys, owners: fc.boolean() }),
  fc.record({ kind: fc.constantFrom('put' as const, 'add' as const, 'remove' as const), hook, keys }),
  fc.record({ kind: fc.constant('toggle' as const), hook, active: fc.boolean() }),
  fc.record({ kind: fc.constant('delete' as const), hook }),
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant('block' as const),
      transactions: fc.uniqueArray(transaction, { maxLength: 4, selector: ({ name }) => name }),
    }),
  },
  fc.record({ kind: fc.constant('fork' as const), depth: fc.integer({ min: 1, max: 4 }) }),
  fc.record({ kind: fc.constant('try' as const), hook }),
);

interface ModelHook {
  readonly id: string;
  keys: Set<number>;
  readonly owners: boolean;
  active: boolean;
}

/** The same steps on the real thing and on plain maps. */
async function runModel(harness: Harness, steps: readonly Step[]): Promise<void> {
  const hooks: ModelHook[] = [];
  /** `webhook:transaction` -> what is known of its one delivery. */
  const model = new Map<string, { slot: number; tried: boolean; over: boolean }>();
  const chain: { block: ChainBlock; plan: readonly TransactionPlan[] }[] = [];
  let slot = 0;
  const at = (number: number) => hooks[number % Math.max(1, hooks.length)];
  const path = (one: ModelHook) => `/v0/webhooks/${one.id}`;
  const drop = (one: ModelHook) => {
    for (const [key, delivery] of model) {
      if (key.startsWith(one.id) && !delivery.tried) delivery.over = true;
    }
  };
  for (const now of steps) {
    const one = 'hook' in now ? at(now.hook) : undefined;
    if (now.kind === 'create' && hooks.length < 4) {
      const id = await createHook(harness, { accountAddresses: now.keys.map(addressOf), matchTokenOwners: now.owners });
      hooks.push({ id, keys: new Set(now.keys), owners: now.owners, active: true });
    } else if (now.kind === 'put' && one !== undefined) {
      await harness.call('PUT', path(one), { accountAddresses: now.keys.map(addressOf) });
      one.keys = new Set(now.keys);
    } else if (now.kind === 'add' && one !== undefined) {
      await harness.call('POST', `${path(one)}/addresses`, { accountAddresses: now.keys.map(addressOf) });
      for (const key of now.keys) one.keys.add(key);
    } else if (now.kind === 'remove' && one !== undefined) {
      await harness.call('DELETE', `${path(one)}/addresses`, { accountAddresses: now.keys.map(addressOf) });
      for (const key of now.keys) one.keys.delete(key);
    } else if (now.kind === 'toggle' && one !== undefined) {
      await harness.call('PATCH', path(one), { active: now.active });
      if (one.active && !now.active) drop(one);
      one.active = now.active;
    } else if (now.kind === 'delete' && one !== undefined) {
      await harness.call('DELETE', path(one));
      drop(one);
      hooks.splice(hooks.indexOf(one), 1);
    } else if (now.kind === 'try' && one !== undefined) {
      await harness.store.write(async (tx) => {
        const patch = { state: 'done', claims: 1, finished_at: 1 };
        await tx.db.updateTable('outbox').set(patch).where('grp', '=', one.id).where('state', '=', 'pending').execute();
      });
      for (const [key, delivery] of model) if (key.startsWith(one.id) && !delivery.over) delivery.tried = true;
    } else if (now.kind === 'block') {
      slot += 1;
      const block = makeBlock({ slot, fork: String(slot), transactions: now.transactions });
      await harness.apply(block);
      chain.push({ block, plan: now.transactions });
      for (const plan of now.transactions) {
        for (const candidate of hooks) {
          if (!candidate.active || !matches(candidate, plan)) continue;
          const key = `${candidate.id}:${signatureOf(plan.name)}`;
          const known = model.get(key);
          if (known === undefined) model.set(key, { slot, tried: false, over: false });
          else known.slot = slot;
        }
      }
    } else if (now.kind === 'fork') {
      const gone = chain.splice(Math.max(0, chain.length - now.depth)).reverse();
      await harness.revert(...gone.map(({ block }) => block));
      const slots = new Set(gone.map(({ block }) => block.slot));
      for (const [key, delivery] of model) {
        if (!delivery.tried && !delivery.over && slots.has(delivery.slot)) model.delete(key);
      }
    }
    await compare(harness, model);
  }
}

const matches = ({ keys: own, owners }: ModelHook, plan: TransactionPlan): boolean =>
  [...(plan.keys ?? []), ...(plan.loaded ?? []), ...(owners ? (plan.owners ?? []) : [])].some((key) => own.has(key));

async function compare(
  { store }: Harness,
  model: ReadonlyMap<string, { slot: number; tried: boolean; over: boolean }>,
): Promise<void> {
  const expected = [...model].map(
    ([key, { slot, tried, over }]) => `${key}@${slot} ${over ? 'over' : tried ? 'tried' : 'waits'}`,
  );
  const all = await rows(store);
  // Rows of rolled back blocks stay as a record under a key that is free again.
  const own = all.filter(({ grp, key, payload }) => key === `${grp}:${JSON.parse(payload).signature}`);
  const words: Record<string, string> = { pending: 'waits', done: 'tried', discarded: 'over' };
  assert.deepEqual(own.map(({ key, slot, state }) => `${key}@${slot} ${words[state]}`).sort(), expected.sort());
  // Every delivery that can still go out has its element.
  const blobs = await store.read.selectFrom('webhook_elements').select(['signature', 'slot', 'refs']).execute();
  const kept = new Set(blobs.map(({ signature, slot }) => `${signature}@${slot}`));
  for (const { payload } of own) {
    const { signature, slot } = JSON.parse(payload) as { signature: string; slot: number };
    assert.ok(kept.has(`${signature}@${slot}`));
  }
  const refs = blobs.reduce((sum, blob) => sum + Number(blob.refs), 0);
  assert.equal(refs, all.length);
}
