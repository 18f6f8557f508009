import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Value } from '@sinclair/typebox/value';
import { encode32 } from '../../src/lib/base58.ts';
import { type ChainReader, CodedError } from '../../src/plugin/plugin.ts';
import { metadataPlaces } from '../../src/solana/addresses.ts';
import { createSfc32 } from '../../test/helpers/sfc32.ts';
import { type DasConfig, dasConfig } from './config.ts';
import { bumpsOf } from './indexing/stored-rows.ts';
import { createLackedMethods, createSource, mostHeld, placesOf } from './source.ts';

test('unknown ids cost one upstream call, and none for a while after an upstream had no such method', async () => {
  const calls: string[] = [];
  const answers: (() => unknown)[] = [];
  const chain = {
    callText: async (method: string, params: unknown) => {
      calls.push(`${method} ${(params as { ids?: readonly string[] }).ids?.length ?? ''}`);
      return JSON.stringify(answers.shift()?.());
    },
  } as unknown as ChainReader;
  let now = 0;
  const lacked = createLackedMethods({ monotonic: () => now });
  const config = Value.Default(dasConfig, {}) as DasConfig;
  const ask = (ids: readonly string[]) =>
    createSource(chain, config, new AbortController().signal, lacked).assetsElsewhere(ids, {});
  const refusal = (rpcCode: number) => () => {
    throw new CodedError('CHAIN_RPC_ERROR', 'refused', { facts: { rpcCode } });
  };
  const many = Array.from({ length: 1_000 }, (_, at) => `id ${at}`);
  answers.push(() => [null, { id: 'id 7' }], refusal(-32_000), refusal(-32_601));
  assert.deepEqual([...(await ask(many)).keys()], ['id 7']);
  assert.equal((await ask(many)).size, 0);
  assert.equal((await ask(many)).size, 0);
  assert.equal((await ask(many)).size, 0);
  assert.deepEqual(calls.splice(0), Array(3).fill('getAssetBatch 1000'));
  answers.push(() => ({ id: 'id 1' }));
  assert.equal((await ask(['id 1'])).size, 1);
  assert.deepEqual(calls.splice(0), ['getAsset ']);
  now = 300_000;
  answers.push(() => []);
  await ask(many);
  assert.deepEqual(calls, ['getAssetBatch 1000']);
});

test('only a refusal that may be about the asset says that an upstream does not know it', async () => {
  const config = Value.Default(dasConfig, {}) as DasConfig;
  for (const [rpcCode, message, isLacked] of [
    [-32_000, 'Asset Not Found', false],
    [-32_602, 'Invalid params', false],
    [-32_601, 'Method not found', true],
    [405, 'Method Not Allowed', true],
    [-32_000, 'getAsset is not available on your plan', true],
    [-32_010, 'excluded from account secondary indexes', null],
    [-32_011, 'Transaction history is not available from this node', null],
    [-32_016, 'Minimum context slot has not been reached', null],
  ] as const) {
    let calls = 0;
    const chain = {
      callText: async () => {
        calls += 1;
        throw new CodedError('CHAIN_RPC_ERROR', `getAsset: ${message}`, { facts: { method: 'getAsset', rpcCode } });
      },
    } as unknown as ChainReader;
    const source = createSource(
      chain,
      config,
      new AbortController().signal,
      createLackedMethods({ monotonic: () => 0 }),
    );
    const ask = () => source.passOn('getAsset', { id: 'x' });
    if (isLacked === null) await assert.rejects(ask, { name: 'RpcError', status: 503 }, message);
    else assert.deepEqual([await ask(), await ask(), calls], [null, null, isLacked ? 1 : 2], message);
  }
});

test('the owner of an asset holds most of it, and of equal amounts the highest address counts, in any order', () => {
  const [low, high] = ['11111111111111111111111111111112', 'So11111111111111111111111111111111111111112'];
  for (const accounts of [[low, high] as const, [high, low] as const])
    assert.equal(mostHeld(accounts.map((address) => [address, 2n])), high);
  assert.equal(mostHeld([[low, 3n] as const, [high, 2n] as const]), low);
  assert.equal(mostHeld([[low, 0n]]), null);
});

test('two bumps are enough for the addresses of metadata and edition of any mint', () => {
  const random = createSfc32(31);
  const seen = new Set<number>();
  for (let made = 0; made < 200; made += 1) {
    const mint = encode32(random.fill(new Uint8Array(32)));
    const bumps = bumpsOf(mint, placesOf(mint));
    seen.add(bumps);
    assert.deepEqual(metadataPlaces(mint, bumps), placesOf(mint), mint);
  }
  assert.ok(seen.size > 4, 'each bump but the highest is as likely as half of the one above');
});

test('an answer of an older slot than was asked for is refused', async () => {
  const chain = { call: async () => ({ context: { slot: 99 }, value: [null] }) } as unknown as ChainReader;
  const config = Value.Default(dasConfig, {}) as DasConfig;
  const lacked = createLackedMethods({ monotonic: () => 0 });
  const read = (atLeast: number) =>
    createSource(chain, config, new AbortController().signal, lacked, { atLeast }).accounts(['a']);
  assert.equal((await read(99)).size, 1);
  await assert.rejects(read(100), (error: Error) => (error.cause as CodedError).facts['rpcCode'] === -32_016);
});
