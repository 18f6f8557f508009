import { sql } from 'kysely';
import { decode32, encode32, encode64 } from '../../../src/lib/base58.ts';
import { type Clock, CodedError, type Store, type StoreTx } from '../../../src/plugin/plugin.ts';
import { mayCome, type RangeState, rangeOf, whereMayCome } from '../store/range.ts';
import { type TailRow, withoutRepeats, writeTailRows } from '../store/rows.ts';
import {
  ACCOUNT,
  endOf,
  firstOf,
  NAMED,
  PROVISIONAL_PLACE,
  placeOf,
  positionOf,
  readKeyNumbers,
  slotOf,
  type WalletDb,
  type WalletRow,
} from '../store/tables.ts';
import { findPlaces, placeFromOrder, readSignatures, signatureText, writeTransactions } from '../store/transactions.ts';
import { type OwnedAccount, PRUNED_MS, readOwnedAccounts, readWalletById, writeAccounts } from '../store/wallets.ts';
import type { ChainHistory, HistoryAskOptions } from './chain-history.ts';
import { createAddressList, createGatherer, emptyList, type GatheredTransaction, type Gatherer } from './gather.ts';

export interface BackfillParts {
  readonly store: Store;
  readonly upstream: ChainHistory;
  readonly clock: Clock;
  /** Lanes share the calls to the upstream evenly. */
  readonly lane: string;
  /** Whether indexing may continue; drops the wallet if not. */
  mayContinue(wallet: WalletRow): Promise<boolean>;
  /** Called for each stored piece. */
  kept(transactions: number): void;
}

/** `again`: there is more to do now; `later`: the rest is not final yet. */
type Step = 'done' | 'again' | 'later';

/** The first piece is one page, so that the first response comes soon. */
const FIRST_PIECE = 120;
const PIECE = 400;
/** A past that no node could give is asked for again after this time. */
const DARK_MS = 15_000;
/** Transactions per store transaction when a range counts only as a whole. */
const RANGE_PIECE = 400;

interface BackfillRun extends BackfillParts {
  readonly wallet: WalletRow;
  readonly key: Uint8Array;
  readonly ask: HistoryAskOptions;
  /** Newest final slot. */
  readonly finalSlot: number;
}

/**
 * Extends the index of a wallet until it is complete or `deadlineMs` (monotonic) has passed. Errors: those of upstream
 * and store.
 */
export async function backfillWallet(
  parts: BackfillParts,
  id: number,
  deadlineMs: number,
  signal: AbortSignal,
): Promise<Step> {
  // A signal of its own: whether a list was cut is a matter of this run.
  const ask: HistoryAskOptions = { commitment: 'finalized', signal: AbortSignal.any([signal]), lane: parts.lane };
  const finalSlot = await parts.upstream.slot(ask);
  const wallet = await readWalletById(parts.store.read as WalletDb, id);
  if (wallet === undefined || wallet.is_followed === 0 || wallet.refused !== null) return 'done';
  if (!(await parts.mayContinue(wallet))) return 'done';
  const key = decode32(wallet.address);
  if (key === null) throw new CodedError('WALLET_NO_ADDRESS', 'a stored address is invalid');
  const run: BackfillRun = { ...parts, wallet, key, ask, finalSlot };
  if (mayCome('job begins', wallet)) {
    await begin(run);
    return 'again';
  }
  if (needsHead(run) && !(await extendHead(run))) {
    await restart(run);
    return 'again';
  }
  const isDown = wallet.is_complete === 1 || (await extendDown(run, deadlineMs));
  if (!isDown) return 'again';
  const now = await readWalletById(parts.store.read as WalletDb, id);
  return now !== undefined && WAITING.has(rangeOf(now)) ? 'later' : 'done';
}

/** Starts with the final part of the live range as the covered range. The follower may be behind finality. */
async function begin({ store, wallet, finalSlot }: BackfillRun): Promise<void> {
  await store.write(async (tx) => {
    const db = tx.db as WalletDb;
    const { live_from } = (await readWalletById(db, wallet.id)) ?? { live_from: null };
    const { live_slot } = await db
      .selectFrom('wallet_state')
      .select('live_slot')
      .where('id', '=', 1)
      .executeTakeFirstOrThrow();
    const isCovered = live_from !== null && live_slot !== null && live_from <= finalSlot && live_from <= live_slot;
    const range = isCovered
      ? { floor: live_from, head: Math.min(finalSlot, live_slot) }
      : { floor: finalSlot + 1, head: finalSlot };
    await db
      .updateTable('wallet_wallets')
      .set(range)
      .where('id', '=', wallet.id)
      .where(whereMayCome('job begins'))
      .where('follow_version', '=', wallet.follow_version)
      .execute();
  });
}

