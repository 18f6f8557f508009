/** Behaviour of a node (Agave 4.2.1) that the local chain has as well. The values are those of the reports on real nodes; no node runs here. */
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
  type PublicKey,
  SystemProgram,
  sendAndConfirmTransaction,
  Transaction,
  TransactionMessage,
  VersionedTransaction,
} from '@solana/web3.js';
import { WebSocket } from 'ws';
import { chainMissing, startChain, type TestChain } from '../../helpers/chain.ts';

suite('the local chain does as a node', { skip: (await chainMissing()) ?? false }, () => {
  let chain: TestChain;
  let connection: Connection;
  const payer = Keypair.generate();

  before(async () => {
    chain = await startChain();
    connection = chain.connection;
    await chain.fund(payer.publicKey.toString(), 100 * LAMPORTS_PER_SOL);
  });
  after(() => chain.stop());

  const pay = (from: PublicKey, to: PublicKey, lamports: number) =>
    SystemProgram.transfer({ fromPubkey: from, toPubkey: to, lamports });
  async function call<T>(
    method: string,
    params: unknown[],
  ): Promise<{ result?: T; error?: { code: number; message: string } }> {
    const response = await fetch(chain.rpcUrl, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
    });
    return (await response.json()) as { result?: T; error?: { code: number; message: string } };
  }

  test('a fee that leaves the payer below its rent minimum keeps the transaction from landing', async () => {
    const rent = await connection.getMinimumBalanceForRentExemption(0);
    const poor = Keypair.generate();
    for (const [lamports, lands] of [
      [rent + 4_999, false],
      [rent + 5_000, true],
      [5_000, true],
    ] as const) {
      await chain.setAccount(poor.publicKey.toString(), {
        lamports,
        owner: SystemProgram.programId.toString(),
        data: new Uint8Array(0),
      });
      const { blockhash } = await connection.getLatestBlockhash();
      const transaction = new Transaction({ feePayer: poor.publicKey, recentBlockhash: blockhash });
      transaction.add(ComputeBudgetProgram.setComputeUnitLimit({ units: 1_000 + (lamports % 1_000) }));
      transaction.sign(poor);
      const signature = await connection.sendRawTransaction(transaction.serialize(), { skipPreflight: true });
      await chain.seal(1);
      const status = (await connection.getSignatureStatuses([signature])).value[0];
      assert.equal(status !== null, lands, String(lamports));
      if (!lands) assert.equal(await connection.getBalance(poor.publicKey), lamports);
    }
  });

  test('prices of blocks are those of what was paid in whole lamports: the highest of the minima of block and writable accounts', async () => {
    const [hot, cold] = [Keypair.generate().publicKey, Keypair.generate().publicKey];
    const send = async (to: PublicKey, units: number, microLamports: number) => {
      const items = [
        ComputeBudgetProgram.setComputeUnitLimit({ units }),
        ComputeBudgetProgram.setComputeUnitPrice({ microLamports }),
        pay(payer.publicKey, to, LAMPORTS_PER_SOL),
      ];
      const signature = await sendAndConfirmTransaction(connection, new Transaction().add(...items), [payer]);
      return (await connection.getSignatureStatuses([signature])).value[0]!.slot;
    };
    // 1,000 units at 1,500 micro-lamports are 1.5 lamports, so 2: 2,000 micro-lamports a unit.
    const slot = await send(hot, 1_000, 1_500);
    const later = await send(cold, 700, 10);
    await chain.seal(1);
    type Fees = { prioritizationFee: number; slot: number }[];
    const feesOf = async (keys: PublicKey[]) => {
      const { result } = await call<Fees>('getRecentPrioritizationFees', [keys.map(String)]);
      return new Map(result!.map((one) => [one.slot, one.prioritizationFee]));
    };
    const all = await feesOf([]);
    assert.deepEqual([all.get(slot), all.get(later)], [2_000, 1_428]);
    const tip = await connection.getSlot('processed');
    assert.ok(!all.has(tip), 'a block without transactions is left out');
    assert.deepEqual(await feesOf([hot]), all);
    // The program is only read.
    assert.deepEqual(await feesOf([SystemProgram.programId]), all);
  });

  test('an account that a transaction may write and does not change is not notified', async () => {
    const other = Keypair.generate().publicKey;
    await chain.setAccount(other.toString(), {
      lamports: LAMPORTS_PER_SOL,
      owner: SystemProgram.programId.toString(),
      data: new Uint8Array(0),
    });
    const socket = new WebSocket(chain.wsUrl);
    const heard: string[] = [];
    socket.on('message', (data) => heard.push(String(data)));
    await new Promise((resolve) => socket.once('open', resolve));
    for (const [id, key] of [other, payer.publicKey].entries())
      socket.send(
        JSON.stringify({
          jsonrpc: '2.0',
          id,
          method: 'accountSubscribe',
          params: [String(key), { commitment: 'processed' }],
        }),
      );
    await waitFor(() => heard.length === 2);
    await sendAndConfirmTransaction(connection, new Transaction().add(pay(payer.publicKey, other, 0)), [payer]);
    await waitFor(() => heard.length > 2);
    await chain.seal(2);
    const notified = heard
      .slice(2)
      .map((text) => (JSON.parse(text) as { params: { subscription: number } }).params.subscription);
    const ids = heard.slice(0, 2).map((text) => JSON.parse(text) as { id: number; result: number });
    const silent = ids.find(({ id }) => id === 0)!.result;
    assert.ok(notified.length > 0 && !notified.includes(silent));
    socket.close();
  });

  test("another address's signature is a place in the history of an address", async () => {
    const [a, b] = [Keypair.generate().publicKey, Keypair.generate().publicKey];
    const send = (to: PublicKey) =>
      sendAndConfirmTransaction(connection, new Transaction().add(pay(payer.publicKey, to, LAMPORTS_PER_SOL)), [payer]);
    const [first, between, last] = [await send(a), await send(b), await send(a)];
    const list = async (options: object) =>
      (await connection.getSignaturesForAddress(a, options, 'confirmed')).map(({ signature }) => signature);
    assert.deepEqual(await list({ before: between }), [first]);
    assert.deepEqual(await list({ until: between }), [last]);
    assert.deepEqual(await list({ before: last, until: between }), []);
  });

  test('a used durable nonce is too old, not a duplicate, and counts the whole sysvar', async () => {
    const account = Keypair.generate();
    const rent = await connection.getMinimumBalanceForRentExemption(NONCE_ACCOUNT_LENGTH);
    const create = SystemProgram.createNonceAccount({
      fromPubkey: payer.publicKey,
      noncePubkey: account.publicKey,
      authorizedPubkey: payer.publicKey,
      lamports: rent,
    });
    await sendAndConfirmTransaction(connection, new Transaction().add(create), [payer, account]);
    await chain.seal(1);
    const { nonce } = NonceAccount.fromAccountData((await connection.getAccountInfo(account.publicKey))!.data);
    const transaction = new Transaction({ feePayer: payer.publicKey, recentBlockhash: nonce }).add(
      SystemProgram.nonceAdvance({ noncePubkey: account.publicKey, authorizedPubkey: payer.publicKey }),
    );
    transaction.sign(payer);
    const wire = transaction.serialize();
    const text = wire.toString('base64');
    type Simulation = { value: { err: unknown; loadedAccountsDataSize: number } };
    const simulate = async (options: object) =>
      (
        await call<Simulation>('simulateTransaction', [
          text,
          { encoding: 'base64', commitment: 'confirmed', ...options },
        ])
      ).result!.value;
    assert.ok((await simulate({})).loadedAccountsDataSize > 6_008);
    await connection.sendRawTransaction(wire);
    await chain.seal(1);
    assert.equal((await simulate({})).err, 'BlockhashNotFound');
    const { error } = await call('sendTransaction', [text, { encoding: 'base64', preflightCommitment: 'confirmed' }]);
    assert.deepEqual([error?.code, /Blockhash not found/.test(error?.message ?? '')], [-32002, true]);
    assert.equal((await simulate({ replaceRecentBlockhash: true })).err, null);
  });

  test('entries of a table that was extended in this slot are refused until it has passed', async (t) => {
    const timed = await startChain({ slotMs: 400, time: { kind: 'wall' } });
    t.after(() => timed.stop());
    const owner = Keypair.generate();
    await timed.fund(owner.publicKey.toString(), 10 * LAMPORTS_PER_SOL);
    const recentSlot = (await timed.connection.getSlot('confirmed')) - 1;
    const [create, table] = AddressLookupTableProgram.createLookupTable({
      authority: owner.publicKey,
      payer: owner.publicKey,
      recentSlot,
    });
    const target = Keypair.generate().publicKey;
    const extend = AddressLookupTableProgram.extendLookupTable({
      lookupTable: table,
      authority: owner.publicKey,
      payer: owner.publicKey,
      addresses: [target],
    });
    await sendAndConfirmTransaction(timed.connection, new Transaction().add(create, extend), [owner]);
    const read = await timed.connection.getAddressLookupTable(table, { commitment: 'confirmed' });
    const extendedAt = read.value!.state.lastExtendedSlot;
    const { blockhash } = await timed.connection.getLatestBlockhash();
    const message = new TransactionMessage({
      payerKey: owner.publicKey,
      recentBlockhash: blockhash,
      instructions: [pay(owner.publicKey, target, LAMPORTS_PER_SOL)],
    }).compileToV0Message([read.value!]);
    const transaction = new VersionedTransaction(message);
    transaction.sign([owner]);
    const text = Buffer.from(transaction.serialize()).toString('base64');
    const simulate = async () => {
      const response = await fetch(timed.rpcUrl, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({
          jsonrpc: '2.0',
          id: 1,
          method: 'simulateTransaction',
          params: [text, { encoding: 'base64', commitment: 'confirmed' }],
        }),
      });
      return (await response.json()) as {
        error?: { code: number };
        result?: { context: { slot: number }; value: { err: unknown } };
      };
    };
    let answer = await simulate();
    while (answer.error !== undefined) {
      assert.equal(answer.error.code, -32602);
      assert.ok((await timed.connection.getSlot('confirmed')) <= extendedAt + 1);
      answer = await simulate();
    }
    assert.ok(answer.result!.context.slot > extendedAt);
    assert.equal(answer.result!.value.err, null);
  });
});

async function waitFor(is: () => boolean): Promise<void> {
  for (let turn = 0; !is(); turn++) {
    assert.ok(turn < 600);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
