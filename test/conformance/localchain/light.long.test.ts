import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { suite, test } from 'node:test';
import { compress, createRpc, TreeType } from '@lightprotocol/stateless.js';
import { Keypair, LAMPORTS_PER_SOL, PublicKey } from '@solana/web3.js';
import { findLightAssets } from '../../../packages/local-chain/chain.ts';
import { decode } from '../../../src/lib/base58.ts';
import { chainMissing, startChain } from '../../helpers/chain.ts';
import { HOW_TO_INSTALL } from '../../helpers/packages.ts';

const TREE = new PublicKey('smt1NamzXdq4AMqS2fS2F1i5KTYPZRhoHgWx38d8WsT');
const SEQUENCE_AT = 248;
const ROOTS_AT = 1_222_016;
const EVENT_START = Buffer.from('b48f9f99232ef8a3', 'hex');
const COMPRESSION_PROGRAM = 'compr6CUsB5m2jS4Y3831ztGSTnDpnKJTKS95d64XVq';

function assetsMissing(): string | null {
  if (findLightAssets(null) !== null) return null;
  const reason = `@lightprotocol/zk-compression-cli 0.28.3 is not installed: ${HOW_TO_INSTALL}`;
  if (process.env['REQUIRE_LIGHT'] === '1') throw new Error(reason);
  console.error(`SKIPPED: ${reason}`);
  return reason;
}

/** Compressing asks an indexer for nothing but how far it is. */
async function startSlotStub() {
  const server = createServer((request, response) => {
    request.resume();
    response.end(JSON.stringify({ jsonrpc: '2.0', id: 'test-account', result: Number.MAX_SAFE_INTEGER }));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const stop = () => {
    server.close();
    server.closeAllConnections();
  };
  return { url: `http://127.0.0.1:${(server.address() as { port: number }).port}`, stop };
}

suite('Light programs', { skip: (await chainMissing()) ?? assetsMissing() ?? false }, () => {
  test('compressed SOL moves the tree of the first version; a fork moves it back', async () => {
    const chain = await startChain({ lightAssets: null });
    const stub = await startSlotStub();
    const payer = Keypair.generate();
    await chain.fund(payer.publicKey.toString(), 100 * LAMPORTS_PER_SOL);
    const rpc = createRpc(chain.rpcUrl, stub.url, stub.url, { commitment: 'confirmed', wsEndpoint: chain.wsUrl });
    const tree = async () => {
      const { data } = (await chain.connection.getAccountInfo(TREE))!;
      const sequence = Number(data.readBigUInt64LE(SEQUENCE_AT));
      return { sequence, root: data.subarray(ROOTS_AT + 32 * sequence, ROOTS_AT + 32 * sequence + 32).toString('hex') };
    };
    const fresh = await tree();
    assert.equal(fresh.sequence, 0);
    assert.match(fresh.root, /^120c58f143d491e9.*611518$/);
    const info = {
      tree: TREE,
      queue: new PublicKey('nfq1NvQDJ2GEgnS8zt9prAe8rjjpAW1zFkrvZoBR148'),
      cpiContext: new PublicKey('cpi1uHzrEhBG733DoEJNgHCyRS3XmmyVNZx5fonubE4'),
      treeType: TreeType.StateV1,
      nextTreeInfo: null,
    };
    const signature = await compress(rpc, payer, LAMPORTS_PER_SOL, payer.publicKey, info);
    const moved = await tree();
    assert.equal(moved.sequence, 1);
    assert.notEqual(moved.root, fresh.root);
    const landed = await chain.connection.getTransaction(signature, { maxSupportedTransactionVersion: 0 });
    const keys = landed?.transaction.message.getAccountKeys({ accountKeysFromLookups: landed.meta!.loadedAddresses! });
    const events = (landed?.meta?.innerInstructions ?? [])
      .flatMap((group) => group.instructions)
      .filter((item) => keys?.get(item.programIdIndex)?.toString() === COMPRESSION_PROGRAM)
      .map((item) => Buffer.from(decode(item.data)!));
    assert.equal(events.filter((data) => data.subarray(0, 8).equals(EVENT_START)).length, 1);
    await chain.fork({ depth: 1, replay: 'none' });
    assert.deepEqual(await tree(), fresh);
    stub.stop();
    await chain.stop();
  });
});
