/** A fallback may have an answer at hand: nobody may see the difference, whatever the call, the key and the gate. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { RpcFallback, RpcForwardReply, RpcQuestion } from '../../../src/plugin/host.ts';
import { GOOD_KEY, startFront, type TestFront } from '../../helpers/http-front.ts';

const KNOWN = 'getTransaction';
const price = { product: 'rpc', credits: 1, groups: ['rpc'] } as const;
const asked: string[] = [];

function replyTo({ body, params }: Pick<RpcQuestion, 'body' | 'params'>, id: string): RpcForwardReply {
  const text = params === null ? 'null' : body.toString('utf8', params.start, params.end);
  return {
    status: 200,
    headers: { 'x-cache': 'HIT' },
    body: `{"jsonrpc":"2.0","result":${text},"id":${id}}`,
    answered: true,
  };
}

const forward: RpcFallback['forward'] = (call) => {
  const { body, ...reply } = replyTo(call, call.id ?? 'null');
  return Promise.resolve({ ...reply, body: Buffer.from(body as string) });
};
const ready: RpcFallback = {
  price: () => price,
  atHand: (question) => {
    asked.push(question.method);
    return question.method === KNOWN ? replyTo(question, question.id) : null;
  },
  forward,
};

let plain: TestFront;
let quick: TestFront;
let slow: TestFront;
before(async () => {
  plain = await startFront({ fallback: { price: () => price, forward } });
  quick = await startFront({ fallback: ready });
  slow = await startFront({ fallback: ready, slowGate: true });
});
after(() => Promise.all([plain, quick, slow].map((front) => front.stop())));

const call = (id: string, method = KNOWN, params = '["a",{"encoding":"json"}]') =>
  `{"jsonrpc":"2.0","id":${id},"method":"${method}","params":${params}}`;
const bodies = [
  ...['1', '-7', '1.50', '"x"', '"\\u00e9\\""', '"ünïcode 😀"', 'null', '12345678901234567890'].map((id) => call(id)),
  call('{}'),
  call('3', 'getBalance'),
  call('4', KNOWN, '["ü"]'),
  `{"jsonrpc":"2.0","method":"${KNOWN}"}`,
  `{"jsonrpc":"2.0","id":9,"method":"${KNOWN}"}`,
  `{"id":9,"method":"${KNOWN}"}`,
  `{"jsonrpc":"2.0","id":9,"id":8,"method":"${KNOWN}"}`,
  `{"jsonrpc":"2.0","id":9,"method":"${KNOWN}","a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1,"d":2}`,
  `[${call('1')},${call('2', 'getBalance')}]`,
  call('1').slice(0, -1),
];
const keys = [GOOD_KEY, 'rate', 'credits', 'plan', `plan:${KNOWN}`, 'batch', 'ip', 'unknown', ''];

async function ask(front: TestFront, key: string, body: string) {
  const from = front.gate.settled.length;
  const response = await fetch(`${front.url}/?api-key=${key}`, { method: 'POST', body });
  const headers = Object.fromEntries(response.headers);
  for (const name of ['x-request-id', 'date', 'keep-alive', 'connection']) delete headers[name];
  const text = await response.text();
  // Settled when the bytes are out, which the client may see before the server does.
  while (front.front.load().inFlight > 0) await new Promise((resolve) => setImmediate(resolve));
  return { status: response.status, headers, text, settled: front.gate.settled.slice(from) };
}

for (const key of keys) {
  test(`the same answers with the key "${key}"`, async () => {
    for (const body of bodies) {
      const expected = await ask(plain, key, body);
      assert.deepEqual(await ask(quick, key, body), expected, body);
      assert.deepEqual(await ask(slow, key, body), expected, body);
    }
  });
}

test('a call with a known answer is looked up first', () => {
  assert.ok(asked.includes(KNOWN));
});
