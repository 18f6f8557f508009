/** What arrives is what the node's own methods answer, member by member, read by the client's own decoder. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Keypair, SystemProgram } from '@solana/web3.js';
import { encode, encode64 } from '../../../src/lib/base58.ts';
import { ERROR_NAMES, errorBytes } from '../../../src/solana/error-bytes.ts';
import { chainMissing } from '../../helpers/chain.ts';
import { listFixtures, readJsonFixture, skipWithoutFixtures } from '../../helpers/fixtures.ts';
import { geyserMissing } from '../../helpers/geyser.ts';
import { until } from '../../helpers/until.ts';
import { sendVersion1, USUAL_CONFIG } from '../../helpers/version-1.ts';
import { createEconomy } from '../../helpers/wallet-economy.ts';
import { type Json, type StreamBed, startBed } from './harness.ts';

const skip = geyserMissing() ?? (await chainMissing()) ?? false;
const EVERYTHING = {
  transactions: { all: {} },
  transactionsStatus: { status: {} },
  blocks: { block: {} },
  blocksMeta: { meta: {} },
  slots: { slot: {} },
  commitment: 1,
};

async function rpc({ chain }: StreamBed, method: string, params: readonly unknown[]): Promise<Json> {
  const response = await fetch(chain.rpcUrl, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  });
  const { result, error } = (await response.json()) as Json;
  assert.equal(error, undefined);
  return result;
}

const OPTIONS = { encoding: 'json', maxSupportedTransactionVersion: 1, commitment: 'confirmed' };

/** `status` repeats `err`; members that are null or absent mean the same to a client. */
function comparable(meta: Json): Json {
  const { status: _status, rewards: _rewards, ...others } = meta;
  return Object.fromEntries(Object.entries(others).filter(([, value]) => value !== null && value !== undefined));
}

/** Compares one transaction's update with `getTransaction`. */
async function checkTransaction(bed: StreamBed, info: Json, slot: number): Promise<Json> {
  const signature = encode64(info.signature);
  const theirs = await rpc(bed, 'getTransaction', [signature, OPTIONS]);
  assert.equal(theirs.slot, slot);
  const { txEncode } = bed.yellowstone;
  const ours = txEncode.encode(info, txEncode.encoding.Json, 1, false);
  assert.deepEqual(ours.transaction, theirs.transaction, signature);
  assert.deepEqual(ours.version, theirs.version);
  assert.deepEqual(comparable(ours.meta), comparable(theirs.meta), signature);
  return theirs;
}

async function checkBlock(bed: StreamBed, block: Json): Promise<void> {
  const theirs = await rpc(bed, 'getBlock', [Number(block.slot), OPTIONS]);
  assert.deepEqual(block.rewards, { rewards: theirs.rewards, numPartitions: undefined });
  assert.equal(block.blockhash, theirs.blockhash);
  assert.equal(block.parentBlockhash, theirs.previousBlockhash);
  assert.equal(Number(block.parentSlot), theirs.parentSlot);
  assert.equal(Number(block.blockTime.timestamp), theirs.blockTime);
  assert.equal(Number(block.blockHeight.blockHeight), theirs.blockHeight);
  assert.equal(Number(block.executedTransactionCount), theirs.transactions.length);
  if (block.transactions === undefined) return;
  assert.deepEqual(
    block.transactions.map(({ signature }: Json) => encode64(signature)),
    theirs.transactions.map(({ transaction }: Json) => transaction.signatures[0]),
  );
}

