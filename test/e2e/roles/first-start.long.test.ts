import assert from 'node:assert/strict';
import { test } from 'node:test';
import { chainMissing } from '../../helpers/chain.ts';
import { until } from '../../helpers/until.ts';
import { startWorkBed } from '../../helpers/work-harness.ts';

const skip = (await chainMissing()) ?? false;
const SETTLE_SECONDS = 60;

test('events between the creation of a webhook and the first start of the indexer are delivered', {
  skip,
}, async (t) => {
  const bed = await startWorkBed({ payEveryMs: 50 });
  t.after(() => bed.stop());
  const api = bed.start({ role: 'api' });
  const [address] = bed.payments.addresses as [string];
  assert.equal(await bed.ledger.create((await api.ready()).api, [address]), 200);
  const from = bed.payments.begun(address);
  await until(() => bed.payments.begun(address) >= from + 20);
  const daemons = [api, bed.start({ role: 'indexer' }), bed.start({ role: 'deliverer' })];
  await Promise.all(daemons.map((daemon) => daemon.ready()));
  await bed.payments.stop();
  await bed.ledger.settle(bed.openStore, SETTLE_SECONDS, () => daemons.map((one) => one.output()).join('\n'));
  assert.ok(bed.ledger.required().size >= 20);
});
