import { CodedError, codeOf, EXIT, messageOf } from '../lib/coded-error.ts';
import type { ChainId } from '../ports/chain.ts';
import type { Clock } from '../ports/clock.ts';
import type { Queries, Store, StoreTx } from '../ports/store.ts';
import type { Log } from '../ports/telemetry.ts';
import { withDeadline } from '../runtime/waiting.ts';
import { followTables, type LeaderRow } from './tables.ts';

interface ElectionOptions {
  readonly chain: ChainId;
  readonly store: Store;
  /** Name of this process, for display; only the epoch counts. */
  readonly name: string;
  /** Silence after which a leader counts as dead. */
  readonly leaseMs: number;
  readonly clock: Clock;
  readonly log: Log;
  /** Called once, with FOLLOW_FENCED, when another process has become the leader. */
  readonly lost: (error: unknown) => void;
  /** Called once, when another process is seen to be the leader and alive. */
  readonly otherLeads?: () => void;
}

interface Leader {
  /** Null while nobody leads. */
  readonly name: string | null;
  readonly epoch: number;
}

/**
 * One leader per chain among the processes on a store. The leader's row has an epoch, and a beat that every write of the leader moves.
 * A process that sees the same beat for `leaseMs` takes the next epoch. Clocks are never compared, and taking over too early does no harm:
 * each write of the leader proves its epoch in its own transaction, so a leader that was paused or cut off writes nothing any more.
 */
export interface Election {
  /** Takes the lead if it is free. Returns whether this process leads. */
  tryLead(): Promise<boolean>;
  /** Retries until this process leads; false after `stop`. */
  untilLeading(): Promise<boolean>;
  /** Writes only while this process leads. Additional error of a write: FOLLOW_FENCED. */
  readonly store: Store;
  /** The leader at the last read; null: none. */
  leader(): Leader | null;
  /** Ends the candidacy; a leader stays one until `resign`. */
  stop(): void;
  /** After the last write: the next process need not wait for the lease to expire. */
  resign(): Promise<void>;
}

const READS_PER_LEASE = 5;
const LONGEST_PAUSE_MS = 1_000;

export function createElection(options: ElectionOptions): Election {
  const { chain, store, name, leaseMs, clock, log, lost } = options;
  const pauseMs = Math.min(LONGEST_PAUSE_MS, leaseMs / READS_PER_LEASE);
  const stopped = new AbortController();
  const resigned = new AbortController();
  let seen: { readonly row: LeaderRow | null; readonly since: number } | null = null;
  let epoch: number | null = null;
  let provenAt = Number.NEGATIVE_INFINITY;
  let writing = 0;
  let beating: Promise<void> = Promise.resolve();
  let reportOther = (): void => {
    reportOther = () => undefined;
    options.otherLeads?.();
  };

  const fenced: Store['write'] = async (work) => {
    writing += 1;
    try {
      return await store.write(async (tx) => {
        await proveLead(tx, chain, epoch ?? -1);
        tx.onCommit(() => {
          provenAt = clock.monotonic();
        });
        return await work(tx);
      });
    } finally {
      writing -= 1;
    }
  };

  async function tryLead(): Promise<boolean> {
    const row = await readLeader(store.read, chain).catch((error: unknown) => {
      // The leader cannot be observed now: its silence counts from the next read on.
      seen = null;
      throw error;
    });
    const now = clock.monotonic();
    const isAlive = seen !== null && (row?.epoch !== seen.row?.epoch || row?.beat !== seen.row?.beat);
    if (seen === null || isAlive) seen = { row, since: now };
    if (isAlive && row !== null && row.holder !== null) reportOther();
    const isFree = row === null || row.holder === null || now - seen.since >= leaseMs;
    if (!isFree) return false;
    const taken = await store.write((tx) => takeLead(tx, chain, row, name));
    if (taken === null) return false;
    epoch = taken;
    provenAt = clock.monotonic();
    log.info({ chain, epoch, before: row?.holder ?? null }, 'this process is the leader of the chain');
    beating = keepBeating();
    return true;
  }

  /** Only while nothing else is written: an open write holds the row itself. */
  async function keepBeating(): Promise<void> {
    while (!resigned.signal.aborted) {
      await clock.sleep(pauseMs, resigned.signal).catch(() => undefined);
      if (resigned.signal.aborted) return;
      if (writing > 0 || clock.monotonic() - provenAt < pauseMs) continue;
      try {
        await fenced(async () => undefined);
      } catch (error) {
        if (codeOf(error) === 'FOLLOW_FENCED') return lost(error);
        log.debug({ chain, code: codeOf(error) }, 'the beat of the leader could not be written');
      }
    }
  }

  return {
    store: { ...store, write: fenced },
    tryLead,
    async untilLeading() {
      while (!stopped.signal.aborted) {
        try {
          if (await tryLead()) return !stopped.signal.aborted;
        } catch (error) {
          log.warn({ chain, code: codeOf(error), error: messageOf(error) }, 'the leader is unknown');
        }
        await clock.sleep(pauseMs, stopped.signal).catch(() => undefined);
      }
      return false;
    },
    leader() {
      if (epoch !== null) return { name, epoch };
      const row = seen?.row ?? null;
      return row === null ? null : { name: row.holder, epoch: row.epoch };
    },
    stop: () => stopped.abort(new Error('the candidacy has ended')),
    async resign() {
      stopped.abort(new Error('the candidacy has ended'));
      resigned.abort(new Error('the leadership has ended'));
      if (epoch === null) return;
      const own = epoch;
      // After one lease it makes no difference any more.
      await withDeadline(clock, leaseMs, async () => {
        await beating;
        await store.write((tx) => resignLead(tx, chain, own));
      }).catch(() => undefined);
    },
  };
}

