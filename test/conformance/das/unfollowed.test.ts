/** Methods of the asset API before a plain node, and before an upstream that has a DAS API, while nothing is followed. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encode32 } from '../../../src/lib/base58.ts';
import { ASSET_METHODS, type AssetMethod, namesOf } from '../../../src/solana/assets/methods.ts';
import { startDaemon } from '../../helpers/daemon.ts';
import { startUpstream, type TestUpstream } from '../../helpers/upstream.ts';

const ID = encode32(Buffer.alloc(32, 9));
const PARAMS = {
  getAsset: { id: ID },
  getAssetBatch: { ids: [ID] },
  getAssetProof: { id: ID },
  getAssetProofBatch: { ids: [ID] },
  getAssetsByAuthority: { authorityAddress: ID },
  getAssetsByCreator: { creatorAddress: ID },
  getAssetsByGroup: { groupKey: 'collection', groupValue: ID },
  getAssetsByOwner: { ownerAddress: ID },
  getGrouping: { groupKey: 'collection', groupValue: ID },
  getNftEditions: { mint: ID },
  getSignaturesForAsset: { id: ID },
  getTokenAccounts: { owner: ID },
  searchAssets: { ownerAddress: ID },
} as const satisfies Readonly<Record<AssetMethod, object>>;
const METHODS = Object.keys(ASSET_METHODS) as AssetMethod[];

interface Answer {
  readonly result?: unknown;
  readonly error?: { readonly code: number; readonly message: string; readonly data?: { readonly details?: string } };
}

/** A daemon with the default settings of its plugins. */
async function start(upstream: TestUpstream) {
  upstream.on('getMultipleAccounts', ({ params }) => {
    const value = (params as [string[]])[0].map(() => 'null');
    return { result: `{"context":{"slot":1000},"value":[${value.join()}]}` };
  });
  for (const method of ['getTokenAccountsByOwner', 'getProgramAccounts'])
    upstream.on(method, ({ params }) => {
      const isList =
        method === 'getProgramAccounts' && (params as [string, { withContext?: boolean }])[1].withContext !== true;
      return { result: isList ? '[]' : '{"context":{"slot":1000},"value":[]}' };
    });
  const daemon = await startDaemon({
    chain: { rpcUrl: upstream.url },
    config: { plugins: ['access', 'proxy', 'compression', 'token-metadata', 'das'], follow: { enabled: false } },
  });
  return {
    stop: () => daemon.stop(),
    async ask(method: string, params: unknown): Promise<{ readonly text: string; readonly answer: Answer }> {
      const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
      const response = await fetch(`${daemon.apiUrl}/?api-key=${daemon.key}`, { method: 'POST', body });
      const text = await response.text();
      return { text, answer: JSON.parse(text) as Answer };
    },
  };
}

test('before a plain node no method of the asset API is missing: what cannot be answered says why', async (t) => {
  const upstream = await startUpstream();
  const daemon = await start(upstream);
  t.after(async () => {
    await daemon.stop();
    await upstream.stop();
  });
  for (const method of METHODS)
    for (const name of namesOf(method)) {
      const { answer, text } = await daemon.ask(name, PARAMS[method]);
      assert.notEqual(answer.error?.code, -32601, `${name}: ${text}`);
    }
  const refusals: readonly (readonly [AssetMethod, RegExp])[] = [
    ['getAssetProof', /^Asset Proof Not Found: .* not followed \(compression\.cnft\.trees\)$/],
    ['getAssetProofBatch', /^Asset Proof Not Found: .* not followed \(compression\.cnft\.trees\)$/],
    ['getSignaturesForAsset', /^Asset Not Found: .* not followed \(compression\.cnft\.trees\)$/],
    ['getAssetsByCreator', /is not followed \(das\.follow\.creators\)/],
  ];
  for (const [method, text] of refusals)
    for (const name of namesOf(method)) {
      const { error } = (await daemon.ask(name, PARAMS[method])).answer;
      assert.equal(error?.code, -32000, name);
      assert.match(error.message, text);
    }
  const wrong: readonly (readonly [AssetMethod, unknown, RegExp])[] = [
    ['getAssetProof', { id: 'x' }, /Pubkey Validation Err: x is invalid/],
    ['getAssetProofBatch', { ids: ID }, /ids must be a list/],
    [
      'getAssetProofBatch',
      { ids: Array.from({ length: 1_001 }, () => ID) },
      /Batch size should not be greater than 1000/,
    ],
    ['getSignaturesForAsset', {}, /Must provide either 'id' or both 'tree' and 'leafIndex'/],
  ];
  for (const [method, params, text] of wrong) {
    const { error } = (await daemon.ask(method, params)).answer;
    assert.equal(error?.code, -32602, method);
    assert.match(error.message, text);
  }
});

test('an upstream with a DAS API answers for what is not followed, and no digit of it is lost', async (t) => {
  const upstream = await startUpstream();
  const result = `{"id":"${ID}","value":[18446744073709551615,9007199254740993,1e400,-0,0.1,0.12345678901234567890]}`;
  for (const method of METHODS) for (const name of namesOf(method)) upstream.on(name, { result });
  const daemon = await start(upstream);
  t.after(async () => {
    await daemon.stop();
    await upstream.stop();
  });
  const passedOn = [
    'getAsset',
    'getAssetProof',
    'getAssetProofBatch',
    'getSignaturesForAsset',
    'getAssetsByCreator',
  ] as const;
  for (const method of passedOn)
    for (const name of namesOf(method)) {
      const { text } = await daemon.ask(name, PARAMS[method]);
      assert.ok(text.includes(`"result":${result}`), `${name}: ${text}`);
    }
});
