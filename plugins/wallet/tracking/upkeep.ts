import { sql } from 'kysely';
import { decode32 } from '../../../src/lib/base58.ts';
import { parseExact } from '../../../src/lib/json.ts';
import { type Clock, type JobKind, type Log, messageOf, type NewJob, type Roles } from '../../../src/plugin/plugin.ts';
import type { Outbox } from '../../../src/ports/outbox.ts';
import type { Store, StoreTx } from '../../../src/ports/store.ts';
import { backoffMs } from '../../../src/runtime/waiting.ts';
import { decodeTransaction } from '../../../src/solana/decode/decode-block.ts';
import type { WalletConfig } from '../config.ts';
import { whereIn } from '../store/range.ts';
import { mergeTail } from '../store/rows.ts';
import {
  ACCOUNT,
  endOf,
  firstOf,
  type KeyNumbers,
  readKeyNumbers,
  slotOf,
  type WalletDb,
  type WalletRow,
} from '../store/tables.ts';
import { neededKeysOf, readBodies } from '../store/transactions.ts';
import { dropWallets, pinnedAddresses, readWalletById, registerWallet, unfollowWallets } from '../store/wallets.ts';
import type { WalletAdmission } from './admission.ts';
import { type BackfillParts, backfillWallet } from './backfill.ts';

interface UpkeepParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly schedule: Schedule;
  readonly config: Pick<WalletConfig, 'follow' | 'idleDays' | 'full'>;
  readonly admission: WalletAdmission | null;
  /** The newest final slot; null when unknown. */
  finalSlot(): number | null;
}

/** Follows the configured wallets, drops idle ones, and deletes their data. */
interface Upkeep {
  start(roles: Roles): Promise<void>;
  stop(): void;
}

const LOOK_MS = 3_600_000;
const NEW_MS = 5_000;
const DAY_MS = 86_400_000;
/** Wallets of the configuration registered in one transaction. */
const FOLLOWED_AT_ONCE = 100;
/** Wallets dropped in one pass. */
const MAX_IDLE = 1_000;
/** Store transactions of one deletion pass: other writers get in between. */
const DELETE_STEPS = 25;
/** How long a refusal is remembered. */
const REFUSED_MS = 30 * DAY_MS;

