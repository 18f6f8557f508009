import { deflateRawSync, inflateRawSync } from 'node:zlib';
import { sql } from 'kysely';
import { encode64 } from '../../../src/lib/base58.ts';
import { parseExact } from '../../../src/lib/json.ts';
import type { ChainBlock, NormalTransaction } from '../../../src/ports/block.ts';
import type { StoreTx } from '../../../src/ports/store.ts';
import { decodeTransaction } from '../../../src/solana/decode/decode-block.ts';
import { endOf, firstOf, PROVISIONAL_PLACE, positionOf, readKeyNumbers, slotOf, type WalletDb } from './tables.ts';

/** A transaction as stored. */
export interface StoredTransaction {
  readonly n: number;
  /** 64 bytes. */
  readonly signature: Uint8Array;
  /** JSON text in the form of `getTransaction`; null when only the position is stored. */
  readonly text: string | null;
  /** Unix seconds. */
  readonly time: number | null;
}

const TAG_BYTES = 6;
const KEYS_PER_QUERY = 500;

const tagOf = (signature: Uint8Array): number =>
  Buffer.from(signature.buffer, signature.byteOffset, TAG_BYTES).readUIntBE(0, TAG_BYTES);

/** Bodies of transactions are similar: their common text is the compression dictionary. */
const COMMON = Buffer.from(
  '{"blockTime":,"indexWithinBlock":,"meta":{"computeUnitsConsumed":,"err":null,"fee":5000,"innerInstructions":[{"index":,"instructions":[{"accounts":[],"data":"","programIdIndex":,"stackHeight":2}]}],"loadedAddresses":{"readonly":[],"writable":[]},"logMessages":["Program ComputeBudget111111111111111111111111111111 invoke [1]","Program ComputeBudget111111111111111111111111111111 success","Program 11111111111111111111111111111111 invoke [1]","Program 11111111111111111111111111111111 success","Program TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA invoke [2]","Program log: Instruction: Transfer","Program TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA consumed 4645 of 200000 compute units","Program TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA success","Program TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb"],"postBalances":[],"postTokenBalances":[],"preBalances":[],"preTokenBalances":[{"accountIndex":,"mint":"So11111111111111111111111111111111111111112","owner":"","programId":"TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA","uiTokenAmount":{"amount":"","decimals":9,"uiAmount":,"uiAmountString":""}}],"rewards":[],"status":{"Ok":null}},"slot":,"transaction":["","base64"]"message":{"accountKeys":["11111111111111111111111111111111","TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA","ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL","EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"],"addressTableLookups":null,"header":{"numReadonlySignedAccounts":0,"numReadonlyUnsignedAccounts":1,"numRequiredSignatures":1},"instructions":[],"recentBlockhash":""},"signatures":[""]},"version":"legacy"}',
);

const packBody = (text: string): Buffer => deflateRawSync(text, { level: 6, dictionary: COMMON });
const unpackBody = (body: Uint8Array): string => inflateRawSync(body, { dictionary: COMMON }).toString('utf8');

/** Stores each transaction once, however many wallets it belongs to. */
export async function writeTransactions(tx: StoreTx, list: readonly StoredTransaction[]): Promise<void> {
  const sorted = list.toSorted((left, right) => left.n - right.n);
  await tx.insertMany(
    'wallet_transactions',
    ['n', 'tag', 'signature'],
    sorted.map(({ n, signature }) => [n, tagOf(signature), Buffer.from(signature)]),
    'ignore',
  );
  await writeBodies(tx, sorted);
  const times = new Map(sorted.flatMap(({ n, time }) => (time === null ? [] : [[slotOf(n), time] as const])));
  await tx.insertMany('wallet_times', ['slot', 'time'], [...times], 'ignore');
}

async function writeBodies(tx: StoreTx, list: readonly Pick<StoredTransaction, 'n' | 'text'>[]): Promise<void> {
  const rows = list.flatMap(({ n, text }) => (text === null ? [] : [[n, packBody(text)]]));
  if (rows.length > 0) await tx.insertMany('wallet_bodies', ['n', 'body'], rows, 'ignore');
}

