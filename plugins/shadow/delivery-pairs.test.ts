import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createSfc32 } from '../../test/helpers/sfc32.ts';
import { DeliveryPairs } from './delivery-pairs.ts';

const OPTIONS = { waitMs: 10_000, laterMs: 1_000 };

test('random deliveries of two services are counted as a model counts them', () => {
  for (let seed = 1; seed <= 30; seed += 1) {
    const draw = createSfc32(seed);
    const pairs = new DeliveryPairs(OPTIONS);
    const expected = { matched: 0, different: 0, missing: [0, 0], doubled: [0, 0], later: [0, 0] };
    const events: { at: number; side: 'ours' | 'theirs'; element: object }[] = [];
    for (let number = 0; number < 200; number += 1) {
      const start = draw.below(100_000);
      const isRaw = draw.float() < 0.5;
      const element = (fee: number) =>
        isRaw
          ? { transaction: { signatures: [`s${number}`] }, meta: { fee }, blockTime: 1 }
          : { signature: `s${number}`, fee, timestamp: 1 };
      const [hasOurs, hasTheirs] = [draw.float() < 0.9, draw.float() < 0.9];
      const isDifferent = draw.float() < 0.2;
      const lag = draw.below(3_000) - 1_500;
      if (hasOurs) events.push({ at: start + Math.max(0, lag), side: 'ours', element: element(5) });
      if (hasTheirs)
        events.push({ at: start + Math.max(0, -lag), side: 'theirs', element: element(isDifferent ? 6 : 5) });
      if (hasOurs && draw.float() < 0.1) {
        events.push({ at: start + 2_000, side: 'ours', element: element(5) });
        expected.doubled[0]! += 1;
      }
      if (hasOurs && hasTheirs) {
        expected.matched += 1;
        if (isDifferent) expected.different += 1;
        if (lag > 1_000) expected.later[0]! += 1;
        if (lag < -1_000) expected.later[1]! += 1;
      } else if (hasTheirs) expected.missing[0]! += 1;
      else if (hasOurs) expected.missing[1]! += 1;
    }
    events.sort((a, b) => a.at - b.at);
    for (const { at, side, element } of events) pairs.take(side, 'hook', [element], { nowMs: 2_000, at });
    pairs.expire(1_000_000);
    const [report] = pairs.report();
    assert.deepEqual(
      {
        matched: report!.matched,
        different: report!.different,
        missing: [report!.missingHere, report!.missingThere],
        doubled: [report!.doubledHere, report!.doubledThere],
        later: [report!.laterHere, report!.laterThere],
      },
      expected,
      `seed ${seed}`,
    );
    assert.equal(pairs.open, 0);
    assert.equal(report!.p95HereMs, 1_000);
  }
});

test('one signature in two webhooks is two events; differences are named by their members; messages are not matched', () => {
  const pairs = new DeliveryPairs(OPTIONS);
  const at = { nowMs: 0, at: 0 };
  pairs.take('ours', 'a', [{ signature: 's', fee: 1, type: 'SWAP' }], at);
  pairs.take('theirs', 'b', [{ signature: 's', fee: 1, type: 'SWAP' }], at);
  assert.equal(pairs.open, 2);
  pairs.take('theirs', 'a', [{ signature: 's', fee: 1, type: 'TRANSFER' }], at);
  pairs.take('theirs', 'a', { content: 'a message' }, at);
  const [a] = pairs.report();
  assert.deepEqual([a!.matched, a!.different, a!.members], [1, 1, [{ path: 'type', kind: 'text', count: 1 }]]);
  assert.equal(pairs.unreadable, 1);
});
