import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hashApiKey } from '../../../plugins/access/keys.ts';
import { createAdmin, createCharges } from '../../../plugins/access/services.ts';
import { migrations, tables } from '../../../plugins/access/tables.ts';
import type { Admission } from '../../../src/plugin/host.ts';
import { GateRefusal } from '../../../src/plugin/plugin.ts';
import type { Caller } from '../../../src/ports/access.ts';
import type { Queries } from '../../../src/ports/store.ts';
import { migrate } from '../../../src/store/migrate.ts';
import { accessBed, pricedItem, startAccess } from '../../helpers/access-harness.ts';
import { createManualClock } from '../../helpers/manual-clock.ts';
import { eachStore } from '../../helpers/store.ts';
import { createStoreWatch } from '../../helpers/store-watch.ts';
import { until } from '../../helpers/until.ts';

const reasonOf = async (work: () => unknown): Promise<string> => {
  try {
    await work();
    return 'admitted';
  } catch (error) {
    if (!(error instanceof GateRefusal)) throw error;
    return error.reason;
  }
};

const NEAR = { cidrs: ['10.0.0.0/8'], ratePerSecondPerIp: 100 };
/** The default of `access.keyCacheMs`. */
const KEY_CACHE_MS = 500;

eachStore('keys', (engine) => {
  test('keys and projects of the first tables go on as they were', async (t) => {
    const store = await engine.store(t);
    await migrate(store, [{ scope: 'access', migrations: migrations.slice(0, 1) }]);
    const clock = createManualClock(Date.parse('2026-03-31T10:00:00Z'));
    await store.write(async (tx) => {
      const db = tx.db as Queries;
      const project = { id: 'a-project', name: 'old', plan: 'business', wallet: null, created_at: clock.now() };
      await db.insertInto('projects').values(project).execute();
      const key = { id: 'k', project_id: 'a-project', hash: hashApiKey('old-key'), prefix: 'o', name: '' };
      await db
        .insertInto('api_keys')
        .values({ ...key, created_at: clock.now(), expires_at: null, revoked_at: null })
        .execute();
    });
    await migrate(store, [{ scope: 'access', migrations }]);
    const process = startAccess(store, clock);
    const caller = await process.ask({ header: 'old-key' });
    const { budgets, ...rest } = caller;
    assert.deepEqual(rest, { projectId: 'a-project', keyId: 'k', plan: 'business', wallet: null });
    assert.equal(budgets?.sockets, 1_000);
    const admission = await process.gate.admit(caller, [pricedItem('getSlot')]);
    admission.charge([{ charged: true, bytesOut: 1 }]);
    await process.meter.stop();
    const [row] = await tables(store.read).selectFrom('usage_cycles').selectAll().execute();
    assert.deepEqual([row!.project_id, row!.cycle_start, row!.regular], ['a-project', '2026-03-31', 1]);
    const [project] = await tables(store.read).selectFrom('projects').selectAll().execute();
    assert.deepEqual([project!.admin_api, project!.prepaid_granted, project!.overrides], [1, 0, null]);
  });

  test('a caller that stays connected loses its key like everybody else', async (t) => {
    const bed = await accessBed(await engine.store(t), { plan: 'unlimited' });
    const { key, id } = await bed.addKey();
    const ending = await bed.addKey({ expiresAt: bed.clock.now() + 10_000 });
    const caller = await bed.ask({ header: key });
    const short = await bed.ask({ header: ending.key });
    const admit = (who: typeof caller) => bed.gate.admit(who, [pricedItem('slotSubscribe')]);
    await bed.clock.advance(9_000);
    assert.equal(await reasonOf(() => admit(caller)), 'admitted');
    assert.equal(await reasonOf(() => admit(short)), 'admitted');
    await bed.store.write((tx) => bed.keys.revoke(tx, id));
    await bed.clock.advance(2_000);
    assert.equal(await reasonOf(() => admit(caller)), 'bad-key');
    assert.equal(await reasonOf(() => admit(short)), 'bad-key');
  });

  test('a busy key is decided on without a promise, for ever; a revoked one ends in time all the same', async (t) => {
    const watch = createStoreWatch(engine.dialect);
    const bed = await accessBed(watch.of(await engine.store(t)), { plan: 'unlimited' });
    const { key, id } = await bed.addKey();
    const credentials = { query: [key], header: undefined, bearer: undefined };
    await bed.gate.authenticate(credentials, '127.0.0.1');
    for (let n = 0; n < 20; n += 1) {
      const caller = bed.gate.authenticate(credentials, '127.0.0.1');
      assert.equal(caller instanceof Promise, false, `call ${n}`);
      const admission = bed.gate.admit(await caller, [pricedItem('getSlot')]);
      assert.equal(admission instanceof Promise, false, `call ${n}`);
      (admission as Admission).charge([{ charged: true, bytesOut: 1 }]);
      // The look-up beside the call.
      await watch.settle();
      await bed.clock.advance(200);
    }
    await bed.store.write((tx) => bed.keys.revoke(tx, id));
    await bed.clock.advance(501);
    assert.equal(await reasonOf(() => bed.gate.authenticate(credentials, '127.0.0.1')), 'bad-key');
  });

  test('calls without a key count to the configured project, from its networks, at a rate per address', async (t) => {
    const store = await engine.store(t);
    const bed = await accessBed(store, { plan: 'free' });
    const anonymous = { projectId: bed.project.id, cidrs: ['10.0.0.0/8', 'fd00::/8'], ratePerSecondPerIp: 2 };
    const open = startAccess(store, bed.clock, { anonymous });
    const call = async (address: string) => {
      const caller = await open.ask({}, address);
      assert.equal(caller.keyId, null);
      (await open.gate.admit(caller, [pricedItem('getAsset', { product: 'das', groups: ['das'] })])).charge([
        { charged: true, bytesOut: 1 },
      ]);
    };
    assert.equal(await reasonOf(() => open.ask({}, '192.0.2.1')), 'no-key');
    assert.equal(await reasonOf(() => bed.ask({}, '10.0.0.1')), 'no-key');
    await call('10.0.0.1');
    await call('10.0.0.1');
    assert.equal(await reasonOf(() => call('10.0.0.1')), 'rate');
    await call('10.0.0.2');
    await call('fd00::1');
    await call('fd00::2');
    assert.equal(await reasonOf(() => call('fd00::3')), 'rate', 'a /64 is one client');
    await call('fd00:0:0:1::3');
    const caller = await open.ask({}, '10.0.0.3');
    const usage = pricedItem('usage', { credits: 0, groups: ['admin'] });
    assert.equal(await reasonOf(() => open.gate.admit(caller, [usage])), 'no-key');
    await open.meter.flush();
    assert.equal((await bed.usage()).credits['das'], 6);
  });

  test('a disabled project: nobody is accepted for it, and its work waits until it is enabled', async (t) => {
    const store = await engine.store(t);
    const bed = await accessBed(store, { plan: 'free' });
    const { key } = await bed.addKey();
    const open = startAccess(store, bed.clock, { anonymous: { ...NEAR, projectId: bed.project.id } });
    const charges = createCharges({ ...open, clock: bed.clock });
    const stream = charges.stream(bed.project.id, { product: 'rpc', creditsPerByte: 0 });
    const work = { product: 'webhooks', credits: 1, count: 1 };
    const outcomes = async () => {
      await stream.refresh();
      return [
        await reasonOf(() => open.ask({ header: key })),
        await reasonOf(() => open.ask({}, '10.0.0.1')),
        await reasonOf(() => open.gate.callerOf?.(bed.project.id)),
        (await charges.reserve(bed.project.id, work)) === null,
        stream.affords(1),
        (await charges.left(bed.project.id)) > 0,
      ];
    };
    const free = ['admitted', 'admitted', 'admitted', false, true, true];
    assert.deepEqual(await outcomes(), free);
    for (const [isDisabled, expected] of [
      [true, ['bad-key', 'no-key', 'bad-key', true, false, false]],
      [false, free],
    ] as const) {
      await store.write((tx) => bed.projects.change(tx, bed.project.id, { isDisabled }));
      await bed.clock.advance(KEY_CACHE_MS + 1);
      assert.deepEqual(await outcomes(), expected);
    }
    await open.meter.stop();
  });

  test('an open connection without a key ends within a second of its project, or of its network on the list', async (t) => {
    const store = await engine.store(t);
    const bed = await accessBed(store, { plan: 'free' });
    const anonymous = { ...NEAR, projectId: bed.project.id };
    const open = startAccess(store, bed.clock, { anonymous });
    const ended: string[] = [];
    const watch = async (address: string) =>
      open.gate.watch?.(await open.ask({}, address), { remoteAddress: address, origin: undefined }, ({ reason }) =>
        ended.push(`${address} ${reason}`),
      );
    /** Looks are due every half a second; what they ask of a database takes time of its own. */
    const passUntil = async (isDone: () => boolean) => {
      for (let round = 0; round < 2_000 && !isDone(); round += 1) {
        await bed.clock.advance(100);
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
    };
    const first = await watch('10.0.0.1');
    await watch('10.0.0.2');
    const gone = await watch('10.0.0.3');
    await bed.clock.advance(1_000);
    assert.deepEqual(ended, []);
    gone?.end();
    await store.write((tx) => bed.projects.change(tx, bed.project.id, { isDisabled: true }));
    await passUntil(() => ended.length === 2);
    assert.deepEqual(ended.sort(), ['10.0.0.1 no-key', '10.0.0.2 no-key']);
    const call = pricedItem('getSlot');
    assert.equal(await reasonOf(() => open.gate.admit(first?.caller as Caller, [call])), 'bad-key');
    await store.write((tx) => bed.projects.change(tx, bed.project.id, { isDisabled: false }));
    await bed.clock.advance(KEY_CACHE_MS + 1);
    await watch('10.0.0.4');
    // As a reload does.
    (anonymous as { cidrs: string[] }).cidrs = ['192.0.2.0/24'];
    await passUntil(() => ended.length === 3);
    assert.equal(ended.at(-1), '10.0.0.4 no-key');
    await open.meter.stop();
  });

  test('guesses of keys are answered late; a valid key is answered at once, also from the same address', async (t) => {
    const bed = await accessBed(await engine.store(t), { config: { badKeysPerMinute: 60, keyCacheMs: 1_000 } });
    const known = (await bed.addKey()).key;
    const guesser = '2001:db8:1:2::7';
    await bed.ask({ header: known }, guesser);
    const guess = (n: number, from = guesser) => reasonOf(() => bed.ask({ header: `guess-${n}` }, from));
    for (let n = 0; n < 60; n += 1) assert.equal(await guess(n), 'bad-key');
    const outcomes: string[] = [];
    const guesses = Array.from({ length: 30 }, async (_, n) => outcomes.push(await guess(100 + n)));
    await until(() => outcomes.length >= 20);
    assert.deepEqual(new Set(outcomes), new Set(['rate']), 'no more than ten wait');
    assert.equal(await guess(200, '2001:db8:1:2:ffff::1'), 'rate', 'another address of the same network');
    await bed.ask({ header: known }, guesser);
    await bed.ask({ header: (await bed.addKey()).key }, guesser);
    await bed.ask({ header: (await bed.addKey()).key }, '2001:db8:1:3::1');
    assert.equal(outcomes.length, 20);
    await bed.clock.advance(20_000);
    await Promise.all(guesses);
    assert.deepEqual(
      outcomes.slice(20),
      Array.from({ length: 10 }, () => 'bad-key'),
    );
    // Long forgotten by the cache.
    await bed.ask({ header: known }, guesser);
  });

  test('an owner makes at most 1,000 keys a day, revoked ones too; valid ones count for ever', async (t) => {
    const bed = await accessBed(await engine.store(t));
    const admin = createAdmin({ ...bed, plans: () => bed.plans });
    const projectId = bed.project.id;
    const create = () => admin.createKey({ projectId, name: '', expiresAt: null });
    await bed.store.write(async (tx) => {
      for (let n = 0; n < 998; n += 1) await bed.keys.create(tx, { projectId });
    });
    const { id } = await create();
    await create();
    await admin.revokeKey(projectId, id);
    await assert.rejects(create(), { code: 'ACCESS_TOO_MANY_KEYS' });
    await bed.clock.advance(86_400_001);
    await create();
    await assert.rejects(create(), { code: 'ACCESS_TOO_MANY_KEYS' });
  });
});
