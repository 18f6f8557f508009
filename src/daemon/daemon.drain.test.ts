import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createManualClock } from '../../test/helpers/manual-clock.ts';
import { createMemoryLog } from '../../test/helpers/memory-log.ts';
import { createDrain } from './daemon.ts';

const never = () => new Promise<never>(() => undefined);

function make() {
  const clock = createManualClock();
  const drain = createDrain({ timeoutMs: () => 20_000, clock, log: createMemoryLog() });
  const over: string[] = [];
  const wait = (name: string, works: readonly Promise<unknown>[]) => void drain.wait(works).then(() => over.push(name));
  return { clock, drain, over, wait };
}

test('a drain ends when all work has finished or failed, and leaves no timer', async () => {
  const { clock, drain, over, wait } = make();
  wait('fine', [Promise.resolve(1), Promise.resolve(2)]);
  wait('fails', [Promise.reject(new Error('a plugin'))]);
  await clock.advance(0);
  assert.deepEqual(over.sort(), ['fails', 'fine']);
  assert.ok(!drain.deadline.aborted);
  drain.end();
  assert.equal(clock.pending, 0);
});

test('work that does not end is awaited up to one deadline, which starts at the first wait', async () => {
  const { clock, drain, over, wait } = make();
  wait('first', [never()]);
  await clock.advance(15_000);
  wait('second', [never()]);
  assert.deepEqual(over, []);
  await clock.advance(5_000);
  assert.deepEqual(over, ['first', 'second']);
  assert.ok(drain.deadline.aborted);
  wait('late', [never()]);
  await clock.advance(0);
  assert.equal(over.at(-1), 'late');
});
