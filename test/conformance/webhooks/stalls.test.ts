/** The operator is notified when a chain is not followed properly. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ChainStatus } from '../../../src/ports/chain.ts';
import { createManualClock } from '../../helpers/manual-clock.ts';
import { eachStore } from '../../helpers/store.ts';
import { until } from '../../helpers/until.ts';
import { startHarness } from './harness.ts';

const operational = { url: 'http://127.0.0.1:9/', secret: `whsec_${Buffer.alloc(32, 9).toString('base64')}` };
const well = { tipSlot: 1_000, cursorSlot: 999, lagSlots: 1, stalled: null };
const late = { tipSlot: 1_000, cursorSlot: 800, lagSlots: 200, stalled: null };
const halted = { ...well, stalled: 'no upstream answers' };

eachStore('standstills', (engine) => {
  test('each stall and each end of one is reported once, across restarts and by two processes', async (t) => {
    const store = await engine.store(t);
    let status: Partial<ChainStatus> = well;
    const start = async () => {
      const clock = createManualClock();
      const options = { store, clock, deliver: false, webhooks: { operational }, status: () => status };
      const harness = await startHarness(t, options);
      await harness.start();
      return async (seconds: number) => {
        for (let at = 0; at < seconds; at += 5) {
          const timers = clock.pending;
          await clock.advance(5_000);
          // Each look sets the time of the next one when it is over.
          await until(() => clock.pending >= timers);
        }
      };
    };
    const told = async () => {
      const rows = await store.read.selectFrom('outbox').selectAll().orderBy('id').execute();
      return rows.map(({ payload }) => {
        const { type, data } = JSON.parse(String(payload));
        return [type, data.reason ?? null, data.network];
      });
    };
    const stalled = (reason: string) => ['chain.stalled', reason, 'mainnet'];
    const resumed = ['chain.resumed', null, 'mainnet'];
    let advance = await start();
    await advance(20);
    status = late;
    await advance(55);
    assert.deepEqual(await told(), [], 'not at once');
    status = well;
    await advance(10);
    status = late;
    await advance(60);
    assert.deepEqual(await told(), [], 'the time begins anew');
    await advance(15);
    const first = stalled('200 slots behind the tip, 80 s');
    assert.deepEqual(await told(), [first]);
    advance = await start();
    const other = await start();
    await advance(80);
    assert.deepEqual(await told(), [first], 'another process knows what was told');
    status = well;
    await Promise.all([advance(10), other(10)]);
    assert.deepEqual(await told(), [first, resumed]);
    status = halted;
    await Promise.all([advance(80), other(80)]);
    advance = await start();
    status = { tipSlot: null, cursorSlot: null, lagSlots: null, stalled: null };
    await advance(10);
    assert.deepEqual(await told(), [first, resumed, stalled('no upstream answers')], 'nothing is known yet');
    status = well;
    await advance(10);
    assert.deepEqual(await told(), [first, resumed, stalled('no upstream answers'), resumed]);
  });
});
