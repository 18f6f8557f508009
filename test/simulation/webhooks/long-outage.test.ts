/** A receiver that is down for thirty hours, with the patience that a daemon has by itself. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { createSystemRandom } from '../../../src/adapters/clock.ts';
import type { Clock } from '../../../src/ports/clock.ts';
import { addressOf, makeBlock } from '../../conformance/webhooks/blocks.ts';
import { startHarness } from '../../conformance/webhooks/harness.ts';
import { createManualClock } from '../../helpers/manual-clock.ts';
import { createSfc32 } from '../../helpers/sfc32.ts';
import { sqliteStore } from '../../helpers/store.ts';
import { createNetwork } from './network.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

async function stage(t: TestContext) {
  const steady = createManualClock();
  let jumpMs = 0;
  const clock: Clock = { ...steady, now: () => steady.now() + jumpMs };
  const network = createNetwork(steady, createSfc32(1));
  const harness = await startHarness(t, {
    store: await sqliteStore(t),
    clock,
    jobs: { pollMs: 12 * HOUR_MS },
    // No jitter: with it the first events have now and then gone through all their steps before a day is over.
    random: { ...createSystemRandom(), float: () => 0.5 },
    outbound: network.outbound({ isDead: false }),
  });
  const body = { webhookURL: 'https://receiver.example/', webhookType: 'raw', accountAddresses: [addressOf(1)] };
  const created = harness.call('POST', '/v0/webhooks', body);
  await steady.advance(0);
  const id: string = (await created).body.webhookID;
  network.moods.set(id, 'bad');
  let slot = 0;
  return {
    harness,
    network,
    id,
    steady,
    jump: (ms: number) => {
      jumpMs += ms;
    },
    async event() {
      slot += 1;
      await harness.apply(makeBlock({ slot, transactions: [{ name: String(slot), keys: [1] }] }));
      await steady.advance(1_000);
    },
    async states(): Promise<string[]> {
      const { data } = (await harness.call('GET', `/v0/webhooks/${id}/deliveries`)).body;
      return data.map(({ status }: { status: string }) => status).reverse();
    },
    isActive: async () => (await harness.call('GET', `/v0/webhooks/${id}`)).body.active as boolean,
    async stop() {
      const stopped = harness.runner.stop();
      await steady.advance(MINUTE_MS);
      await stopped;
    },
  };
}

test('few events: it stays on; what was given up is kept and can be sent again, the rest comes by itself', async (t) => {
  const it = await stage(t);
  await it.event();
  await it.steady.advance(15 * HOUR_MS);
  await it.event();
  await it.steady.advance(5 * HOUR_MS);
  assert.deepEqual(await it.states(), ['pending', 'pending']);
  // With the jitter of its seven steps the first one is over by then, and the second one is not.
  await it.steady.advance(14 * HOUR_MS);
  assert.deepEqual(await it.states(), ['failed', 'pending']);
  assert.equal(it.network.requests.filter(({ signatures }) => signatures.length === 1).length >= 8, true);
  it.network.moods.set(it.id, 'good');
  await it.steady.advance(16 * HOUR_MS);
  assert.deepEqual(await it.states(), ['failed', 'delivered']);
  assert.equal(await it.isActive(), true);
  const since = new Date(it.steady.now() - 72 * HOUR_MS).toISOString();
  const recovered = it.harness.call('POST', `/v0/webhooks/${it.id}/recover`, { since });
  await it.steady.advance(1_000);
  assert.deepEqual((await recovered).body, { queued: 1, remaining: 0 });
  assert.deepEqual(await it.states(), ['delivered', 'delivered']);
  const [first] = it.network.requests;
  const last = it.network.requests.at(-1);
  assert.deepEqual([last?.id, last?.body], [first?.id, first?.body]);
  await it.stop();
});

test('many events: after a day without any answer it is off; on again it has its grace, and what was dropped can be had', async (t) => {
  const it = await stage(t);
  for (let hour = 0; hour < 30 && (await it.isActive()); hour += 1) {
    await it.event();
    await it.event();
    await it.steady.advance(HOUR_MS - 2_000);
  }
  assert.equal(await it.isActive(), false);
  const states = await it.states();
  assert.ok(states.length >= 44, `it was off after ${states.length} events already`);
  assert.ok(states.every((state) => state === 'discarded'));
  it.network.moods.set(it.id, 'good');
  const path = `/v0/webhooks/${it.id}`;
  const on = it.harness.call('PATCH', path, { active: true });
  await it.steady.advance(0);
  assert.ok(Date.parse((await on).body.graceUntil) >= it.steady.now() + 24 * HOUR_MS - 1_000);
  const since = new Date(it.steady.now() - 72 * HOUR_MS).toISOString();
  const recovered = it.harness.call('POST', `${path}/recover`, { since });
  await it.steady.advance(MINUTE_MS);
  assert.equal((await recovered).body.queued, states.length);
  assert.ok((await it.states()).every((state) => state === 'delivered'));
  await it.stop();
});

test('a wall clock that jumps moves retries by as much at most, and loses none', async (t) => {
  const it = await stage(t);
  await it.event();
  it.jump(-2 * HOUR_MS);
  it.network.moods.set(it.id, 'good');
  await it.event();
  await it.steady.advance(12 * HOUR_MS);
  assert.deepEqual(await it.states(), ['delivered', 'delivered']);
  it.network.moods.set(it.id, 'bad');
  await it.event();
  it.jump(3 * HOUR_MS);
  it.network.moods.set(it.id, 'good');
  await it.steady.advance(12 * HOUR_MS);
  assert.deepEqual(await it.states(), ['delivered', 'delivered', 'delivered']);
  await it.stop();
});
