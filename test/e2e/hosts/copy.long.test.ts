/** From SQLite to PostgreSQL with everything there is, and on from the same block. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { chainMissing } from '../../helpers/chain.ts';
import { runCommand } from '../../helpers/daemon.ts';
import { postgresDatabase } from '../../helpers/store.ts';
import { startWorkBed } from '../../helpers/work-harness.ts';

const skip = (await chainMissing()) ?? false;

test('a daemon moves to PostgreSQL by store copy, and nothing is lost or repeated', { skip }, async (t) => {
  const bed = await startWorkBed();
  t.after(() => bed.stop());
  const database = await postgresDatabase(t);
  const copy = (...more: string[]) =>
    runCommand(['store', 'copy', '--from', 'sqlite:', '--to', database.url, '--config', bed.configFile, ...more]);
  const before = bed.start();
  const { api } = await before.ready();
  const [one, two, three] = bed.payments.addresses as [string, string, string];
  assert.equal(await bed.ledger.create(api, [one]), 200);
  assert.equal(await bed.ledger.create(api, [two, three]), 200);
  await bed.receiver.waitFor(15);
  const running = await copy();
  assert.equal(running.code, 75);
  assert.match(running.err, /DAEMON_RUNNING/);
  await before.kill('SIGTERM');

  const copied = await copy('--json');
  assert.equal(copied.code, 0, copied.err);
  const { tables } = JSON.parse(copied.out) as { tables: { name: string; rows: number; sum: string }[] };
  const rowsOf = (name: string) => tables.find((table) => table.name === name)?.rows ?? 0;
  for (const name of ['outbox', 'webhooks', 'webhook_attempts', 'follow_headers', 'api_keys'])
    assert.ok(rowsOf(name) > 0, name);
  const again = await copy();
  assert.equal(again.code, 78);
  assert.match(again.err, /not empty/);

  const after = bed.start({ env: { PARHELION_STORE__URL: database.url } });
  const moved = await after.ready();
  assert.equal(await bed.ledger.create(moved.api, [one, three]), 200);
  await bed.receiver.waitFor(bed.receiver.received.length + 15);
  await bed.payments.stop();
  await bed.ledger.settle(() => database.open(), 120, after.output);
  await after.kill('SIGTERM');
  assert.equal(after.child.exitCode, 0, after.output());
  const store = await database.open();
  t.diagnostic(`${await bed.ledger.check(store)} deliveries, ${rowsOf('outbox')} of them before the move`);
});

test('the error names what cannot be copied', async () => {
  const run = (from: string, to: string) =>
    runCommand(['store', 'copy', '--from', from, '--to', to], { env: { SOLANA_RPC_URL: 'http://127.0.0.1:9' } });
  for (const [from, to, expected] of [
    ['sqlite:/nowhere/at/all.db', 'sqlite:/tmp/x.db', /no such database/],
    ['mysql://h/x', 'sqlite:/tmp/x.db', /must begin with sqlite: or postgres/],
  ] as const) {
    const { code, err } = await run(from, to);
    assert.equal(code, 78, err);
    assert.match(err, expected);
  }
});
