import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { tables } from '../../../plugins/access/tables.ts';
import { readRecentUse } from '../../../plugins/access/usage.ts';
import { CodedError } from '../../../src/lib/coded-error.ts';
import type { Admission } from '../../../src/plugin/host.ts';
import { type Caller, GateRefusal, type Price, type Product } from '../../../src/plugin/plugin.ts';
import type { Store } from '../../../src/ports/store.ts';
import { accessBed, pricedItem, startAccess } from '../../helpers/access-harness.ts';
import { createManualClock, type ManualClock } from '../../helpers/manual-clock.ts';
import { eachStore } from '../../helpers/store.ts';

const DAY_MS = 86_400_000;
const PRODUCTS: readonly Product[] = [
  'rpc',
  'archival',
  'das',
  'photon',
  'walletApi',
  'enhancedApi',
  'webhooks',
  'other',
];

/** What answered calls should come to: kept in millionths, apart from the code under test. */
function createLedger() {
  const micro = new Map<string, number>();
  const requests = new Map<string, number>();
  return {
    add(product: string, credits: number): void {
      micro.set(product, (micro.get(product) ?? 0) + Math.round(credits * 1e6));
      requests.set(product, (requests.get(product) ?? 0) + 1);
    },
    credits: (product: string) => Math.floor(((micro.get(product) ?? 0) + 500_000) / 1e6),
    requests: (product: string) => requests.get(product) ?? 0,
    total: () => Math.floor(([...micro.values()].reduce((a, b) => a + b, 0) + 500_000) / 1e6),
  };
}

/** The clock of a process that can be killed: its timers die with it. */
function createMortalClock(clock: ManualClock): ManualClock & { kill(): void } {
  let isDead = false;
  return {
    ...clock,
    get pending() {
      return clock.pending;
    },
    timeout: (ms, fn) => clock.timeout(ms, () => void (isDead || fn())),
    kill: () => {
      isDead = true;
    },
  };
}

type Bed = Awaited<ReturnType<typeof accessBed>>;
type Process = ReturnType<typeof startAccess>;

async function callerOf(process: Pick<Process, 'ask'>, key: string): Promise<Caller> {
  return await process.ask({ header: key });
}

async function admit(process: Pick<Process, 'gate'>, caller: Caller, ...prices: Partial<Price>[]): Promise<Admission> {
  return await process.gate.admit(
    caller,
    prices.map((price) => pricedItem('m', { groups: [], ...price })),
  );
}

async function call(process: Process | Bed, caller: Caller, price: Partial<Price>, charged = true): Promise<void> {
  (await admit(process, caller, price)).charge([{ charged, bytesOut: 10 }]);
}

const refused = (reason: string) => (error: unknown) => error instanceof GateRefusal && error.reason === reason;

async function assertUsage(bed: Bed, ledger: ReturnType<typeof createLedger>): Promise<void> {
  const record = await bed.usage();
  for (const product of PRODUCTS) {
    assert.equal((record.credits as Record<string, number>)[product], ledger.credits(product), product);
    assert.equal((record.requests as Record<string, number>)[product], ledger.requests(product), product);
  }
  assert.equal(record.creditsUsed, ledger.total());
}

