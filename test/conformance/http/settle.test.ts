import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Type } from '@sinclair/typebox';
import { defineRoute, json, type RpcMethod } from '../../../src/plugin/plugin.ts';
import { GOOD_KEY, startFront } from '../../helpers/http-front.ts';

const price = { product: 'rpc', credits: 1, groups: ['rpc'] } as const;

/** Handlers that answer when they are let go. */
function createHold() {
  let arrived = () => {};
  let release = () => {};
  const arrival = new Promise<void>((resolve) => {
    arrived = resolve;
  });
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  const wait = () => {
    arrived();
    return released;
  };
  return { arrival, release: () => release(), wait };
}

const method = (wait: () => Promise<void>): RpcMethod => ({
  name: 'slow',
  summary: '',
  tag: '',
  auth: 'key',
  price,
  params: Type.Array(Type.Unknown()),
  result: Type.Null(),
  handler: () => wait().then(() => null),
});
const route = (wait: () => Promise<void>) =>
  defineRoute({
    method: 'GET',
    path: '/slow',
    summary: '',
    tag: '',
    auth: 'key',
    errors: 'plain',
    price,
    replies: {},
    handler: () => wait().then(() => json({})),
  });

async function until(holds: () => boolean): Promise<void> {
  for (let tries = 0; tries < 400 && !holds(); tries += 1) await new Promise((resolve) => setTimeout(resolve, 5));
  assert.ok(holds());
}

for (const kind of ['JSON-RPC call', 'batch', 'route'] as const) {
  test(`${kind}: what the gate admitted is settled once, also when the client does not wait for the answer`, async () => {
    const hold = createHold();
    const front = await startFront({ methods: [method(hold.wait)], routes: [route(hold.wait)] });
    try {
      const gone = new AbortController();
      const call = { jsonrpc: '2.0', id: 1, method: 'slow' };
      const body = JSON.stringify(kind === 'batch' ? [call] : call);
      const url = `${front.url}${kind === 'route' ? '/slow' : '/'}?api-key=${GOOD_KEY}`;
      const init = kind === 'route' ? {} : { method: 'POST', body };
      const answer = fetch(url, { ...init, signal: gone.signal });
      answer.catch(() => undefined);
      await hold.arrival;
      gone.abort();
      await assert.rejects(answer);
      await until(() => front.front.load().inFlight === 0);
      hold.release();
      await until(() => front.gate.settled.length === 1);
      await new Promise((resolve) => setTimeout(resolve, 20));
      // The work of a call was done; a route has only its status to go by, and there is none.
      assert.deepEqual(
        front.gate.settled.map(({ charged }) => charged),
        [kind !== 'route'],
      );
    } finally {
      await front.stop();
    }
  });
}
