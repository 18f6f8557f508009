/** A local chain with a file: what a client saw of it is there after a restart, whatever ended it. */
import assert from 'node:assert/strict';
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import {
  Keypair,
  LAMPORTS_PER_SOL,
  type PublicKey,
  SystemProgram,
  TransactionMessage,
  VersionedTransaction,
} from '@solana/web3.js';
import { runDemo } from '../../../packages/local-chain/demo.ts';
import { startChainWithInternals } from '../../../packages/local-chain/in-process.ts';
import { type LocalChainHandle, type LocalChainOptions, startLocalChain } from '../../../packages/local-chain/index.ts';
import { MEMO_V3_PROGRAM, SYSTEM_PROGRAM } from '../../../src/solana/programs.ts';
import { chainMissing } from '../../helpers/chain.ts';

type Call = readonly [method: string, ...params: unknown[]];

async function callAll(chain: LocalChainHandle, calls: readonly Call[]): Promise<unknown[]> {
  const response = await fetch(chain.rpcUrl, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(calls.map(([method, ...params], id) => ({ jsonrpc: '2.0', id, method, params }))),
  });
  const answers = (await response.json()) as { result: unknown; error?: unknown }[];
  return answers.map(({ result, error }) => error ?? result);
}

const call = async (chain: LocalChainHandle, ...one: Call): Promise<unknown> => (await callAll(chain, [one]))[0];

/** Everything that a client can read of the chain up to `tip`. */
async function view(chain: LocalChainHandle, tip: number, addresses: readonly string[]): Promise<unknown[]> {
  const first = (await call(chain, 'getFirstAvailableBlock')) as number;
  const slots = (await call(chain, 'getBlocks', first, tip)) as number[];
  const options = { maxSupportedTransactionVersion: 1, encoding: 'json', rewards: false };
  return await callAll(chain, [
    ['getGenesisHash'],
    ['getTransactionCount'],
    ['getBlocks', first, tip],
    ...slots.map((slot): Call => ['getBlock', slot, options]),
    ...addresses.map((address): Call => ['getBalance', address]),
    ...addresses.map((address): Call => ['getSignaturesForAddress', address, { limit: 1000 }]),
  ]);
}

async function pay(chain: LocalChainHandle, from: Keypair, to: PublicKey, lamports: number): Promise<string> {
  const { value } = (await call(chain, 'getLatestBlockhash')) as { value: { blockhash: string } };
  const instructions = [SystemProgram.transfer({ fromPubkey: from.publicKey, toPubkey: to, lamports })];
  const message = new TransactionMessage({ payerKey: from.publicKey, recentBlockhash: value.blockhash, instructions });
  const transaction = new VersionedTransaction(message.compileToLegacyMessage());
  transaction.sign([from]);
  const bytes = Buffer.from(transaction.serialize()).toString('base64');
  return (await call(chain, 'sendTransaction', bytes, { encoding: 'base64' })) as string;
}

const keypair = (name: number): Keypair => Keypair.fromSeed(Uint8Array.from({ length: 32 }, () => name));

suite('a chain that is kept', { skip: (await chainMissing()) ?? false }, () => {
  const [alice, bob] = [keypair(1), keypair(2)];
  const program = keypair(3).publicKey.toString();
  const set = keypair(4).publicKey.toString();
  const addresses = [alice.publicKey.toString(), bob.publicKey.toString(), program, set];
  for (const consensus of ['alpenglow', 'towerbft'] as const) {
    test(`goes on where it was, with ${consensus}`, async (t) => {
      const folder = mkdtempSync(join(tmpdir(), 'parhelion-kept-'));
      t.after(() => rmSync(folder, { recursive: true, force: true }));
      const file = join(folder, 'chain.log');
      const options: LocalChainOptions = { seed: 'kept', consensus, file, lightAssets: false, maxBlocks: 40 };
      let chain = await startLocalChain(options);
      t.after(() => chain.stop().catch(() => undefined));
      await chain.fund(alice.publicKey.toString(), 5 * LAMPORTS_PER_SOL);
      await pay(chain, alice, bob.publicKey, LAMPORTS_PER_SOL);
      await pay(chain, alice, bob.publicKey, 900 * LAMPORTS_PER_SOL);
      await chain.skip(7);
      await chain.setAccount(set, { lamports: 3_000_000, data: Uint8Array.of(1, 2, 3), owner: SYSTEM_PROGRAM });
      const memo = (await call(chain, 'getAccountInfo', MEMO_V3_PROGRAM, { encoding: 'base64' })) as {
        value: { data: [string] };
      };
      await chain.deploy(program, Buffer.from(memo.value.data[0], 'base64'));
      await chain.seal(3);
      if (consensus === 'towerbft') {
        await pay(chain, alice, bob.publicKey, 1234);
        await chain.fork({ depth: 3, replay: 'none', extraBlocks: 2 });
      }
      // A second and a third start: the file is written anew at each, and doubles in between.
      for (const blocks of [3, 350, 3]) {
        await pay(chain, bob, alice.publicKey, 7_000 + blocks);
        const tip = await chain.seal(blocks);
        const before = await view(chain, tip, addresses);
        // Killed: the file is as it is now, and its last entry may be cut off.
        const killed = join(folder, 'killed.log');
        copyFileSync(file, killed);
        await chain.stop();
        writeFileSync(killed, Buffer.concat([readFileSync(killed), Buffer.of(90, 0, 0, 0, 1, 2)]));
        const again = await startLocalChain({ ...options, file: killed });
        assert.deepEqual(await view(again, tip, addresses), before);
        await again.stop();
        chain = await startLocalChain(options);
        assert.deepEqual(await view(chain, tip, addresses), before);
        const next = await chain.seal();
        const shown = { transactionDetails: 'none', commitment: 'confirmed' };
        const block = (await call(chain, 'getBlock', next, shown)) as Record<string, unknown>;
        assert.equal(block['parentSlot'], tip, 'the next block has the last one as its parent');
      }
      // The program is one again.
      const simulated = await call(chain, 'getAccountInfo', program, { encoding: 'base64' });
      assert.equal((simulated as { value: { executable: boolean } }).value.executable, true);
      if (consensus === 'towerbft') {
        const lamports = await call(chain, 'getBalance', bob.publicKey.toString(), { commitment: 'processed' });
        await pay(chain, alice, bob.publicKey, 4321);
        await chain.stop();
        chain = await startLocalChain(options);
        await chain.fork({ depth: 1, replay: 'none' });
        const after = await call(chain, 'getBalance', bob.publicKey.toString(), { commitment: 'processed' });
        assert.equal(
          (after as { value: number }).value,
          (lamports as { value: number }).value,
          'a fork drops kept blocks',
        );
      }
      await chain.stop();
    });
  }

  test('the demo runs once in a chain', async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'parhelion-kept-'));
    t.after(() => rmSync(folder, { recursive: true, force: true }));
    const options = { seed: 'demo', file: join(folder, 'chain.log'), lightAssets: false } as const;
    const first = await startChainWithInternals(options);
    const report = runDemo(first.chain);
    const count = await call(first.handle, 'getTransactionCount');
    await first.handle.stop();
    const second = await startChainWithInternals(options);
    assert.deepEqual(runDemo(second.chain), report);
    assert.equal(await call(second.handle, 'getTransactionCount'), count);
    await second.handle.stop();
  });
});