async function readLeader(db: Queries, chain: ChainId): Promise<LeaderRow | null> {
  const row = await followTables(db)
    .selectFrom('follow_leaders')
    .selectAll()
    .where('chain', '=', chain)
    .executeTakeFirst();
  return row ?? null;
}

/** Takes the lead under the next epoch, unless the row is no longer as it was seen. Returns the epoch, or null. */
async function takeLead(tx: StoreTx, chain: ChainId, seen: LeaderRow | null, holder: string): Promise<number | null> {
  if (seen === null) {
    const columns = ['chain', 'epoch', 'holder', 'beat'];
    const written = await tx.insertMany('follow_leaders', columns, [[chain, 1, holder, 0]], 'ignore');
    return written === 1 ? 1 : null;
  }
  const epoch = seen.epoch + 1;
  const { numUpdatedRows } = await followTables(tx.db)
    .updateTable('follow_leaders')
    .set({ epoch, holder, beat: 0 })
    .where('chain', '=', chain)
    .where('epoch', '=', seen.epoch)
    // A leader with an open write holds the row until it commits, and the beat has moved then.
    .where('beat', '=', seen.beat)
    .executeTakeFirst();
  return Number(numUpdatedRows) === 1 ? epoch : null;
}

/**
 * Proves inside a transaction that the epoch still leads, and shows others that its holder lives. Nobody can take the lead before the
 * transaction has ended. Errors: FOLLOW_FENCED, exit 75.
 */
async function proveLead(tx: StoreTx, chain: ChainId, epoch: number): Promise<void> {
  const { numUpdatedRows } = await followTables(tx.db)
    .updateTable('follow_leaders')
    .set((eb) => ({ beat: eb('beat', '+', 1) }))
    .where('chain', '=', chain)
    .where('epoch', '=', epoch)
    .executeTakeFirst();
  if (Number(numUpdatedRows) === 1) return;
  throw new CodedError('FOLLOW_FENCED', `another process has become the leader of the ${chain} chain`, {
    exitCode: EXIT.temporary,
    facts: { chain, epoch },
  });
}

/** Lets the next process lead without a wait. */
async function resignLead(tx: StoreTx, chain: ChainId, epoch: number): Promise<void> {
  await followTables(tx.db)
    .updateTable('follow_leaders')
    .set({ holder: null })
    .where('chain', '=', chain)
    .where('epoch', '=', epoch)
    .execute();
}