eachStore('usage', (engine) => {
  test('whatever is called, restarted and killed, the sums are those of the answered calls; a kill loses one interval at most', async (t) => {
    const step = fc.record({
      what: fc.constantFrom(
        'call',
        'call',
        'call',
        'call',
        'call',
        'free',
        'uncharged',
        'wait',
        'stop',
        'kill',
        'flush',
      ),
      who: fc.nat(1),
      product: fc.constantFrom(...PRODUCTS),
      credits: fc.constantFrom(1, 10, 100, 0.5, 0.000001, 0.3, 2.25),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 10, maxLength: 60 }), async (steps) => {
        const database = await engine.database(t);
        const store = await database.open();
        const bed = await accessBed(store, { plan: 'unlimited' });
        const { key } = await bed.addKey();
        const ledger = createLedger();
        const start = () => {
          const mortal = createMortalClock(bed.clock);
          return { access: startAccess(store, mortal), kill: mortal.kill, unwritten: [] as [string, number][] };
        };
        const processes = [start(), start()];
        const written = (one: (typeof processes)[number]) => {
          for (const [product, credits] of one.unwritten.splice(0)) ledger.add(product, credits);
        };
        for (const { what, who, product, credits } of steps) {
          const one = processes[who]!;
          if (what === 'wait') {
            await bed.clock.advance(1_000);
            for (const { access } of processes) await access.meter.flush();
            processes.forEach(written);
          } else if (what === 'stop' || what === 'flush') {
            await (what === 'stop' ? one.access.meter.stop() : one.access.meter.flush());
            written(one);
            if (what === 'stop') processes[who] = start();
          } else if (what === 'kill') {
            // What was not written dies with the process.
            one.kill();
            processes[who] = start();
          } else {
            const caller = await callerOf(one.access, key);
            const price = { product, credits: what === 'free' ? 0 : credits };
            await call(one.access, caller, price, what !== 'uncharged');
            if (what !== 'uncharged') one.unwritten.push([product, price.credits]);
          }
        }
        for (const one of processes) {
          await one.access.meter.stop();
          written(one);
        }
        await assertUsage(bed, ledger);
        await database.destroy();
      }),
      { numRuns: engine.dialect === 'sqlite' ? 10 : 6, endOnFailure: true },
    );
  });

  test('two processes that write at once lose nothing of each other', async (t) => {
    const database = await engine.database(t);
    const bed = await accessBed(await database.open(), { plan: 'unlimited' });
    const { key } = await bed.addKey();
    const other = startAccess(await database.open(), bed.clock);
    const ledger = createLedger();
    for (let round = 0; round < 20; round += 1) {
      for (const process of [bed, other]) {
        const caller = await callerOf(process, key);
        for (let n = 0; n < 5; n += 1) {
          await call(process, caller, { product: PRODUCTS[n]!, credits: 10 });
          ledger.add(PRODUCTS[n]!, 10);
        }
      }
      await Promise.all([bed.meter.flush(), other.meter.flush()]);
    }
    await assertUsage(bed, ledger);
  });

  test('recent use is that of the last seven days (UTC), for all projects or for one', async (t) => {
    const store = await engine.store(t);
    const bed = await accessBed(store, { plan: 'unlimited' });
    const busy = bed.project.id;
    const [quiet, idle] = await store.write(async (tx) => [
      (await bed.projects.create(tx, { name: 'quiet', plan: 'unlimited' })).id,
      (await bed.projects.create(tx, { name: 'idle', plan: 'unlimited' })).id,
    ]);
    const dayOf = (daysAgo: number) => new Date(bed.clock.now() - daysAgo * DAY_MS).toISOString().slice(0, 10);
    const add = async (project: string, daysAgo: number, product: string, requests: number) => {
      const row = {
        project_id: project,
        day: dayOf(daysAgo),
        product,
        credits: 1,
        credits_micro: 0,
        requests,
        bytes: 0,
      };
      await store.write((tx) => tables(tx.db).insertInto('usage_days').values(row).execute());
    };
    await add(busy, 0, 'rpc', 3);
    await add(busy, 0, 'das', 4);
    await add(busy, 6, 'rpc', 5);
    await add(busy, 7, 'rpc', 1_000);
    await add(quiet!, 6, 'rpc', 2);
    await add(idle!, 7, 'rpc', 9);
    const recent = async (project?: string) =>
      [...(await readRecentUse(store.read, bed.clock.now(), project))].toSorted();
    const expected = [
      [busy, { requests: 12, lastDay: dayOf(0) }],
      [quiet, { requests: 2, lastDay: dayOf(6) }],
    ].toSorted();
    assert.deepEqual(await recent(), expected);
    assert.deepEqual(await recent(busy), [[busy, { requests: 12, lastDay: dayOf(0) }]]);
    assert.deepEqual(await recent(idle), []);
  });

  test('a write whose end nobody saw is not made twice, and one that failed is made again', async (t) => {
    const store = await engine.store(t);
    let fault: 'before' | 'after' | null = null;
    const faulty: Store = {
      ...store,
      get read() {
        return store.read;
      },
      write: async (work) => {
        if (fault === 'before') throw new CodedError('STORE_UNREACHABLE', 'gone');
        const result = await store.write(work);
        // The commit reached the store and its answer did not come back.
        if (fault === 'after') throw new CodedError('STORE_UNREACHABLE', 'gone');
        return result;
      },
    };
    const bed = await accessBed(faulty, { plan: 'unlimited' });
    const { key } = await bed.addKey();
    const caller = await callerOf(bed, key);
    const ledger = createLedger();
    for (const next of ['after', 'before', 'after', 'after', null, 'before', null] as const) {
      await call(bed, caller, { product: 'rpc', credits: 7 });
      ledger.add('rpc', 7);
      fault = next;
      if (next === null) await bed.meter.flush();
      else await assert.rejects(bed.meter.flush(), { code: 'STORE_UNREACHABLE' });
      const waiting = next === null ? 0 : 1;
      assert.match(await bed.registry.text(), new RegExp(`access_unwritten_projects ${waiting}\\n`));
    }
    await assertUsage(bed, ledger);
    assert.equal(bed.log.lines.filter(({ level }) => level === 'error').length, 2, 'each outage is logged once');
  });

  test('credits are spent in order: of the plan, prepaid, beyond; then only free calls go, until there are new ones', async (t) => {
    const overrides = { creditsLimit: 100, overageCredits: 30 };
    const bed = await accessBed(await engine.store(t), { plan: 'developer', overrides });
    const { store, projects, project, meter } = bed;
    await store.write((tx) => projects.grant(tx, project.id, 50));
    const { key } = await bed.addKey();
    const caller = await callerOf(bed, key);
    const totals = async () => {
      await meter.flush();
      const { creditsUsed, creditsRemaining, prepaidCreditsUsed, prepaidCreditsRemaining } = await bed.usage();
      return [creditsUsed, creditsRemaining, prepaidCreditsUsed, prepaidCreditsRemaining];
    };
    await call(bed, caller, { credits: 90 });
    assert.deepEqual(await totals(), [90, 10, 0, 50]);
    // One call may be paid from two sources.
    await call(bed, caller, { credits: 25 });
    assert.deepEqual(await totals(), [115, 0, 15, 35]);
    await call(bed, caller, { credits: 60 });
    assert.deepEqual(await totals(), [175, 0, 50, 0]);
    await assert.rejects(admit(bed, caller, { credits: 6 }), refused('credits'));
    await call(bed, caller, { credits: 5 });
    assert.deepEqual(await totals(), [180, 0, 50, 0]);
    await assert.rejects(admit(bed, caller, { credits: 1 }), refused('credits'));
    await call(bed, caller, { credits: 0 });
    await call(bed, caller, { credits: 100, neverRefused: true });
    assert.deepEqual(await totals(), [180, 0, 50, 0]);
    assert.equal((await bed.usage()).requests['rpc'], 6);
    await store.write((tx) => projects.grant(tx, project.id, 10));
    await bed.clock.advance(501);
    const again = await callerOf(bed, key);
    await call(bed, again, { credits: 10 });
    assert.deepEqual(await totals(), [190, 0, 60, 0]);
  });

  test('running calls reserve credits: concurrent calls never spend more than is left; a batch is admitted whole or not at all', async (t) => {
    const bed = await accessBed(await engine.store(t), { plan: 'unlimited', overrides: { creditsLimit: 100 } });
    const caller = await callerOf(bed, (await bed.addKey()).key);
    const running = [await admit(bed, caller, { credits: 60 }), await admit(bed, caller, { credits: 40 })];
    await assert.rejects(admit(bed, caller, { credits: 1 }), refused('credits'));
    running[0]!.charge([{ charged: false, bytesOut: 0 }]);
    await assert.rejects(admit(bed, caller, { credits: 30 }, { credits: 31 }), refused('credits'));
    const batch = await admit(bed, caller, { credits: 30 }, { credits: 30, product: 'das' });
    batch.charge([
      { charged: true, bytesOut: 1 },
      { charged: false, bytesOut: 1 },
    ]);
    // A second time is none.
    batch.charge([{ charged: true, bytesOut: 1 }]);
    running[1]!.charge([{ charged: true, bytesOut: 0 }]);
    await bed.meter.flush();
    const record = await bed.usage();
    assert.deepEqual([record.creditsUsed, record.credits['rpc'], record.credits['das']], [70, 70, 0]);
  });

  test('a new cycle has its own credits, the day of a call decides, prepaid ones stay; the time to wait ends with the cycle', async (t) => {
    const clock = createManualClock(Date.parse('2026-01-30T12:00:00Z'));
    const bed = await accessBed(await engine.store(t), { clock, plan: 'developer', overrides: { creditsLimit: 100 } });
    const { store, projects, project } = bed;
    await store.write((tx) => projects.grant(tx, project.id, 5));
    const { key } = await bed.addKey();
    await call(bed, await callerOf(bed, key), { credits: 102 });
    await bed.meter.flush();
    // January has 31 days: the cycle of a project that began on the 30th ends with the 28th of February.
    await clock.advance(28.5 * DAY_MS - 360_000);
    const late = await callerOf(bed, key);
    await assert.rejects(
      admit(bed, late, { credits: 4 }),
      (error) => error instanceof GateRefusal && error.reason === 'credits' && error.retryAfterS === 360,
    );
    await clock.advance(DAY_MS);
    const next = await callerOf(bed, key);
    await call(bed, next, { credits: 100 });
    await bed.meter.flush();
    const record = await bed.usage();
    assert.deepEqual(record.creditCycle, { start: '2026-02-28', end: '2026-03-30' });
    assert.deepEqual(record.subscriptionDetails.billingCycle, record.creditCycle);
    assert.deepEqual(
      [record.creditsUsed, record.creditsRemaining, record.prepaidCreditsUsed, record.prepaidCreditsRemaining],
      [100, 0, 0, 3],
    );
  });

  test('a call that began in one cycle and ended in the next counts to the next', async (t) => {
    const clock = createManualClock(Date.parse('2026-05-31T23:59:59Z'));
    const bed = await accessBed(await engine.store(t), { clock, plan: 'unlimited' });
    await bed.store.write((tx) => bed.projects.change(tx, bed.project.id, { plan: 'developer' }));
    const { key } = await bed.addKey();
    const caller = await callerOf(bed, key);
    await call(bed, caller, { credits: 3 });
    const long = await admit(bed, caller, { credits: 10 });
    await clock.advance(30 * DAY_MS);
    long.charge([{ charged: true, bytesOut: 0 }]);
    await bed.meter.flush();
    const record = await bed.usage();
    assert.equal(record.creditCycle.start, '2026-06-30');
    assert.equal(record.creditsUsed, 10);
  });
});

