import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import {
  createAssociatedTokenAccount,
  createMint,
  getAccount,
  getMint,
  mintTo,
  TOKEN_2022_PROGRAM_ID,
  TOKEN_PROGRAM_ID,
  transfer,
} from '@solana/spl-token';
import { Keypair, LAMPORTS_PER_SOL, type PublicKey } from '@solana/web3.js';
import { chainMissing, startChain, type TestChain } from '../../helpers/chain.ts';

for (const [name, programId] of [
  ['SPL Token', TOKEN_PROGRAM_ID],
  ['Token-2022', TOKEN_2022_PROGRAM_ID],
] as const) {
  suite(`tokens with the published client: ${name}`, { skip: (await chainMissing()) ?? false }, () => {
    let chain: TestChain;
    const payer = Keypair.generate();
    const friend = Keypair.generate();
    let mint: PublicKey;
    let ours: PublicKey;
    let theirs: PublicKey;
    let signature: string;
    const confirm = { commitment: 'confirmed' } as const;

    before(async () => {
      chain = await startChain();
      const { connection } = chain;
      await chain.fund(payer.publicKey.toString(), 10 * LAMPORTS_PER_SOL);
      mint = await createMint(connection, payer, payer.publicKey, null, 6, undefined, confirm, programId);
      ours = await createAssociatedTokenAccount(connection, payer, mint, payer.publicKey, confirm, programId);
      theirs = await createAssociatedTokenAccount(connection, payer, mint, friend.publicKey, confirm, programId);
      await mintTo(connection, payer, mint, ours, payer, 1_000_000n, [], confirm, programId);
      signature = await transfer(connection, payer, ours, theirs, payer, 250_000n, [], confirm, programId);
    });
    after(() => chain.stop());

    test('accounts and mint read back', async () => {
      const { connection } = chain;
      assert.equal((await getAccount(connection, ours, 'confirmed', programId)).amount, 750_000n);
      assert.equal((await getMint(connection, mint, 'confirmed', programId)).supply, 1_000_000n);
      const balance = await connection.getTokenAccountBalance(theirs);
      assert.deepEqual(balance.value, { amount: '250000', decimals: 6, uiAmount: 0.25, uiAmountString: '0.25' });
      assert.equal((await connection.getTokenSupply(mint)).value.uiAmountString, '1');
      const largest = await connection.getTokenLargestAccounts(mint);
      assert.deepEqual(
        largest.value.map((item) => [item.address.toString(), item.amount]),
        [
          [ours.toString(), '750000'],
          [theirs.toString(), '250000'],
        ],
      );
    });

    test('token balances of the transaction', async () => {
      const landed = await chain.connection.getTransaction(signature, { maxSupportedTransactionVersion: 0 });
      const before = landed?.meta?.preTokenBalances?.map((item) => [item.owner, item.uiTokenAmount.uiAmountString]);
      const after = landed?.meta?.postTokenBalances?.map((item) => [item.owner, item.uiTokenAmount.uiAmountString]);
      const us = payer.publicKey.toString();
      const them = friend.publicKey.toString();
      assert.deepEqual(
        new Map(before as [string, string][]),
        new Map([
          [us, '1'],
          [them, '0'],
        ]),
      );
      assert.deepEqual(
        new Map(after as [string, string][]),
        new Map([
          [us, '0.75'],
          [them, '0.25'],
        ]),
      );
    });

    test('lists by owner, by program and by filters agree', async () => {
      const { connection } = chain;
      const byMint = await connection.getTokenAccountsByOwner(friend.publicKey, { mint });
      const byProgram = await connection.getParsedTokenAccountsByOwner(friend.publicKey, { programId });
      const filters = [{ memcmp: { offset: 32, bytes: friend.publicKey.toString() } }];
      const byFilter = await connection.getProgramAccounts(programId, { filters });
      for (const list of [byMint.value, byProgram.value, byFilter]) {
        assert.deepEqual(
          list.map((item) => item.pubkey.toString()),
          [theirs.toString()],
        );
      }
      assert.equal(byProgram.value[0]?.account.data.parsed.info.tokenAmount.amount, '250000');
      const wrongSize = await connection.getProgramAccounts(programId, { filters: [...filters, { dataSize: 1 }] });
      assert.deepEqual(wrongSize, []);
    });

    test('parsed instructions, batched', async () => {
      const signatures = (await chain.connection.getSignaturesForAddress(mint)).map((item) => item.signature);
      const parsed = await chain.connection.getParsedTransactions(signatures, { maxSupportedTransactionVersion: 0 });
      const types = parsed.flatMap((item) =>
        (item?.transaction.message.instructions ?? []).map((each) => ('parsed' in each ? each.parsed.type : null)),
      );
      assert.deepEqual(types, ['mintTo', 'create', 'create', 'createAccount', 'initializeMint2']);
      const created = parsed[1]?.meta?.innerInstructions?.[0]?.instructions.map((item) =>
        'parsed' in item ? item.parsed.type : null,
      );
      assert.deepEqual(created, [
        'getAccountDataSize',
        'createAccount',
        'initializeImmutableOwner',
        'initializeAccount3',
      ]);
    });
  });
}
