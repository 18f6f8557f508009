import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { createAbortableFlight, createSingleFlight } from './single-flight.ts';

/** Work that the test settles by itself. */
function manualWork() {
  const calls: { resolve(value: number): void; reject(error: Error): void }[] = [];
  const start = () => new Promise<number>((resolve, reject) => void calls.push({ resolve, reject }));
  return { calls, start };
}

test('callers of one key share the work while it runs, and the next one starts it again', async () => {
  const flights = createSingleFlight<string, number>();
  const { calls, start } = manualWork();
  const [first, second, other] = [flights.run('a', start), flights.run('a', start), flights.run('b', start)];
  assert.equal(first, second);
  assert.equal(flights.get('a'), first);
  assert.equal(flights.size(), 2);
  assert.equal(calls.length, 2);
  calls[0]!.resolve(1);
  calls[1]!.resolve(2);
  assert.deepEqual(await Promise.all([first, second, other]), [1, 1, 2]);
  assert.deepEqual([flights.size(), flights.get('a')], [0, undefined]);
  const again = flights.run('a', start);
  assert.equal(calls.length, 3);
  calls[2]!.resolve(3);
  assert.equal(await again, 3);
});

test('a rejection goes to all callers and is not kept', async () => {
  const flights = createSingleFlight<string, number>();
  const { calls, start } = manualWork();
  const outcomes = Promise.allSettled([flights.run('a', start), flights.run('a', start)]);
  calls[0]!.reject(new Error('down'));
  assert.deepEqual(
    (await outcomes).map((one) => one.status === 'rejected' && (one.reason as Error).message),
    ['down', 'down'],
  );
  assert.equal(flights.size(), 0);
  const next = flights.run('a', start);
  calls[1]!.resolve(5);
  assert.equal(await next, 5);
});

test('work that cannot start leaves nothing behind, and a rejection without callers is handled', async () => {
  const flights = createSingleFlight<string, number>();
  const fail = (): Promise<number> => {
    throw new Error('not now');
  };
  assert.throws(() => flights.run('a', fail), /not now/);
  assert.equal(flights.size(), 0);
  const unhandled: unknown[] = [];
  const note = (error: unknown) => void unhandled.push(error);
  process.on('unhandledRejection', note);
  try {
    void flights.run('a', () => Promise.reject(new Error('down')));
    await new Promise(setImmediate);
    await new Promise(setImmediate);
  } finally {
    process.off('unhandledRejection', note);
  }
  assert.deepEqual(unhandled, []);
  assert.equal(flights.size(), 0);
});

const never = () => new AbortController().signal;

test('abortable: concurrent callers get the outcome of one run', async () => {
  const flights = createAbortableFlight<number>();
  let runs = 0;
  const ask = () =>
    flights.run('a', never(), async () => {
      await new Promise(setImmediate);
      return ++runs;
    });
  const made = await Promise.all([ask(), ask(), ask()]);
  assert.deepEqual(
    made.map(({ value }) => value),
    [1, 1, 1],
  );
  assert.deepEqual(
    made.map(({ first }) => first),
    [true, false, false],
  );
  assert.equal((await ask()).value, 2);
  assert.equal(flights.size(), 0);
});

test('abortable: a failure goes to all callers and is not cached', async () => {
  const flights = createAbortableFlight<number>();
  const fail = async (): Promise<number> => {
    await new Promise(setImmediate);
    throw new Error('down');
  };
  const made = await Promise.allSettled([flights.run('a', never(), fail), flights.run('a', never(), fail)]);
  assert.ok(made.every(({ status }) => status === 'rejected'));
  assert.equal((await flights.run('a', never(), async () => 5)).value, 5);
});

test('abortable: the work is aborted exactly when all callers have left', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 5 }),
      fc.array(fc.nat(4), { maxLength: 8 }),
      async (callers, leaving) => {
        const flights = createAbortableFlight<string>();
        let aborted = false;
        let land = (_: string) => {};
        const work = (signal: AbortSignal) =>
          new Promise<string>((resolve, reject) => {
            land = resolve;
            signal.addEventListener('abort', () => {
              aborted = true;
              reject(signal.reason as Error);
            });
          });
        const controllers = Array.from({ length: callers }, () => new AbortController());
        const made = controllers.map(({ signal }) => flights.run('a', signal, work));
        const settled = Promise.allSettled(made);
        const left = new Set(leaving.filter((index) => index < callers));
        for (const index of left) {
          controllers[index]!.abort(new Error('gone'));
          await new Promise(setImmediate);
        }
        assert.equal(aborted, left.size === callers);
        land('landed');
        const outcomes = await settled;
        outcomes.forEach((outcome, index) => {
          assert.equal(outcome.status, left.has(index) ? 'rejected' : 'fulfilled');
        });
        assert.equal(flights.size(), 0);
      },
    ),
    { numRuns: 100 },
  );
});

test('abortable: an aborted caller starts nothing', async () => {
  const flights = createAbortableFlight<number>();
  let ran = false;
  const work = async () => {
    ran = true;
    return 1;
  };
  await assert.rejects(flights.run('a', AbortSignal.abort(new Error('gone')), work), /gone/);
  assert.equal(ran, false);
});
