import { sql } from 'kysely';
import { stringify } from '../../../src/lib/json.ts';

import type { BlockProcessor, ChainBlock, Random, StoreTx } from '../../../src/plugin/plugin.ts';
import { type AddressIndex, createAddressIndex, matchBlock } from '../../../src/solana/address-set.ts';
import { tokenChanges } from '../../../src/solana/movements/movement.ts';
import { rawTransaction } from '../../../src/solana/raw-transaction.ts';
import { whereMayCome } from '../store/range.ts';
import { mergeTail, packTail, type TailRow, withoutRepeats } from '../store/rows.ts';
import { ACCOUNT, CHANGED, NAMED, positionOf, readKeyNumbers, TOUCHED, type WalletDb } from '../store/tables.ts';
import { forgetSlot, placeFromBlock, type StoredTransaction, writeTransactions } from '../store/transactions.ts';
import {
  changedWallets,
  countTransactions,
  type OwnedAccount,
  type WalletLimits,
  writeAccounts,
} from '../store/wallets.ts';
import { touchOf } from './gather.ts';

interface ProcessorParts {
  readonly random: Random;
  /** Match every address of every block instead of only the followed wallets. */
  readonly isFull: boolean;
  /** Called for each committed block. */
  matched(rows: number): void;
  /** Called for each merge that wrote rows. */
  merged(rows: number): void;
  /** Limits for live wallets; absent: unlimited. */
  readonly limits?: WalletLimits;
}

interface WalletState {
  readonly version: number;
  readonly live_slot: number | null;
  readonly full_from: number | null;
}

/** Keeps followed wallets live: rows of blocks go into the tail, and are merged into the history when final. */
export function createWalletProcessor(parts: ProcessorParts): BlockProcessor {
  const sync = createFollowedSync(parts.random);
  /** Version of the followed set whose members have their `live_from`. */
  let markedVersion = -1;

  return {
    name: 'wallet',
    version: 1,
    chains: ['main'],
    async apply(tx, block) {
      const db = tx.db as WalletDb;
      // Locks the row first, as every registration does: a wallet that another transaction registered in between would be marked as
      // live from this block, whose transactions were matched without it.
      const state = await db
        .updateTable('wallet_state')
        .set({ version: sql`version` })
        .where('id', '=', 1)
        .returning(['version', 'live_slot', 'full_from'])
        .executeTakeFirstOrThrow();
      const followed = await sync.at(tx, state.version);
      // A backfilled block does not move the live range.
      if (state.live_slot === null || block.slot > state.live_slot) {
        const isCut = state.live_slot !== null && block.parentSlot > state.live_slot;
        await moveOn(tx, state, block, isCut, parts.isFull);
        if (isCut || markedVersion !== state.version) await markLive(tx, state, block.slot, parts.isFull, isCut);
      }
      await placeFromBlock(tx, block);
      const rows = await (parts.isFull ? writeFull(tx, block) : writeFollowed(tx, block, followed));
      tx.onCommit(() => {
        markedVersion = state.version;
        parts.matched(rows);
      });
    },
    async revert(tx, { slot, parentSlot }) {
      await (tx.db as WalletDb)
        .updateTable('wallet_state')
        .set({ live_slot: parentSlot })
        .where('id', '=', 1)
        .execute();
      await forgetSlot(tx, slot);
    },
    async finalized(tx, slot) {
      const counts = new Map<number, number>();
      const rows = await mergeTail(tx, slot, undefined, ({ a, flags }) => {
        if (flags !== ACCOUNT) counts.set(a, (counts.get(a) ?? 0) + 1);
      });
      if (!parts.isFull && parts.limits !== undefined) await countTransactions(tx, counts, slot, parts.limits);
      if (rows > 0) tx.onCommit(() => parts.merged(rows));
    },
    outOfOrder: true,
    // Gaps are read from the upstream like everything before the live range.
    wantsGaps: false,
  };
}

async function moveOn(
  tx: StoreTx,
  state: WalletState,
  { slot }: ChainBlock,
  isCut: boolean,
  isFull: boolean,
): Promise<void> {
  const fullFrom = isFull ? (isCut ? slot : (state.full_from ?? slot)) : null;
  await (tx.db as WalletDb)
    .updateTable('wallet_state')
    .set({ live_slot: slot, full_from: fullFrom })
    .where('id', '=', 1)
    .execute();
}

/** Those that were not live before are like any at their first block. */
const BLOCK = whereMayCome('block');
const PASSED_OVER_LIVE = whereMayCome('blocks passed over', 'block');

/** New wallets are live from this block on; after a gap in the blocks all others become live again from here. */
async function markLive(tx: StoreTx, state: WalletState, slot: number, isFull: boolean, isCut: boolean): Promise<void> {
  const db = tx.db as WalletDb;
  if (isCut)
    await db
      .updateTable('wallet_wallets')
      .set({
        head: sql`CASE WHEN head >= live_from - 1 AND head < ${state.live_slot} THEN ${state.live_slot} ELSE head END`,
        live_from: slot,
      })
      .where(PASSED_OVER_LIVE)
      .execute();
  const from = isFull && !isCut ? (state.full_from ?? slot) : slot;
  await db.updateTable('wallet_wallets').set({ live_from: from }).where(BLOCK).execute();
}

