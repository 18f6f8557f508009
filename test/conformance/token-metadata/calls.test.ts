import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { encode32 } from '../../../src/lib/base58.ts';
import { metadataAddress } from '../../../src/solana/addresses.ts';
import { METADATA_PROGRAM, TOKEN_PROGRAM } from '../../../src/solana/programs.ts';
import { writeMint } from '../../helpers/write-mint.ts';
import { type Bed, metadataWith, startBed } from './harness.ts';

const keyOf = (number: number): string => {
  const bytes = Buffer.alloc(32, 7);
  bytes.writeUInt32LE(number);
  return encode32(bytes);
};

suite('requests and the calls that they make', () => {
  let bed: Bed;
  before(async () => {
    bed = await startBed({ config: { upstreamTimeoutMs: 2_000 } });
  });
  after(() => bed.stop());

  let next = 1;
  const put = (count: number): string[] =>
    Array.from({ length: count }, () => {
      const mint = keyOf(next++);
      bed.accounts.set(mint, { owner: TOKEN_PROGRAM, data: writeMint({ supply: BigInt(next) }) });
      return mint;
    });
  const withDocument = (path: string): string => {
    const [mint = ''] = put(1);
    const data = metadataWith(mint, `${bed.documents.url}${path}`);
    bed.accounts.set(metadataAddress(mint), { owner: METADATA_PROGRAM, data });
    return mint;
  };
  /** How many calls the work makes. */
  async function callsDuring(work: () => Promise<unknown>): Promise<number> {
    const before = bed.calls().length;
    await work();
    return bed.calls().length - before;
  }

  test('elements stand in the order of the question, also those that were asked for twice', async () => {
    const mints = put(60);
    const mintAccounts = [...mints.slice(20), 'bad', ...mints.slice(0, 39)];
    const { status, headers, body } = await bed.ask({ mintAccounts });
    assert.equal(status, 200);
    assert.equal(headers.get('deprecation'), 'true');
    assert.deepEqual(
      body.map((element: { account: string }) => element.account),
      mintAccounts,
    );
    const supplies = body.map(
      (element: Element) => element.onChainAccountInfo.accountInfo?.data.parsed.info.supply ?? null,
    );
    assert.equal(new Set(supplies).size, 61);
  });

  test('a hundred mints take two calls of a hundred accounts', async () => {
    const mintAccounts = put(100);
    assert.equal(await callsDuring(() => bed.ask({ mintAccounts })), 2);
    assert.ok(bed.calls().every((keys) => keys.length <= 100));
    assert.equal(await callsDuring(() => bed.ask({ mintAccounts })), 0);
    assert.equal(await callsDuring(() => bed.ask({ mintAccounts, includeOffChain: true })), 0);
    assert.equal(await callsDuring(() => bed.ask({ mintAccounts, disableCache: true })), 2);
  });

  test('a read that bypasses the cache fills it', async () => {
    const [mint = ''] = put(1);
    await bed.ask({ mintAccounts: [mint] });
    bed.accounts.set(mint, { owner: TOKEN_PROGRAM, data: writeMint({ supply: 77n }) });
    const supply = async (disableCache: boolean) => {
      const { body } = await bed.ask({ mintAccounts: [mint], disableCache });
      return body[0].onChainAccountInfo.accountInfo.data.parsed.info.supply;
    };
    assert.notEqual(await supply(false), '77');
    assert.equal(await supply(true), '77');
    assert.equal(await supply(false), '77');
  });

  test('many clients who want the same at once share one call and one document', async () => {
    const mint = withDocument('/shared');
    bed.documents.route('/shared', { kind: 'answer', status: 200, body: '{"name":"shared"}', delayMs: 200 });
    bed.upstream.on('getMultipleAccounts', slowly(bed, 200));
    const seen = bed.documents.received.length;
    const calls = await callsDuring(async () => {
      const all = await Promise.all(
        Array.from({ length: 30 }, () => bed.ask({ mintAccounts: [mint], includeOffChain: true })),
      );
      for (const { body } of all) assert.equal(body[0].offChainMetadata.metadata.name, 'shared');
    });
    // A client that comes when the answer is there finds it kept.
    assert.equal(calls, 1);
    assert.equal(bed.documents.received.length - seen, 1);
  });

  test('that there is no document is remembered', async () => {
    const mint = withDocument('/nothing-here');
    for (let i = 0; i < 3; i++) {
      const { body } = await bed.ask({ mintAccounts: [mint], includeOffChain: true });
      assert.equal(body[0].offChainMetadata.error, 'UNKNOWN');
    }
    assert.equal(bed.documents.received.filter(({ url }) => url === '/nothing-here').length, 1);
  });

  test('a node that fails for some says TIMEOUT for those, and is unavailable when it fails for all', async () => {
    const mintAccounts = put(100);
    const [unlucky] = mintAccounts;
    bed.upstream.on('getMultipleAccounts', ({ params }) => {
      const [keys] = params as [string[]];
      if (keys.includes(unlucky ?? '')) return { status: 500, chunks: ['no'] };
      return { result: JSON.stringify({ context: { slot: 1 }, value: keys.map(() => null) }) };
    });
    const { status, body } = await bed.ask({ mintAccounts });
    assert.equal(status, 200);
    const errors = body.map((element: Element) => element.onChainAccountInfo.error);
    assert.deepEqual([errors[0], errors[99]], ['TIMEOUT', 'EMPTY_ACCOUNT']);
    assert.deepEqual(body[0].offChainMetadata, { metadata: null, uri: '', error: 'TIMEOUT' });

    const refused = await bed.ask({ mintAccounts: [unlucky, 'bad'] });
    assert.equal(refused.status, 503);
    assert.deepEqual(refused.body, { error: 'Service unavailable', code: 503 });
    assert.equal(refused.headers.get('retry-after'), '1');
    bed.upstream.on('getMultipleAccounts', { fault: 'hang' });
    const late = await bed.ask({ mintAccounts: [unlucky] });
    assert.deepEqual([late.status, late.body], [504, { error: 'Gateway timeout', code: 504 }]);
    // Keys that are none need no node.
    assert.equal((await bed.ask({ mintAccounts: ['bad'] })).status, 200);
  });

  test('questions that are refused', async () => {
    const list = { error: 'mintAccounts must be an array of at most 100 strings', code: 400 };
    for (const body of [[], 7, 'x', null, {}, { mintAccounts: 'x' }, { mintAccounts: [1] }, { mintAccounts: null }]) {
      const refused = await bed.ask(JSON.stringify(body));
      assert.deepEqual([refused.status, refused.body], [400, list], JSON.stringify(body));
    }
    const many = await bed.ask({ mintAccounts: Array.from({ length: 101 }, () => 'x') });
    assert.deepEqual(
      [many.status, many.body],
      [400, { error: 'at most 100 mint accounts per request, got 101', code: 400 }],
    );
    for (const flag of ['includeOffChain', 'disableCache']) {
      const refused = await bed.ask({ mintAccounts: [], [flag]: 'true' });
      assert.deepEqual([refused.status, refused.body.error], [400, `${flag} must be a boolean`]);
    }
    assert.equal((await bed.ask('{')).body.error, 'Invalid JSON body');
    assert.deepEqual((await bed.ask({ mintAccounts: [] })).body, []);
  });

  test('a slash at the end is fine, and it needs a key', async () => {
    const { apiUrl, key } = bed.daemon;
    const call = (url: string) => fetch(url, { method: 'POST', body: '{"mintAccounts":[]}' });
    assert.equal((await call(`${apiUrl}/v0/token-metadata/?api-key=${key}`)).status, 200);
    assert.equal((await call(`${apiUrl}/v0/token-metadata`)).status, 401);
  });
});

interface Element {
  readonly onChainAccountInfo: {
    readonly accountInfo: { readonly data: { readonly parsed: { readonly info: { readonly supply: string } } } } | null;
    readonly error: string;
  };
}

/** The accounts of the test, a little later. */
function slowly(bed: Bed, ms: number) {
  return async ({ params }: { readonly params: unknown }) => {
    await new Promise((resolve) => setTimeout(resolve, ms));
    return { result: bed.accountsText((params as [string[]])[0]) };
  };
}