/** Stored rows stay, and count again when the range between is filled. */
async function restart(run: BackfillRun): Promise<void> {
  await run.store.write(async (tx) => {
    await (tx.db as WalletDb)
      .updateTable('wallet_wallets')
      .set({ floor: null, head: null, is_complete: 0, pruned_below: null })
      .where('id', '=', run.wallet.id)
      .where(whereMayCome('start again'))
      .execute();
  });
  await begin(run);
}

/** Its blocks are there, and what lies between them and the stored range is not final yet. */
const WAITING: ReadonlySet<RangeState> = new Set(['live', 'apart']);

const needsHead = ({ wallet, finalSlot }: BackfillRun): boolean =>
  wallet.head !== null && finalSlot > wallet.head && mayCome('head moves', wallet);

/**
 * Fills the range between `head` and the newest final slot; `head` moves when all of it is stored. False when the upstream has pruned a part
 * of it, so that the stored range does not join the upstream's data.
 */
async function extendHead(run: BackfillRun): Promise<boolean> {
  const { store, wallet, finalSlot, ask, upstream } = run;
  const head = wallet.head as number;
  const gatherer = createGatherer({
    ...run,
    wallet: run.key,
    address: wallet.address,
    aboveSlot: head,
    openList: (address) =>
      createAddressList({ upstream, address, belowSlot: finalSlot + 1, before: null, minSlot: finalSlot, ask }),
    fetch: (signature) => upstream.transaction(signature, ask),
  });
  const known = await readOwnedAccounts(store.read as WalletDb, wallet.id);
  for (const account of known) gatherer.add(account);
  const before = new Set(gatherer.accounts.keys());
  for (const account of await upstream.tokenAccounts(wallet.address, ask)) gatherer.add(account);
  for (;;) {
    const transactions = await gatherer.next(RANGE_PIECE);
    if (transactions.length === 0) break;
    await keep(run, gatherer, transactions, {});
  }
  for (const account of [...gatherer.accounts.keys()].filter((text) => !before.has(text) && text !== wallet.address))
    await fillAccount(run, account, head);
  // Checked last: a list that was pruned while it was read must not count as complete.
  if ((await upstream.firstSlot(wallet.address, ask.signal)) > head + 1) return false;
  await store.write(async (tx) => {
    await (tx.db as WalletDb)
      .updateTable('wallet_wallets')
      .set({ head: finalSlot, last_error: null })
      .where('id', '=', wallet.id)
      .where(whereMayCome('head moves'))
      .where('head', '<=', finalSlot)
      .where('follow_version', '=', wallet.follow_version)
      .execute();
  });
  return true;
}

/** A newly found account: reads its transactions in the range that is already covered. */
async function fillAccount(run: BackfillRun, address: string, head: number): Promise<void> {
  const { upstream, ask, wallet } = run;
  const floor = wallet.is_complete === 1 ? 0 : (wallet.floor ?? 0);
  const key = decode32(address);
  if (key === null) return;
  const gatherer = createGatherer({
    ...run,
    wallet: run.key,
    address: wallet.address,
    aboveSlot: floor - 1,
    // Only the list of the account: the others are covered.
    openList: (text) =>
      text === address
        ? createAddressList({ upstream, address, belowSlot: head + 1, before: null, minSlot: head, ask })
        : emptyList(text),
    fetch: (signature) => upstream.transaction(signature, ask),
  });
  gatherer.add({ account: key, mint: new Uint8Array(32) });
  for (;;) {
    const transactions = await gatherer.next(RANGE_PIECE);
    if (transactions.length === 0) return;
    await keep(run, gatherer, transactions, {}, false);
  }
}

