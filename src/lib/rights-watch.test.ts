import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createManualClock } from '../../test/helpers/manual-clock.ts';
import { createRightsWatch } from './rights-watch.ts';

const EVERY_MS = 500;

/** A watch whose answers come from the test. */
function setUp() {
  const clock = createManualClock();
  const asked: { readonly names: readonly string[]; answer(states: object): void; fail(): void }[] = [];
  const failures: unknown[] = [];
  const watch = createRightsWatch<string>({
    clock,
    everyMs: EVERY_MS,
    failed: (error) => failures.push(error),
    read: (names) =>
      new Promise((resolve, reject) => {
        asked.push({
          names,
          fail: () => reject(new Error('away')),
          answer: (states) => resolve(new Map(Object.entries(states))),
        });
      }),
  });
  const turn = () => new Promise((resolve) => setImmediate(resolve));
  return { clock, asked, failures, watch, turn };
}

test('one periodic query for all callers, and none without callers', async () => {
  const { clock, asked, watch, turn } = setUp();
  const seen: string[] = [];
  const ends = ['a', 'a', 'b'].map((name, at) => watch.add(name, (state) => seen.push(`${name}${at} ${state}`)));
  await clock.advance(EVERY_MS);
  assert.deepEqual(
    asked.map(({ names }) => names),
    [['a', 'b']],
  );
  asked[0]!.answer({ a: 'x' });
  await turn();
  assert.deepEqual(seen, ['a0 x', 'a1 x', 'b2 null']);
  for (const end of ends) end();
  await clock.advance(10 * EVERY_MS);
  assert.equal(asked.length, 1);
  watch.add('c', () => undefined);
  await clock.advance(EVERY_MS);
  assert.deepEqual(asked[1]?.names, ['c']);
});

test('a caller added during a query is not judged by its result; a hint during a query starts another one', async () => {
  const { asked, watch, turn } = setUp();
  const seen: string[] = [];
  watch.add('a', (state) => seen.push(`first ${state}`));
  watch.lookNow();
  watch.add('a', (state) => seen.push(`second ${state}`));
  watch.lookNow();
  asked[0]!.answer({ a: 'old' });
  await turn();
  assert.deepEqual(seen, ['first old']);
  asked[1]!.answer({ a: 'new' });
  await turn();
  assert.deepEqual(seen, ['first old', 'first new', 'second new']);
});

test('a failed check changes nothing, is reported once, and is repeated', async () => {
  const { clock, asked, failures, watch, turn } = setUp();
  const seen: (string | null)[] = [];
  watch.add('a', (state) => seen.push(state));
  for (let n = 0; n < 3; n += 1) {
    await clock.advance(EVERY_MS);
    asked[n]!.fail();
    await turn();
  }
  assert.deepEqual([seen, failures.length], [[], 1]);
  await clock.advance(EVERY_MS);
  asked[3]!.answer({});
  await turn();
  assert.deepEqual(seen, [null]);
  watch.stop();
  await clock.advance(10 * EVERY_MS);
  assert.equal(asked.length, 4);
});
