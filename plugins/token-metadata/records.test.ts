import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { createManualClock } from '../../test/helpers/manual-clock.ts';
import { createAccountSource, type ReadAccounts } from './records.ts';

interface Call {
  readonly keys: readonly string[];
  answer(slot?: number): void;
  fail(): void;
}

/** A source before a node that answers when the test says so, with the number of the call in each account. */
async function bed(changes: Partial<Parameters<typeof createAccountSource>[0]> = {}) {
  const clock = createManualClock();
  // The cache takes a time of zero for none.
  await clock.advance(1);
  const calls: Call[] = [];
  const read = (keys: readonly string[]): Promise<ReadAccounts> =>
    new Promise((resolve, reject) => {
      const lamports = BigInt(calls.length);
      const account = { owner: 'o', lamports, data: new Uint8Array(0), executable: false, rentEpoch: 0n };
      calls.push({
        keys,
        answer: (slot = 100) => resolve({ slot, accounts: keys.map(() => account) }),
        fail: () => reject(new Error('no')),
      });
    });
  const source = createAccountSource({
    read,
    clock,
    ttlMs: 1_000,
    concurrency: 2,
    maxWaiting: 1_000,
    cacheBytes: 1_000_000,
    config: { upstreamTimeoutMs: 10_000 },
    ...changes,
  });
  const settle = () => clock.advance(0);
  return { clock, calls, source, settle };
}

/** Which call each key was answered by; null: not known. */
const callsOf = (loaded: Awaited<ReturnType<ReturnType<typeof createAccountSource>['load']>>) =>
  Object.fromEntries([...loaded].map(([key, entry]) => [key, entry.ok ? Number(entry.account?.lamports) : null]));

test('requests of one turn are batched, running ones are shared, and results are cached', async () => {
  const { clock, calls, source, settle } = await bed();
  const [one, two] = [source.load(['a', 'b', 'a'], { group: 'a' }), source.load(['b', 'c'], { group: 'a' })];
  await settle();
  const three = source.load(['a'], { group: 'a' });
  await settle();
  assert.deepEqual(
    calls.map(({ keys }) => keys),
    [['a', 'b', 'c']],
  );
  calls[0]!.answer();
  assert.deepEqual([await one, await two, await three].map(callsOf), [{ a: 0, b: 0 }, { b: 0, c: 0 }, { a: 0 }]);
  assert.deepEqual(callsOf(await source.load(['a', 'c'], { group: 'a' })), { a: 0, c: 0 });
  await clock.advance(1_001);
  const again = source.load(['a'], { group: 'a' });
  await settle();
  calls[1]!.answer();
  assert.deepEqual(callsOf(await again), { a: 1 });
});

test('while all calls are taken, what waits goes together', async () => {
  const { calls, source, settle } = await bed({ concurrency: 1 });
  const loads = [source.load(['a'], { group: 'a' })];
  for (const key of ['b', 'c', 'd']) {
    await settle();
    loads.push(source.load([key], { group: 'a' }));
  }
  await settle();
  assert.equal(calls.length, 1);
  calls[0]!.answer();
  await settle();
  assert.deepEqual(calls[1]?.keys, ['b', 'c', 'd']);
  calls[1]!.answer();
  assert.deepEqual((await Promise.all(loads)).map(callsOf), [{ a: 0 }, { b: 1 }, { c: 1 }, { d: 1 }]);
});

test('a caller that wants fresh data shares no call that is already running', async () => {
  const { calls, source, settle } = await bed();
  const old = source.load(['a'], { group: 'a' });
  await settle();
  const [fresh, other] = [
    source.load(['a'], { group: 'a', fresh: true }),
    source.load(['a'], { group: 'a', fresh: true }),
  ];
  await settle();
  assert.equal(calls.length, 2);
  calls[1]!.answer();
  calls[0]!.answer();
  assert.deepEqual([await old, await fresh, await other].map(callsOf), [{ a: 0 }, { a: 1 }, { a: 1 }]);
});

test('an account that was written to is asked for again, and an answer from before is not kept', async () => {
  const { calls, source, settle } = await bed();
  const load = async (slot: number) => {
    const loaded = source.load(['a'], { group: 'a' });
    await settle();
    calls.at(-1)!.answer(slot);
    return callsOf(await loaded);
  };
  assert.deepEqual(await load(100), { a: 0 });
  source.drop(['a'], 105);
  assert.deepEqual(await load(104), { a: 1 });
  assert.deepEqual(await load(105), { a: 2 });
  assert.deepEqual(callsOf(await source.load(['a'], { group: 'a' })), { a: 2 });
  assert.equal(calls.length, 3);
});

test('a call that fails fails for its keys only, and is not kept', async () => {
  const { calls, source, settle } = await bed();
  const keys = Array.from({ length: 150 }, (_, index) => `k${index}`);
  const loaded = source.load(keys, { group: 'a' });
  await settle();
  assert.deepEqual(
    calls.map((call) => call.keys.length),
    [100, 50],
  );
  calls[0]!.fail();
  calls[1]!.answer();
  const found = callsOf(await loaded);
  assert.deepEqual([found['k0'], found['k99'], found['k100'], found['k149']], [null, null, 1, 1]);
  void source.load(['k0', 'k100'], { group: 'a' });
  await settle();
  assert.deepEqual(calls[2]?.keys, ['k0']);
});

test('no caller waits longer than the deadline, and the number of waiting callers is limited', async () => {
  const { clock, calls, source, settle } = await bed({ concurrency: 1, maxWaiting: 3 });
  const first = source.load(['a'], { group: 'a' });
  await settle();
  const full = source.load(['b', 'c', 'd', 'e'], { group: 'a' });
  await settle();
  assert.equal(calls.length, 1);
  await clock.advance(10_000);
  assert.deepEqual(callsOf(await first), { a: null });
  const late = await full;
  const codes = [...late.values()].map((entry) => (entry.ok ? '' : (entry.error as { code: string }).code));
  assert.deepEqual(codes, ['CHAIN_TIMEOUT', 'CHAIN_TIMEOUT', 'CHAIN_TIMEOUT', 'CHAIN_UNREACHABLE']);
});

test('whatever is asked for and in whatever order it is answered, everybody gets every key, and no call is too large', async () => {
  const step = fc.record({
    keys: fc.uniqueArray(fc.integer({ min: 0, max: 400 }), { maxLength: 250 }),
    fresh: fc.boolean(),
    answer: fc.boolean(),
  });
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { minLength: 1, maxLength: 8 }),
      fc.integer({ min: 1, max: 4 }),
      async (steps, concurrency) => {
        const { calls, source, settle } = await bed({ concurrency });
        const asked: [readonly string[], ReturnType<typeof source.load>][] = [];
        let answered = 0;
        for (const { keys, fresh, answer } of steps) {
          const names = keys.map(String);
          asked.push([names, source.load(names, { group: 'a', fresh })]);
          await settle();
          assert.ok(calls.length - answered <= concurrency);
          if (answer && answered < calls.length) calls[answered++]!.answer();
          await settle();
        }
        while (answered < calls.length) {
          calls[answered++]!.answer();
          await settle();
        }
        for (const [names, loaded] of asked) {
          const found = await loaded;
          assert.deepEqual([...found.keys()], names);
          assert.ok([...found.values()].every((entry) => entry.ok));
        }
        assert.ok(
          calls.every(({ keys }) => keys.length > 0 && keys.length <= 100 && new Set(keys).size === keys.length),
        );
      },
    ),
    { numRuns: 40 },
  );
});
