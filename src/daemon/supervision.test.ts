import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { createManualClock } from '../../test/helpers/manual-clock.ts';
import { createMemoryLog } from '../../test/helpers/memory-log.ts';
import { CodedError } from '../lib/coded-error.ts';
import type { ChainStatus } from '../ports/chain.ts';
import type { Notice } from '../ports/processes.ts';
import { createSupervision, summarizeLoad } from './supervision.ts';

const chain: ChainStatus = {
  chain: 'main',
  kind: 'rpc',
  cluster: 'mainnet',
  genesisHash: null,
  tipSlot: 12,
  cursorSlot: 10,
  finalizedSlot: null,
  lagSlots: 2,
  slotMs: 400,
  stalled: null,
  openGaps: 0,
};

function bed(
  options: { readonly enabled?: boolean; readonly watchdogMs?: number | null; readonly isStuck?: boolean } = {},
) {
  const clock = createManualClock();
  const notices: Notice[] = [];
  const load = { chains: [chain], requests: 0, inFlight: 0 };
  let probes = 0;
  const supervision = createSupervision({
    notify: {
      enabled: options.enabled ?? true,
      watchdogMs: options.watchdogMs ?? null,
      async tell(notice) {
        notices.push(notice);
        if (options.isStuck === true) await new Promise(() => undefined);
      },
    },
    clock,
    log: createMemoryLog(),
    load: () => load,
    async probe() {
      probes += 1;
    },
  });
  const states = () => notices.flatMap(({ state }) => state ?? []);
  return { clock, notices, load, supervision, states, probes: () => probes };
}

const DONE = { restart: [] };

test('any order of reloads, applied or refused, at once or one by one: reloading and ready alternate, ready is last', async () => {
  const step = fc.record({ refuses: fc.boolean(), waits: fc.boolean(), turns: fc.nat(5) });
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 12 }), async (steps) => {
      const { supervision, states, notices } = bed();
      supervision.ready();
      let running = 0;
      let runs = 0;
      const done: Promise<void>[] = [];
      for (const { refuses, waits, turns } of steps) {
        const reload = supervision.reload(async () => {
          assert.equal(++running, 1, 'two reloads at once');
          runs += 1;
          for (let i = 0; i < turns; i++) await null;
          running -= 1;
          if (refuses) throw new CodedError('CONFIG_INVALID', 'bad\nsecond line');
          return DONE;
        });
        done.push(reload);
        if (waits) await reload;
      }
      await Promise.all(done);
      const expected = Array.from({ length: runs }, () => ['reloading', 'ready']).flat();
      assert.deepEqual(states(), ['ready', ...expected]);
      assert.ok(steps.length === 0 ? runs === 0 : runs >= 1);
      assert.equal(
        notices.some(({ status }) => status?.includes('second line')),
        false,
      );
    }),
  );
});

test('a burst of reloads runs at most twice: now, and again for those requested during the first', async () => {
  const { supervision } = bed();
  supervision.ready();
  const order: string[] = [];
  const first = supervision.reload(async () => {
    order.push('first');
    await new Promise((resolve) => setImmediate(resolve));
    return DONE;
  });
  await null;
  await null;
  const later = Array.from({ length: 50 }, (_, i) =>
    supervision.reload(async () => {
      order.push(`later ${i}`);
      return DONE;
    }),
  );
  await Promise.all([first, ...later]);
  assert.deepEqual(order, ['first', 'later 0']);
});

test('the reason of a refused reload stays in the status until a reload is applied', async () => {
  const { supervision, notices, clock, load } = bed();
  supervision.ready();
  const refuse = () => Promise.reject(new CodedError('CONFIG_INVALID', 'http: unknown key'));
  await supervision.reload(refuse);
  assert.match(notices.at(-1)!.status!, /^slot 10.*; the last reload was refused: CONFIG_INVALID: http: unknown key$/);
  load.requests = 5;
  await clock.advance(10_000);
  assert.match(notices.at(-1)!.status!, /5 requests in 10 s.*refused/);
  await supervision.reload(async () => ({ restart: ['http.port', 'store.url'] }));
  assert.match(notices.at(-1)!.status!, /^slot 10[^;]*;[^;]*; a restart is needed for http\.port, store\.url$/);
  await supervision.reload(async () => DONE);
  assert.doesNotMatch(notices.at(-1)!.status!, /refused|restart/);
  supervision.stopping('SIGTERM');
});

