import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { chainMissing } from '../../helpers/chain.ts';
import { postgresDatabase } from '../../helpers/store.ts';
import { until } from '../../helpers/until.ts';
import { startWorkBed } from '../../helpers/work-harness.ts';

const skip = (await chainMissing()) ?? false;

/** Polls the gauge of all roles until it is as it should be; the suite's own time limit ends a wait that never does. */
async function waitingIn(admin: string, isRight: (counts: readonly number[]) => boolean): Promise<boolean> {
  for (;;) {
    const text = await (await fetch(`${admin}/metrics`)).text();
    const counts = [...text.matchAll(/^parhelion_webhooks_waiting(?:\{[^}]*\})? (\d+)/gm)].map(([, count]) =>
      Number(count),
    );
    if (counts.length === 3 && isRight(counts)) return true;
    await sleep(200);
  }
}

for (const engine of ['SQLite', 'PostgreSQL'] as const)
  test(`deliveries that a killed daemon was sending go out again long before their leases end, on ${engine}`, {
    skip,
  }, async (t) => {
    const store = engine === 'SQLite' ? undefined : (await postgresDatabase(t)).url;
    // A receiver that never answers in time: whatever is sent stays claimed.
    const bed = await startWorkBed({
      ...(store === undefined ? {} : { store }),
      config: {
        webhooks: {
          allowCidrs: ['127.0.0.0/8'],
          defaultPreset: 'compat',
          retry: { compat: { steps: [1], timeoutMs: 300_000 } },
          concurrency: { perWebhook: 8 },
        },
      },
    });
    t.after(() => bed.stop());
    bed.receiver.setFallback({ kind: 'silent' });
    const running = async () => {
      const opened = await bed.openStore();
      try {
        const columns = ['key', 'lease_until'] as const;
        return await opened.read.selectFrom('outbox').select(columns).where('state', '=', 'running').execute();
      } finally {
        await opened.close();
      }
    };
    const first = bed.start();
    const { api, admin } = await first.ready();
    assert.equal(await bed.ledger.create(api, [bed.payments.addresses[0] as string]), 200);
    await bed.receiver.waitFor(8);
    await bed.payments.stop();
    assert.ok(await waitingIn(admin, (counts) => counts.every((count) => count >= 8)), 'every role shows what waits');
    await first.kill('SIGKILL');
    const held = await running();
    assert.ok(held.length >= 8, `${held.length} deliveries are claimed`);
    assert.ok(held.every((row) => row['lease_until'] > Date.now()));
    bed.receiver.setFallback({ kind: 'answer', status: 200, delayMs: 0 });

    const second = await bed.start().ready();
    await until(async () => (await running()).length === 0);
    assert.ok(await waitingIn(second.admin, (counts) => counts.every((count) => count === 0)), 'nothing waits');
    const opened = await bed.openStore();
    const done = await opened.read.selectFrom('outbox').select('key').where('state', '=', 'done').execute();
    await opened.close();
    const keys = new Set(done.map(({ key }) => key));
    assert.ok(held.every((row) => keys.has(row['key'])));
    for (const row of held) assert.ok(row['lease_until'] > Date.now(), 'its lease has not run out yet');
  });
