/** Unused data is deleted, except data of other wallets; a wallet that becomes too busy is no longer followed. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createRowReader } from '../../../plugins/wallet/store/rows.ts';
import { migrations, readKeyNumbers, type WalletDb } from '../../../plugins/wallet/store/tables.ts';
import { dropWallets, readWallet, registerWallet } from '../../../plugins/wallet/store/wallets.ts';
import { createWalletProcessor } from '../../../plugins/wallet/tracking/processor.ts';
import { deleteDropped } from '../../../plugins/wallet/tracking/upkeep.ts';
import { createSystemRandom } from '../../../src/adapters/clock.ts';
import { encode32 } from '../../../src/lib/base58.ts';
import type { Store } from '../../../src/ports/store.ts';
import { decodeBlock } from '../../../src/solana/decode/decode-block.ts';
import { migrate } from '../../../src/store/migrate.ts';
import { blockOf, entryOf, sampleMessage } from '../../helpers/rpc-block.ts';
import { eachStore } from '../../helpers/store.ts';

const EVERYTHING = { above: -1, below: Number.MAX_SAFE_INTEGER, mask: 15, limit: 10_000, order: 'asc' } as const;
const [left, right, stranger, mint, vault] = [1, 2, 3, 4, 5].map((byte) => new Uint8Array(32).fill(byte)) as [
  ...(readonly [Uint8Array, Uint8Array, Uint8Array, Uint8Array, Uint8Array]),
];
const program = new Uint8Array(32).fill(9);
const LATER_MS = 600_000;
const TIME = 1_700_000_000;
const TOKENS = 'TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA';

interface Entry {
  readonly keys: readonly Uint8Array[];
  /** Owner of the token account at place 1. */
  readonly owner?: Uint8Array;
}

/** A block with a transaction for each of the entries; times are a second for two slots. */
function makeBlock(slot: number, entries: readonly Entry[]) {
  const raw = entries.map(({ keys, owner }, at) => {
    const balance = (amount: string) => ({
      accountIndex: 1,
      mint: encode32(mint),
      owner: encode32(owner ?? stranger),
      programId: TOKENS,
      uiTokenAmount: { amount, decimals: 0, uiAmount: Number(amount), uiAmountString: amount },
    });
    const instruction = { program: keys.length, accounts: Uint8Array.of(0), data: Uint8Array.of(at & 255, at >> 8) };
    const signature = new Uint8Array(64).fill(7);
    new DataView(signature.buffer).setUint32(0, slot * 5_000 + at);
    return entryOf({
      message: sampleMessage({ keys: [...keys, program], instructions: [instruction] }),
      signatures: [signature],
      meta: {
        preTokenBalances: owner === undefined ? [] : [balance('1')],
        postTokenBalances: owner === undefined ? [] : [balance('2')],
      },
    });
  });
  return decodeBlock(slot, {
    ...blockOf(raw, slot),
    parentSlot: slot - 1,
    blockTime: TIME + Math.floor(slot / 2),
  } as never);
}

async function open(store: Store, limits = { transactions: 1_000_000, transactionsPerMinute: 1_200 }) {
  await migrate(store, [{ scope: 'wallet', migrations }]);
  const nothing = () => undefined;
  const processor = createWalletProcessor({
    random: createSystemRandom(),
    isFull: false,
    matched: nothing,
    merged: nothing,
    limits: { ...limits, now: () => 1 },
  });
  for (const key of [left, right]) await register(store, key);
  return {
    apply: (slot: number, entries: readonly Entry[]) =>
      store.write((tx) => processor.apply(tx, makeBlock(slot, entries), 'main')),
    finalize: (slot: number) => store.write(async (tx) => await processor.finalized?.(tx, slot, 'main')),
  };
}

const register = (store: Store, key: Uint8Array) =>
  store.write((tx) => registerWallet(tx, { key, address: encode32(key), now: 1 }));

async function rowsOf(store: Store, key: Uint8Array): Promise<number> {
  const numbers = await readKeyNumbers(store.read as WalletDb);
  return (await createRowReader(store)(numbers.of(key), EVERYTHING)).length;
}

async function countOf(store: Store, table: 'wallet_transactions' | 'wallet_bodies' | 'wallet_times' | 'wallet_rows') {
  const { count } = await (store.read as WalletDb)
    .selectFrom(table)
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow();
  return Number(count);
}

async function drop(store: Store, key: Uint8Array): Promise<void> {
  const { id } = (await readWallet(store.read as WalletDb, encode32(key)))!;
  await store.write((tx) => dropWallets(tx, [id], 1));
}

/** Until nothing more goes. */
async function deleteAll(store: Store, finalSlot: number): Promise<void> {
  for (let rounds = 0; rounds < 100; rounds += 1)
    if ((await deleteDropped(store, { now: LATER_MS, finalSlot, steps: 50 })) === 0 && rounds > 2) return;
}

