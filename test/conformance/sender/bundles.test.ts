import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { Keypair } from '@solana/web3.js';
import { call, post, startBed } from '../proxy/rpc-client.ts';
import { legacy, transfer, version1 } from './transactions.ts';

const somewhere = Keypair.generate().publicKey;
const signed = legacy([transfer(somewhere, 5)]);

/** Three upstreams: the node, a bundle server, and a send upstream with protection where `marked`. */
async function bed(t: TestContext, sender: (urls: readonly string[]) => Readonly<Record<string, unknown>>) {
  const upstreams = await startBed(t, { upstreams: 3, config: { plugins: ['access', 'proxy'] } });
  const [node, taker, other] = upstreams.upstreams as [
    typeof upstreams.first,
    typeof upstreams.first,
    typeof upstreams.first,
  ];
  const front = await startBed(t, {
    config: {
      plugins: ['access', 'proxy', 'sender'],
      upstream: { urls: [node.url], healthIntervalMs: 3_600_000 },
      sender: { rebroadcast: { enabled: false }, ...sender([node.url, taker.url, other.url]) },
    },
  });
  return { daemon: front.daemon, node, taker, other };
}

test('bundle methods of the root go to the bundle servers, with unchanged region and params', async (t) => {
  const { daemon, node, taker } = await bed(t, ([, url]) => ({ bundleUrls: [url] }));
  taker.on('sendBundle', { result: '"bundle id"' });
  taker.on('getBundleStatuses', { result: '{"context":{"slot":18446744073709551615},"value":[null]}' });
  taker.on('simulateBundle', { result: '{"value":{"summary":"succeeded"}}' });
  const headers = { 'jito-region': 'fra' };
  for (const params of [[[signed.base58]], [[signed.base64, signed.base64], { encoding: 'base64' }]]) {
    const { text } = await post({ daemon }, call('sendBundle', params), { headers });
    assert.equal(text, '{"jsonrpc":"2.0","result":"bundle id","id":1}');
    assert.deepEqual(taker.callsOf('sendBundle').at(-1)!.params, params);
    assert.equal(taker.callsOf('sendBundle').at(-1)!.headers['jito-region'], 'fra');
  }
  const statuses = await post({ daemon }, call('getBundleStatuses', [['one']]));
  assert.match(statuses.text, /"slot":18446744073709551615/);
  assert.equal(taker.callsOf('getBundleStatuses')[0]!.headers['jito-region'], undefined);
  const simulated = await post({ daemon }, call('simulateBundle', [{ encodedTransactions: [signed.base64] }]));
  assert.match(simulated.text, /succeeded/);
  assert.equal(node.calls.filter(({ method }) => /Bundle/.test(method)).length, 0);
});

test('an error of a bundle server is returned unchanged; an invalid bundle is refused before anything is sent', async (t) => {
  const { daemon, taker } = await bed(t, ([, url]) => ({ bundleUrls: [url] }));
  taker.on('sendBundle', {
    chunks: ['{"jsonrpc":"2.0","error":{"code":-32097,"message":"congested","data":1},"id":1}'],
  });
  const refused = await post({ daemon }, call('sendBundle', [[signed.base58]]));
  assert.deepEqual(
    [refused.status, JSON.parse(refused.text).error],
    [200, { code: -32097, message: 'congested', data: 1 }],
  );
  // Health checks continue in parallel.
  const bundleCalls = () => taker.calls.filter(({ method }) => /Bundle/.test(method)).length;
  const seen = bundleCalls();
  for (const [method, params] of [
    ['sendBundle', [[]]],
    ['sendBundle', [Array(6).fill(signed.base58)]],
    ['sendBundle', [[signed.base64]]],
    ['sendBundle', [[signed.base58], { encoding: 'json' }]],
    ['sendBundle', {}],
    ['getBundleStatuses', [[]]],
    ['getBundleStatuses', [Array(6).fill('x')]],
    ['getBundleStatuses', [[1]]],
    ['simulateBundle', [{}]],
    ['simulateBundle', [{ encodedTransactions: Array(6).fill('x') }]],
  ] as const) {
    const { status, text } = await post({ daemon }, call(method, params));
    assert.deepEqual([status, JSON.parse(text).error.code], [200, -32602], `${method} ${JSON.stringify(params)}`);
  }
  const strange = await post({ daemon }, call('sendBundle', [[signed.base58]]), { headers: { 'jito-region': 'a b' } });
  assert.equal(JSON.parse(strange.text).error.code, -32602);
  assert.equal(bundleCalls(), seen);
});

