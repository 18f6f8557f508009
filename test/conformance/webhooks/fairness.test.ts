/**
 * Many webhooks, of which every tenth goes to a receiver that takes requests and never answers. PARHELION_FAIRNESS_HOOKS=1000 makes it
 * a thousand with as many slots as a daemon has.
 */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { startReceiver } from '../../helpers/receiver.ts';
import { sqliteStore } from '../../helpers/store.ts';
import { addressOf, makeBlock } from './blocks.ts';
import { startHarness } from './harness.ts';

const HOOKS = Number(process.env['PARHELION_FAIRNESS_HOOKS'] ?? 200);
const DEAD_EVERY = 10;
const SLOTS = Math.ceil((HOOKS * 64) / 1_000);
/** Much less than a request hangs. */
const CLOSED_MS = 200;

/** Takes requests, says nothing, and counts how many hang at once. */
async function startSilent() {
  let hanging = 0;
  let most = 0;
  const server = createServer((request) => {
    hanging += 1;
    // A little later: of those that were just given up some may not have been seen to be closed.
    setTimeout(() => {
      most = Math.max(most, hanging);
    }, CLOSED_MS);
    request.resume();
    request.socket.once('close', () => {
      hanging -= 1;
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    takeMost: () => {
      const seen = most;
      most = hanging;
      return seen;
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve(undefined));
        server.closeAllConnections();
      }),
  };
}

test('dead receivers do not starve others', async (t) => {
  const [silent, receiver] = [await startSilent(), await startReceiver()];
  t.after(() => Promise.all([silent.close(), receiver.close()]));
  const harness = await startHarness(t, {
    store: await sqliteStore(t),
    webhooks: {
      maxPerProject: HOOKS,
      concurrency: { global: SLOTS },
      retry: { compat: { steps: [1, 1, 1], timeoutMs: 3_000 } },
      autoDisable: { enabled: false },
    },
  });
  for (let at = 0; at < HOOKS; at += 1) {
    const reply = await harness.call('POST', '/v0/webhooks', {
      webhookURL: `${at % DEAD_EVERY === 0 ? silent.url : receiver.url}/${at}`,
      webhookType: 'raw',
      retryPreset: 'compat',
      accountAddresses: [addressOf(at)],
    });
    assert.equal(reply.status, 200);
  }
  const healthy = HOOKS - HOOKS / DEAD_EVERY;
  const event = async (slot: number) => {
    const transactions = Array.from({ length: HOOKS }, (_, at) => ({ name: `${slot}/${at}`, keys: [at] }));
    await harness.apply(makeBlock({ slot, transactions }));
  };
  const doneSoFar = () => harness.outbox.count({ kind: 'webhooks.deliver', states: ['done'] });
  for (const round of [1, 2]) {
    await event(round);
    for (let wait = 0; wait < 600 && (await doneSoFar()) < round * healthy; wait += 1) await sleep(250);
    assert.equal(await doneSoFar(), round * healthy);
    // Until their first answer dead ones are unknown; from then on they share a quarter of the slots.
    assert.ok(silent.takeMost() <= Math.floor((SLOTS * 3) / 4));
  }
  // None of them was forgotten: each of its events is being tried, or waits for that.
  const states = await harness.store.read.selectFrom('outbox').select(['state']).where('state', '!=', 'done').execute();
  assert.equal(states.length, (2 * HOOKS) / DEAD_EVERY);
});
