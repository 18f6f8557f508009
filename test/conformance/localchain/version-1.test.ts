/** What a real node does with version 1 transactions (measured on Agave 4.2), the local chain does too. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import {
  ComputeBudgetProgram,
  Keypair,
  LAMPORTS_PER_SOL,
  PublicKey,
  SystemProgram,
  TransactionInstruction,
} from '@solana/web3.js';
import { encode } from '../../../src/lib/base58.ts';
import { chainMissing, startChain, type TestChain } from '../../helpers/chain.ts';
import { signVersion1, USUAL_CONFIG, type Version1Config } from '../../helpers/version-1.ts';

// biome-ignore lint/suspicious/noExplicitAny: answers of nodes.
type Json = any;

const FEE = 5_777;
const TOO_NEW =
  'Transaction version (1) is not supported by the requesting client. Please try the request again with the following configuration parameter: "maxSupportedTransactionVersion": 1';

describe('version 1 on the local chain', { skip: (await chainMissing()) ?? false }, () => {
  const payer = Keypair.generate();
  const to = Keypair.generate().publicKey;
  let chain: TestChain;

  before(async () => {
    chain = await startChain();
    await chain.fund(payer.publicKey.toBase58(), 100 * LAMPORTS_PER_SOL);
    await chain.fund(to.toBase58(), LAMPORTS_PER_SOL);
  });
  after(() => chain?.stop());

  async function call(method: string, params: readonly unknown[]): Promise<Json> {
    const response = await fetch(chain.rpcUrl, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
    });
    return await response.json();
  }
  const pay = (lamports: number) => SystemProgram.transfer({ fromPubkey: payer.publicKey, toPubkey: to, lamports });
  const memo = (bytes: number) =>
    new TransactionInstruction({
      programId: new PublicKey('MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr'),
      keys: [],
      data: Buffer.alloc(bytes, 'm'),
    });
  const sign = async (instructions: readonly TransactionInstruction[], config?: Version1Config) =>
    signVersion1(payer, (await chain.connection.getLatestBlockhash()).blockhash, instructions, config);
  const send = (wire: Uint8Array, options: object = {}) =>
    call('sendTransaction', [Buffer.from(wire).toString('base64'), { encoding: 'base64', ...options }]);
  const read = (signature: string, encoding: string, options: object = { maxSupportedTransactionVersion: 1 }) =>
    call('getTransaction', [signature, { encoding, commitment: 'confirmed', ...options }]);

  test('it is run, costs what its header says, and is shown in every encoding', async () => {
    const config = { ...USUAL_CONFIG, heapSize: 65_536 };
    const { wire, signature } = await sign([pay(1_000_000)], config);
    assert.equal((await send(wire)).result, signature);
    const message = wire.subarray(0, -64).toString('base64');
    assert.equal((await call('getFeeForMessage', [message, { commitment: 'confirmed' }])).result.value, FEE);
    const { result: json } = await read(signature, 'json');
    assert.deepEqual([json.version, json.meta.fee, json.meta.err], [1, FEE, null]);
    assert.equal(json.meta.preBalances[0] - json.meta.postBalances[0], 1_000_000 + FEE);
    assert.deepEqual(json.transaction.signatures, [signature]);
    assert.deepEqual(Object.keys(json.transaction.message).toSorted(), [
      'accountKeys',
      'header',
      'instructions',
      'recentBlockhash',
      'transactionConfig',
    ]);
    const shown = {
      computeUnitLimit: 200_000,
      heapSize: 65_536,
      loadedAccountsDataSizeLimit: 2 ** 20,
      priorityFee: 777,
    };
    assert.deepEqual(json.transaction.message.transactionConfig, shown);
    const { result: parsed } = await read(signature, 'jsonParsed');
    assert.deepEqual(parsed.transaction.message.transactionConfig, shown);
    assert.equal(parsed.transaction.message.instructions[0].parsed.type, 'transfer');
    const { result: base64 } = await read(signature, 'base64');
    assert.deepEqual([base64.version, base64.transaction], [1, [wire.toString('base64'), 'base64']]);
    assert.deepEqual((await read(signature, 'base58')).result.transaction, [encode(wire), 'base58']);
    for (const encoding of ['json', 'jsonParsed', 'base58', 'base64']) {
      const options = { encoding, commitment: 'confirmed', maxSupportedTransactionVersion: 1 };
      const { result: block } = await call('getBlock', [json.slot, options]);
      const { result: alone } = await read(signature, encoding);
      assert.deepEqual(block.transactions[0].transaction, alone.transaction);
      assert.equal(block.transactions[0].version, 1);
    }
    const fees = (await call('getRecentPrioritizationFees', [[payer.publicKey.toBase58()]])).result as Json[];
    // 777 lamports over 200,000 units.
    assert.equal(fees.find(({ slot }) => slot === json.slot).prioritizationFee, 3_885);
  });

  test('a client that does not know the version gets -32015, for a whole block too', async () => {
    const { wire, signature } = await sign([pay(1)]);
    await send(wire);
    const { slot } = (await read(signature, 'json')).result;
    for (const options of [{}, { maxSupportedTransactionVersion: 0 }]) {
      assert.deepEqual((await read(signature, 'base64', options)).error, { code: -32015, message: TOO_NEW });
      for (const transactionDetails of ['full', 'accounts']) {
        const { error } = await call('getBlock', [slot, { commitment: 'confirmed', transactionDetails, ...options }]);
        assert.deepEqual(error, { code: -32015, message: TOO_NEW });
      }
      const named = await call('getBlock', [
        slot,
        { commitment: 'confirmed', transactionDetails: 'signatures', ...options },
      ]);
      assert.deepEqual(named.result.signatures, [signature]);
    }
  });

  test('ComputeBudget instructions in it do nothing, not even wrong ones', async () => {
    const wrong = new TransactionInstruction({
      programId: ComputeBudgetProgram.programId,
      keys: [],
      data: Buffer.of(9),
    });
    const budget = [
      ComputeBudgetProgram.setComputeUnitPrice({ microLamports: 5_000_000 }),
      ComputeBudgetProgram.setComputeUnitLimit({ units: 1 }),
    ];
    const { wire, signature } = await sign([pay(2), ...budget, ...budget, wrong]);
    assert.equal((await send(wire)).error, undefined);
    const { meta } = (await read(signature, 'json')).result;
    assert.deepEqual([meta.err, meta.fee], [null, FEE]);
  });

  test('limits that the header omits are zero', async () => {
    const { loadedAccountsDataSizeLimit: _, ...noData } = USUAL_CONFIG;
    const { computeUnitLimit: __, ...noUnits } = USUAL_CONFIG;
    for (const config of [noData, { ...USUAL_CONFIG, loadedAccountsDataSizeLimit: 200 }]) {
      const { error } = await send((await sign([pay(3)], config)).wire);
      assert.deepEqual([error.code, error.data.err], [-32002, 'MaxLoadedAccountsDataSizeExceeded']);
      assert.match(error.message, /Transaction exceeded max loaded accounts data size cap/);
      // Loading ends at the limit.
      const limit = 'loadedAccountsDataSizeLimit' in config ? config.loadedAccountsDataSizeLimit : 0;
      assert.equal(error.data.loadedAccountsDataSize, limit);
    }
    // Sent all the same, it lands, costs its fee and does nothing.
    const blind = await sign([pay(3)], noData);
    assert.equal((await send(blind.wire, { skipPreflight: true })).result, blind.signature);
    const landed = (await read(blind.signature, 'json')).result;
    assert.deepEqual(
      [landed.meta.err, landed.meta.fee, landed.meta.logMessages, landed.meta.innerInstructions],
      ['MaxLoadedAccountsDataSizeExceeded', FEE, null, null],
    );
    const refused = await send((await sign([pay(4)], noUnits)).wire);
    assert.equal(refused.error.code, -32002);
    assert.deepEqual(refused.error.data.err, { InstructionError: [0, 'ComputationalBudgetExceeded'] });
    const { wire, signature } = await sign([pay(5)], noUnits);
    assert.equal((await send(wire, { skipPreflight: true })).result, signature);
    const { meta } = (await read(signature, 'json')).result;
    assert.deepEqual(meta.err, { InstructionError: [0, 'ComputationalBudgetExceeded'] });
    assert.equal(meta.fee, FEE);
    const free = { computeUnitLimit: 1_000, loadedAccountsDataSizeLimit: 2 ** 20 };
    const cheap = await sign([pay(6)], free);
    await send(cheap.wire);
    assert.equal((await read(cheap.signature, 'json')).result.meta.fee, 5_000);
  });

  test('up to 4,096 bytes', async () => {
    const config = { ...USUAL_CONFIG, computeUnitLimit: 1_400_000 };
    const size = (await sign([pay(7), memo(0)], config)).wire.length;
    const { wire, signature } = await sign([pay(7), memo(4_096 - size)], config);
    assert.equal(wire.length, 4_096);
    assert.equal((await send(wire)).result, signature);
    assert.equal((await read(signature, 'json')).result.meta.err, null);
    const { error } = await send(Buffer.concat([wire, Buffer.of(0)]));
    assert.equal(error.code, -32602);
  });

  test('wrong bytes and signatures are refused, and the chain continues', async () => {
    const { wire } = await sign([pay(8)], { ...USUAL_CONFIG, heapSize: 65_536 });
    const heapAt = 42 + 3 * 32 + 16;
    const changes: readonly ((copy: Buffer) => void)[] = [
      (copy) => copy.writeUInt8(13, 1),
      (copy) => copy.writeUInt8(1, 2),
      (copy) => copy.writeUInt8(0x3f, 4),
      (copy) => copy.writeUInt8(0x1e, 4),
      (copy) => copy.copy(copy, 42 + 32, 42, 42 + 32),
      (copy) => copy.writeUInt32LE(33_000, heapAt),
      (copy) => copy.writeUInt8(0, heapAt + 4),
      (copy) => copy.writeUInt8(9, heapAt + 4),
      (copy) => copy.writeUInt8(200, heapAt + 6),
      (copy) => copy.writeUInt8(0x82, 0),
    ];
    for (const change of changes) {
      const copy = Buffer.from(wire);
      change(copy);
      for (const method of ['sendTransaction', 'simulateTransaction']) {
        const { error } = await call(method, [copy.toString('base64'), { encoding: 'base64' }]);
        assert.equal(error.code, -32602);
        assert.match(
          error.message,
          /^failed to deserialize solana_transaction::versioned::VersionedTransaction: (?!failed)(?:[a-z ]+|\d+ bytes follow the signatures$)/,
        );
      }
    }
    const forged = Buffer.from(wire);
    forged[forged.length - 1]! ^= 1;
    assert.ok((await send(forged)).error.code < -32000);
    // Without a trial run the answer is the signature; the transaction never lands.
    const ghost = (await send(forged, { skipPreflight: true })).result;
    assert.equal(typeof ghost, 'string');
    assert.equal((await call('getSignatureStatuses', [[ghost]])).result.value[0], null);
    const simulated = await call('simulateTransaction', [
      wire.toString('base64'),
      { encoding: 'base64', sigVerify: true },
    ]);
    assert.deepEqual([simulated.result.value.err, simulated.result.value.unitsConsumed], [null, 150]);
    assert.equal((await send(wire)).error, undefined);
  });

  test('a fork runs it again, and what was recorded elsewhere is shown as it is', async () => {
    const { wire, signature } = await sign([pay(9)]);
    await send(wire);
    const { moved } = await chain.fork({ depth: 1, replay: 'all' });
    assert.deepEqual(
      moved.map((one) => one.signature),
      [signature],
    );
    const { result } = await read(signature, 'json');
    assert.equal(result.version, 1);
    const other = await startChain();
    try {
      await other.appendRecorded({ transaction: result.transaction, meta: result.meta });
      await other.seal();
      const params = [signature, { encoding: 'base64', commitment: 'confirmed', maxSupportedTransactionVersion: 1 }];
      const shown = await fetch(other.rpcUrl, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'getTransaction', params }),
      });
      const { result: again } = (await shown.json()) as Json;
      assert.deepEqual(again.transaction, [wire.toString('base64'), 'base64']);
    } finally {
      await other.stop();
    }
  });
});
