/** A wallet is registered while the transaction of a block is open. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createRowReader } from '../../../plugins/wallet/store/rows.ts';
import { migrations, type WalletDb } from '../../../plugins/wallet/store/tables.ts';
import { readWallet, registerWallet } from '../../../plugins/wallet/store/wallets.ts';
import { createWalletProcessor } from '../../../plugins/wallet/tracking/processor.ts';
import { createSystemRandom } from '../../../src/adapters/clock.ts';
import { encode32 } from '../../../src/lib/base58.ts';
import type { Store, StoreTx } from '../../../src/ports/store.ts';
import { decodeBlock } from '../../../src/solana/decode/decode-block.ts';
import { migrate } from '../../../src/store/migrate.ts';
import { blockOf, entryOf, sampleMessage } from '../../helpers/rpc-block.ts';
import { eachStore } from '../../helpers/store.ts';

const EVERYTHING = { above: -1, below: Number.MAX_SAFE_INTEGER, mask: 15, limit: 100, order: 'asc' } as const;
/** Statements of a block's transaction before which another registration may come. */
const STATEMENTS = 12;
const key = (byte: number) => new Uint8Array(32).fill(byte);

/** A block whose only transaction names all wallets. */
function blockAt(slot: number, wallets: readonly Uint8Array[]) {
  const signature = new Uint8Array(64).fill(slot & 255);
  const instruction = { program: wallets.length, accounts: Uint8Array.of(0), data: Uint8Array.of(1) };
  const message = sampleMessage({ keys: [...wallets, key(250)], instructions: [instruction] });
  const raw = [entryOf({ message, signatures: [signature] })];
  return decodeBlock(slot, { ...blockOf(raw, slot), parentSlot: slot - 1 } as never);
}

const register = (store: Store, wallet: Uint8Array) =>
  store.write((tx) => registerWallet(tx, { key: wallet, address: encode32(wallet), now: 1 }));

/** The same transaction, which waits for `before` ahead of what follows its n-th statement. */
function paused(tx: StoreTx, n: number, before: () => Promise<unknown>): StoreTx {
  let statements = 0;
  const db = tx.db.withPlugin({
    transformQuery: ({ node }) => node,
    async transformResult({ result }) {
      statements += 1;
      if (statements === n) await before();
      return result;
    },
  });
  return { ...tx, db };
}

eachStore('wallets that are registered', (engine) => {
  test('during a block are live from a block on that was matched with them', async (t) => {
    for (let n = 1; n <= STATEMENTS; n += 1) {
      const store = await engine.store(t);
      await migrate(store, [{ scope: 'wallet', migrations }]);
      const [first, second] = [key(1), key(2)];
      const matched = () => undefined;
      const processor = createWalletProcessor({
        random: createSystemRandom(),
        isFull: false,
        matched,
        merged: matched,
      });
      await register(store, first);
      let registered: Promise<unknown> = Promise.resolve();
      const during = async () => {
        registered = register(store, second);
        // It is committed in the middle, or waits for the end of the block.
        await Promise.race([registered, sleep(100)]);
      };
      const wallets = [first, second];
      await store.write((tx) => processor.apply(paused(tx, n, during), blockAt(101, wallets), 'main'));
      await registered;
      await register(store, second);
      await store.write((tx) => processor.apply(tx, blockAt(102, wallets), 'main'));
      const readRows = createRowReader(store);
      for (const wallet of wallets) {
        const row = await readWallet(store.read as WalletDb, encode32(wallet));
        assert.ok(row?.live_from != null);
        const slots = (await readRows(row.id, EVERYTHING)).map((one) => Math.floor(one.n / 65_536));
        const expected = [101, 102].filter((slot) => slot >= (row.live_from as number));
        assert.deepEqual(
          slots.filter((slot) => slot >= (row.live_from as number)),
          expected,
          `statement ${n}`,
        );
      }
    }
  });
});