test('without a bundle server the methods do not exist, and the error names the setting', async (t) => {
  const { daemon, node } = await bed(t, () => ({}));
  for (const method of ['sendBundle', 'getBundleStatuses', 'simulateBundle']) {
    const { status, text } = await post({ daemon }, call(method, [[signed.base58]]));
    const { error } = JSON.parse(text);
    assert.deepEqual([status, error.code], [200, -32601]);
    assert.match(error.data.details, /sender\.bundleUrls/);
  }
  assert.equal(node.calls.filter(({ method }) => /Bundle/.test(method)).length, 0);
});

test('mev-protect goes only to the marked upstreams, from /fast and from the root', async (t) => {
  const { daemon, node, taker, other } = await bed(t, ([, plain, marked]) => ({
    urls: [plain, { url: `${marked}/?own=1`, mevProtect: true }],
  }));
  for (const one of [node, taker, other]) one.on('sendTransaction', { result: JSON.stringify(signed.signature) });
  const body = call('sendTransaction', [signed.base64, { encoding: 'base64' }]);
  const fast = await fetch(`${daemon.apiUrl}/fast?mev-protect=true&rebate-address=x`, { method: 'POST', body });
  assert.equal(((await fast.json()) as { result: string }).result, signed.signature);
  assert.equal(fast.headers.get('x-mev-protect'), null);
  const root = await post({ daemon }, body, { query: '&mev-protect=true' });
  assert.equal(JSON.parse(root.text).result, signed.signature);
  assert.equal(other.callsOf('sendTransaction').length, 2);
  assert.deepEqual(
    other.callsOf('sendTransaction').map(({ url }) => url),
    Array(2).fill('/?own=1&mev-protect=true'),
  );
  assert.equal(node.callsOf('sendTransaction').length + taker.callsOf('sendTransaction').length, 0);
  await post({ daemon }, body, { query: '&mev-protect=false' });
  assert.equal(node.callsOf('sendTransaction').length, 1, 'without mev-protect it goes the usual way');
});

test('a bundle with mev-protect goes only to marked bundle servers; without one the response reports it, or it is refused', async (t) => {
  const params = [[signed.base58]];
  const ask = async (daemon: { readonly apiUrl: string; readonly key: string }, more: string) => {
    const fast = await fetch(`${daemon.apiUrl}/fast?api-key=${daemon.key}${more}`, {
      method: 'POST',
      body: call('sendBundle', params),
    });
    const root = await post({ daemon: daemon as never }, call('sendBundle', params), { query: more });
    return [{ headers: fast.headers, text: await fast.text() }, root] as const;
  };
  const marked = await bed(t, ([, plain, kept]) => ({ bundleUrls: [plain, { url: kept, mevProtect: true }] }));
  for (const one of [marked.taker, marked.other]) one.on('sendBundle', { result: '"id"' });
  for (const { headers, text } of await ask(marked.daemon, '&mev-protect=true')) {
    assert.deepEqual([JSON.parse(text).result, headers.get('x-mev-protect')], ['id', null]);
  }
  assert.deepEqual(
    [marked.taker, marked.other].map((one) => one.callsOf('sendBundle').length),
    [0, 2],
  );
  assert.equal(marked.other.callsOf('sendBundle')[0]!.url, '/?mev-protect=true');
  await ask(marked.daemon, '');
  assert.equal(marked.taker.callsOf('sendBundle').length, 2, 'without mev-protect it goes the usual way');

  for (const mevProtect of ['ignore', 'refuse'] as const) {
    const plain = await bed(t, ([, url]) => ({ mevProtect, bundleUrls: [url] }));
    plain.taker.on('sendBundle', { result: '"id"' });
    for (const { headers, text } of await ask(plain.daemon, '&mev-protect=true')) {
      const { result, error } = JSON.parse(text);
      if (mevProtect === 'ignore') assert.deepEqual([result, headers.get('x-mev-protect')], ['id', 'not-available']);
      else assert.deepEqual([error.code, error.data.details], [-32602, 'no send upstream offers mev-protect']);
    }
    assert.equal(plain.taker.callsOf('sendBundle').length, mevProtect === 'ignore' ? 2 : 0);
  }
});

