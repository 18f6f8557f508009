import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { Keypair, PublicKey, TransactionInstruction } from '@solana/web3.js';
import { rawRequest } from '../../helpers/raw-http.ts';
import { type BedOptions, type ProxyBed, startBed, until } from '../proxy/rpc-client.ts';
import { legacy, transfer, version1, versioned } from './transactions.ts';

const TIP = '4ACfpUFoaSD9bfPdeu6DBt89gB6ENTeHBXCAi87NhDEE';
const somewhere = Keypair.generate().publicKey;
const accept = { result: '"11111111"' };

const memo = (bytes: number) =>
  new TransactionInstruction({
    programId: new PublicKey('MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr'),
    keys: [],
    data: Buffer.alloc(bytes, 'm'),
  });

/** A bed whose upstreams accept transactions that never land. */
function senderBed(t: TestContext, sender: Readonly<Record<string, unknown>> = {}, options: BedOptions = {}) {
  return startBed(t, {
    ...options,
    config: {
      plugins: ['access', 'proxy', 'sender'],
      sender: { rebroadcast: { enabled: false }, ...sender },
      ...options.config,
    },
    prepare: (upstream) => {
      upstream.on('sendTransaction', accept);
      options.prepare?.(upstream);
    },
  });
}

async function fast({ daemon }: Pick<ProxyBed, 'daemon'>, body: string, query = '') {
  const response = await fetch(`${daemon.apiUrl}/fast${query}`, { method: 'POST', body });
  const text = await response.text();
  return { status: response.status, headers: response.headers, text, json: text === '' ? null : JSON.parse(text) };
}

const send = (transaction: string, options?: object, id: unknown = 1) =>
  JSON.stringify({
    jsonrpc: '2.0',
    id,
    method: 'sendTransaction',
    params: options ? [transaction, options] : [transaction],
  });

test('answers the first signature from the bytes; base58 is the default encoding', async (t) => {
  const bed = await senderBed(t);
  const one = legacy([transfer(somewhere, 5)]);
  const two = versioned([transfer(somewhere, 6)]);
  for (const [body, { signature }] of [
    [send(one.base58), one],
    [send(one.base64, { encoding: 'base64', skipPreflight: true, maxRetries: 0 }), one],
    [send(two.base64, { encoding: 'base64' }), two],
    [send(two.base58, { encoding: 'base58' }), two],
  ] as const) {
    const { status, text } = await fast(bed, body);
    assert.deepEqual([status, text], [200, `{"jsonrpc":"2.0","result":"${signature}","id":1}`]);
  }
  const params = bed.first.callsOf('sendTransaction').map((call) => call.params as [string, Record<string, unknown>]);
  assert.deepEqual(params[1], [one.base64, { maxRetries: 0, skipPreflight: true, encoding: 'base64' }]);
  assert.deepEqual(params[0], [one.base64, { maxRetries: 0, encoding: 'base64' }]);
});

test('a request with another method than POST is 405 with Allow, as on the JSON-RPC root', async (t) => {
  const { daemon } = await senderBed(t);
  const port = Number(new URL(daemon.apiUrl).port);
  for (const method of ['GET', 'PUT', 'HEAD', 'TRACE', 'DELETE']) {
    const text = `${method} /fast HTTP/1.1\r\nHost: x\r\n\r\n`;
    const { status, headers, body } = await rawRequest(port, text, method === 'HEAD');
    assert.deepEqual([status, headers['allow']], [405, 'POST, OPTIONS'], method);
    if (method !== 'HEAD') assert.deepEqual(JSON.parse(body), { error: 'Method not allowed', code: 405 });
  }
});

test('version 1: limits that are not set, and so count as 0, are named', async (t) => {
  const bed = await senderBed(t);
  const both = 'computeUnitLimit, loadedAccountsDataSizeLimit';
  for (const [limits, header] of [
    [{}, both],
    [{ computeUnitLimit: 0, loadedAccountsDataSizeLimit: 0 }, both],
    [{ computeUnitLimit: 1_000 }, 'loadedAccountsDataSizeLimit'],
    [{ loadedAccountsDataSizeLimit: 65_536 }, 'computeUnitLimit'],
    [{ computeUnitLimit: 1_000, loadedAccountsDataSizeLimit: 65_536 }, null],
  ] as const) {
    const { base64, signature } = await version1([transfer(somewhere, 5)], undefined, limits);
    const { text, headers } = await fast(bed, send(base64, { encoding: 'base64' }));
    assert.equal(text, `{"jsonrpc":"2.0","result":"${signature}","id":1}`);
    assert.equal(headers.get('x-unset-limits'), header, JSON.stringify(limits));
  }
  // Earlier versions have defaults.
  const { base64 } = legacy([transfer(somewhere, 5)]);
  assert.equal((await fast(bed, send(base64, { encoding: 'base64' }))).headers.get('x-unset-limits'), null);
});