export function createWalletUpkeep(parts: UpkeepParts): Upkeep {
  const { store, clock, log, schedule, config, admission } = parts;
  let cancel = (): void => undefined;
  let cancelSoon = (): void => undefined;
  let isStopped = false;

  async function followConfigured(): Promise<void> {
    if (config.follow.length === 0) return;
    const known = await pinnedAddresses(store.read as WalletDb);
    const missing: { key: Uint8Array; address: string }[] = [];
    for (const address of new Set(config.follow)) {
      const key = decode32(address);
      if (key === null) log.warn({ address }, 'wallet.follow contains an invalid address');
      else if (!known.has(address)) missing.push({ key, address });
    }
    for (let from = 0; from < missing.length; from += FOLLOWED_AT_ONCE) {
      await store.write(async (tx) => {
        const ids: number[] = [];
        for (const wallet of missing.slice(from, from + FOLLOWED_AT_ONCE))
          ids.push(await registerWallet(tx, { ...wallet, now: clock.now(), isPinned: true }));
        await schedule(tx, ids);
      });
    }
  }

  async function dropIdle(): Promise<void> {
    const db = store.read as WalletDb;
    const now = clock.now();
    const over = (await admission?.enforceBudgets()) ?? 0;
    if (over > 0) log.info({ wallets: over }, 'wallets of projects above their storage budget were dropped');
    await store.write(async (tx) => {
      const refused = (tx.db as WalletDb).deleteFrom('wallet_wallets').where('refused_at', '<', now - REFUSED_MS);
      await refused.where('is_followed', '=', 0).where('dropped_at', 'is', null).execute();
    });
    if (config.idleDays === 0) return;
    const before = now - config.idleDays * DAY_MS;
    const idle = await db
      .selectFrom('wallet_wallets')
      .select('id')
      .where('is_pinned', '=', 0)
      .where('requested_at', '<', before)
      .where('dropped_at', 'is', null)
      .where('refused', 'is', null)
      // The full index keeps its rows.
      .$if(config.full, (query) => query.where('is_followed', '=', 1))
      .limit(MAX_IDLE)
      .execute();
    const ids = idle.map(({ id }) => id);
    await store.write(async (tx) => {
      // The wallet no longer counts against the budget of an idle project.
      await (tx.db as WalletDb).deleteFrom('wallet_projects').where('requested_at', '<', before).execute();
      await (config.full ? unfollowWallets(tx, ids) : dropWallets(tx, ids, now));
    });
    if (ids.length > 0) log.info({ wallets: ids.length }, 'idle wallets are no longer followed');
  }

  async function deleteSome(): Promise<void> {
    if (config.full) return;
    const options = { now: clock.now(), finalSlot: parts.finalSlot(), steps: DELETE_STEPS };
    const rows = await deleteDropped(store, options);
    if (rows > 0) log.debug({ rows }, 'rows of dropped wallets were deleted');
  }

  /** Schedules wallets registered by a command, which cannot enqueue jobs, and wallets that became live after their job had finished. */
  async function joinNew(): Promise<void> {
    const waiting = await (store.read as WalletDb)
      .selectFrom('wallet_wallets')
      .select('id')
      .where(whereIn('new', 'live', 'apart'))
      .where('last_error', 'is', null)
      .limit(MAX_IDLE)
      .execute();
    if (waiting.length === 0) return;
    await store.write(async (tx) => {
      await schedule(
        tx,
        waiting.map(({ id }) => id),
      );
    });
  }

  function soon(): void {
    cancelSoon = clock.timeout(NEW_MS, () => {
      joinNew()
        .catch((error) => log.warn({ err: messageOf(error) }, 'new wallets could not be scheduled'))
        .then(deleteSome)
        .catch((error) => log.warn({ err: messageOf(error) }, 'data of dropped wallets could not be deleted'))
        .finally(() => {
          if (!isStopped) soon();
        });
    });
  }

  /** Also at the start: a process that never runs for an hour would otherwise never drop any. */
  function look(): void {
    dropIdle().catch((error) => log.warn({ err: messageOf(error) }, 'idle wallets could not be dropped'));
    cancel = clock.timeout(LOOK_MS, look);
  }

  return {
    async start(roles) {
      if (!roles.has('indexer')) return;
      await followConfigured();
      look();
      soon();
    },
    stop() {
      isStopped = true;
      cancel();
      cancelSoon();
    },
  };
}

const JOB_KIND = 'wallet.index';

/** Duration of one run of the job; then the next wallet gets its turn. */
const TURN_MS = 3_000;
const TIMEOUT_MS = 120_000;
/** Short, because a request may wait for a wallet whose process was killed; concurrent runs are harmless. */
const LEASE_MS = 10_000;
/** Until the missing top may be final. */
const FINALITY_MS = 2_000;
/** Short, because a request may be waiting; a failed job is scheduled again by the next request. */
const FIRST_PAUSE_MS = 500;
const MAX_PAUSE_MS = 15_000;
const MAX_ATTEMPTS = 20;

