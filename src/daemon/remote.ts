import {
  type BlockPosition,
  readCursor,
  readHeader,
  readHeaders,
  readMarks,
  samePosition,
  writeFirstFloor,
} from '../chain/cursor.ts';
import { createReleaseListeners } from '../chain/run.ts';
import { insertJobs } from '../jobs/outbox.ts';
import { messageOf } from '../lib/coded-error.ts';
import { createSlotLength, unseenSlots } from '../lib/slot-length.ts';
import { OWN_WORK } from '../ports/access.ts';
import type { BlockHeader } from '../ports/block.ts';
import type { ChainId, ChainReader, ChainStatus, Commitment } from '../ports/chain.ts';
import type { Clock } from '../ports/clock.ts';
import type { Following } from '../ports/following.ts';
import type { Bus } from '../ports/processes.ts';
import type { Queries, Store } from '../ports/store.ts';
import type { Log } from '../ports/telemetry.ts';
import { readCommitment } from '../runtime/commitment.ts';
import type { FollowerView, OutboxParts } from './parts.ts';

interface RemoteFollowerOptions {
  readonly chain: ChainId;
  readonly store: Store;
  readonly bus: Bus;
  /** Newest slot of this thread's upstreams. */
  readonly tipSlot: () => number | null;
  /** Whether perhaps nobody follows: then a stored position may be an old one, and the status is only what a follower says. */
  readonly onlyTold?: boolean;
  readonly clock: Clock;
  readonly log: Log;
}

/** A follower that runs in another thread or process. */
export interface RemoteFollower extends FollowerView {
  start(): Promise<void>;
  stop(): Promise<void>;
}

const LOOK_MS = 1_000;
/** A follower publishes its status every second; an older one is ignored. */
const FRESH_MS = 5_000;
/** Maximum number of blocks announced together after a silence; listeners that need every block read the store. */
const MAX_HEADERS = 256;

interface FollowerSlots {
  readonly cursorSlot: number | null;
  readonly finalizedSlot: number | null;
}

const UNSEEN: FollowerSlots = { cursorSlot: null, finalizedSlot: null };

/** Uses the bus messages of the follower, and polls the store every second because messages may be lost. */
export function createRemoteFollower(options: RemoteFollowerOptions): RemoteFollower {
  const { chain, store, bus, clock, log } = options;
  const listeners = createReleaseListeners(log);
  let received: { readonly status: Partial<ChainStatus>; readonly at: number } | null = null;
  let seen = UNSEEN;
  let tip: { readonly slot: number; readonly roseAt: number } | null = null;
  let last: BlockPosition | null = null;
  let messages = 0;
  const slotLength = createSlotLength();
  let looking: Promise<void> = Promise.resolve();
  let cancel = (): void => undefined;
  let offs: readonly (() => void)[] = [];
  let isStopped = false;

  function release(header: BlockHeader): void {
    last = { slot: header.slot, blockhash: header.blockhash };
    listeners.call(header);
  }

  function sawTip(slot: number, at: number): void {
    slotLength.sawTip(slot, at);
    if (tip === null || slot > tip.slot) tip = { slot, roseAt: at };
  }

  async function look(): Promise<void> {
    const before = messages;
    const tipSlot = options.tipSlot();
    if (tipSlot !== null) sawTip(tipSlot, clock.monotonic());
    const cursor = await readCursor(store.read, chain);
    const marks = await readMarks(store.read, chain);
    seen = { cursorSlot: cursor?.slot ?? null, finalizedSlot: marks?.finalizedSlot ?? null };
    if (cursor === null || samePosition(cursor, last)) return;
    const missed = last === null ? [] : await headersSince(store.read, chain, last, cursor);
    // A message that arrived during the query is newer.
    if (before !== messages || isStopped) return;
    for (const header of missed) release(header);
    last = cursor;
  }

  const keepLooking = () => {
    looking = look()
      .catch((error: unknown) =>
        log.warn({ chain, error: messageOf(error) }, 'cannot read the position of the follower'),
      )
      .finally(() => {
        if (!isStopped) cancel = clock.timeout(LOOK_MS, keepLooking);
      });
  };

  return {
    status() {
      const stored = options.onlyTold === true ? UNSEEN : seen;
      if (received !== null && clock.monotonic() - received.at < FRESH_MS) {
        const { finalizedAgeMs, ...told } = received.status;
        const age = clock.monotonic() - received.at;
        const status = finalizedAgeMs == null ? received.status : { ...told, finalizedAgeMs: finalizedAgeMs + age };
        // A follower that waits for an upstream to start does not know yet where it is.
        return status.cursorSlot === null ? { ...status, ...stored } : status;
      }
      const tipSlot = options.tipSlot();
      const { cursorSlot, finalizedSlot } = stored;
      const slotMs = slotLength.ms();
      const unseen = tip === null ? 0 : unseenSlots(clock.monotonic() - tip.roseAt, slotMs);
      const lagSlots = tipSlot === null || cursorSlot === null ? null : Math.max(0, tipSlot + unseen - cursorSlot);
      return { cursorSlot, finalizedSlot, tipSlot, lagSlots, slotMs };
    },
    onReleased: listeners.add,
    async start() {
      offs = [
        bus.subscribe(TOPICS.status, (message) => {
          const { chain: of, status } = message as { readonly chain: ChainId; readonly status: Partial<ChainStatus> };
          if (of === chain && typeof status?.openGaps === 'number') received = { status, at: clock.monotonic() };
        }),
        bus.subscribe(TOPICS.released, (message) => {
          const { chain: of, header } = message as { readonly chain: ChainId; readonly header: BlockHeader };
          if (of !== chain || samePosition(header, last)) return;
          messages += 1;
          release(header);
        }),
      ];
      keepLooking();
      await looking;
    },
    async stop() {
      isStopped = true;
      for (const off of offs) off();
      cancel();
      await looking;
    },
  };
}

