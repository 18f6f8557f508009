import assert from 'node:assert/strict';
import { test } from 'node:test';
import { chainMissing } from '../../helpers/chain.ts';
import { eachStore } from '../../helpers/store.ts';
import { FINALITY, listGaps, makeBed, until } from './harness.ts';

const skip = (await chainMissing()) ?? false;

eachStore('gaps of a daemon', ({ database }) => {
  test('slots that are too old after a long stop are filled while the chain is followed; each delivery is sent once', {
    skip,
    timeout: 120_000,
  }, async (t) => {
    const bed = await makeBed(t, database);
    const first = await bed.start();
    await bed.watch(first);
    const before = await bed.pay(5);
    await bed.expectReceived(before);
    await first.stop();
    const lost = await bed.pay(40);
    await bed.chain.skip(3);
    const recent = await bed.pay(25);
    const second = await bed.start({ config: { follow: { maxCatchupSlots: 20, pollMs: 50, auditIntervalMs: 250 } } });
    const later = await bed.pay(FINALITY + 2);
    await bed.expectReceived([...before, ...lost, ...recent, ...later]);
    const [gap] = await until(
      () => listGaps(second),
      (gaps) => gaps[0]?.status === 'filled',
    );
    assert.equal(gap?.reason, 'too_old');
    assert.equal(gap.filledTo, gap.toSlot);
    const ready = await fetch(`${second.adminUrl}/readyz`);
    assert.equal(ready.status, 200, await ready.text());
  });

  test('blocks that are pruned stay an open gap that does not make the daemon unready; they are filled when they can be had again', {
    skip,
    timeout: 120_000,
  }, async (t) => {
    const bed = await makeBed(t, database);
    const config = { follow: { pollMs: 50, auditIntervalMs: 250 } };
    const first = await bed.start({ config });
    await bed.watch(first);
    const before = await bed.pay(5);
    await bed.expectReceived(before);
    await first.stop();
    const lost = await bed.pay(20);
    const firstHad = (await bed.tip()) + 1;
    const recent = await bed.pay(20);
    bed.chain.faults.set([{ action: 'pruned', first: firstHad }]);
    const second = await bed.start({ config });
    const later = await bed.pay(FINALITY + 2);
    await bed.expectReceived([...before, ...recent, ...later]);
    const [gap] = await until(
      () => listGaps(second),
      (gaps) => gaps[0]?.trouble?.includes('any more') === true,
    );
    assert.deepEqual([gap?.status, gap?.reason, gap?.toSlot], ['open', 'pruned', firstHad - 1]);
    const ready = await fetch(`${second.adminUrl}/readyz`);
    assert.equal(ready.status, 200);
    const { chain } = (await ready.json()) as { chain: { openGaps: number; gaps: { toSlot: number }[] }[] };
    assert.equal(chain[0]?.openGaps, 1);
    assert.equal(chain[0]?.gaps[0]?.toSlot, firstHad - 1);
    assert.match(await (await fetch(`${second.adminUrl}/metrics`)).text(), /parhelion_follow_gap_slots [1-9]/);
    await second.stop();
    bed.chain.faults.clear();
    const third = await bed.start({ config });
    await bed.expectReceived([...before, ...lost, ...recent, ...later]);
    await until(
      () => listGaps(third),
      (gaps) => gaps[0]?.status === 'filled',
    );
  });
});