/** Indexes a wallet piece by piece; projects share the slots evenly. The job's key is the number of the wallet. */
export function createIndexJob(
  parts: Omit<BackfillParts, 'lane'> & { readonly log: Log },
  concurrency: number,
): JobKind {
  const { clock, store, log } = parts;
  return {
    kind: JOB_KIND,
    summary: 'reads the past of a wallet from the upstream',
    concurrency,
    // Leaves a slot for other projects.
    groupConcurrency: () => Math.max(1, concurrency - 1),
    timeoutMs: TIMEOUT_MS,
    leaseMs: LEASE_MS,
    async run(job, _prepared, signal) {
      const id = Number(job.key);
      try {
        const step = await backfillWallet({ ...parts, lane: job.group }, id, clock.monotonic() + TURN_MS, signal);
        if (step === 'done') return { kind: 'done' };
        const runAt = clock.now() + (step === 'later' ? FINALITY_MS : 0);
        return { kind: 'retry', runAt, error: 'continues', uncounted: true };
      } catch (error) {
        signal.throwIfAborted();
        log.warn({ wallet: id, err: messageOf(error) }, 'indexing of a wallet failed');
        await noteError(store, id, messageOf(error));
        if (job.attempts >= MAX_ATTEMPTS) return { kind: 'failed', error: messageOf(error) };
        const pauseMs = backoffMs(job.attempts + 1, null, { firstMs: FIRST_PAUSE_MS, longestMs: MAX_PAUSE_MS });
        return { kind: 'retry', runAt: clock.now() + pauseMs, error: messageOf(error) };
      }
    },
  };
}

async function noteError(store: Store, id: number, message: string): Promise<void> {
  await store.write(async (tx) => {
    await (tx.db as WalletDb).updateTable('wallet_wallets').set({ last_error: message }).where('id', '=', id).execute();
  });
}

/** Schedules indexing of wallets (by number) in the transaction; running jobs continue. */
export type Schedule = (tx: StoreTx, ids: readonly number[]) => Promise<void>;

/** Group of wallets that the operator follows; project ids are UUIDs. */
const OPERATOR_GROUP = 'operator';

/**
 * A wallet has one job, which becomes due again: nothing is read twice concurrently. Its group is the first project that requested it, so that
 * projects share the runner evenly.
 */
export function createSchedule(
  outbox: Pick<Outbox, 'requeue'>,
  enqueue: (tx: StoreTx, jobs: readonly NewJob[]) => Promise<number>,
): Schedule {
  return async (tx, ids) => {
    const groups = await firstProjects(tx.db as WalletDb, ids);
    const jobs = ids.map((id) => {
      return { kind: JOB_KIND, key: String(id), group: groups.get(id) ?? OPERATOR_GROUP, payload: {} };
    });
    const added = await enqueue(tx, jobs);
    if (added < jobs.length) await outbox.requeue(tx, { kind: JOB_KIND, keys: jobs.map(({ key }) => key) });
  };
}

/** The project that requested each wallet first; wallets that only the operator follows have none. */
async function firstProjects(db: WalletDb, ids: readonly number[]): Promise<ReadonlyMap<number, string>> {
  const rows = await db
    .selectFrom(
      db
        .selectFrom('wallet_projects')
        .where('wallet', 'in', ids)
        .select(['wallet', 'project'])
        .select(({ fn }) =>
          fn
            .agg<number>('row_number')
            .over((window) => window.partitionBy('wallet').orderBy('started_at').orderBy('requested_at'))
            .as('place'),
        )
        .as('requests'),
    )
    .select(['wallet', 'project'])
    .where('place', '=', 1)
    .execute();
  return new Map(rows.map(({ wallet, project }) => [wallet, project]));
}

interface DeleteOptions {
  /** Unix milliseconds. */
  readonly now: number;
  /** The newest final slot; null when unknown. */
  readonly finalSlot: number | null;
  /** Maximum number of store transactions. */
  readonly steps: number;
}

/** Requests and jobs that read a wallet before it was dropped have ended by then. */
const GRACE_MS = 180_000;
/** Rows that one store transaction deletes. */
const ROWS_AT_ONCE = 200;
const ACCOUNTS_AT_ONCE = 100;
const WALLETS_AT_ONCE = 50;
const PAIRS_AT_ONCE = 400;
const KEY_WORDS = 8;
/** A process that applied this many more blocks has read the followed wallets after the drop. */
const BLOCKS_BEHIND = 32;

