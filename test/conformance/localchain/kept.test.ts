/** A local chain with a file, in short; kept.long.test.ts compares everything that a client can read. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, truncateSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { Connection, Keypair, LAMPORTS_PER_SOL } from '@solana/web3.js';
import { startLocalChain } from '../../../packages/local-chain/index.ts';
import { chainMissing } from '../../helpers/chain.ts';

suite('a chain that is kept', { skip: (await chainMissing()) ?? false }, () => {
  test('a transaction in an open slot is kept by a stop', async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'parhelion-kept-'));
    t.after(() => rmSync(folder, { recursive: true, force: true }));
    const options = { seed: 'open', file: join(folder, 'chain.log'), slotMs: 3_600_000, lightAssets: false } as const;
    const first = await startLocalChain(options);
    const signature = await first.fund(Keypair.generate().publicKey.toString(), LAMPORTS_PER_SOL);
    await first.stop();
    const second = await startLocalChain(options);
    const shown = { commitment: 'confirmed', maxSupportedTransactionVersion: 0 } as const;
    assert.notEqual(await new Connection(second.rpcUrl).getTransaction(signature, shown), null);
    await second.stop();
  });

  test('a file of another chain is refused with what to do', async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'parhelion-kept-'));
    t.after(() => rmSync(folder, { recursive: true, force: true }));
    const file = join(folder, 'chain.log');
    await (await startLocalChain({ seed: 'one', file, lightAssets: false })).stop();
    await assert.rejects(startLocalChain({ seed: 'two', file, lightAssets: false }), {
      code: 'LOCAL_CHAIN_FILE',
      message: /its genesisHash is .* Delete its folder for a new chain/,
    });
    truncateSync(file, 10);
    await assert.rejects(startLocalChain({ seed: 'one', file, lightAssets: false }), { code: 'LOCAL_CHAIN_FILE' });
  });
});
