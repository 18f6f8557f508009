import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { OWN_WORK } from '../ports/access.ts';
import { createSemaphore } from './semaphore.ts';

type Step = { readonly kind: 'take' } | { readonly kind: 'end' | 'leave'; readonly which: number };

const step: fc.Arbitrary<Step> = fc.oneof(
  fc.constant({ kind: 'take' as const }),
  fc.record({ kind: fc.constantFrom('end' as const, 'leave' as const), which: fc.nat(20) }),
);

test('limits of running and waiting work hold, work runs in order of arrival, and no permit is lost', async () => {
  const limits = fc.record({ atOnce: fc.integer({ min: 1, max: 3 }), waiting: fc.nat(3) });
  await fc.assert(
    fc.asyncProperty(limits, fc.array(step, { maxLength: 40 }), async ({ atOnce, waiting }, steps) => {
      const semaphore = createSemaphore({ concurrency: atOnce, maxWaiting: waiting });
      const queue: { readonly controller: AbortController; readonly number: number }[] = [];
      const running = new Map<number, () => void>();
      const started: number[] = [];
      let number = 0;
      const settle = () => new Promise((resolve) => setImmediate(resolve));
      for (const one of steps) {
        if (one.kind === 'take') {
          const controller = new AbortController();
          const mine = number;
          number += 1;
          const isFull = running.size === atOnce && queue.length === waiting;
          const permit = semaphore.acquire({ signal: controller.signal, group: OWN_WORK.id });
          assert.equal(permit === null, isFull);
          if (permit === null) continue;
          if (running.size === atOnce) queue.push({ controller, number: mine });
          permit.then(
            (end) => {
              running.set(mine, end);
              started.push(mine);
            },
            () => undefined,
          );
        } else if (one.kind === 'end' && running.size > 0) {
          const [key, end] = [...running][one.which % running.size]!;
          running.delete(key);
          queue.shift();
          end();
          end();
        } else if (one.kind === 'leave' && queue.length > 0) {
          const [gone] = queue.splice(one.which % queue.length, 1);
          gone!.controller.abort(new Error('gone'));
        }
        await settle();
        assert.ok(running.size <= atOnce);
        if (queue.length > 0) assert.equal(running.size, atOnce);
        assert.deepEqual(
          started,
          started.toSorted((a, b) => a - b),
        );
      }
    }),
  );
});

test('groups: limits hold, no permit is lost, and no caller waits while a permit is free', async () => {
  const work = fc.array(fc.constantFrom('a', 'b', 'c'), { maxLength: 40 });
  await fc.assert(
    fc.asyncProperty(
      work,
      fc.integer({ min: 1, max: 4 }),
      fc.integer({ min: 1, max: 3 }),
      async (groups, concurrency, perGroup) => {
        const semaphore = createSemaphore({ concurrency, perGroup, maxWaiting: 1_000 });
        const running = new Map<string, number>();
        const open: (() => void)[] = [];
        let done = 0;
        for (const group of groups)
          void semaphore.run(
            async () => {
              running.set(group, (running.get(group) ?? 0) + 1);
              assert.ok(running.get(group)! <= perGroup && semaphore.running() <= concurrency);
              await new Promise<void>((resolve) => void open.push(resolve));
              running.set(group, running.get(group)! - 1);
              done += 1;
            },
            { group },
          );
        const kinds = new Set(groups).size;
        assert.ok(semaphore.running() >= Math.min(groups.length, concurrency, kinds));
        await new Promise((resolve) => setImmediate(resolve));
        while (open.length > 0) {
          open.shift()!();
          await new Promise((resolve) => setImmediate(resolve));
        }
        assert.deepEqual([done, semaphore.running(), semaphore.waiting()], [groups.length, 0, 0]);
      },
    ),
    { numRuns: 40 },
  );
  const full = createSemaphore({ concurrency: 1, perGroup: 1, maxWaiting: 1 });
  assert.deepEqual(
    [1, 2, 3].map(() => full.acquire({ group: 'a' }) !== null),
    [true, true, false],
  );
});

test('groups are served in rotation', async () => {
  const semaphore = createSemaphore({ concurrency: 1 });
  const served: string[] = [];
  const release = await semaphore.acquire({ group: OWN_WORK.id });
  const work = ['a1', 'a2', 'a3', 'b1', 'c1'].map((name) =>
    semaphore.run(async () => void served.push(name), { group: name[0]! }),
  );
  release?.();
  await Promise.all(work);
  assert.deepEqual(served, ['a1', 'b1', 'c1', 'a2', 'a3']);
});

test('parts of a group are served in rotation, and one part has its permits over all groups', async () => {
  const semaphore = createSemaphore({ concurrency: 1 });
  const served: string[] = [];
  const release = await semaphore.acquire({ group: OWN_WORK.id });
  const work = ['a slow 1', 'a slow 2', 'a fast 3', 'b fast 4'].map((name) => {
    const [group, part] = name.split(' ') as [string, string];
    return semaphore.run(async () => void served.push(name), { group, part });
  });
  release?.();
  await Promise.all(work);
  assert.deepEqual(served, ['a slow 1', 'b fast 4', 'a fast 3', 'a slow 2']);
  const shared = createSemaphore({ concurrency: 4, perPart: 1, maxWaiting: 10 });
  assert.ok(await shared.acquire({ group: 'a', part: 'x' }));
  void shared.acquire({ group: 'b', part: 'x' });
  assert.deepEqual([shared.running(), shared.waiting()], [1, 1]);
  assert.ok(await shared.acquire({ group: 'b', part: 'y' }));
  assert.equal(shared.running(), 2);
});

test('a group that has filled the queue leaves room for the others, however many come', async () => {
  const semaphore = createSemaphore({ concurrency: 1, maxWaiting: 100 });
  await semaphore.acquire({ group: 'hog' });
  let taken = 0;
  for (let i = 0; i < 1_000; i += 1) if (semaphore.acquire({ group: 'hog' }) !== null) taken += 1;
  assert.equal(taken, 100);
  for (const group of ['one', 'two', 'three']) assert.notEqual(semaphore.acquire({ group }), null, group);
  for (let i = 0; i < 1_000; i += 1) void semaphore.acquire({ group: `stranger ${i}` });
  assert.equal(semaphore.waiting(), 125);
});