test('a status is sent when it has changed, and not otherwise', async () => {
  const { supervision, notices, clock, load } = bed();
  supervision.ready();
  await clock.advance(10_000);
  const told = notices.length;
  await clock.advance(100_000);
  assert.equal(notices.length, told);
  load.chains = [{ ...chain, cursorSlot: 11, lagSlots: 1 }];
  await clock.advance(10_000);
  assert.equal(notices.length, told + 1);
  assert.deepEqual(notices.at(-1), { status: 'slot 11, 1 slot behind the tip; 0 requests in 10 s, 0 in flight' });
  supervision.stopping('SIGTERM');
});

test('a reload during the start sends nothing: only the start may send READY', async () => {
  const { supervision, states } = bed();
  supervision.starting();
  let runs = 0;
  await supervision.reload(async () => {
    runs += 1;
    return DONE;
  });
  assert.deepEqual([runs, states()], [1, []]);
});

test('after stopping nothing is sent: no READY of a late start or reload, no status, no watchdog notice', async () => {
  const { supervision, states, notices, clock } = bed({ watchdogMs: 60_000 });
  supervision.ready();
  let finish = () => {};
  const reload = supervision.reload(
    () =>
      new Promise((resolve) => {
        finish = () => resolve(DONE);
      }),
  );
  await clock.advance(1_000);
  supervision.stopping(new CodedError('STORE_FULL', 'the disk is full'));
  supervision.stopping('SIGTERM');
  finish();
  await reload;
  supervision.ready();
  await clock.advance(600_000);
  assert.deepEqual(states(), ['ready', 'reloading', 'alive', 'stopping']);
  assert.deepEqual(notices.at(-1), { state: 'stopping', status: 'stopping: STORE_FULL: the disk is full' });
});

test('the first line of a reason is sent, cut to a limit', () => {
  const { supervision, notices } = bed();
  supervision.stopping(new CodedError('STORE_FULL', `${'x'.repeat(5_000)}\nmore`));
  const status = notices.at(-1)?.status ?? '';
  assert.match(status, /^stopping: STORE_FULL: x+$/);
  assert.ok(status.length < 300, `${status.length}`);
});

test('without a service manager nothing runs: no status, no probe of the store; reloads do', async () => {
  const { supervision, clock, probes } = bed({ enabled: false, watchdogMs: 1_000 });
  supervision.ready();
  assert.equal(clock.pending, 0);
  await clock.advance(60_000);
  assert.equal(probes(), 0);
  let runs = 0;
  await supervision.reload(async () => {
    runs += 1;
    return DONE;
  });
  assert.equal(runs, 1);
});

test('a manager that accepts nothing delays the stop for two seconds at most', async () => {
  const { supervision, clock } = bed({ isStuck: true });
  supervision.stopping('SIGTERM');
  let isClosed = false;
  void supervision.close().then(() => {
    isClosed = true;
  });
  await clock.advance(1_900);
  assert.equal(isClosed, false);
  await clock.advance(200);
  assert.equal(isClosed, true);
});

test('the text for each state of a chain', () => {
  const say = (...chains: readonly Partial<ChainStatus>[]) =>
    summarizeLoad(
      { chains: chains.map((status) => ({ ...chain, ...status })), requests: 12, inFlight: 3 },
      { requests: 11, seconds: 9.7 },
    ).replace('; 1 request in 10 s, 3 in flight', '');
  assert.equal(say(), 'no chain is followed');
  assert.equal(say({}), 'slot 10, 2 slots behind the tip');
  assert.equal(say({ lagSlots: 0 }), 'slot 10, at the tip');
  assert.equal(say({ lagSlots: null }), 'slot 10');
  assert.equal(say({ cursorSlot: null, lagSlots: null }), 'slot 12');
  assert.equal(say({ cursorSlot: null, tipSlot: null, lagSlots: null }), 'not followed yet');
  assert.equal(say({ stalled: 'a hole at slot 11' }), 'stalled at slot 10: a hole at slot 11');
  assert.equal(
    say({}, { chain: 'devnet', lagSlots: 0 }),
    'slot 10, 2 slots behind the tip; devnet slot 10, at the tip',
  );
});