/** Ascending; after a rollback only the block at the cursor. */
async function headersSince(
  db: Queries,
  chain: ChainId,
  last: BlockPosition,
  cursor: BlockPosition,
): Promise<BlockHeader[]> {
  if (cursor.slot <= last.slot) {
    const header = await readHeader(db, chain, cursor.slot);
    return header === null ? [] : [header];
  }
  const headers = await readHeaders(db, chain, last.slot + 1);
  return headers.slice(0, MAX_HEADERS).reverse();
}

/** Replaces the job runner in threads without one: it stores jobs and wakes the runners of other threads and processes. */
export function createRemoteRunner({ bus, clock }: { readonly bus: Bus; readonly clock: Clock }): OutboxParts {
  let isResting = false;
  let isOwed = false;
  /** At most one message per millisecond, however many transactions commit; a message always follows the last commit. */
  const wake = () => {
    isOwed = true;
    if (isResting) return;
    isOwed = false;
    isResting = true;
    bus.publish(TOPICS.jobsDue, {});
    clock.timeout(1, () => {
      isResting = false;
      if (isOwed) wake();
    });
  };
  return {
    async enqueue(tx, jobs) {
      const added = await insertJobs(tx, jobs, clock.now());
      if (added > 0) tx.onCommit(wake);
      return added;
    },
    wake,
  };
}

/** Topics of the bus between roles. All of this can also be read from the store, with a delay. */
export const TOPICS = {
  /** `{}`: jobs may be due. */
  jobsDue: 'jobs.due',
  /** `{chain, header}`: a block was committed. */
  released: 'chain.released',
  /** `{chain}`: an upstream now serves another chain, or ours again. */
  otherChain: 'chain.other',
  /** `{chain, status}`: status of the follower, about every second. */
  status: 'chain.status',
} as const;

export interface FollowingParts {
  readonly store: Store;
  readonly follow: { readonly commitment: Commitment | 'auto'; readonly startSlot: number | 'latest' };
  chain(id: ChainId): ChainReader | null;
}

const TIMEOUT_MS = 2_000;

/** The `Following` service of a process that does not follow the chain. */
export function createFollowing({ store, follow, chain }: FollowingParts): Following {
  const started = new Set<ChainId>();
  return {
    async begin(id, signal) {
      const reader = chain(id);
      if (started.has(id) || reader === null) return;
      if ((await readMarks(store.read, id)) === null) {
        const options = { tenant: OWN_WORK, timeoutMs: TIMEOUT_MS, ...(signal === undefined ? {} : { signal }) };
        const slot =
          follow.startSlot === 'latest'
            ? await reader.call<number>('getSlot', [{ commitment: readCommitment(follow.commitment) }], options)
            : follow.startSlot;
        await store.write((tx) => writeFirstFloor(tx, id, slot));
      }
      started.add(id);
    },
    async slotMs(id) {
      const length = createSlotLength();
      for (const { slot, blockTime } of (await readHeaders(store.read, id, 0)).reverse())
        length.sawBlock(slot, blockTime);
      return length.ms();
    },
  };
}