/** Fills from `floor` down. True at the start of the wallet, or when the upstream has no more data. */
async function extendDown(run: BackfillRun, deadlineMs: number): Promise<boolean> {
  const { wallet, clock, upstream, ask, store } = run;
  const gatherer = await downward(run);
  for (const account of await upstream.tokenAccounts(wallet.address, ask)) gatherer.add(account);
  let piece = wallet.found === 0 ? FIRST_PIECE : PIECE;
  let floor = wallet.floor as number;
  for (;;) {
    const transactions = await gatherer.next(piece);
    piece = PIECE;
    const lowest = transactions.at(-1);
    if (lowest === undefined) break;
    // Newly found accounts are read from above the floor.
    floor = Math.min(floor, lowest.slot);
    await keep(run, gatherer, transactions, { floor });
    // The run ends on time, or at once when the wallet has become too large.
    if (clock.monotonic() >= deadlineMs || !(await mayContinue(run))) return false;
  }
  const prunedBelow = await upstream.missingBelow(wallet.address, ask.signal);
  // What is missing only because no node answers is asked for again soon.
  const isDark = prunedBelow !== null && !(await upstream.isReachable(ask.signal));
  const prunedAt = clock.now() - (isDark ? PRUNED_MS - DARK_MS : 0);
  await store.write(async (tx) => {
    await (tx.db as WalletDb)
      .updateTable('wallet_wallets')
      .set({
        is_complete: prunedBelow === null ? 1 : 0,
        pruned_below: prunedBelow,
        pruned_at: prunedAt,
        last_error: null,
      })
      .where('id', '=', wallet.id)
      .where('follow_version', '=', wallet.follow_version)
      .execute();
  });
  return true;
}

async function mayContinue({ store, wallet, mayContinue }: BackfillRun): Promise<boolean> {
  const now = await readWalletById(store.read as WalletDb, wallet.id);
  return now !== undefined && now.refused === null && (await mayContinue(now));
}

/** Each list continues after the oldest stored transaction of its address: everything from `floor` on is stored. */
async function downward(run: BackfillRun): Promise<Gatherer> {
  const { store, upstream, wallet, ask } = run;
  const db = store.read as WalletDb;
  const floor = wallet.floor as number;
  const accounts = await readOwnedAccounts(db, wallet.id);
  const known = new Set([wallet.address, ...accounts.map(({ account }) => encode32(account))]);
  const cursors = new Map<string, string>();
  const numbers = await readKeyNumbers(db);
  const ids = [...new Set([wallet.id, ...accounts.map(({ account }) => numbers.of(account))])];
  for (const { a, n } of await oldestOf(db, ids, floor, wallet.head as number)) {
    const stored = (await readSignatures(db, [n])).get(n);
    if (stored !== undefined) cursors.set(String(a), encode64(stored));
  }
  const cursorOf = (address: string): string | null => {
    const key = decode32(address);
    return (key === null ? undefined : cursors.get(String(numbers.of(key)))) ?? null;
  };
  const gatherer = createGatherer({
    ...run,
    wallet: run.key,
    address: wallet.address,
    aboveSlot: -1,
    openList(address) {
      const before = cursorOf(address);
      return createAddressList({
        // An account found further down may have been closed by others, without an entry in the wallet's own list.
        upstream,
        address,
        belowSlot: known.has(address) ? floor : (wallet.head as number) + 1,
        ask,
        before,
        // A node behind the covered range would leave a hole: an earlier run may have used one that was ahead.
        minSlot: before === null ? Math.max(run.finalSlot, wallet.head as number) : (wallet.head as number),
      });
    },
    fetch: (signature) => upstream.transaction(signature, ask),
  });
  for (const account of accounts) gatherer.add(account);
  return gatherer;
}

/**
 * The oldest row of each address in its own list, if it has one from `floor` to `head`. Rows from blocks above `head` may not be
 * final: a node that does not know the cursor yet answers as at the end of the list.
 */
async function oldestOf(db: WalletDb, ids: readonly number[], floor: number, head: number) {
  const found: { a: number; n: number }[] = [];
  for (const a of ids) {
    const row = await db
      .selectFrom('wallet_rows')
      .select('n')
      .where('a', '=', a)
      .where('n', '>=', endOf(floor - 1))
      .where('n', '<', endOf(head))
      .where(sql<boolean>`(flags & ${NAMED | ACCOUNT}) <> 0`)
      .orderBy('n')
      .limit(1)
      .executeTakeFirst();
    if (row !== undefined) found.push({ a, n: row.n });
  }
  return found;
}