/** Deletes everything that a block added. */
export async function forgetSlot(tx: StoreTx, slot: number): Promise<void> {
  const db = tx.db as WalletDb;
  await db.deleteFrom('wallet_tail').where('slot', '=', slot).execute();
  for (const table of ['wallet_transactions', 'wallet_bodies'] as const)
    await db.deleteFrom(table).where('n', '>=', firstOf(slot)).where('n', '<', endOf(slot)).execute();
  await db.deleteFrom('wallet_times').where('slot', '=', slot).execute();
}

/** Position of a transaction; null when it is not stored. */
export async function findSignature(db: WalletDb, signature: Uint8Array): Promise<number | null> {
  const rows = await db
    .selectFrom('wallet_transactions')
    .select(['n', 'signature'])
    .where('tag', '=', tagOf(signature))
    .orderBy('n', 'desc')
    .execute();
  return rows.find((row) => Buffer.compare(row.signature, signature) === 0)?.n ?? null;
}

/** Signatures as keys of maps. */
export const signatureText = (signature: Uint8Array): string => Buffer.from(signature).toString('latin1');

/** All positions of these transactions, by signature: two while the index has not processed a reorg yet. */
export async function findPlaces(
  db: WalletDb,
  signatures: readonly Uint8Array[],
): Promise<ReadonlyMap<string, readonly number[]>> {
  const wanted = new Set(signatures.map(signatureText));
  const found = new Map<string, number[]>();
  for (let at = 0; at < signatures.length; at += KEYS_PER_QUERY) {
    const tags = [...new Set(signatures.slice(at, at + KEYS_PER_QUERY).map(tagOf))];
    const query = db.selectFrom('wallet_transactions').select(['n', 'signature']).where('tag', 'in', tags);
    for (const { n, signature } of await query.execute()) {
      const text = signatureText(signature);
      if (wanted.has(text)) found.set(text, [...(found.get(text) ?? []), n]);
    }
  }
  return found;
}

/** By position, 64 bytes each; missing ones are left out. */
export async function readSignatures(db: WalletDb, ns: readonly number[]): Promise<Map<number, Uint8Array>> {
  const found = new Map<number, Uint8Array>();
  for (let at = 0; at < ns.length; at += KEYS_PER_QUERY) {
    const query = db.selectFrom('wallet_transactions').select(['n', 'signature']);
    const rows = await query.where('n', 'in', ns.slice(at, at + KEYS_PER_QUERY)).execute();
    for (const { n, signature } of rows) found.set(n, signature);
  }
  return found;
}

/** JSON texts by position; missing ones are left out. */
export async function readBodies(db: WalletDb, ns: readonly number[]): Promise<Map<number, string>> {
  const found = new Map<number, string>();
  for (let at = 0; at < ns.length; at += KEYS_PER_QUERY) {
    const query = db.selectFrom('wallet_bodies').select(['n', 'body']);
    const rows = await query.where('n', 'in', ns.slice(at, at + KEYS_PER_QUERY)).execute();
    for (const { n, body } of rows) found.set(n, unpackBody(body));
  }
  return found;
}

/** The newest known slot at or before a time (unix seconds); null without one. */
export async function slotAtTime(db: WalletDb, time: number): Promise<number | null> {
  const row = await db
    .selectFrom('wallet_times')
    .select('slot')
    .where('time', '<=', time)
    .orderBy('time', 'desc')
    .orderBy('slot', 'desc')
    .limit(1)
    .executeTakeFirst();
  return row?.slot ?? null;
}

/** The oldest known slot after a time (unix seconds); null without one. */
export async function slotAfterTime(db: WalletDb, time: number): Promise<number | null> {
  const row = await db
    .selectFrom('wallet_times')
    .select('slot')
    .where('time', '>', time)
    .orderBy('time')
    .orderBy('slot')
    .limit(1)
    .executeTakeFirst();
  return row?.slot ?? null;
}

/** The time of the nearest known slot at or before one; null when none is known. */
export async function timeBefore(db: WalletDb, slot: number): Promise<number | null> {
  const row = await db
    .selectFrom('wallet_times')
    .select('time')
    .where('slot', '<=', slot)
    .orderBy('slot', 'desc')
    .limit(1)
    .executeTakeFirst();
  return row?.time ?? null;
}

