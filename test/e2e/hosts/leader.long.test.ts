/** Several indexers on one PostgreSQL database: one follows the chain, and when it is killed, paused or cut off, another one does. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { chainMissing } from '../../helpers/chain.ts';
import { eventually, readinessOf } from '../roles/harness.ts';
import { chainOf, endHosts, epochOf, leading, type Seat, startHosts, untilLeads, untilMoves } from './harness.ts';

const skip = (await chainMissing()) ?? false;

test('the leader is killed, paused and continued, cut off; nothing is lost, repeated, or written by two', {
  skip,
}, async (t) => {
  const bed = await startHosts(t, 1_000);
  const api = await bed.seat('api');
  const deliverer = await bed.seat('deliverer');
  const first = await bed.seat('indexer');
  await untilLeads(bed, first);
  const [one, two, three] = bed.payments.addresses as [string, string, string];
  assert.equal(await bed.ledger.create(api.api, [one]), 200);
  assert.equal(await bed.ledger.create(api.api, [two, three]), 200);

  const second = await bed.seat('indexer');
  assert.equal(await leading(second), 0);
  await eventually('the standby is ready', async () => (await readinessOf(second.admin)).ready, bed.said);
  const standby = await chainOf(second);
  assert.equal(standby?.isStandby, true);
  assert.match(standby?.leader?.name ?? '', new RegExp(`:${first.daemon.child.pid}$`));
  await eventually(
    'it sees the cursor move',
    async () => ((await chainOf(second))?.cursorSlot ?? 0) > (standby?.cursorSlot ?? 0),
  );

  await first.daemon.kill('SIGKILL');
  await untilLeads(bed, second);
  await untilMoves(bed);
  assert.equal(await epochOf(bed), 2);

  // Paused at a moment of its own choice, perhaps within a transaction.
  const third = await bed.seat('indexer');
  assert.equal(await leading(third), 0);
  second.daemon.child.kill('SIGSTOP');
  await untilLeads(bed, third);
  await untilMoves(bed);
  second.daemon.child.kill('SIGCONT');
  assert.equal(await second.daemon.ended, 75, second.daemon.output());
  assert.match(second.daemon.output(), /FOLLOW_FENCED/);
  assert.equal(await epochOf(bed), 3);

  // The way to the database breaks for everybody, and comes back.
  const fourth = await bed.seat('indexer');
  assert.equal(await leading(fourth), 0);
  bed.proxy.set({ up: { resetAfterBytes: 0 }, down: { resetAfterBytes: 0 } });
  bed.proxy.cut();
  await new Promise((resolve) => setTimeout(resolve, 2_500));
  bed.proxy.clear();
  await untilMoves(bed);
  const alive = [third, fourth].filter(({ daemon }) => daemon.child.exitCode === null);
  assert.ok(alive.length > 0, bed.said());
  await eventually(
    'one of them leads',
    async () => (await Promise.all(alive.map(leading))).reduce<number>((sum, value) => sum + (value ?? 0), 0) === 1,
    bed.said,
  );
  const deliveries = await endHosts(bed, [api, deliverer, ...alive]);
  t.diagnostic(`${deliveries} deliveries, epoch ${await epochOf(bed)}`);
  assert.ok(deliveries > 0);
});

test('a leader that stops in order hands over without the wait for its lease', { skip }, async (t) => {
  const bed = await startHosts(t, 3_600_000);
  const api = await bed.seat('api');
  const deliverer = await bed.seat('deliverer');
  let leader: Seat = await bed.seat('indexer');
  await untilLeads(bed, leader);
  assert.equal(await bed.ledger.create(api.api, [bed.payments.addresses[0] as string]), 200);
  for (let turn = 0; turn < 3; turn += 1) {
    const next = await bed.seat('indexer');
    assert.equal(await leading(next), 0);
    await leader.daemon.kill('SIGTERM');
    assert.equal(leader.daemon.child.exitCode, 0, leader.daemon.output());
    await untilLeads(bed, next);
    await untilMoves(bed);
    leader = next;
  }
  assert.equal(await epochOf(bed), 4);
  assert.ok((await endHosts(bed, [api, deliverer, leader])) > 0);
});
