import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import {
  AddressLookupTableProgram,
  ComputeBudgetProgram,
  type Connection,
  Keypair,
  LAMPORTS_PER_SOL,
  NONCE_ACCOUNT_LENGTH,
  NonceAccount,
  PublicKey,
  SystemProgram,
  sendAndConfirmTransaction,
  Transaction,
  TransactionInstruction,
  TransactionMessage,
  VersionedTransaction,
} from '@solana/web3.js';
import { LOADER_V3, MEMO_PROGRAMS, MEMO_V4_PROGRAM } from '../../../src/solana/programs.ts';
import { chainMissing, startChain, type TestChain } from '../../helpers/chain.ts';

suite('kinds of transactions through web3.js', { skip: (await chainMissing()) ?? false }, () => {
  let chain: TestChain;
  let connection: Connection;
  const payer = Keypair.generate();
  const version = { maxSupportedTransactionVersion: 0 } as const;
  const pay = (to: PublicKey, lamports: number) =>
    SystemProgram.transfer({ fromPubkey: payer.publicKey, toPubkey: to, lamports });
  const send = (...items: TransactionInstruction[]) =>
    sendAndConfirmTransaction(connection, new Transaction().add(...items), [payer]);

  before(async () => {
    chain = await startChain();
    connection = chain.connection;
    await chain.fund(payer.publicKey.toString(), 100 * LAMPORTS_PER_SOL);
  });
  after(() => chain.stop());

  // Logs and units are those of a node (Agave 4.2.1) for the fourth program, to which clients send by default.
  test('a memo of each memo program shows in the signature list and in the parsed transaction', async () => {
    const text = 'gr\u00fc\u00df dich';
    for (const program of MEMO_PROGRAMS) {
      const programId = new PublicKey(program);
      const signature = await send(new TransactionInstruction({ programId, keys: [], data: Buffer.from(text) }));
      const [newest] = await connection.getSignaturesForAddress(payer.publicKey, { limit: 1 });
      assert.deepEqual([newest?.signature, newest?.memo, newest?.err], [signature, `[11] ${text}`, null]);
      const parsed = await connection.getParsedTransaction(signature, version);
      assert.deepEqual(parsed?.transaction.message.instructions, [
        { parsed: text, program: 'spl-memo', programId, stackHeight: 1 },
      ]);
    }
  });

  test('the fourth memo program names its signers, as on a node', async () => {
    const programId = new PublicKey(MEMO_V4_PROGRAM);
    const keys = [{ pubkey: payer.publicKey, isSigner: true, isWritable: false }];
    const signature = await send(new TransactionInstruction({ programId, keys, data: Buffer.from('hi') }));
    const landed = await connection.getTransaction(signature, version);
    assert.deepEqual(landed?.meta?.logMessages, [
      `Program ${MEMO_V4_PROGRAM} invoke [1]`,
      'Program log: Signed by:',
      `Program log: ${payer.publicKey}`,
      'Program log: Memo (len 2)',
      'Program log: hi',
      `Program ${MEMO_V4_PROGRAM} consumed 500 of 200000 compute units`,
      `Program ${MEMO_V4_PROGRAM} success`,
    ]);
    const account = await connection.getAccountInfo(programId);
    assert.deepEqual([account?.executable, account?.owner.toString(), account?.data.length], [true, LOADER_V3, 36]);
  });

  test('priority fees are in the fee, and getFeeForMessage foretells it', async () => {
    const target = Keypair.generate().publicKey;
    for (const [items, fee] of [
      [[ComputeBudgetProgram.setComputeUnitPrice({ microLamports: 1_000_000 })], 11_000],
      [
        [
          ComputeBudgetProgram.setComputeUnitLimit({ units: 1001 }),
          ComputeBudgetProgram.setComputeUnitPrice({ microLamports: 1500 }),
        ],
        5002,
      ],
    ] as const) {
      const transaction = new Transaction().add(...items, pay(target, LAMPORTS_PER_SOL));
      transaction.feePayer = payer.publicKey;
      transaction.recentBlockhash = (await connection.getLatestBlockhash()).blockhash;
      assert.equal(await transaction.getEstimatedFee(connection), fee);
      const signature = await sendAndConfirmTransaction(connection, transaction, [payer]);
      assert.equal((await connection.getTransaction(signature, version))?.meta?.fee, fee);
    }
  });

  test('a failing transaction is refused by preflight and lands without it', async () => {
    const target = Keypair.generate().publicKey;
    const transaction = new Transaction().add(pay(target, 10_000 * LAMPORTS_PER_SOL));
    await assert.rejects(
      sendAndConfirmTransaction(connection, transaction, [payer]),
      /custom program error: 0x1[\s\S]*insufficient lamports/,
    );
    const before = await connection.getBalance(payer.publicKey);
    const signature = await connection.sendTransaction(transaction, [payer], { skipPreflight: true });
    const landed = await connection.getTransaction(signature, version);
    assert.deepEqual(landed?.meta?.err, { InstructionError: [0, { Custom: 1 }] });
    assert.equal(landed?.meta?.fee, 5000);
    assert.equal(await connection.getBalance(payer.publicKey), before - 5000);
    assert.equal(await connection.getBalance(target), 0);
  });

  test('a v0 transaction is found by an address that only its table holds', async () => {
    const target = Keypair.generate().publicKey;
    await chain.seal();
    const recentSlot = await connection.getSlot('confirmed');
    const authority = payer.publicKey;
    const [create, table] = AddressLookupTableProgram.createLookupTable({ authority, payer: authority, recentSlot });
    await send(
      create,
      AddressLookupTableProgram.extendLookupTable({
        lookupTable: table,
        authority,
        payer: authority,
        addresses: [target],
      }),
    );
    const found = (await connection.getAddressLookupTable(table)).value;
    assert.ok(found);
    const { blockhash } = await connection.getLatestBlockhash();
    const message = new TransactionMessage({
      payerKey: authority,
      recentBlockhash: blockhash,
      instructions: [pay(target, 1_000_000)],
    }).compileToV0Message([found]);
    const transaction = new VersionedTransaction(message);
    transaction.sign([payer]);
    const signature = await connection.sendTransaction(transaction);
    assert.deepEqual(
      (await connection.getSignaturesForAddress(target)).map((item) => item.signature),
      [signature],
    );
    const landed = await connection.getTransaction(signature, version);
    assert.equal(landed?.version, 0);
    assert.deepEqual(landed.meta?.loadedAddresses?.writable.map(String), [target.toString()]);
    assert.equal(landed.meta?.postBalances.at(2), 1_000_000);
    await assert.rejects(connection.getBlock(landed.slot), /-32015|maxSupportedTransactionVersion/);
  });

  test('a durable nonce outlives the blockhash window and moves on', async () => {
    const nonce = Keypair.generate();
    const lamports = await connection.getMinimumBalanceForRentExemption(NONCE_ACCOUNT_LENGTH);
    const create = SystemProgram.createNonceAccount({
      fromPubkey: payer.publicKey,
      noncePubkey: nonce.publicKey,
      authorizedPubkey: payer.publicKey,
      lamports,
    });
    await sendAndConfirmTransaction(connection, create, [payer, nonce]);
    const read = async () =>
      NonceAccount.fromAccountData((await connection.getAccountInfo(nonce.publicKey))!.data).nonce;
    const stored = await read();
    const advance = { noncePubkey: nonce.publicKey, authorizedPubkey: payer.publicKey };
    const signed = () => {
      const transaction = new Transaction().add(SystemProgram.nonceAdvance(advance), pay(nonce.publicKey, 1));
      transaction.recentBlockhash = stored;
      transaction.feePayer = payer.publicKey;
      transaction.sign(payer);
      return transaction.serialize();
    };
    await chain.seal(200);
    const signature = await connection.sendRawTransaction(signed());
    assert.equal((await connection.getTransaction(signature, version))?.meta?.err, null);
    assert.notEqual(await read(), stored);
    // A node looks at the age first.
    await assert.rejects(connection.sendRawTransaction(signed()), /Blockhash not found/);
  });

  test('an old blockhash, a wrong signature and a duplicate are refused', async () => {
    const target = Keypair.generate().publicKey;
    const transaction = new Transaction().add(pay(target, LAMPORTS_PER_SOL));
    const { blockhash } = await connection.getLatestBlockhash();
    transaction.recentBlockhash = blockhash;
    transaction.feePayer = payer.publicKey;
    transaction.sign(payer);
    const bytes = transaction.serialize();
    await chain.seal(140);
    assert.equal((await connection.isBlockhashValid(blockhash)).value, true);
    const flipped = Uint8Array.from(bytes);
    flipped[10]! ^= 1;
    await assert.rejects(connection.sendRawTransaction(flipped), /signature verification/);
    const signature = await connection.sendRawTransaction(bytes);
    await assert.rejects(connection.sendRawTransaction(bytes), /already been processed/);
    // Without preflight the answer is the signature, whatever the outcome: clients that resend rely on that.
    assert.equal(await connection.sendRawTransaction(bytes, { skipPreflight: true, maxRetries: 0 }), signature);
    assert.match(
      await connection.sendRawTransaction(flipped, { skipPreflight: true }),
      /^[1-9A-HJ-NP-Za-km-z]{80,88}$/,
    );
    await chain.seal(10);
    assert.equal((await connection.isBlockhashValid(blockhash)).value, false);
    const late = new Transaction().add(pay(target, 2 * LAMPORTS_PER_SOL));
    late.recentBlockhash = blockhash;
    late.feePayer = payer.publicKey;
    late.sign(payer);
    await assert.rejects(connection.sendRawTransaction(late.serialize()), /Blockhash not found/);
  });

  test('simulation shows what would be and changes nothing', async () => {
    const target = Keypair.generate().publicKey;
    const { blockhash } = await connection.getLatestBlockhash();
    const message = new TransactionMessage({
      payerKey: payer.publicKey,
      recentBlockhash: blockhash,
      instructions: [pay(target, 7_000_000)],
    }).compileToV0Message();
    const { value } = await connection.simulateTransaction(new VersionedTransaction(message), {
      accounts: { encoding: 'base64', addresses: [target.toString()] },
    });
    assert.deepEqual([value.err, value.unitsConsumed, value.accounts?.[0]?.lamports], [null, 150, 7_000_000]);
    assert.equal(await connection.getAccountInfo(target), null);
  });
});