test('version 1: up to 4,096 bytes, its signature from the end', async (t) => {
  const bed = await senderBed(t);
  const small = await version1([transfer(somewhere, 5)]);
  const empty = await version1([transfer(somewhere, 5), memo(0)]);
  const largest = await version1([transfer(somewhere, 5), memo(4_096 - empty.wire.length)]);
  assert.equal(largest.wire.length, 4_096);
  for (const [body, { signature }] of [
    [send(small.base58), small],
    [send(small.base64, { encoding: 'base64' }), small],
    [send(largest.base64, { encoding: 'base64' }), largest],
  ] as const)
    assert.equal((await fast(bed, body)).text, `{"jsonrpc":"2.0","result":"${signature}","id":1}`);
  const sent = bed.first.callsOf('sendTransaction').map(({ params }) => (params as [string])[0]);
  assert.deepEqual(sent, [small.base64, small.base64, largest.base64]);
  const unsigned = Buffer.from(small.wire);
  unsigned.fill(0, unsigned.length - 64);
  const halfMask = Buffer.from(small.wire);
  halfMask[4] = halfMask[4]! & ~1;
  for (const [bytes, reason] of [
    [Buffer.concat([largest.wire, Buffer.of(0)]), /larger than 4096 bytes/],
    [Buffer.concat([small.wire, Buffer.of(0)]), /1 bytes follow the signatures/],
    [small.wire.subarray(0, -1), /signatures are cut off/],
    [halfMask, /config bits of the priority fee/],
    [unsigned, /not signed/],
    [Buffer.concat([Buffer.of(0x82), small.wire.subarray(1)]), /unknown transaction version 2/],
    // Only version 1 may be longer than a packet.
    [Buffer.concat([legacy([transfer(somewhere, 5)]).wire, Buffer.alloc(1_100)]), /larger than 1232 bytes/],
  ] as const) {
    const { json } = await fast(bed, send(bytes.toString('base64'), { encoding: 'base64' }));
    assert.equal(json.error.code, -32602);
    assert.match(json.error.data.details, reason);
  }
  const { json } = await fast(bed, send(largest.base58));
  assert.match(json.error.data.details, /larger than 1232 bytes, the most in base58; use base64/);
  assert.equal(bed.first.callsOf('sendTransaction').length, 3);
});

test('the id is echoed unchanged', async (t) => {
  const bed = await senderBed(t);
  const { base64, signature } = legacy([transfer(somewhere, 5)]);
  for (const id of ['18446744073709551615', '"\\u0061"', 'null', '1e0']) {
    const body = `{"params":["${base64}",{"encoding":"base64"}] , "id" : ${id},"jsonrpc":"2.0","method":"sendTransaction"}`;
    assert.equal((await fast(bed, body)).text, `{"jsonrpc":"2.0","result":"${signature}","id":${id}}`);
  }
  const silent = await fast(
    bed,
    `{"jsonrpc":"2.0","method":"sendTransaction","params":["${base64}",{"encoding":"base64"}]}`,
  );
  assert.deepEqual([silent.status, silent.text], [204, '']);
});

test('malformed calls, unknown methods and invalid transactions', async (t) => {
  const bed = await senderBed(t);
  const { wire, base64 } = legacy([transfer(somewhere, 5)]);
  const asBase64 = (bytes: Buffer) => send(bytes.toString('base64'), { encoding: 'base64' });
  const unsigned = Buffer.from(wire);
  unsigned.fill(0, 1, 65);
  for (const [body, code] of [
    ['{', -32700],
    ['', -32700],
    ['[]', -32600],
    [`[${send(base64)}]`, -32600],
    ['5', -32600],
    ['{"id":1,"method":"sendTransaction"}', -32600],
    ['{"jsonrpc":"2.0","id":[],"method":"sendTransaction"}', -32600],
    ['{"jsonrpc":"2.0","id":1,"id":2,"method":"sendTransaction"}', -32600],
    ['{"jsonrpc":"2.0","id":1,"method":"getSlot"}', -32601],
    ['{"jsonrpc":"2.0","id":1,"method":"sendBundle","params":[["x"]]}', -32601],
    ['{"jsonrpc":"2.0","id":1,"method":"sendTransaction"}', -32602],
    ['{"jsonrpc":"2.0","id":1,"method":"sendTransaction","params":{}}', -32602],
    [send(''), -32602],
    [send(base64), -32602],
    [send(base64, { encoding: 'hex' }), -32602],
    [send(`${base64.slice(0, -8)}!!!!`, { encoding: 'base64' }), -32602],
    [asBase64(wire.subarray(0, wire.length - 1)), -32602],
    [asBase64(Buffer.concat([wire, Buffer.alloc(1)])), -32602],
    [asBase64(Buffer.alloc(1_233)), -32602],
    [asBase64(Buffer.concat([Buffer.from([0]), wire.subarray(65)])), -32602],
    [asBase64(unsigned), -32602],
    [send('1'.repeat(30_000)), -32602],
  ] as const) {
    const { status, json } = await fast(bed, body);
    assert.deepEqual([status, json.error.code], [200, code], body.slice(0, 100));
  }
  const { status, json } = await fast(bed, send('1'.repeat(50_000)));
  assert.deepEqual([status, json.error.code], [413, -32600]);
  assert.equal(bed.first.callsOf('sendTransaction').length, 0);
});

