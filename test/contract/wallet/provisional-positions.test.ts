/** A transaction that was read before its block could be had stands in the history once, wherever its block has it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createRowReader } from '../../../plugins/wallet/store/rows.ts';
import {
  migrations,
  NAMED,
  PROVISIONAL_PLACE,
  positionOf,
  readKeyNumbers,
  type WalletDb,
} from '../../../plugins/wallet/store/tables.ts';
import { findSignature, readBodies } from '../../../plugins/wallet/store/transactions.ts';
import { registerWallet } from '../../../plugins/wallet/store/wallets.ts';
import { keepBatch } from '../../../plugins/wallet/tracking/backfill.ts';
import { createWalletProcessor } from '../../../plugins/wallet/tracking/processor.ts';
import { createSystemRandom } from '../../../src/adapters/clock.ts';
import { encode32, encode64 } from '../../../src/lib/base58.ts';
import type { Store } from '../../../src/ports/store.ts';
import { decodeBlock } from '../../../src/solana/decode/decode-block.ts';
import { rawTransaction } from '../../../src/solana/raw-transaction.ts';
import { migrate } from '../../../src/store/migrate.ts';
import { blockOf, entryOf, sampleMessage } from '../../helpers/rpc-block.ts';
import { eachStore } from '../../helpers/store.ts';

const SLOT = 100;
const EVERYTHING = { above: -1, below: Number.MAX_SAFE_INTEGER, mask: 15, limit: 100, order: 'asc' } as const;
const wallet = new Uint8Array(32).fill(1);
const stranger = new Uint8Array(32).fill(2);

/** Four transactions, of which the wallet pays for the first and the last. */
function makeBlock() {
  const entries = [wallet, stranger, stranger, wallet].map((payer, at) =>
    entryOf({
      message: sampleMessage({
        keys: [payer, new Uint8Array(32).fill(9)],
        instructions: [{ program: 1, accounts: Uint8Array.of(0), data: Uint8Array.of(at) }],
      }),
      signatures: [new Uint8Array(64).fill(at + 1)],
      meta: { preTokenBalances: [], postTokenBalances: [] },
    }),
  );
  const raw = { ...blockOf(entries, SLOT), parentSlot: SLOT - 1, blockTime: 1_700_000_000 };
  return decodeBlock(SLOT, raw as never);
}

async function open(store: Store) {
  await migrate(store, [{ scope: 'wallet', migrations }]);
  await store.write((tx) => registerWallet(tx, { key: wallet, address: encode32(wallet), now: 1 }));
  const numbers = await readKeyNumbers(store.read as WalletDb);
  const block = makeBlock();
  const order = new Map(block.transactions.map(({ signatures: [one] }, at) => [encode64(one as Uint8Array), at]));
  /** As a backfill keeps them when no node gives the block, or one does (`isTold`). `kept` may hold the commit back. */
  const keep = (places: readonly number[], isTold = false, kept: () => Promise<void> = async () => {}) =>
    store.write(async (tx) => {
      await keepBatch(tx, {
        wallet: numbers.of(wallet),
        accounts: new Map(),
        transactions: places.toReversed().map((place) => {
          const one = block.transactions[place]!;
          const at = isTold ? place : null;
          const text = JSON.stringify(rawTransaction(one, block));
          const fetched = { block, transaction: one, place: at, text } as never;
          const signature = encode64(one.signatures[0] as Uint8Array);
          return {
            signature,
            slot: SLOT,
            place: at,
            order: isTold ? order : null,
            fetched,
            tx: one,
            flags: NAMED,
            accounts: [],
          };
        }),
      });
      await kept();
    });
  const rows = async () => (await createRowReader(store)(numbers.of(wallet), EVERYTHING)).map(({ n }) => n);
  return { block, keep, rows };
}

eachStore('provisional positions', (engine) => {
  for (const isFull of [false, true])
    test(`they end when the block comes (${isFull ? 'a whole-chain index' : 'followed wallets'})`, async (t) => {
      const store = await engine.store(t);
      const { block, keep, rows } = await open(store);
      await keep([0, 3]);
      assert.deepEqual(await rows(), [positionOf(SLOT, PROVISIONAL_PLACE), positionOf(SLOT, PROVISIONAL_PLACE + 1)]);
      const nothing = () => undefined;
      const processor = createWalletProcessor({
        random: createSystemRandom(),
        isFull,
        matched: nothing,
        merged: nothing,
      });
      await store.write((tx) => processor.apply(tx, block, 'main'));
      const places = [positionOf(SLOT, 0), positionOf(SLOT, 3)];
      assert.deepEqual(await rows(), places);
      for (const place of [0, 3])
        assert.equal(
          await findSignature(store.read as WalletDb, block.transactions[place]!.signatures[0] as Uint8Array),
          positionOf(SLOT, place),
        );
      assert.equal((await readBodies(store.read as WalletDb, places)).size, 2);
      const all = await (store.read as WalletDb).selectFrom('wallet_transactions').select('n').execute();
      assert.ok(all.every(({ n }) => n < positionOf(SLOT, PROVISIONAL_PLACE)));
      // Read again without places, they stay where they are.
      await keep([0, 3]);
      assert.deepEqual(await rows(), places);
    });

  test('a position that becomes known later moves the whole slot, so that its order is kept', async (t) => {
    const store = await engine.store(t);
    const { keep, rows } = await open(store);
    await keep([0, 3]);
    await keep([3], true);
    assert.deepEqual(await rows(), [positionOf(SLOT, 0), positionOf(SLOT, 3)]);
    assert.equal((await readBodies(store.read as WalletDb, await rows())).size, 2);
  });

  for (const isToldFirst of [false, true])
    test(`two processes keep a transaction at once, and only the ${isToldFirst ? 'first' : 'second'} knows its place`, async (t) => {
      const store = await engine.store(t);
      const { keep, rows } = await open(store);
      let isBoth = false;
      const first = keep([0, 3], isToldFirst, async () => {
        // Long enough for the other one to read what is there, if nothing keeps it from that.
        for (let turns = 0; turns < 50 && !isBoth; turns += 1) await new Promise((resolve) => setTimeout(resolve, 5));
      });
      const second = keep([0, 3], !isToldFirst).then(() => {
        isBoth = true;
      });
      await Promise.all([first, second]);
      assert.deepEqual(await rows(), [positionOf(SLOT, 0), positionOf(SLOT, 3)]);
      assert.equal((await (store.read as WalletDb).selectFrom('wallet_transactions').select('n').execute()).length, 2);
    });
});