eachStore('accounts of streaming products', (engine) => {
  test('are counted in bytes, and every number is rounded once by itself', async (t) => {
    const bed = await accessBed(await engine.store(t), { plan: 'unlimited' });
    const caller = await callerOf(bed, (await bed.addKey()).key);
    const stream = { product: 'laserstreamGrpc', credits: 1.5 } as const;
    const admission = await admit(bed, caller, stream, { product: 'laserstreamWebsocket', credits: 0 });
    admission.charge([
      { charged: true, bytesOut: 50_000 },
      { charged: true, bytesOut: 7 },
    ]);
    for (const product of ['rpc', 'das', 'photon'] as const) await call(bed, caller, { product, credits: 0.5 });
    await bed.meter.flush();
    const record = await bed.usage();
    assert.deepEqual(record.dataTransfer, { laserstreamGrpc: 50_000, laserstreamWebsocket: 7 });
    // 1.5 + 3 x 0.5 = 3: the parts are rounded up each, the sum is not made of them.
    assert.equal(record.credits['laserstreamGrpc'], 2);
    assert.deepEqual([record.credits['rpc'], record.credits['das'], record.credits['photon']], [1, 1, 1]);
    assert.equal(record.creditsUsed, 3);
    assert.equal('laserstreamGrpc' in record.requests, false);
    assert.deepEqual([record.usage['grpc'], record.usage['websocket'], record.usage['grpcGeyser']], [2, 0, 0]);
  });
});
