import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { createSemaphore } from '../../../plugins/compression/rpc/prover.ts';

type Step = { readonly kind: 'take' } | { readonly kind: 'end' | 'leave'; readonly which: number };

const step: fc.Arbitrary<Step> = fc.oneof(
  fc.constant({ kind: 'take' as const }),
  fc.record({ kind: fc.constantFrom('end' as const, 'leave' as const), which: fc.nat(20) }),
);

test('never more at once than allowed, never more waiting, in the order of coming, and no turn is lost', async () => {
  const limits = fc.record({ atOnce: fc.integer({ min: 1, max: 3 }), waiting: fc.nat(3) });
  await fc.assert(
    fc.asyncProperty(limits, fc.array(step, { maxLength: 40 }), async ({ atOnce, waiting }, steps) => {
      const semaphore = createSemaphore({ atOnce, waiting });
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
          const turn = semaphore.acquire(controller.signal);
          assert.equal(turn === null, isFull);
          if (turn === null) continue;
          if (running.size === atOnce) queue.push({ controller, number: mine });
          turn.then(
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