/** Rows of followed wallets and of their token accounts, and the transactions in full. Returns the number of rows. */
async function writeFollowed(tx: StoreTx, block: ChainBlock, { index, wallets }: Followed): Promise<number> {
  const matches = matchBlock(block, index, { owners: true });
  if (matches.length === 0) return 0;
  const rows: TailRow[] = [];
  const transactions: StoredTransaction[] = [];
  const owned: { readonly wallet: number; readonly n: number; readonly accounts: readonly OwnedAccount[] }[] = [];
  for (const { index: place, byKey, byTokenOwner } of matches) {
    const transaction = block.transactions[place];
    if (transaction === undefined) continue;
    const n = positionOf(block.slot, place);
    for (const owner of [...byKey, ...byTokenOwner]) {
      const { id: wallet, key } = wallets[owner] as FollowedWallet;
      const { flags, accounts, isAccount } = touchOf(transaction, block, key);
      if (flags !== 0) rows.push({ a: wallet, n, flags: isAccount ? flags | ACCOUNT : flags });
      if (accounts.length > 0) owned.push({ wallet, n, accounts });
    }
    transactions.push({
      n,
      signature: transaction.signatures[0] as Uint8Array,
      time: block.blockTime,
      // `meta` as the node sent it: `rawTransaction` leaves out what webhooks do not show.
      text: stringify({ ...rawTransaction(transaction, block), meta: transaction.meta }),
    });
  }
  const numbers = await readKeyNumbers(tx.db as WalletDb);
  for (const { wallet, n, accounts } of owned) {
    await writeAccounts(tx, wallet, accounts);
    for (const { account } of accounts) rows.push({ a: numbers.of(account), n, flags: ACCOUNT });
  }
  await writeTransactions(tx, transactions);
  return await writeTail(tx, block.slot, withoutRepeats(rows));
}

/** Rows of every address of a block. Transactions are fetched on demand. */
async function writeFull(tx: StoreTx, block: ChainBlock): Promise<number> {
  const { rows, transactions } = await fullRows(tx, block);
  await writeTransactions(tx, transactions);
  return await writeTail(tx, block.slot, rows);
}

async function writeTail(tx: StoreTx, slot: number, rows: readonly TailRow[]): Promise<number> {
  const parts = packTail(slot, rows).map((one) => [one.part, one.slot, one.rows]);
  await tx.insertMany('wallet_tail', ['part', 'slot', 'rows'], parts, 'ignore');
  return rows.length;
}

interface FollowedWallet {
  /** The number of its address. */
  readonly id: number;
  /** 32 bytes. */
  readonly key: Uint8Array;
}

/** The followed wallets as an index for matching. */
interface Followed {
  readonly index: AddressIndex;
  /** By owner number of the index. */
  readonly wallets: readonly FollowedWallet[];
}

/** Keeps them in sync with the store, which other processes change too. */
interface FollowedSync {
  /** `version` is that of the store. Errors: of the store. */
  at(tx: StoreTx, version: number): Promise<Followed>;
}

const SEED_BYTES = 16;

function createFollowedSync(random: Random): FollowedSync {
  const seed = new Uint32Array(random.bytes(SEED_BYTES).slice().buffer);
  const index = createAddressIndex({ seed });
  const wallets: FollowedWallet[] = [];
  /** Owner numbers are dense: one for each wallet seen so far. */
  const owners = new Map<number, number>();
  let known = -1;

  return {
    async at(tx, version) {
      if (version !== known) {
        const changed = await changedWallets(tx.db as WalletDb, known);
        // No await from here on. Applying a change twice is harmless.
        for (const { id, key, is_followed } of changed) {
          const owner = owners.get(id) ?? wallets.push({ id, key }) - 1;
          owners.set(id, owner);
          if (is_followed === 1) index.add(key, owner);
          else index.remove(key, owner);
        }
        known = version;
      }
      return { index, wallets };
    },
  };
}

interface FullRows {
  readonly rows: readonly TailRow[];
  readonly transactions: readonly StoredTransaction[];
}

const KEY_WORDS = 8;

/** Rows of every address that a block names, and of every owner of a token balance in it. */
async function fullRows(tx: StoreTx, block: ChainBlock): Promise<FullRows> {
  const { keys, slot, blockTime } = block;
  const numbers = await readKeyNumbers(tx.db as WalletDb);
  const ids = Array.from({ length: keys.size }, (_, id) => numbers.at(keys.words, id * KEY_WORDS));
  const rows: TailRow[] = [];
  const transactions: StoredTransaction[] = [];
  const accounts: (readonly [number, Buffer, Buffer])[] = [];
  for (const one of block.transactions) {
    const n = positionOf(slot, one.index);
    const flags = new Map<number, number>();
    const mark = (id: number, flag: number) => flags.set(id, (flags.get(id) ?? 0) | flag);
    for (const id of one.keys) mark(id, NAMED);
    for (const { accountIndex, ownerKey, mintKey } of [...one.preTokenBalances, ...one.postTokenBalances]) {
      const account = one.keys[accountIndex];
      if (account === undefined || ownerKey < 0 || mintKey < 0) continue;
      mark(account, ACCOUNT);
      mark(ownerKey, TOUCHED);
      accounts.push([ids[ownerKey] as number, Buffer.from(keys.bytes(account)), Buffer.from(keys.bytes(mintKey))]);
    }
    for (const { owner } of tokenChanges(one)) if (owner >= 0) mark(owner, CHANGED);
    for (const [id, flag] of flags) rows.push({ a: ids[id] as number, n, flags: flag });
    transactions.push({ n, signature: one.signatures[0] as Uint8Array, text: null, time: blockTime });
  }
  if (accounts.length > 0) await tx.insertMany('wallet_accounts', ['wallet', 'account', 'mint'], accounts, 'ignore');
  return { rows, transactions };
}
