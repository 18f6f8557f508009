import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encode32 } from '../../../src/lib/base58.ts';
import { keyOf, setHead } from '../../helpers/compression-rows.ts';
import { startRecordedDaemon } from '../../helpers/recorded-daemon.ts';

const OWNER = encode32(keyOf(10));

test('the methods behind the front of the daemon', async (t) => {
  const { daemon, post, url, call } = await startRecordedDaemon(t, [], {}, (store) => setHead(store, 77));

  await t.test('any failure of a method is HTTP 200 with the id as it was sent', async () => {
    for (const [method, params, code, message, details] of [
      ['getCompressedAccount', {}, -32602, 'Invalid params', 'Either address or hash must be provided'],
      [
        'getCompressedAccount',
        [{ hash: 5 }],
        -32602,
        'Invalid params',
        "field 'hash' must be a base58 string of 32 bytes",
      ],
      ['getIndexerSlot', [1], -32602, 'Invalid params', 'params must be an object, or an array that holds one object'],
      [
        'getCompressionSignaturesForAccount',
        { hash: OWNER },
        ...([-32000, 'Record Not Found: Account not found', undefined] as const),
      ],
      [
        'getCompressedBalanceByOwner',
        { owner: OWNER, minContextSlot: 78 },
        ...([-32002, 'Service unavailable', 'slot 78 has not been indexed yet (at 77)'] as const),
      ],
      // The upstream answers no such call.
      [
        'getTransactionWithCompressionInfo',
        { signature: '1'.repeat(64) },
        ...([-32002, 'Service unavailable', /^the Solana upstream cannot give the transaction/] as const),
      ],
    ] as const) {
      const { status, body } = await post(method, params);
      assert.deepEqual([status, body.id], [200, 'test-account'], method);
      assert.deepEqual([body.error?.code, body.error?.message], [code, message], method);
      if (details instanceof RegExp) assert.match(body.error?.data?.details ?? '', details);
      else assert.equal(body.error?.data?.details, details, method);
    }
  });

  await t.test('params in every form', async () => {
    const params = { owner: OWNER, minContextSlot: 77 };
    const zero = { context: { slot: 77 }, value: 0 };
    assert.deepEqual(await call('getCompressedBalanceByOwner', params), zero);
    assert.deepEqual(await call('getCompressedBalanceByOwner', [params]), zero);
    for (const none of [undefined, null, [], {}]) assert.equal(await call('getIndexerSlot', none), 77);
  });

  await t.test('a batch', async () => {
    const one = (id: number, method: string, params: unknown) => ({ jsonrpc: '2.0', id, method, params });
    const body = JSON.stringify([
      one(1, 'getIndexerSlot', []),
      one(2, 'getCompressedBalanceByOwner', {}),
      one(3, 'getCompressedBalanceByOwner', { owner: OWNER }),
    ]);
    const response = await fetch(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
    const answers = (await response.json()) as { id: number; result?: unknown; error?: { code: number } }[];
    assert.deepEqual(
      answers.map(({ id, result, error }) => [id, error?.code ?? result]),
      [
        [1, 77],
        [2, -32602],
        [3, { context: { slot: 77 }, value: 0 }],
      ],
    );
  });

  await t.test('a key is needed, and each call has its price', async () => {
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'getIndexerSlot', params: [] });
    const headers = { 'content-type': 'application/json' };
    assert.equal((await fetch(daemon.apiUrl, { method: 'POST', headers, body })).status, 401);
    const document = (await (await fetch(`${daemon.apiUrl}/openapi.json`)).json()) as {
      'x-rpc': Record<string, { tag: string; price: { product: string; credits: number; groups: string[] } }>;
    };
    const own = Object.entries(document['x-rpc']).filter(([, { tag }]) => tag === 'Compression');
    for (const [name, { price }] of own) {
      const isProof = name.startsWith('getValidityProof');
      assert.deepEqual([price.product, price.credits, price.groups[0]], ['photon', isProof ? 100 : 10, 'photon'], name);
    }
    const { methods } = (await (await fetch(`${daemon.apiUrl}/openrpc.json`)).json()) as {
      methods: { name: string; 'x-aliases'?: string[] }[];
    };
    const told = new Set(methods.flatMap(({ name, 'x-aliases': aliases = [] }) => [name, ...aliases]));
    for (const [name] of own) assert.ok(told.has(name), name);
  });
});
