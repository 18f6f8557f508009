import { sql } from 'kysely';
import { decode32 } from '../../../src/lib/base58.ts';
import {
  type Clock,
  type JobKind,
  type Log,
  messageOf,
  type NewJob,
  type Roles,
  type Store,
  type StoreTx,
} from '../../../src/plugin/plugin.ts';
import type { Outbox } from '../../../src/ports/outbox.ts';
import { backoffMs } from '../../../src/runtime/backoff.ts';
import type { WalletConfig } from '../config.ts';
import { deleteDropped } from '../store/drop.ts';
import type { Db } from '../store/tables.ts';
import { dropWallets, readWallet, registerWallet, unfollowWallets } from '../store/wallets.ts';
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
/** Wallets dropped in one pass. */
const MOST_IDLE = 1_000;
/** Store transactions of one deletion pass: other writers get in between. */
const DELETE_STEPS = 25;
/** How long a refusal is remembered. */
const REFUSED_MS = 30 * DAY_MS;

export function createUpkeep(parts: UpkeepParts): Upkeep {
  const { store, clock, log, schedule, config, admission } = parts;
  let cancel = (): void => undefined;
  let cancelSoon = (): void => undefined;
  let isStopped = false;

  async function followConfigured(): Promise<void> {
    for (const address of config.follow) {
      const key = decode32(address);
      if (key === null) {
        log.warn({ address }, 'wallet.follow contains an invalid address');
        continue;
      }
      const known = await readWallet(store.read as Db, address);
      if (known?.is_pinned === 1 && known.is_followed === 1) continue;
      await store.write(async (tx) => {
        await schedule(tx, await registerWallet(tx, { key, address, now: clock.now(), isPinned: true }));
      });
    }
  }

  async function dropIdle(): Promise<void> {
    const db = store.read as Db;
    const now = clock.now();
    const over = (await admission?.enforceBudgets()) ?? 0;
    if (over > 0) log.info({ wallets: over }, 'wallets of projects above their storage budget were dropped');
    await store.write(async (tx) => {
      const refused = (tx.db as Db).deleteFrom('wallet_wallets').where('refused_at', '<', now - REFUSED_MS);
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
      .limit(MOST_IDLE)
      .execute();
    const ids = idle.map(({ id }) => id);
    await store.write(async (tx) => {
      // The wallet no longer counts against the budget of an idle project.
      await (tx.db as Db).deleteFrom('wallet_projects').where('requested_at', '<', before).execute();
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
    const waiting = await (store.read as Db)
      .selectFrom('wallet_wallets')
      .select('id')
      .where('is_followed', '=', 1)
      .where((eb) => eb.or([eb('head', 'is', null), eb('head', '<', sql<number>`live_from - 1`)]))
      .where('last_error', 'is', null)
      .limit(MOST_IDLE)
      .execute();
    if (waiting.length === 0) return;
    await store.write(async (tx) => {
      for (const { id } of waiting) await schedule(tx, id);
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
const MOST_PAUSE_MS = 15_000;
const MOST_ATTEMPTS = 20;

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
        if (job.attempts >= MOST_ATTEMPTS) return { kind: 'failed', error: messageOf(error) };
        const pauseMs = backoffMs(job.attempts + 1, null, { firstMs: FIRST_PAUSE_MS, longestMs: MOST_PAUSE_MS });
        return { kind: 'retry', runAt: clock.now() + pauseMs, error: messageOf(error) };
      }
    },
  };
}

async function noteError(store: Store, id: number, message: string): Promise<void> {
  await store.write(async (tx) => {
    await (tx.db as Db).updateTable('wallet_wallets').set({ last_error: message }).where('id', '=', id).execute();
  });
}

/** Schedules indexing of a wallet (by number) in the transaction; a running job continues. */
export type Schedule = (tx: StoreTx, id: number) => Promise<void>;

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
  return async (tx, id) => {
    const key = String(id);
    const wanted = await (tx.db as Db)
      .selectFrom('wallet_projects')
      .select('project')
      .where('wallet', '=', id)
      .orderBy('started_at')
      .orderBy('requested_at')
      .limit(1)
      .executeTakeFirst();
    const group = wanted?.project ?? OPERATOR_GROUP;
    const added = await enqueue(tx, [{ kind: JOB_KIND, key, group, payload: {} }]);
    if (added === 0) await outbox.requeue(tx, { kind: JOB_KIND, keys: [key] });
  };
}