test('all upstreams get it at once; the first acceptance answers', async (t) => {
  const bed = await senderBed(t, {}, { upstreams: 3 });
  bed.upstreams[0]!.on('sendTransaction', { fault: 'hang' });
  bed.upstreams[1]!.on('sendTransaction', {
    chunks: ['{"jsonrpc":"2.0","error":{"code":-32005,"message":"behind"},"id":1}'],
  });
  const { base58, signature } = legacy([transfer(somewhere, 5)]);
  assert.equal((await fast(bed, send(base58))).json.result, signature);
  await until('all have it', () => bed.upstreams.every((one) => one.callsOf('sendTransaction').length === 1));
});

test('an error object is returned when no upstream accepts; the upstream’s address is never revealed', async (t) => {
  const bed = await senderBed(t, {}, { upstreams: 2 });
  const { base58 } = legacy([transfer(somewhere, 5)]);
  const error = '{"code":-32002,"message":"simulation failed","data":{"n":18446744073709551615}}';
  bed.first.on('sendTransaction', { status: 500, chunks: ['x'] });
  bed.second.on('sendTransaction', { chunks: [`{"jsonrpc":"2.0","error":${error},"id":1}`] });
  const refused = await fast(bed, send(base58, undefined, 'q'));
  assert.deepEqual([refused.status, refused.text], [200, `{"jsonrpc":"2.0","error":${error},"id":"q"}`]);
  bed.second.on('sendTransaction', { status: 429, headers: { 'retry-after': '9' }, chunks: ['x'] });
  const limited = await fast(bed, send(base58));
  assert.deepEqual([limited.status, limited.json.error.code, limited.headers.get('retry-after')], [503, -32002, '9']);
  assert.doesNotMatch(limited.text, /127\.0\.0\.1/);
  await bed.first.down();
  await bed.second.down();
  assert.equal((await fast(bed, send(base58))).status, 503);
});

test('no answer in time is 504', async (t) => {
  const bed = await senderBed(t, { timeoutMs: 100 });
  bed.first.on('sendTransaction', { fault: 'hang' });
  const { status, json } = await fast(bed, send(legacy([transfer(somewhere, 5)]).base58));
  assert.deepEqual([status, json.error.code], [504, -32003]);
});

test('keys: optional unless required, a wrong one is always refused', async (t) => {
  const body = send(legacy([transfer(somewhere, 5)]).base58, undefined, 'k');
  const bed = await senderBed(t);
  assert.equal((await fast(bed, body)).status, 200);
  assert.equal((await fast(bed, body, `?api-key=${bed.daemon.key}`)).status, 200);
  const wrong = await fast(bed, body, '?api-key=wrong');
  assert.deepEqual([wrong.status, wrong.json.error.code, wrong.json.id], [401, -32001, 'k']);
  const nonsense = await fast(bed, '{"id":"k", no', '?api-key=wrong');
  assert.deepEqual([nonsense.status, nonsense.json.id], [401, 'k']);
  const batch = await fast(bed, `[${body}]`, '?api-key=wrong');
  assert.deepEqual([batch.status, batch.json.id], [401, null]);
  const strict = await senderBed(t, { requireKey: true });
  const none = await fast(strict, body);
  assert.deepEqual([none.status, none.json.error.code, none.json.id], [401, -32001, 'k']);
  assert.equal((await fast(strict, body, `?api-key=${strict.daemon.key}`)).status, 200);
});

test('rate: a burst of twice the rate, then 429 with Retry-After', async (t) => {
  const bed = await senderBed(t, { ratePerSecond: 1 });
  const body = send(legacy([transfer(somewhere, 5)]).base58);
  const made = [];
  for (let i = 0; i < 4; i++) made.push(await fast(bed, body));
  const refused = made.find(({ status }) => status === 429)!;
  assert.deepEqual(
    made.slice(0, 2).map(({ status }) => status),
    [200, 200],
  );
  assert.equal(refused.json.error.code, -32005);
  assert.equal(refused.json.error.message, 'Too many requests');
  assert.match(refused.headers.get('retry-after')!, /^[1-9]\d*$/);
  assert.equal((await fast(bed, body, `?api-key=${bed.daemon.key}`)).status, 200, 'a key has its own bucket');
});

