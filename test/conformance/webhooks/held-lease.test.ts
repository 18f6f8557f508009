import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eachStore } from '../../helpers/store.ts';
import { signatureOf } from './blocks.ts';
import { startHarness } from './harness.ts';
import { stage } from './stage.ts';

eachStore('a delivery that a dead process holds', (engine) => {
  test('does not hold up the others of its webhook in a process that never saw it', async (t) => {
    const store = await engine.store(t);
    const before = await stage(t, { store, deliver: false });
    await before.create();
    await before.event('held');
    const lease = { state: 'running', claims: 1, lease_until: Date.now() + 3_600_000 };
    await store.write(({ db }) => db.updateTable('outbox').set(lease).where('state', '=', 'pending').execute());
    await before.event('a', 'b');
    await startHarness(t, { store });
    await before.receiver.waitFor(2);
    const sent = before.receiver.received.map(({ body }) => JSON.parse(String(body))[0].transaction.signatures[0]);
    assert.deepEqual(sent.toSorted(), [signatureOf('a'), signatureOf('b')].toSorted());
  });
});
