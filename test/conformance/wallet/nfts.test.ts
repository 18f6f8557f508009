/** NFTs that are no tokens: their images, and compressed ones from an asset API. */

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { encode32 } from '../../../src/lib/base58.ts';
import { CORE_PROGRAM } from '../../../src/solana/programs.ts';
import { type AccountUpstream, startAccountUpstream } from '../../helpers/account-upstream.ts';
import { startDaemon } from '../../helpers/daemon.ts';
import { startUpstream, type TestUpstream } from '../../helpers/upstream.ts';

interface Nft {
  readonly mint: string;
  readonly imageUri: string | null;
}

const newKey = () => new Uint8Array(randomBytes(32));
const borsh = (value: string) => {
  const length = Buffer.alloc(4);
  length.writeUInt32LE(Buffer.byteLength(value));
  return Buffer.concat([length, Buffer.from(value)]);
};

function setCoreAsset(chain: AccountUpstream, owner: Uint8Array, collection: Uint8Array, uri: string): string {
  const parts = [
    Uint8Array.of(1),
    owner,
    Uint8Array.of(2),
    collection,
    borsh('Sundog #1'),
    borsh(uri),
    Uint8Array.of(0),
  ];
  const asset = encode32(newKey());
  chain.accounts.set(asset, { owner: CORE_PROGRAM, data: Buffer.concat(parts) });
  return asset;
}

function setCoreCollection(chain: AccountUpstream, name: string): Uint8Array {
  const key = newKey();
  const parts = [Uint8Array.of(5), newKey(), borsh(name), borsh('data:application/json,{}'), Buffer.alloc(8)];
  chain.accounts.set(encode32(key), { owner: CORE_PROGRAM, data: Buffer.concat(parts) });
  return key;
}

async function documents(t: TestContext): Promise<string> {
  const server = createServer((_request, response) => {
    response.end(JSON.stringify({ name: 'Sundog #1', image: 'https://images.example/1.png' }));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/1.json`;
}

async function bed(t: TestContext) {
  const [chain, assets] = [await startAccountUpstream(), await startUpstream()];
  const daemon = await startDaemon({
    chain: { rpcUrl: chain.url },
    config: {
      plugins: ['access', 'token-metadata', 'wallet'],
      follow: { enabled: false },
      'token-metadata': { offChain: { allowCidrs: ['127.0.0.1/32'], allowHttp: true } },
      wallet: { balances: { cacheMs: 0, pagesMs: 0, dasUrl: `${assets.url}/?api-key=not-to-be-shown` } },
    },
  });
  t.after(async () => {
    await daemon.stop();
    await chain.stop();
    await assets.stop();
  });
  const read = async (wallet: string): Promise<readonly Nft[]> => {
    const response = await fetch(`${daemon.apiUrl}/v1/wallet/${wallet}/balances?showNfts=true`, {
      headers: { 'X-Api-Key': daemon.key },
    });
    const body = (await response.json()) as { readonly nfts: readonly Nft[] };
    assert.equal(response.status, 200, JSON.stringify(body));
    return body.nfts;
  };
  return { chain, assets, daemon, read };
}

const answer = (assets: TestUpstream, items: readonly unknown[]) =>
  assets.on('searchAssets', { result: JSON.stringify({ total: items.length, limit: 100, page: 1, items }) });

test('an asset of Core has its image once its document was read', async (t) => {
  const { chain, assets, read } = await bed(t);
  answer(assets, []);
  const wallet = newKey();
  const collection = setCoreCollection(chain, 'Sundogs');
  const mint = setCoreAsset(chain, wallet, collection, await documents(t));
  const nft = {
    mint,
    name: 'Sundog #1',
    imageUri: null as string | null,
    collectionName: 'Sundogs',
    collectionAddress: encode32(collection),
    compressed: false,
  };
  assert.deepEqual(await read(encode32(wallet)), [nft]);
  for (const startedMs = performance.now(); nft.imageUri === null; ) {
    assert.ok(performance.now() - startedMs < 30_000, 'no image came');
    await new Promise((resolve) => setTimeout(resolve, 20));
    nft.imageUri = (await read(encode32(wallet)))[0]?.imageUri ?? null;
  }
  nft.imageUri = 'https://images.example/1.png';
  assert.deepEqual(await read(encode32(wallet)), [nft]);
});

test('compressed NFTs come from the asset API; malformed ones are omitted', async (t) => {
  const { chain, assets, daemon, read } = await bed(t);
  const wallet = newKey();
  const collection = setCoreCollection(chain, 'Haloes');
  const [plain, bare, burnt, foreign] = Array.from({ length: 4 }, () => encode32(newKey()));
  const compression = { compressed: true };
  answer(assets, [
    {
      id: plain,
      compression,
      burnt: false,
      content: {
        json_uri: 'https://a.example/1',
        metadata: { name: 'Halo #7' },
        links: { image: 'https://a.example/7.png' },
      },
      grouping: [{ group_key: 'collection', group_value: encode32(collection) }],
    },
    {
      id: bare,
      compression,
      content: { metadata: { name: 7 } },
      grouping: [{ group_key: 'collection', group_value: 'x' }],
    },
    { id: burnt, compression, burnt: true },
    { id: foreign, compression: { compressed: false } },
    { id: 'no key', compression },
    null,
    7,
  ]);
  const empty = { name: null, imageUri: null, collectionName: null, collectionAddress: null, compressed: true };
  const expected = [
    {
      ...empty,
      mint: plain,
      name: 'Halo #7',
      imageUri: 'https://a.example/7.png',
      collectionName: 'Haloes',
      collectionAddress: encode32(collection),
    },
    { ...empty, mint: bare },
  ].sort((left, right) => (String(left.mint) < String(right.mint) ? -1 : 1));
  assert.deepEqual(await read(encode32(wallet)), expected);
  const { ownerAddress, compressed } = (assets.callsOf('searchAssets')[0]?.params ?? {}) as Record<string, unknown>;
  assert.deepEqual([ownerAddress, compressed], [encode32(wallet), true]);

  // One that fails costs these rows only, and is counted.
  const mint = setCoreAsset(chain, wallet, collection, '');
  const refusal = '{"jsonrpc":"2.0","error":{"code":-32000,"message":"no"},"id":1}';
  const failures = [
    { chunks: [refusal] },
    { chunks: ['<html>'] },
    { status: 500, chunks: [''] },
    { chunks: ['{"result":{"items":5}}'] },
    { fault: 'reset' },
  ] as const;
  for (const failure of failures) {
    assets.on('searchAssets', failure);
    assert.deepEqual(
      (await read(encode32(wallet))).map((nft) => nft.mint),
      [mint],
    );
  }
  const metrics = await (await fetch(`${daemon.adminUrl}/metrics`)).text();
  const counted = metrics
    .split('\n')
    .find((line) => line.includes('nft_failures_total{') && line.includes('compressed'));
  assert.equal(counted?.split(' ').at(-1), String(failures.length));
  assert.ok(!metrics.includes('not-to-be-shown'));
});