test('bundles accept transactions of version 1, also above 1,232 bytes in base64', async (t) => {
  const { daemon, taker } = await bed(t, ([, url]) => ({ bundleUrls: [url] }));
  taker.on('sendBundle', { result: '"id"' });
  taker.on('simulateBundle', { result: '{"value":{"summary":"succeeded"}}' });
  const small = await version1([transfer(somewhere, 5)]);
  const large = await version1(Array.from({ length: 60 }, (_, at) => transfer(Keypair.generate().publicKey, at + 1)));
  assert.ok(large.wire.length > 1_232 && large.wire.length <= 4_096, `${large.wire.length} bytes`);
  for (const params of [[[small.base58]], [[small.base64, large.base64, signed.base64], { encoding: 'base64' }]]) {
    for (const path of ['', 'fast']) {
      const body = call('sendBundle', params);
      const response = await fetch(`${daemon.apiUrl}/${path}?api-key=${daemon.key}`, { method: 'POST', body });
      assert.equal(((await response.json()) as { result: string }).result, 'id');
      assert.deepEqual(taker.callsOf('sendBundle').at(-1)!.params, params);
    }
  }
  const simulated = { encodedTransactions: [small.base64, large.base64] };
  const { text } = await post({ daemon }, call('simulateBundle', [simulated]));
  assert.match(text, /succeeded/);
  assert.deepEqual(taker.callsOf('simulateBundle')[0]!.params, [simulated]);
  // One byte that no layout has: refused before anything is sent.
  const seen = taker.callsOf('sendBundle').length;
  const broken = Buffer.concat([large.wire, Buffer.of(0)]).toString('base64');
  const refused = await post({ daemon }, call('sendBundle', [[broken], { encoding: 'base64' }]));
  assert.equal(JSON.parse(refused.text).error.code, -32602);
  assert.equal(taker.callsOf('sendBundle').length, seen);
});

test('without a protecting upstream the response reports it, or the call is refused', async (t) => {
  for (const mevProtect of ['ignore', 'refuse'] as const) {
    const { daemon, node } = await bed(t, () => ({ mevProtect }));
    node.on('sendTransaction', { result: JSON.stringify(signed.signature) });
    const body = call('sendTransaction', [signed.base64, { encoding: 'base64' }]);
    const fast = await fetch(`${daemon.apiUrl}/fast?mev-protect=true`, { method: 'POST', body });
    const root = await post({ daemon }, body, { query: '&mev-protect=true' });
    for (const { headers, text } of [{ headers: fast.headers, text: await fast.text() }, root]) {
      const { result, error } = JSON.parse(text);
      if (mevProtect === 'ignore') {
        assert.deepEqual([result, headers.get('x-mev-protect')], [signed.signature, 'not-available']);
        continue;
      }
      assert.deepEqual([error.code, error.data.details], [-32602, 'no send upstream offers mev-protect']);
    }
    assert.equal(node.callsOf('sendTransaction').length, mevProtect === 'ignore' ? 2 : 0);
  }
});

test('any other value of mev-protect: 400 on /fast, refused on the root where something would be sent', async (t) => {
  const { daemon, node } = await bed(t, () => ({}));
  const body = call('sendTransaction', [signed.base64, { encoding: 'base64' }]);
  const fast = await fetch(`${daemon.apiUrl}/fast?mev-protect=yes`, { method: 'POST', body });
  assert.equal(fast.status, 400);
  const root = await post({ daemon }, body, { query: '&mev-protect=yes' });
  assert.equal(JSON.parse(root.text).error.code, -32602);
  const read = await post({ daemon }, call('getSlot'), { query: '&mev-protect=yes' });
  assert.equal(JSON.parse(read.text).result, 1_000);
  assert.equal(node.callsOf('sendTransaction').length, 0);
});