async function keep(
  run: BackfillRun,
  gatherer: Gatherer,
  transactions: Awaited<ReturnType<Gatherer['next']>>,
  changes: { readonly floor?: number },
  withAccounts = true,
): Promise<void> {
  const { store, wallet } = run;
  const accounts = withAccounts ? gatherer.accounts : new Map();
  const isKept = await store.write(async (tx) => {
    const db = tx.db as WalletDb;
    // The lock of `keepBatch`, before the wallet is read: a wallet that was dropped in between is not changed.
    await db.updateTable('wallet_state').set({ version: sql`version` }).where('id', '=', 1).execute();
    if ((await readWalletById(db, wallet.id))?.follow_version !== wallet.follow_version) return false;
    const shown = await keepBatch(tx, { wallet: wallet.id, transactions, accounts });
    const stored = sql<number>`stored + ${transactions.length}`;
    await db
      .updateTable('wallet_wallets')
      .set({ ...changes, found: sql`found + ${shown}`, stored, last_error: null })
      .where('id', '=', wallet.id)
      .execute();
    return true;
  });
  if (isKept) run.kept(transactions.length);
}

/** Final transactions of a wallet as gathered, newest first. */
interface Batch {
  readonly wallet: number;
  readonly transactions: readonly GatheredTransaction[];
  /** Token accounts of the wallet, by base58. */
  readonly accounts: ReadonlyMap<string, OwnedAccount>;
}

/** Stores a batch. Returns how many of its transactions belong to the wallet. */
export async function keepBatch(tx: StoreTx, { wallet, transactions, accounts }: Batch): Promise<number> {
  // One process at a time, as with blocks: two must not assign the same provisional position.
  await (tx.db as WalletDb).updateTable('wallet_state').set({ version: sql`version` }).where('id', '=', 1).execute();
  const numbers = await readKeyNumbers(tx.db as WalletDb);
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
    for (const account of one.accounts) rows.push({ a: numbers.of(decodeKey(account)), n, flags: ACCOUNT });
  }
  await writeTailRows(tx, withoutRepeats(rows));
  return placed.filter(({ one }) => one.flags !== 0).length;
}

const signatureOf = ({ tx }: GatheredTransaction): Uint8Array => tx.signatures[0] as Uint8Array;

function decodeKey(text: string): Uint8Array {
  const key = decode32(text);
  if (key === null) throw new RangeError('no address');
  return key;
}

/** Assigns positions. Unknown places are provisional until the order of the block is known. */
async function place(
  tx: StoreTx,
  transactions: readonly GatheredTransaction[],
): Promise<readonly { readonly n: number; readonly one: GatheredTransaction }[]> {
  const placed: { n: number; one: GatheredTransaction }[] = [];
  const unplaced = new Map<number, GatheredTransaction[]>();
  const db = tx.db as WalletDb;
  // A stored provisional position may now get its real place.
  const stored = await findPlaces(db, transactions.map(signatureOf));
  const ordered = new Map<number, ReadonlyMap<string, number>>();
  for (const one of transactions) {
    const known = stored.get(signatureText(signatureOf(one)))?.find((n) => slotOf(n) === one.slot);
    const isProvisional = known !== undefined && placeOf(known) >= PROVISIONAL_PLACE;
    // Either all transactions of a slot get their real places or none: otherwise their order would break.
    if (isProvisional && one.order !== null) ordered.set(one.slot, one.order);
    if (one.place !== null && (!isProvisional || one.order !== null))
      placed.push({ n: positionOf(one.slot, one.place), one });
    else if (known !== undefined) placed.push({ n: known, one });
    else unplaced.set(one.slot, [one, ...(unplaced.get(one.slot) ?? [])]);
  }
  for (const [slot, order] of ordered) await placeFromOrder(tx, slot, order);
  if (unplaced.size === 0) return placed;
  for (const [slot, list] of unplaced) {
    const rows = await db
      .selectFrom('wallet_transactions')
      .select(['n', 'signature'])
      .where('n', '>=', firstOf(slot))
      .where('n', '<', endOf(slot))
      .execute();
    const known = new Map(rows.map(({ n, signature }) => [signatureText(signature), n]));
    let next = Math.max(PROVISIONAL_PLACE, ...rows.map(({ n }) => placeOf(n) + 1));
    // Oldest first: places ascend in the order of the list.
    for (const one of list) {
      placed.push({ n: known.get(signatureText(signatureOf(one))) ?? positionOf(slot, next++), one });
    }
  }
  return placed;
}