test('tips, when required', async (t) => {
  const bed = await senderBed(t, { requireTip: true });
  const code = async (signed: { base58: string }, query = '') =>
    (await fast(bed, send(signed.base58), query)).json.error?.code ?? 0;
  assert.equal(await code(legacy([transfer(somewhere, 5)])), -32602);
  assert.equal(await code(legacy([transfer(somewhere, 5_000_000)])), -32602);
  assert.equal(await code(legacy([transfer(TIP, 999_999)])), -32602);
  assert.equal(await code(legacy([transfer(TIP, 1_000_000)])), 0);
  assert.equal(await code(versioned([transfer(somewhere, 1), transfer(TIP, 1_000_000)])), 0);
  assert.equal(await code(await version1([transfer(somewhere, 1), transfer(TIP, 1_000_000)])), 0);
  assert.equal(await code(await version1([transfer(somewhere, 5_000_000)])), -32602);
  assert.equal(await code(legacy([transfer(TIP, 500_000), transfer(TIP, 600_000)])), -32602);
  assert.equal(await code(legacy([transfer(TIP, 5_000)]), '?swqos_only=true'), 0);
  assert.equal(await code(legacy([transfer(TIP, 4_999)]), '?swqos_only=true'), -32602);
  const { json } = await fast(bed, send(legacy([transfer(somewhere, 5)]).base58));
  assert.match(json.error.data.details, /1000000 lamports.*4ACfpUFoaSD9bfPdeu6DBt89gB6ENTeHBXCAi87NhDEE/);
});

test('bundles go to their own upstream, and only when one is configured', async (t) => {
  const bed = await senderBed(t, {}, { upstreams: 2 });
  const { daemon } = bed;
  const one = legacy([transfer(somewhere, 5)]).base64;
  const bundle = (list: unknown, options: unknown = { encoding: 'base64' }) =>
    JSON.stringify({ jsonrpc: '2.0', id: 'b', method: 'sendBundle', params: [list, options] });
  assert.equal((await fast({ daemon }, bundle([one]))).json.error.code, -32601);
  const other = await senderBed(t, { bundleUrls: [bed.first.url, bed.second.url] });
  bed.second.on('sendBundle', { result: '"bundle id"' });
  bed.first.on('sendBundle', { chunks: ['{"jsonrpc":"2.0","error":{"code":-32097,"message":"congested"},"id":1}'] });
  assert.equal(
    (await fast(other, bundle([one, one]))).text,
    '{"jsonrpc":"2.0","error":{"code":-32097,"message":"congested"},"id":"b"}',
  );
  assert.deepEqual(bed.first.callsOf('sendBundle')[0]!.params, [[one, one], { encoding: 'base64' }]);
  bed.first.on('sendBundle', { fault: 'reset' });
  assert.equal((await fast(other, bundle([one]))).status, 503, 'it may have left');
  assert.equal(bed.second.callsOf('sendBundle').length, 0);
  await bed.first.down();
  assert.equal((await fast(other, bundle([one]))).json.result, 'bundle id');
  for (const bad of [bundle([]), bundle(Array(6).fill(one)), bundle(['x']), bundle([one], {}), bundle('x')]) {
    assert.equal((await fast(other, bad)).json.error.code, -32602);
  }
});

test('/ping: text, no key; 503 when no upstream is healthy', async (t) => {
  const bed = await senderBed(t);
  const ping = async () => {
    const response = await fetch(`${bed.daemon.apiUrl}/ping`);
    return [response.status, response.headers.get('content-type'), await response.text()];
  };
  assert.deepEqual(await ping(), [200, 'text/plain; charset=utf-8', 'ok']);
  const before = bed.first.calls.length;
  for (let i = 0; i < 20; i++) await ping();
  assert.equal(bed.first.calls.length, before, 'nothing is asked');
  await bed.first.down();
  const body = send(legacy([transfer(somewhere, 5)]).base58);
  for (let i = 0; i < 2; i++) await fast(bed, body);
  assert.deepEqual(await ping(), [503, 'text/plain; charset=utf-8', 'service unavailable']);
});

test('the whole route can be switched off', async (t) => {
  const bed = await senderBed(t, { enabled: false });
  assert.equal((await fast(bed, '{}')).status, 404);
  assert.equal((await fetch(`${bed.daemon.apiUrl}/ping`)).status, 200);
});
