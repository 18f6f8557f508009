import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { createSingleFlight } from './cached-ask.ts';

const never = () => new AbortController().signal;

test('concurrent callers get the outcome of one run', async () => {
  const flights = createSingleFlight<number>();
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

test('a failure goes to all callers and is not cached', async () => {
  const flights = createSingleFlight<number>();
  const fail = async (): Promise<number> => {
    await new Promise(setImmediate);
    throw new Error('down');
  };
  const made = await Promise.allSettled([flights.run('a', never(), fail), flights.run('a', never(), fail)]);
  assert.ok(made.every(({ status }) => status === 'rejected'));
  assert.equal((await flights.run('a', never(), async () => 5)).value, 5);
});

test('the work is aborted exactly when all callers have left', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 5 }),
      fc.array(fc.nat(4), { maxLength: 8 }),
      async (callers, leaving) => {
        const flights = createSingleFlight<string>();
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

test('an aborted caller starts nothing', async () => {
  const flights = createSingleFlight<number>();
  let ran = false;
  const work = async () => {
    ran = true;
    return 1;
  };
  await assert.rejects(flights.run('a', AbortSignal.abort(new Error('gone')), work), /gone/);
  assert.equal(ran, false);
});