/**
 * Deletes stored data of dropped wallets, in small store transactions. Transactions that another wallet or its token accounts use stay.
 * A wallet that is requested in between is no longer dropped; its index starts from scratch. Returns the number of deleted rows.
 */
export async function deleteDropped(store: Store, { now, finalSlot, steps }: DeleteOptions): Promise<number> {
  const dropped = await (store.read as WalletDb)
    .selectFrom('wallet_wallets')
    .select('id')
    .where('dropped_at', '<=', now - GRACE_MS)
    .orderBy('dropped_at')
    .limit(WALLETS_AT_ONCE)
    .execute();
  let left = steps;
  let rows = 0;
  for (const { id } of dropped) {
    for (let hasMore = true; hasMore && left > 0; left -= 1) {
      const deleted = await store.write((tx) => deleteStep(tx, id, finalSlot));
      hasMore = deleted !== null;
      rows += deleted ?? 0;
    }
  }
  return rows;
}

/** The number of deleted rows; null when nothing more can be done now. */
async function deleteStep(tx: StoreTx, id: number, finalSlot: number | null): Promise<number | null> {
  const db = tx.db as WalletDb;
  // One process at a time, as when indexing: a transaction found unused stays unused.
  await db.updateTable('wallet_state').set({ version: sql`version` }).where('id', '=', 1).execute();
  const wallet = await readWalletById(db, id);
  if (wallet === undefined || wallet.dropped_at === null) return null;
  const droppedSlot = wallet.dropped_slot ?? -1;
  if (finalSlot !== null && (await oldestTail(db)) <= Math.min(finalSlot, droppedSlot))
    await mergeTail(tx, finalSlot, 1);
  const tail = await oldestTail(db);
  const below = Number.isFinite(tail) ? firstOf(tail) : Number.MAX_SAFE_INTEGER;
  const numbers = await readKeyNumbers(db);
  const isAccount = await isOwnedByAnother(db, decode32(wallet.address) as Uint8Array, id);
  const own = await rowsOf(db, id, below, isAccount);
  if (own.length > 0) return await deleteRows(tx, numbers, id, own, isAccount);
  const accounts = await db
    .selectFrom('wallet_accounts')
    .select('account')
    .distinct()
    .where('wallet', '=', id)
    .orderBy('account')
    .limit(ACCOUNTS_AT_ONCE)
    .execute();
  for (const { account } of accounts) {
    const a = numbers.of(account);
    const isShared = (await isOwnedByAnother(db, account, id)) || (await isWanted(db, a));
    const rows = isShared ? [] : await rowsOf(db, a, below, false);
    if (rows.length > 0) return await deleteRows(tx, numbers, a, rows, false);
    await db.deleteFrom('wallet_accounts').where('wallet', '=', id).where('account', '=', account).execute();
  }
  if (accounts.length > 0) return 0;
  // Blocks that are not final may still contain rows of it.
  if (tail > droppedSlot) await forget(db, wallet);
  return null;
}

async function oldestTail(db: WalletDb): Promise<number> {
  const row = await db
    .selectFrom('wallet_tail')
    .select(({ fn }) => fn.min<number | null>('slot').as('slot'))
    .executeTakeFirst();
  return row?.slot == null ? Number.POSITIVE_INFINITY : Number(row.slot);
}

/** All data is deleted: deletes the row too, except one that records a refusal. */
async function forget(db: WalletDb, { id, refused, dropped_slot }: WalletRow): Promise<void> {
  if (refused !== null) {
    await db.updateTable('wallet_wallets').set({ dropped_at: null, dropped_slot: null }).where('id', '=', id).execute();
    return;
  }
  const { live_slot } = await db.selectFrom('wallet_state').select('live_slot').executeTakeFirstOrThrow();
  // Processors read the followed wallets from this table: they must see the drop before the row is deleted.
  if (live_slot !== null && live_slot <= (dropped_slot ?? -1) + BLOCKS_BEHIND) return;
  await db.deleteFrom('wallet_wallets').where('id', '=', id).execute();
}

