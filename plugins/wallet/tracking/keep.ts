import { sql } from 'kysely';
import type { StoreTx } from '../../../src/kernel/plugin.ts';
import { decode32 } from '../../../src/lib/base58.ts';
import type { OwnedAccount } from '../store/accounts.ts';
import { writeAccounts } from '../store/accounts.ts';
import { ACCOUNT } from '../store/flags.ts';
import { readKeyNumbers } from '../store/keys.ts';
import { endOf, firstOf, MADE_UP_PLACE, placeOf, positionOf, slotOf } from '../store/position.ts';
import { takeOrder } from '../store/real-places.ts';
import { writeRows } from '../store/rows.ts';
import type { Db } from '../store/tables.ts';
import type { TailRow } from '../store/tail.ts';
import { findPlaces, signatureText, writeTransactions } from '../store/transactions.ts';
import type { Gathered } from './gather.ts';

/** Final transactions of a wallet as they were gathered, newest first. */
export interface Batch {
  readonly wallet: number;
  readonly transactions: readonly Gathered[];
  /** Token accounts of the wallet, by base58. */
  readonly accounts: ReadonlyMap<string, OwnedAccount>;
}

/** Stores a batch. Returns how many of its transactions the wallet shows. */
export async function keepBatch(tx: StoreTx, { wallet, transactions, accounts }: Batch): Promise<number> {
  // One process at a time, as with blocks: none must make up a place that another one has, or is about to be told.
  await (tx.db as Db).updateTable('wallet_state').set({ version: sql`version` }).where('id', '=', 1).execute();
  const numbers = await readKeyNumbers(tx.db as Db);
  await writeAccounts(tx, wallet, accounts.values());
  const placed = await place(tx, transactions);
  await writeTransactions(
    tx,
    placed.map(({ n, one }) => ({
      n,
      signature: one.tx.signatures[0] as Uint8Array,
      text: one.fetched.text,
      time: one.fetched.block.blockTime,
    })),
  );
  const rows: TailRow[] = [];
  for (const { n, one } of placed) {
    if (one.flags !== 0) rows.push({ a: wallet, n, flags: one.flags });
    for (const account of one.accounts) rows.push({ a: numbers.of(keyOf(account)), n, flags: ACCOUNT });
  }
  await writeRows(tx, rows);
  return placed.filter(({ one }) => one.flags !== 0).length;
}

const signatureOf = ({ tx }: Gathered): Uint8Array => tx.signatures[0] as Uint8Array;

function keyOf(text: string): Uint8Array {
  const key = decode32(text);
  if (key === null) throw new RangeError('no address');
  return key;
}

/** Where each transaction stands. Places that nobody tells are made up, and taken back when somebody does. */
async function place(
  tx: StoreTx,
  transactions: readonly Gathered[],
): Promise<readonly { readonly n: number; readonly one: Gathered }[]> {
  const placed: { n: number; one: Gathered }[] = [];
  const unplaced = new Map<number, Gathered[]>();
  const db = tx.db as Db;
  // Its place may have been made up before, and only now be told.
  const stored = await findPlaces(db, transactions.map(signatureOf));
  const ordered = new Map<number, ReadonlyMap<string, number>>();
  for (const one of transactions) {
    const known = stored.get(signatureText(signatureOf(one)))?.find((n) => slotOf(n) === one.slot);
    const isMadeUp = known !== undefined && placeOf(known) >= MADE_UP_PLACE;
    // All of a slot take their real places or none does: else they would not be in their order.
    if (isMadeUp && one.order !== null) ordered.set(one.slot, one.order);
    if (one.place !== null && (!isMadeUp || one.order !== null))
      placed.push({ n: positionOf(one.slot, one.place), one });
    else if (known !== undefined) placed.push({ n: known, one });
    else unplaced.set(one.slot, [one, ...(unplaced.get(one.slot) ?? [])]);
  }
  for (const [slot, order] of ordered) await takeOrder(tx, slot, order);
  if (unplaced.size === 0) return placed;
  for (const [slot, list] of unplaced) {
    const rows = await db
      .selectFrom('wallet_transactions')
      .select(['n', 'signature'])
      .where('n', '>=', firstOf(slot))
      .where('n', '<', endOf(slot))
      .execute();
    const known = new Map(rows.map(({ n, signature }) => [signatureText(signature), n]));
    let next = Math.max(MADE_UP_PLACE, ...rows.map(({ n }) => placeOf(n) + 1));
    // Oldest first: places ascend in the order of the list.
    for (const one of list) {
      placed.push({ n: known.get(signatureText(signatureOf(one))) ?? positionOf(slot, next++), one });
    }
  }
  return placed;
}