const KEY_WORDS = 8;

/**
 * Moves transactions with provisional positions (no upstream had their block) to their real ones when the block arrives:
 * otherwise the block would add them a second time.
 */
export async function placeFromBlock(tx: StoreTx, block: ChainBlock): Promise<void> {
  const provisional = await provisionalOf(tx, block.slot);
  if (provisional.length === 0) return;
  const bySignature = new Map(block.transactions.map((one) => [signatureText(one.signatures[0] as Uint8Array), one]));
  for (const { n, signature } of provisional) {
    const one = bySignature.get(signatureText(signature));
    if (one !== undefined) await moveToPlace(tx, block, one, n, one.index);
  }
}

/** Like `placeFromBlock`, from the order of a block's signatures (base58), when the block itself is not available. */
export async function placeFromOrder(tx: StoreTx, slot: number, order: ReadonlyMap<string, number>): Promise<void> {
  const provisional = await provisionalOf(tx, slot);
  const texts = await readBodies(
    tx.db as WalletDb,
    provisional.map(({ n }) => n),
  );
  for (const { n, signature } of provisional) {
    const place = order.get(encode64(signature));
    const text = texts.get(n);
    if (place === undefined || text === undefined) continue;
    const block = decodeTransaction(parseExact(text));
    const [one] = block.transactions;
    if (one !== undefined) await moveToPlace(tx, block, one, n, place);
  }
}

const provisionalOf = (tx: StoreTx, slot: number) =>
  (tx.db as WalletDb)
    .selectFrom('wallet_transactions')
    .select(['n', 'signature'])
    .where('n', '>=', positionOf(slot, PROVISIONAL_PLACE))
    .where('n', '<', endOf(slot))
    .execute();

async function moveToPlace(
  tx: StoreTx,
  block: ChainBlock,
  one: NormalTransaction,
  provisional: number,
  place: number,
): Promise<void> {
  const db = tx.db as WalletDb;
  const numbers = await readKeyNumbers(db);
  const real = positionOf(block.slot, place);
  const signature = one.signatures[0] as Uint8Array;
  await writeTransactions(tx, [{ n: real, signature, text: null, time: block.blockTime }]);
  await db.deleteFrom('wallet_transactions').where('n', '=', provisional).execute();
  await moveBody(db, provisional, real);
  const keys = [...neededKeysOf(one)].map((id) => numbers.at(block.keys.words, id * KEY_WORDS));
  await moveRows(db, keys, provisional, real);
}

/** All addresses that may have a row for it: its accounts, and owners of its token accounts. */
export function neededKeysOf({ keys, preTokenBalances, postTokenBalances }: NormalTransaction): ReadonlySet<number> {
  const owners = [...preTokenBalances, ...postTokenBalances].map(({ ownerKey }) => ownerKey).filter((key) => key >= 0);
  return new Set([...keys, ...owners]);
}

async function moveBody(db: WalletDb, from: number, to: number): Promise<void> {
  await sql`UPDATE wallet_bodies SET n = ${to} WHERE n = ${from}
    AND NOT EXISTS (SELECT 1 FROM wallet_bodies other WHERE other.n = ${to})`.execute(db);
  await db.deleteFrom('wallet_bodies').where('n', '=', from).execute();
}

async function moveRows(db: WalletDb, addresses: readonly number[], from: number, to: number): Promise<void> {
  // A row at the target may have another meaning: the address as a token account of another wallet.
  await sql`UPDATE wallet_rows SET flags = flags | COALESCE(
      (SELECT other.flags FROM wallet_rows other WHERE other.a = wallet_rows.a AND other.n = ${from}), 0)
    WHERE n = ${to} AND a IN (${sql.join(addresses)})`.execute(db);
  await sql`UPDATE wallet_rows SET n = ${to} WHERE n = ${from} AND a IN (${sql.join(addresses)})
    AND NOT EXISTS (SELECT 1 FROM wallet_rows other WHERE other.a = wallet_rows.a AND other.n = ${to})`.execute(db);
  await db.deleteFrom('wallet_rows').where('n', '=', from).where('a', 'in', addresses).execute();
}