/** Whether another wallet of the index has, or had, an address as its token account. */
async function isOwnedByAnother(db: WalletDb, account: Uint8Array, wallet: number): Promise<boolean> {
  const row = await db
    .selectFrom('wallet_accounts')
    .innerJoin('wallet_wallets', 'wallet_wallets.id', 'wallet_accounts.wallet')
    .select('wallet_wallets.id')
    .where('account', '=', Buffer.from(account))
    .where('wallet', '<>', wallet)
    .limit(1)
    .executeTakeFirst();
  return row !== undefined;
}

async function isWanted(db: WalletDb, id: number): Promise<boolean> {
  const row = await readWalletById(db, id);
  return row !== undefined && row.dropped_at === null && row.refused === null;
}

async function rowsOf(db: WalletDb, a: number, below: number, isAccount: boolean): Promise<readonly number[]> {
  let query = db.selectFrom('wallet_rows').select('n').where('a', '=', a).where('n', '<', below);
  if (isAccount) query = query.where('flags', '<>', ACCOUNT);
  return (await query.orderBy('n').limit(ROWS_AT_ONCE).execute()).map(({ n }) => n);
}

async function deleteRows(
  tx: StoreTx,
  numbers: KeyNumbers,
  a: number,
  ns: readonly number[],
  isAccount: boolean,
): Promise<number> {
  const db = tx.db as WalletDb;
  if (isAccount) {
    // The row stays if it is also one of a token account of another wallet.
    const flags = sql<number>`flags & ${sql.lit(ACCOUNT)}`;
    await db.updateTable('wallet_rows').set({ flags }).where('a', '=', a).where('n', 'in', ns).execute();
    await db.deleteFrom('wallet_rows').where('a', '=', a).where('n', 'in', ns).where('flags', '=', 0).execute();
  } else await db.deleteFrom('wallet_rows').where('a', '=', a).where('n', 'in', ns).execute();
  const unused = await unusedOf(db, numbers, ns);
  if (unused.length === 0) return ns.length;
  for (const table of ['wallet_transactions', 'wallet_bodies'] as const)
    await db.deleteFrom(table).where('n', 'in', unused).execute();
  const others = sql<boolean>`NOT EXISTS (SELECT 1 FROM wallet_transactions other
    WHERE other.n >= wallet_times.slot * ${sql.lit(endOf(0))} AND other.n < (wallet_times.slot + 1) * ${sql.lit(endOf(0))})`;
  const slots = [...new Set(unused.map(slotOf))];
  await db.deleteFrom('wallet_times').where('slot', 'in', slots).where(others).execute();
  return ns.length;
}

/** The transactions among these that no row references. One without a stored body stays: its addresses are unknown. */
async function unusedOf(db: WalletDb, numbers: KeyNumbers, ns: readonly number[]): Promise<readonly number[]> {
  const bodies = await readBodies(db, ns);
  const pairs: string[] = [];
  for (const [n, text] of bodies) {
    const { keys, transactions } = decodeTransaction(parseExact(text));
    const [one] = transactions;
    if (one === undefined) continue;
    for (const key of neededKeysOf(one)) pairs.push(`(${numbers.at(keys.words, key * KEY_WORDS)}, ${n})`);
  }
  const used = new Set<number>();
  for (let at = 0; at < pairs.length; at += PAIRS_AT_ONCE) {
    const part = sql.raw(pairs.slice(at, at + PAIRS_AT_ONCE).join());
    const { rows } = await sql<{
      n: number;
    }>`SELECT DISTINCT n FROM wallet_rows WHERE (a, n) IN (VALUES ${part})`.execute(db);
    for (const { n } of rows) used.add(Number(n));
  }
  return [...bodies.keys()].filter((n) => !used.has(n));
}
