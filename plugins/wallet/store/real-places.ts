import { sql } from 'kysely';
import { encode64 } from '../../../src/lib/base58.ts';
import type { ChainBlock, NormalTransaction } from '../../../src/ports/block.ts';
import type { StoreTx } from '../../../src/ports/store.ts';
import { decodeTransaction } from '../../../src/solana/decode/decode-transaction.ts';
import { readKeyNumbers } from './keys.ts';
import { endOf, MADE_UP_PLACE, positionOf } from './position.ts';
import type { Db } from './tables.ts';
import { readBodies, signatureText, writeTransactions } from './transactions.ts';

const KEY_WORDS = 8;

/**
 * Transactions whose places were made up, because no upstream had their block, stand where the block has them as soon as it comes:
 * otherwise what it brings would stand there a second time.
 */
export async function takeRealPlaces(tx: StoreTx, block: ChainBlock): Promise<void> {
  const madeUp = await madeUpOf(tx, block.slot);
  if (madeUp.length === 0) return;
  const bySignature = new Map(block.transactions.map((one) => [signatureText(one.signatures[0] as Uint8Array), one]));
  for (const { n, signature } of madeUp) {
    const one = bySignature.get(signatureText(signature));
    if (one !== undefined) await takeRealPlace(tx, block, one, n, one.index);
  }
}

/** The same where no block comes, and an upstream tells only the order in it, by signature (base58). */
export async function takeOrder(tx: StoreTx, slot: number, order: ReadonlyMap<string, number>): Promise<void> {
  const madeUp = await madeUpOf(tx, slot);
  const texts = await readBodies(
    tx.db as Db,
    madeUp.map(({ n }) => n),
  );
  for (const { n, signature } of madeUp) {
    const place = order.get(encode64(signature));
    const text = texts.get(n);
    if (place === undefined || text === undefined) continue;
    const block = decodeTransaction(JSON.parse(text));
    const [one] = block.transactions;
    if (one !== undefined) await takeRealPlace(tx, block, one, n, place);
  }
}

const madeUpOf = (tx: StoreTx, slot: number) =>
  (tx.db as Db)
    .selectFrom('wallet_transactions')
    .select(['n', 'signature'])
    .where('n', '>=', positionOf(slot, MADE_UP_PLACE))
    .where('n', '<', endOf(slot))
    .execute();

async function takeRealPlace(
  tx: StoreTx,
  block: ChainBlock,
  one: NormalTransaction,
  madeUp: number,
  place: number,
): Promise<void> {
  const db = tx.db as Db;
  const numbers = await readKeyNumbers(db);
  const real = positionOf(block.slot, place);
  const signature = one.signatures[0] as Uint8Array;
  await writeTransactions(tx, [{ n: real, signature, text: null, time: block.blockTime }]);
  await db.deleteFrom('wallet_transactions').where('n', '=', madeUp).execute();
  await moveBody(db, madeUp, real);
  const keys = [...keysOf(one)].map((id) => numbers.at(block.keys.words, id * KEY_WORDS));
  await moveRows(db, keys, madeUp, real);
}

/** Everybody whom a row may tell of it: its accounts, and owners of token accounts among them. */
function keysOf({ keys, preTokenBalances, postTokenBalances }: NormalTransaction): ReadonlySet<number> {
  const owners = [...preTokenBalances, ...postTokenBalances].map(({ ownerKey }) => ownerKey).filter((key) => key >= 0);
  return new Set([...keys, ...owners]);
}

async function moveBody(db: Db, from: number, to: number): Promise<void> {
  await sql`UPDATE wallet_bodies SET n = ${to} WHERE n = ${from}
    AND NOT EXISTS (SELECT 1 FROM wallet_bodies other WHERE other.n = ${to})`.execute(db);
  await db.deleteFrom('wallet_bodies').where('n', '=', from).execute();
}

async function moveRows(db: Db, addresses: readonly number[], from: number, to: number): Promise<void> {
  await sql`UPDATE wallet_rows SET n = ${to} WHERE n = ${from} AND a IN (${sql.join(addresses)})
    AND NOT EXISTS (SELECT 1 FROM wallet_rows other WHERE other.a = wallet_rows.a AND other.n = ${to})`.execute(db);
  await db.deleteFrom('wallet_rows').where('n', '=', from).where('a', 'in', addresses).execute();
}