eachStore('wallets without requests', (engine) => {
  test('their rows, transactions and times go, but those that another wallet shows', async (t) => {
    const store = await engine.store(t);
    const { apply, finalize } = await open(store);
    const both = { keys: [left, right] };
    // The vault is a token account of both, one after the other.
    await apply(1, [{ keys: [left, stranger] }, both, { keys: [stranger, vault], owner: left }]);
    await apply(2, [{ keys: [right] }, { keys: [stranger, vault], owner: right }]);
    for (let slot = 3; slot <= 320; slot += 1) await apply(slot, [{ keys: [left, stranger] }]);
    await finalize(300);
    assert.deepEqual([await rowsOf(store, left), await rowsOf(store, right)], [321, 3]);
    const kept = await countOf(store, 'wallet_transactions');
    await drop(store, left);
    // Requests that read it before may still go on.
    assert.equal(await deleteDropped(store, { now: 2, finalSlot: 300, steps: 50 }), 0);
    await deleteAll(store, 300);
    // What may still be taken back waits.
    assert.equal(await rowsOf(store, left), 20);
    assert.equal((await readWallet(store.read as WalletDb, encode32(left)))?.is_followed, 0);
    for (let slot = 321; slot <= 360; slot += 1) await apply(slot, [{ keys: [left, stranger] }, { keys: [right] }]);
    await deleteAll(store, 360);
    assert.deepEqual([await rowsOf(store, left), await rowsOf(store, right)], [0, 43]);
    // That with both, those of the vault, and the right wallet's own.
    assert.equal(await countOf(store, 'wallet_transactions'), 3 + 1 + 40);
    assert.equal(await countOf(store, 'wallet_bodies'), 44);
    assert.equal(await countOf(store, 'wallet_times'), 42);
    assert.ok(kept > 320);
    assert.equal(await readWallet(store.read as WalletDb, encode32(left)), undefined);
    await drop(store, right);
    for (let slot = 361; slot <= 400; slot += 1) await apply(slot, []);
    await deleteAll(store, 400);
    assert.deepEqual(
      [await countOf(store, 'wallet_transactions'), await countOf(store, 'wallet_bodies')].concat(
        await countOf(store, 'wallet_rows'),
      ),
      [0, 0, 0],
    );
  });

  test('a wallet requested while it is being deleted stays, and is indexed from scratch', async (t) => {
    const store = await engine.store(t);
    const { apply, finalize } = await open(store);
    for (let slot = 1; slot <= 500; slot += 1) await apply(slot, [{ keys: [left, stranger] }]);
    await finalize(500);
    await drop(store, left);
    assert.equal(await deleteDropped(store, { now: LATER_MS, finalSlot: 500, steps: 1 }), 200);
    await register(store, left);
    assert.equal(await deleteDropped(store, { now: LATER_MS, finalSlot: 500, steps: 50 }), 0);
    assert.equal(await rowsOf(store, left), 300);
    const row = await readWallet(store.read as WalletDb, encode32(left));
    assert.deepEqual([row?.head, row?.floor, row?.is_complete, row?.dropped_at], [null, null, 0, null]);
  });

  test('a wallet that becomes too busy is no longer followed, says so, and loses its rows', async (t) => {
    const store = await engine.store(t);
    const { apply, finalize } = await open(store);
    const busy = Array.from({ length: 30 }, () => ({ keys: [left, stranger] }));
    // 60 transactions a second for the left one, two for the right one.
    for (let slot = 1; slot <= 100; slot += 1) {
      await apply(slot, [...busy, { keys: [right] }]);
      await finalize(slot);
    }
    const { refused, refused_size, is_followed } = (await readWallet(store.read as WalletDb, encode32(left)))!;
    assert.deepEqual([refused, is_followed], ['busy', 0]);
    assert.ok(refused_size !== null && refused_size > 3_000 && refused_size < 4_200, String(refused_size));
    const calm = (await readWallet(store.read as WalletDb, encode32(right)))!;
    assert.deepEqual([calm.refused, calm.is_followed], [null, 1]);
    await deleteAll(store, 100);
    assert.deepEqual([await rowsOf(store, left), await rowsOf(store, right)], [0, 100]);
    // It still says why, when nothing of it is left.
    const after = (await readWallet(store.read as WalletDb, encode32(left)))!;
    assert.deepEqual([after.refused, after.dropped_at], ['busy', null]);
  });

  test('a wallet that grows too large is dropped as well, unless the operator pinned it', async (t) => {
    const store = await engine.store(t);
    const { apply, finalize } = await open(store, { transactions: 50, transactionsPerMinute: 1_000_000 });
    await store.write((tx) => registerWallet(tx, { key: right, address: encode32(right), now: 1, isPinned: true }));
    for (let slot = 1; slot <= 70; slot += 1) await apply(slot, [{ keys: [left] }, { keys: [right] }]);
    await finalize(70);
    const refusedOf = async (key: Uint8Array) => (await readWallet(store.read as WalletDb, encode32(key)))?.refused;
    assert.deepEqual([await refusedOf(left), await refusedOf(right)], ['large', null]);
  });
});
