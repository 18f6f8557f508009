import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import {
  createAssociatedTokenAccount,
  createInitializeMetadataPointerInstruction,
  createInitializeMintInstruction,
  createMint,
  ExtensionType,
  getMintLen,
  mintTo,
  TOKEN_2022_PROGRAM_ID,
  tokenMetadataInitializeWithRentTransfer,
  tokenMetadataUpdateField,
} from '@solana/spl-token';
import { Keypair, LAMPORTS_PER_SOL, SystemProgram, sendAndConfirmTransaction, Transaction } from '@solana/web3.js';
import { chainMissing, startChain, type TestChain } from '../../helpers/chain.ts';
import { type DaemonInProcess, startDaemon } from '../../helpers/daemon.ts';
import { Database } from '../../helpers/sqlite.ts';

const LONG_MS = 86_400_000;
const WAIT_MS = 60_000;
const confirm = { commitment: 'confirmed' } as const;

suite('tokens of a running chain', { skip: (await chainMissing()) ?? false }, () => {
  let chain: TestChain;
  let daemon: DaemonInProcess;
  const payer = Keypair.generate();

  before(async () => {
    chain = await startChain();
    await chain.fund(payer.publicKey.toString(), 10 * LAMPORTS_PER_SOL);
    daemon = await startDaemon({
      chain,
      // Nothing becomes old by itself: only the block tells that it has changed.
      config: { 'token-metadata': { accountTtlMs: LONG_MS, factsTtlMs: LONG_MS } },
    });
  });
  after(async () => {
    await daemon?.stop();
    await chain?.stop();
  });

  // biome-ignore lint/suspicious/noExplicitAny: an element of the answer.
  const elementOf = async (mint: string): Promise<any> => {
    const response = await fetch(`${daemon.apiUrl}/v0/token-metadata?api-key=${daemon.key}`, {
      method: 'POST',
      body: JSON.stringify({ mintAccounts: [mint] }),
    });
    assert.equal(response.status, 200);
    return ((await response.json()) as unknown[])[0];
  };
  // biome-ignore lint/suspicious/noExplicitAny: the same.
  async function until(mint: string, holds: (element: any) => boolean): Promise<void> {
    const endMs = performance.now() + WAIT_MS;
    while (!holds(await elementOf(mint))) {
      assert.ok(performance.now() < endMs, `still ${JSON.stringify(await elementOf(mint))}`);
      await new Promise((resolve) => setTimeout(resolve, 25));
    }
  }
  /**
   * The keys of a mint are watched as soon as what was read of it is in the store and a block has come. What was read before a block that
   * came sooner than it reached the store is deleted; the next call reads it again.
   */
  async function untilWatched(mint: string): Promise<void> {
    const table = 'token_metadata_mints';
    const db = new Database(`${daemon.dataDir}/parhelion.db`, { readonly: true });
    try {
      for (const endMs = performance.now() + WAIT_MS; ; ) {
        await elementOf(mint);
        if (db.prepare(`SELECT 1 FROM ${table} WHERE mint = ?`).get(mint) !== undefined) return;
        assert.ok(performance.now() < endMs, 'it is not kept');
        await new Promise((resolve) => setTimeout(resolve, 25));
      }
    } finally {
      db.close();
    }
  }

  test('a mint is reported with its current supply, also after more was minted', async () => {
    const { connection } = chain;
    const mint = await createMint(connection, payer, payer.publicKey, null, 6, undefined, confirm);
    const account = await createAssociatedTokenAccount(connection, payer, mint, payer.publicKey, confirm);
    const element = await elementOf(mint.toString());
    const lamports = await connection.getMinimumBalanceForRentExemption(82);
    const info = {
      decimals: 6,
      freezeAuthority: '',
      isInitialized: true,
      mintAuthority: payer.publicKey.toString(),
      supply: '0',
    };
    const { rentEpoch, ...rest } = element.onChainAccountInfo.accountInfo;
    assert.equal(typeof rentEpoch, 'number');
    const program = 'TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA';
    assert.deepEqual(rest, {
      key: mint.toString(),
      isSigner: false,
      isWritable: false,
      lamports,
      owner: program,
      executable: false,
      data: { parsed: { info, type: 'mint' }, program, space: 82 },
    });
    await untilWatched(mint.toString());
    await mintTo(connection, payer, mint, account, payer, 1_000_000n, [], confirm);
    await until(mint.toString(), (now) => now.onChainAccountInfo.accountInfo.data.parsed.info.supply === '1000000');
  });

  test('metadata in a Token-2022 mint, and what becomes of it', async () => {
    const { connection } = chain;
    const mint = Keypair.generate();
    const space = getMintLen([ExtensionType.MetadataPointer]);
    const lamports = await connection.getMinimumBalanceForRentExemption(space);
    const key = mint.publicKey;
    const programId = TOKEN_2022_PROGRAM_ID;
    const make = new Transaction().add(
      SystemProgram.createAccount({ fromPubkey: payer.publicKey, newAccountPubkey: key, lamports, space, programId }),
      createInitializeMetadataPointerInstruction(key, payer.publicKey, key, programId),
      createInitializeMintInstruction(key, 2, payer.publicKey, null, programId),
    );
    await sendAndConfirmTransaction(connection, make, [payer, mint], confirm);
    assert.equal((await elementOf(key.toString())).onChainMetadata.error, 'EMPTY_ACCOUNT');
    await untilWatched(key.toString());

    const texts = ['Sun Dog', 'SUN', 'https://example.com/sun.json'] as const;
    const { publicKey } = payer;
    await tokenMetadataInitializeWithRentTransfer(
      connection,
      payer,
      key,
      publicKey,
      payer,
      ...texts,
      [],
      confirm,
      programId,
    );
    await until(key.toString(), ({ onChainMetadata }) => onChainMetadata.metadata !== null);
    const { onChainMetadata, offChainMetadata } = await elementOf(key.toString());
    const { metadata } = onChainMetadata;
    assert.deepEqual([metadata.data.name, metadata.data.symbol, offChainMetadata.uri], texts);
    assert.deepEqual(
      [metadata.updateAuthority, metadata.tokenStandard, metadata.isMutable],
      [publicKey.toString(), 'Fungible', true],
    );

    await untilWatched(key.toString());
    await tokenMetadataUpdateField(connection, payer, key, payer, 'name', 'Moon', [], confirm, programId);
    await until(key.toString(), (now) => now.onChainMetadata.metadata.data.name === 'Moon');
  });

  test('a mint that does not exist is remembered as such until a block makes it, with its metadata', async () => {
    const { connection } = chain;
    const mint = Keypair.generate();
    const { publicKey: key } = mint;
    for (let asked = 0; asked < 2; asked += 1) {
      assert.equal((await elementOf(key.toString())).onChainAccountInfo.error, 'EMPTY_ACCOUNT');
    }
    await untilWatched(key.toString());
    const programId = TOKEN_2022_PROGRAM_ID;
    const { publicKey: authority } = payer;
    const space = getMintLen([ExtensionType.MetadataPointer]);
    const lamports = await connection.getMinimumBalanceForRentExemption(space);
    const make = new Transaction().add(
      SystemProgram.createAccount({ fromPubkey: authority, newAccountPubkey: key, lamports, space, programId }),
      createInitializeMetadataPointerInstruction(key, authority, key, programId),
      createInitializeMintInstruction(key, 2, authority, null, programId),
    );
    await sendAndConfirmTransaction(connection, make, [payer, mint], confirm);
    await until(key.toString(), (now) => now.onChainAccountInfo.error === '');
    await untilWatched(key.toString());
    const texts = ['Late star', 'LATE', 'https://example.com/late.json'] as const;
    await tokenMetadataInitializeWithRentTransfer(
      connection,
      payer,
      key,
      authority,
      payer,
      ...texts,
      [],
      confirm,
      programId,
    );
    await until(key.toString(), ({ onChainMetadata }) => onChainMetadata.metadata?.data.name === 'Late star');
  });
});