/** Content of a slot before its block, the block before its meta, then its statuses. */
function checkOrder(all: readonly Json[]): void {
  const rank = (update: Json) =>
    update.slot !== undefined ? 3 : update.blockMeta !== undefined ? 2 : update.block !== undefined ? 1 : 0;
  const slotOf = (update: Json) =>
    Number((update.slot ?? update.transaction ?? update.transactionStatus ?? update.block ?? update.blockMeta).slot);
  const content = all.filter(({ ping, pong, slot }) => ping === undefined && pong === undefined && slot?.status !== 2);
  for (let at = 1; at < content.length; at++) {
    const [before, now] = [content[at - 1], content[at]];
    assert.ok(slotOf(now) >= slotOf(before), 'slots ascend');
    if (slotOf(now) === slotOf(before)) assert.ok(rank(now) >= rank(before), 'order within a slot');
  }
}

describe('updates', { skip }, () => {
  test('random transfers of SOL and tokens: every update is what the node answers', async (t) => {
    const seed = Math.floor(Math.random() * 2 ** 32);
    console.log(`seed ${seed}`);
    const bed = await startBed(t);
    const economy = await createEconomy(bed.chain, seed);
    const updates = await bed.subscribe(EVERYTHING);
    await economy.run(12);
    const last = await bed.chain.seal();
    const metas = async () => (await updates.of('blockMeta', 1)).map(({ blockMeta }) => Number(blockMeta.slot));
    await until(async () => (await metas()).includes(last));
    const transactions = await updates.of('transaction', 12);
    const statuses = await updates.of('transactionStatus', transactions.length);
    assert.equal(statuses.length, transactions.length);
    let failed = 0;
    for (const [at, { transaction: one, filters }] of transactions.entries()) {
      assert.deepEqual(filters, ['all']);
      const { meta } = await checkTransaction(bed, one.transaction, Number(one.slot));
      const { transactionStatus: status } = statuses[at];
      assert.deepEqual(status.signature, one.transaction.signature);
      assert.equal(Number(status.index), Number(one.transaction.index));
      assert.equal(status.err === undefined, meta.err === null);
      if (meta.err !== null) failed += 1;
      if (meta.err !== null) assert.deepEqual(bed.yellowstone.txErrDecode.decode(status.err.err), meta.err);
    }
    for (const { block } of await updates.of('block', 1)) await checkBlock(bed, block);
    for (const { blockMeta } of await updates.of('blockMeta', 1)) await checkBlock(bed, blockMeta);
    checkOrder(updates.all);
    assert.ok(transactions.length >= 12, `${failed} of ${transactions.length} failed`);
    updates.close();
  });

  test('version 1 has its config', async (t) => {
    const bed = await startBed(t);
    const payer = Keypair.generate();
    await bed.chain.fund(payer.publicKey.toBase58(), 1_000_000_000);
    const updates = await bed.subscribe({ transactions: { all: {} } });
    const transfer = SystemProgram.transfer({
      fromPubkey: payer.publicKey,
      toPubkey: Keypair.generate().publicKey,
      lamports: 5_000_000,
    });
    const signature = await sendVersion1(bed.chain.connection, payer, [transfer], USUAL_CONFIG);
    const isSent = ({ transaction: one }: Json) => one && encode64(one.transaction.signature) === signature;
    // The transfer that paid the account may come before it.
    await until(() => updates.all.some(isSent), 'its transaction');
    const { transaction } = updates.all.find(isSent);
    const { message } = transaction.transaction.transaction;
    assert.deepEqual(message.config, {
      priorityFee: '777',
      computeUnitLimit: 200_000,
      loadedAccountsDataSizeLimit: 2 ** 20,
      heapSize: undefined,
    });
    assert.equal(message.versioned, true);
    const theirs = await rpc(bed, 'getTransaction', [signature, OPTIONS]);
    assert.deepEqual(
      message.accountKeys.map((key: Uint8Array) => encode(key)),
      theirs.transaction.message.accountKeys,
    );
    assert.equal(Number(transaction.transaction.meta.fee), theirs.meta.fee);
    updates.close();
  });

  test('recorded transactions of mainnet, with lookup tables and inner instructions', {
    skip: skipWithoutFixtures,
  }, async (t) => {
    const bed = await startBed(t);
    const updates = await bed.subscribe({ transactions: { all: {} } });
    let count = 0;
    for (const name of listFixtures('chain/transactions')) {
      const { getTransaction: recorded } = readJsonFixture<Json>(name);
      // Instructions that the node has parsed cannot be put into a block again.
      if (JSON.stringify(recorded).includes('"parsed"')) continue;
      await bed.chain.appendRecorded(recorded);
      count += 1;
    }
    await bed.chain.seal();
    assert.ok(count >= 20);
    let versioned = 0;
    for (const { transaction } of await updates.of('transaction', count)) {
      const theirs = await checkTransaction(bed, transaction.transaction, Number(transaction.slot));
      if (theirs.version === 0) versioned += 1;
    }
    assert.ok(versioned > 0, 'some have lookup tables');
    updates.close();
  });

  test('every error of a transaction is read by the client as the node wrote it', async () => {
    const { loadClient } = await import('../../helpers/geyser.ts');
    const { txErrDecode } = loadClient('@triton-one/yellowstone-grpc') as {
      txErrDecode: { decode(bytes: Uint8Array): Json };
    };
    // The last variant of both since solana-transaction-error 4.1.0, which no block has and version 7.0.1 of the client does not know.
    const ofThisClient = (names: readonly string[]) => names.filter((one) => one !== 'BailOut');
    assert.throws(() => txErrDecode.decode(errorBytes('BailOut')));
    const withIndex = ['InsufficientFundsForRent', 'ProgramExecutionTemporarilyRestricted'];
    for (const name of ofThisClient(ERROR_NAMES.transaction).filter((one) => one !== 'InstructionError')) {
      const error = withIndex.includes(name)
        ? { [name]: { account_index: 3 } }
        : name === 'DuplicateInstruction'
          ? { [name]: 4 }
          : name;
      assert.deepEqual(txErrDecode.decode(errorBytes(error)), error);
    }
    for (const name of ofThisClient(ERROR_NAMES.instruction)) {
      const inner = name === 'Custom' ? { Custom: 4_000_000_000 } : name;
      const error = { InstructionError: [200, inner] };
      assert.deepEqual(txErrDecode.decode(errorBytes(error)), error, name);
    }
  });

  test('a fork: dropped slots are dead, the new branch follows, and final updates are of the chain that stayed', async (t) => {
    const bed = await startBed(t);
    const slots = { slots: { s: { interslotUpdates: true } }, blocksMeta: { m: {} } };
    const confirmed = await bed.subscribe({ ...slots, commitment: 1 });
    const final = await bed.subscribe({ ...slots, transactions: { t: {} }, commitment: 2 });
    const wallet = Keypair.generate().publicKey.toBase58();
    // Blocks from before may have reached one of the two and not the other.
    const start = (await bed.chain.seal()) + 1;
    await bed.chain.fund(wallet, 1_000_000_000);
    const newest = await bed.chain.seal(2);
    const metasOf = (updates: { all: Json[] }): Json[] =>
      updates.all.flatMap(({ blockMeta }) => (Number(blockMeta?.slot ?? -1) >= start ? [blockMeta] : []));
    while (!metasOf(confirmed).some(({ slot }) => Number(slot) === newest)) await confirmed.settled();
    const before = metasOf(confirmed);
    await bed.chain.fork({ depth: 2, replay: 'all', extraBlocks: 2, gap: 1 });
    await bed.chain.seal(40);
    const statusesOf = (updates: { all: Json[] }, status: number) =>
      updates.all.flatMap(({ slot }) => (slot?.status === status ? [Number(slot.slot)] : []));
    const dropped = before.slice(-2).map(({ slot }) => Number(slot));
    while (statusesOf(confirmed, 6).length < 2) await confirmed.settled();
    assert.deepEqual(statusesOf(confirmed, 6), dropped.toReversed());
    const chainSlots: number[] = await rpc(bed, 'getBlocks', [start, null, { commitment: 'finalized' }]);
    while (metasOf(final).length < chainSlots.length) await final.settled();
    assert.deepEqual(
      metasOf(final).map(({ slot }) => Number(slot)),
      chainSlots,
    );
    for (const blockMeta of metasOf(final)) {
      const theirs = await rpc(bed, 'getBlock', [
        Number(blockMeta.slot),
        { transactionDetails: 'none', rewards: false },
      ]);
      assert.equal(blockMeta.blockhash, theirs.blockhash);
    }
    // A final status comes only after the content of its slot.
    const seen = new Set<number>();
    for (const { blockMeta, slot } of final.all) {
      if (blockMeta !== undefined) seen.add(Number(blockMeta.slot));
      if (slot?.status === 2) assert.ok(seen.has(Number(slot.slot)), `slot ${slot.slot}`);
    }
    assert.equal(final.all.filter(({ transaction }) => transaction !== undefined).length, 1);
    confirmed.close();
    final.close();
  });

  test('500 reconnections at finalized without from_slot: together they have every final block', async (t) => {
    const bed = await startBed(t);
    const request = { transactions: { t: {} }, blocksMeta: { m: {} }, slots: { s: {} }, commitment: 2 };
    const metas = new Map<number, string>();
    const final = new Set<number>();
    const signatures = new Set<string>();
    const collect = ({ all }: { readonly all: Json[] }) => {
      for (const { blockMeta, slot, transaction } of all) {
        if (blockMeta !== undefined) metas.set(Number(blockMeta.slot), blockMeta.blockhash);
        if (slot?.status === 2) final.add(Number(slot.slot));
        if (transaction !== undefined) signatures.add(encode64(transaction.transaction.signature));
      }
    };
    const start = (await bed.chain.seal()) + 1;
    const open = async () => await bed.subscribe(request);
    let current = await open();
    const sent: string[] = [];
    for (let count = 0; count < 500; count++) {
      if (count % 10 === 0) sent.push(await bed.chain.fund(Keypair.generate().publicKey.toBase58(), 1_000_000));
      else await bed.chain.seal();
      // What becomes final from now on comes on the new connection, whenever it was released.
      const next = await open();
      await current.settled();
      collect(current);
      current.close();
      current = next;
    }
    const last = await bed.chain.seal(40);
    while (!current.all.some(({ slot }) => slot?.status === 2 && Number(slot.slot) >= last - 33))
      await current.settled();
    collect(current);
    const newest = Math.max(...metas.keys());
    const chainSlots: number[] = await rpc(bed, 'getBlocks', [start, newest, { commitment: 'finalized' }]);
    assert.ok(chainSlots.length >= 500);
    assert.deepEqual(
      [...metas.keys()].filter((slot) => slot >= start).toSorted((a, b) => a - b),
      chainSlots,
    );
    assert.deepEqual(
      [...final].filter((slot) => slot >= start && slot <= newest).toSorted((a, b) => a - b),
      chainSlots,
    );
    for (const signature of sent) assert.ok(signatures.has(signature), signature);
    current.close();
  });

  test('filter_by_commitment gives only the status of the own level, and no level gives the others', async (t) => {
    const bed = await startBed(t);
    const slots = { own: { filterByCommitment: true }, all: {}, inter: { interslotUpdates: true } };
    const levels = await Promise.all([0, 1, 2].map((commitment) => bed.subscribe({ slots, commitment })));
    await bed.chain.seal(40);
    for (const [level, updates] of levels.entries()) {
      while (!updates.all.some(({ slot }) => slot?.status === 2)) await updates.settled();
      for (const { slot, filters } of updates.all) {
        if (slot === undefined) continue;
        assert.deepEqual(filters.toSorted(), slot.status === level ? ['all', 'inter', 'own'] : ['all', 'inter']);
        assert.equal(Number(slot.parent), Number(slot.slot) - 1);
      }
      updates.close();
    }
  });
});
