/**
 * Hands the updates of released blocks to the subscriptions. Equal subscriptions form a group: a block is matched once for each group,
 * and its frames are joined once for all readers of it. A subscription with a first slot reads the ledger by itself until it has caught up.
 */
import type { BlockListener } from '../../src/plugin/host.ts';
import { type BlockHeader, type ChainBlock, type Log, type Metrics, messageOf } from '../../src/plugin/plugin.ts';
import type { Lease, Tenant } from '../../src/ports/access.ts';
import type { LedgerReader } from '../../src/ports/ledger.ts';
import { createSemaphore } from '../../src/runtime/semaphore.ts';
import type { Level } from './filters.ts';
import { GrpcError } from './grpc-server.ts';
import { SLOT_STATUS } from './wire/updates.ts';

/** Messages that are written together. */
export interface Batch {
  readonly bytes: Buffer;
  readonly updates: number;
  /** Size of the messages before compression: what is charged. */
  readonly messageBytes: number;
  /** Where each message ends, for consumers that need single messages. */
  readonly ends?: Uint32Array;
}

/** The content that a subscription gets of each block, in the form in which it is sent. */
export interface Feed {
  readonly level: Level;
  /** What a block gives it. Kept with the block, so that equal content is made once. A replay waits for a promise. */
  content(block: ChainBlock): readonly Batch[] | Promise<readonly Batch[]>;
  /** What it gets for the status of a slot. */
  slot(header: BlockHeader, status: number): readonly Batch[];
  /** The board of a feed returns its content of live blocks, in place of `content`. A feed with a board gets no status of slots. */
  readonly board?: Board;
}

/** Compares blocks with many feeds at once; it may need something for it that is read first. Blocks wait for it in their order. */
export interface Board {
  add(feed: Feed): void;
  remove(feed: Feed): void;
  /** What a block gives the feeds that it concerns. Errors: that cannot be known now, and all subscriptions of the board end. */
  content(block: ChainBlock): Promise<ReadonlyMap<Feed, BoardContent>>;
}

export interface BoardContent {
  readonly batches: readonly Batch[];
  /** Transactions that were decoded and not wanted. */
  readonly searched: number;
  /** Why the feed cannot go on; null: it can. */
  readonly problem: GrpcError | null;
}

export interface Reader {
  readonly tenant: Tenant;
  send(batch: Batch): void;
  /** Charges a block of a replay. Throws GrpcError without credits. */
  payForBlock(): Promise<void>;
  /** Charges transactions that were decoded for it and not wanted; without credits the subscription ends. */
  payForSearch?(transactions: number): void;
  /** It cannot go on now, because the daemon is behind, or its tenant may hold no more; `reason` is for its client. */
  lagged(reason: string): void;
  /** The replay cannot go on. */
  refused(error: GrpcError): void;
  /** Resolves when it takes more of a replay, or has ended. */
  ready(): Promise<void>;
}

export interface HubOptions {
  readonly metrics: Metrics;
  readonly log: Log;
  /** The ledger; null: there is none. */
  readonly blocks: () => LedgerReader | null;
  /** Bytes of updates that one group may hold until their blocks are final. */
  readonly limits: { readonly maxPendingBytes: number };
}

export interface Subscription {
  /** The name under which equal subscriptions are shared; null: never shared. */
  readonly key: string | null;
  readonly feed: Feed;
  /** The first slot of a replay; null: from the next block on, at `finalized` from the next block on that becomes final. */
  readonly from: number | null;
}

/** Ends a subscription. Returns the slot at which its replay was, null where it had caught up. */
export type Leave = () => number | null;

export interface Hub extends Omit<BlockListener, 'chain'> {
  /** The returned function ends it. Throws GrpcError if the subscription cannot have all that it asks for. */
  join(subscription: Subscription, reader: Reader): Leave;
  /** The first slot from which a replay is possible; null without a ledger. */
  firstAvailable(): number | null;
  /** The newest final slot that is known here; 0 without one. */
  finalSlot(): number;
}

/** Released blocks that are not final; more means that finality stands still, and the oldest are forgotten. */
const MAX_OPEN_BLOCKS = 16_384;

/**
 * Transactions of released blocks that are kept in memory until they are final, for subscriptions at `finalized` that come later: some 8 KB
 * each. TowerBFT finalizes a block when 31 follow it, Alpenglow at once.
 */
const MAX_HELD_TRANSACTIONS = 100_000;

const TOO_MUCH_PENDING = 'too much waits for blocks to become final, try again later';

/** A block of mainnet takes some MB. */
const RECENT_BLOCKS = 8;

/** Transactions of blocks that wait for a board, some 8 KB each; with more the oldest blocks are left out. */
const MAX_BOARD_TRANSACTIONS = 100_000;

interface BoardWork {
  readonly groups: Map<Feed, SubscriptionGroup>;
  /** Released blocks in their order; the first one is being compared. */
  waiting: ChainBlock[];
  isBusy: boolean;
  /** Blocks were left out, and no new one has found an empty queue since. */
  isLate: boolean;
}

/** Updates of a block that wait for its finality. */
interface Pending {
  readonly slot: number;
  readonly batches: readonly Batch[];
  readonly bytes: number;
}

interface Member {
  readonly reader: Reader;
  /** The slot from which on it gets content. A fork that is left moves it: the new branch is news for all. */
  from: number;
}

interface SubscriptionGroup {
  readonly name: string | null;
  readonly feed: Feed;
  readonly members: Set<Member>;
  pending: Pending[];
  pendingBytes: number;
  /** At `finalized`: content of earlier blocks was not made at their release, and is made when they become final. */
  madeFrom: number;
  /** One of the tenants of its members holds what is pending. */
  payer: { readonly tenant: Tenant; readonly lease: Lease } | null;
}

export function createHub({ metrics, log, limits, blocks }: HubOptions): Hub {
  /** Groups without a board. */
  const groups = new Set<SubscriptionGroup>();
  const boards = new Map<Board, BoardWork>();
  const named = new Map<string, SubscriptionGroup>();
  /** Released and not final yet, ascending. */
  let open: BlockHeader[] = [];
  /** The newest of them, by slot, ascending. */
  const heldBlocks = new Map<number, ChainBlock>();
  /** Blocks up to it were released; -1: not known before the first release of this process. */
  let releasedTo = -1;
  /** Resolves with the next block that is released or reverted. */
  let news = createNews();
  let finalTo = -1;
  const replays = new Set<Replay>();
  const reads = createSemaphore({ concurrency: 1 });
  /** Blocks that replays read last, by slot: equal replays share a read. */
  const recent = new Map<number, Promise<ChainBlock | null>>();
  const sent = metrics.counter('updates_total', 'updates of blocks, transactions and slots that were sent to readers');
  const leftOut = metrics.counter(
    'parsed_blocks_left_out_total',
    'blocks that were not compared with subscriptions of parsed transactions because too many waited',
  );
  const allGroups = () => [...groups, ...[...boards.values()].flatMap((work) => [...work.groups.values()])];
  metrics.observe('groups', 'different subscriptions', () =>
    [...boards.values()].reduce((sum, work) => sum + work.groups.size, groups.size),
  );
  metrics.observe('pending_bytes', 'updates that wait until their block is final', () =>
    [...groups].reduce((sum, group) => sum + group.pendingBytes, 0),
  );

  /** `isContent`: of blocks that were released before a member joined it gets nothing. */
  function deliver(group: SubscriptionGroup, batches: readonly Batch[], slot: number, isContent: boolean): void {
    for (const member of [...group.members]) {
      if (isContent && slot < member.from) continue;
      for (const batch of batches) {
        sent.add(batch.updates);
        member.reader.send(batch);
      }
    }
  }

  /** A status of a slot is news for all levels. */
  function tellSlot(group: SubscriptionGroup, header: BlockHeader, status: number): void {
    const batches = group.feed.slot(header, status);
    if (batches.length === 0) return;
    // A reader at `finalized` that did not get the block does not need its status.
    const isContent = status === SLOT_STATUS.finalized && group.feed.level === 'finalized';
    deliver(group, batches, header.slot, isContent);
  }

  function hold(group: SubscriptionGroup, slot: number, batches: readonly Batch[]): void {
    if (batches.length === 0) return;
    group.pending.push({ slot, batches, bytes: sizeOf(batches) });
    settle(group);
  }

  function keepUntilFinal(block: ChainBlock): void {
    heldBlocks.set(block.slot, block);
    let count = 0;
    for (const { transactions } of heldBlocks.values()) count += transactions.length;
    for (const oldest of heldBlocks.values()) {
      if (count <= MAX_HELD_TRANSACTIONS) return;
      count -= oldest.transactions.length;
      heldBlocks.delete(oldest.slot);
      // What was to be made of it when it becomes final is made now.
      for (const group of [...groups])
        if (group.feed.level === 'finalized' && oldest.slot < group.madeFrom)
          hold(group, oldest.slot, group.feed.content(oldest) as readonly Batch[]);
    }
  }

  /** The first block that is not final and not in memory, because this process did not release it or finality is far behind; null: none. */
  function firstNotHeld(): number | null {
    const known = open.find(({ slot }) => !heldBlocks.has(slot))?.slot ?? null;
    const kept = blocks();
    if (kept === null || kept.firstOfRun() < 0) return known;
    const from = Math.max(finalUpTo(kept) + 1, kept.firstOfRun());
    const [firstHeld = Number.POSITIVE_INFINITY] = heldBlocks.keys();
    return nextKept(kept, from, Math.min(kept.newest(), firstHeld - 1)) ?? known;
  }

  function joinFinalized(subscription: Subscription, reader: Reader): Leave {
    const missing = firstNotHeld();
    if (missing === null) return joinLive(subscription, reader);
    if (blocks() !== null) return startReplay(subscription, missing, reader);
    throw new GrpcError('unavailable', `the block of slot ${missing} is not final and no longer here, try again later`);
  }

  function add(group: SubscriptionGroup): void {
    const { feed } = group;
    if (feed.board === undefined) {
      groups.add(group);
      return;
    }
    const work = boards.get(feed.board) ?? { groups: new Map(), waiting: [], isBusy: false, isLate: false };
    boards.set(feed.board, work);
    work.groups.set(feed, group);
    feed.board.add(feed);
  }

  /** Hands a block to the boards. */
  function ask(block: ChainBlock): void {
    for (const [board, work] of boards) {
      if (work.groups.size === 0) {
        boards.delete(board);
        continue;
      }
      work.waiting.push(block);
      leaveOutOldest(work);
      if (!work.isBusy) void compare(board, work);
    }
  }

  /** The daemon is behind, not its clients: their subscriptions go on without these blocks. */
  function leaveOutOldest(work: BoardWork): void {
    let count = 0;
    for (const { transactions } of work.waiting) count += transactions.length;
    // The first one is being compared.
    while (count > MAX_BOARD_TRANSACTIONS && work.waiting.length > 2) {
      const [oldest] = work.waiting.splice(1, 1);
      count -= oldest!.transactions.length;
      leftOut.add();
      if (work.isLate) continue;
      work.isLate = true;
      log.warn(
        { slot: oldest!.slot, waitingBlocks: work.waiting.length },
        'decoding is behind the chain: subscriptions of parsed transactions miss blocks from this slot on',
      );
    }
    if (work.waiting.length <= 1) work.isLate = false;
  }

  async function compare(board: Board, work: BoardWork): Promise<void> {
    work.isBusy = true;
    for (let block = work.waiting[0]; block !== undefined; block = work.waiting[0]) {
      try {
        const found = await board.content(block);
        // A fork was left meanwhile, or its subscriptions have ended.
        if (work.waiting[0] !== block) continue;
        work.waiting.shift();
        for (const [feed, content] of found) {
          const group = work.groups.get(feed);
          if (group !== undefined) take(group, content, block.slot);
        }
      } catch (error) {
        log.warn({ slot: block.slot, error: messageOf(error) }, 'a block cannot be compared with its subscriptions');
        giveUp(work);
      }
    }
    work.isBusy = false;
  }

  /** What a board has found for a group: equal subscriptions of one project. */
  function take(group: SubscriptionGroup, { batches, searched, problem }: BoardContent, slot: number): void {
    deliver(group, batches, slot, true);
    // The work was done once for all of them.
    const [first] = group.members;
    if (searched > 0) first?.reader.payForSearch?.(searched);
    if (problem !== null) endAll(group, (reader) => reader.refused(problem));
  }

  function endAll(group: SubscriptionGroup, end: (reader: Reader) => void): void {
    const members = [...group.members];
    remove(group);
    group.members.clear();
    for (const { reader } of members) end(reader);
  }

  function giveUp(work: BoardWork): void {
    work.waiting = [];
    for (const group of [...work.groups.values()])
      endAll(group, (reader) => reader.lagged('interfaces of programs cannot be read, try again later'));
  }

  function remove(group: SubscriptionGroup): void {
    const { board } = group.feed;
    groups.delete(group);
    if (board !== undefined && boards.get(board)?.groups.delete(group.feed) === true) board.remove(group.feed);
    if (group.name !== null && named.get(group.name) === group) named.delete(group.name);
    group.payer?.lease.release();
    group.payer = null;
  }

  /** To be called after each change of pending content or of members: a tenant of a member holds the content, or it is dropped. */
  function settle(group: SubscriptionGroup): void {
    group.pendingBytes = group.pending.reduce((sum, { bytes }) => sum + bytes, 0);
    while (group.members.size > 0) {
      const members = [...group.members];
      const isTooMuch = group.pendingBytes > limits.maxPendingBytes;
      if (!isTooMuch && pay(group, members)) return;
      // A member whose tenant may hold no more leaves, and the next one is tried.
      const leaving = isTooMuch ? members : members.filter(({ reader }) => reader.tenant === group.payer?.tenant);
      group.payer?.lease.release();
      group.payer = null;
      for (const member of leaving) {
        group.members.delete(member);
        member.reader.lagged(TOO_MUCH_PENDING);
      }
    }
    remove(group);
  }

  function pay(group: SubscriptionGroup, members: readonly Member[]): boolean {
    if (!members.some(({ reader }) => reader.tenant === group.payer?.tenant)) {
      group.payer?.lease.release();
      const { tenant } = (members[0] as Member).reader;
      group.payer = { tenant, lease: tenant.take('answerBytes', 0) };
    }
    return group.payer === null || mayHold(group.payer.lease, group.pendingBytes);
  }

  /** Content at `finalized` of a block that was released before the group was there. */
  function madeLate({ feed, madeFrom }: SubscriptionGroup, slot: number): readonly Batch[] {
    const block = feed.level === 'finalized' && slot < madeFrom ? heldBlocks.get(slot) : undefined;
    return block === undefined ? [] : (feed.content(block) as readonly Batch[]);
  }

  /** The slot from which on blocks are still to be released. */
  const firstToCome = () => (open.at(-1)?.slot ?? -1) + 1;

  function dropPending(group: SubscriptionGroup, isGone: (slot: number) => boolean): void {
    group.pending = group.pending.filter(({ slot }) => !isGone(slot));
    settle(group);
  }

  /**
   * `from`: the first slot whose content it gets: at `finalized` of all that becomes final from now on. `held`: content of blocks that are not
   * final, with which a replay at `finalized` arrives.
   */
  function joinLive(
    { key, feed }: Subscription,
    reader: Reader,
    from = feed.level === 'finalized' ? 0 : firstToCome(),
    held: Pending[] = [],
  ): Leave {
    const name = held.length > 0 ? null : key;
    let group = name === null ? undefined : named.get(name);
    if (group === undefined) {
      const madeFrom = held.length > 0 ? 0 : firstToCome();
      group = { name, feed, members: new Set(), pending: held, pendingBytes: 0, madeFrom, payer: null };
      add(group);
      if (name !== null) named.set(name, group);
    }
    const own = group;
    const member: Member = { reader, from };
    own.members.add(member);
    try {
      settle(own);
    } catch (error) {
      own.members.delete(member);
      settle(own);
      throw error;
    }
    return () => {
      own.members.delete(member);
      settle(own);
      return null;
    };
  }

  function startReplay(subscription: Subscription, from: number, reader: Reader): Leave {
    const kept = blocks();
    if (kept === null) throw new GrpcError('internal', 'from_slot is not supported');
    demandKept(kept, from);
    const lease = reader.tenant.take('answerBytes', 0);
    const replay: Replay = {
      subscription,
      reader,
      from,
      position: from,
      held: [],
      lease,
      turns: 0,
      left: null,
      isOver: false,
    };
    replays.add(replay);
    readOn(kept, replay).catch((error: unknown) => {
      end(replay);
      log.warn({ slot: replay.position, error: messageOf(error) }, 'a replay ended');
      reader.refused(
        error instanceof GrpcError ? error : new GrpcError('unavailable', 'the ledger cannot be read, try again later'),
      );
    });
    return () => {
      if (replay.left !== null) return replay.left();
      end(replay);
      return replay.held[0]?.slot ?? replay.position;
    };
  }

  function end(replay: Replay): void {
    replay.isOver = true;
    replays.delete(replay);
    replay.lease.release();
  }

  /** Sends what the ledger has, block by block, until the newest released one; in the same turn the subscription becomes a live one. */
  async function readOn(kept: LedgerReader, replay: Replay): Promise<void> {
    const { subscription, reader } = replay;
    const { feed } = subscription;
    for (;;) {
      await reader.ready();
      if (replay.isOver) return;
      const final = finalUpTo(kept);
      const top = Math.max(releasedTo, final);
      const newest = kept.newest();
      const slot = nextKept(kept, replay.position, Math.min(top, newest));
      // An earlier process may have released blocks that are not final yet: the first release tells that the ledger has them. And a fork
      // that is left is cut off the ledger before the hub is told.
      if (slot === null && (releasedTo < 0 || newest < top)) {
        await news.promise;
        continue;
      }
      if (slot === null) {
        replays.delete(replay);
        replay.lease.release();
        const from = feed.level === 'finalized' ? replay.from : Math.max(replay.position, top + 1);
        replay.left = joinLive(subscription, reader, from, replay.held);
        return;
      }
      const { turns } = replay;
      // Nobody who asks for no replay pays for one.
      if (subscription.from !== null) await reader.payForBlock();
      if (replay.isOver) return;
      const block = await read(kept, slot, reader.tenant.id);
      if (replay.isOver) return;
      // A fork was left meanwhile: the slot may have another block, or none.
      if (turns !== replay.turns) continue;
      if (block === null && slot > kept.newest()) continue;
      if (block === null) throw outOfRange(kept, slot);
      const isFinal = slot <= finalUpTo(kept);
      const batches = await feed.content(block);
      if (replay.isOver) return;
      if (turns !== replay.turns) continue;
      replay.position = slot + 1;
      if (feed.level !== 'finalized' || isFinal) sendAll(reader, batches);
      else if (batches.length > 0) holdFor(replay, slot, batches);
      const { processed, confirmed, finalized } = SLOT_STATUS;
      tellReplay(replay, block, isFinal ? [processed, confirmed, finalized] : [processed, confirmed]);
      // Released before this process started: no release in this process reports that it is final.
      if (!isFinal && !open.some((header) => header.slot === slot)) open = [...open, headerOf(block)].sort(bySlot);
    }
  }

  /** Round robin over all projects, regardless of the number of replays of each. */
  function read(kept: LedgerReader, slot: number, group: string): Promise<ChainBlock | null> {
    const known = recent.get(slot);
    if (known !== undefined) return known;
    const made = reads.run(() => kept.block(slot), { group });
    recent.set(slot, made);
    made.then((block) => block === null && recent.delete(slot)).catch(() => recent.delete(slot));
    const [oldest] = recent.keys();
    if (recent.size > RECENT_BLOCKS && oldest !== undefined) recent.delete(oldest);
    return made;
  }

  function tellNews(): void {
    news.tell();
    news = createNews();
  }

  /** The ledger may know of finality before the hub has told of it. */
  const finalUpTo = (kept: LedgerReader) => (finalTo < 0 ? kept.finalSlot : finalTo);

  function holdFor(replay: Replay, slot: number, batches: readonly Batch[]): void {
    replay.held.push({ slot, batches, bytes: sizeOf(batches) });
    const held = replay.held.reduce((sum, { bytes }) => sum + bytes, 0);
    if (held <= limits.maxPendingBytes && mayHold(replay.lease, held)) return;
    end(replay);
    replay.reader.lagged(TOO_MUCH_PENDING);
  }

  function forgetHeld(replay: Replay, isGone: (slot: number) => boolean): void {
    replay.held = replay.held.filter(({ slot }) => !isGone(slot));
    replay.lease.set(replay.held.reduce((sum, { bytes }) => sum + bytes, 0));
  }

  function sendHeld(replay: Replay, slot: number): void {
    for (const one of replay.held) if (one.slot === slot) sendAll(replay.reader, one.batches);
    forgetHeld(replay, (held) => held <= slot);
  }

  function sendAll(reader: Reader, batches: readonly Batch[]): void {
    for (const batch of batches) {
      sent.add(batch.updates);
      reader.send(batch);
    }
  }

  function tellReplay({ subscription, reader }: Replay, header: BlockHeader, statuses: readonly number[]): void {
    for (const status of statuses) sendAll(reader, subscription.feed.slot(header, status));
  }

  return {
    released(block) {
      // After a commit whose answer was lost a block may be reported again.
      if (open.some(({ slot, blockhash }) => slot === block.slot && blockhash === block.blockhash)) return;
      const { slot } = block;
      const header = headerOf(block);
      open.push(header);
      releasedTo = slot;
      tellNews();
      if (open.length > MAX_OPEN_BLOCKS) heldBlocks.delete(open.shift()!.slot);
      keepUntilFinal(block);
      ask(block);
      for (const group of [...groups]) {
        const batches = group.feed.content(block) as readonly Batch[];
        if (group.feed.level === 'finalized') hold(group, slot, batches);
        else deliver(group, batches, slot, true);
        tellSlot(group, header, SLOT_STATUS.processed);
        tellSlot(group, header, SLOT_STATUS.confirmed);
      }
    },
    reverted(headers) {
      const gone = new Map(headers.map((header) => [header.slot, header]));
      open = open.filter(({ slot }) => !gone.has(slot));
      const lowest = Math.min(...gone.keys());
      releasedTo = Math.min(releasedTo, lowest - 1);
      tellNews();
      for (const slot of gone.keys()) {
        recent.delete(slot);
        heldBlocks.delete(slot);
      }
      for (const replay of replays) {
        for (const header of gone.values())
          if (header.slot < replay.position) tellReplay(replay, header, [SLOT_STATUS.dead]);
        forgetHeld(replay, (slot) => slot >= lowest);
        replay.position = Math.min(replay.position, lowest);
        replay.from = Math.min(replay.from, lowest);
        replay.turns += 1;
      }
      for (const work of boards.values()) work.waiting = work.waiting.filter(({ slot }) => !gone.has(slot));
      for (const group of allGroups()) {
        for (const member of group.members) member.from = Math.min(member.from, lowest);
        group.madeFrom = Math.min(group.madeFrom, lowest);
        dropPending(group, (slot) => gone.has(slot));
        for (const header of gone.values()) tellSlot(group, header, SLOT_STATUS.dead);
      }
    },
    finalized(upTo) {
      finalTo = Math.max(finalTo, upTo);
      const final = open.filter(({ slot }) => slot <= upTo);
      if (final.length === 0) return;
      open = open.filter(({ slot }) => slot > upTo);
      for (const replay of replays)
        for (const header of final)
          if (header.slot < replay.position) {
            sendHeld(replay, header.slot);
            tellReplay(replay, header, [SLOT_STATUS.finalized]);
          }
      for (const group of [...groups]) {
        const pending = new Map(group.pending.map((one) => [one.slot, one.batches]));
        for (const header of final) {
          deliver(group, pending.get(header.slot) ?? madeLate(group, header.slot), header.slot, true);
          tellSlot(group, header, SLOT_STATUS.finalized);
        }
        dropPending(group, (slot) => slot <= upTo);
      }
      for (const { slot } of final) heldBlocks.delete(slot);
    },
    join(subscription, reader) {
      if (subscription.from !== null) return startReplay(subscription, subscription.from, reader);
      return subscription.feed.level === 'finalized'
        ? joinFinalized(subscription, reader)
        : joinLive(subscription, reader);
    },
    firstAvailable() {
      const first = blocks()?.firstOfRun() ?? -1;
      return first < 0 ? null : first;
    },
    finalSlot: () => Math.max(0, finalTo, finalTo < 0 ? (blocks()?.finalSlot ?? 0) : 0),
  };
}

function createNews() {
  let tell = (): void => undefined;
  const promise = new Promise<void>((resolve) => {
    tell = resolve;
  });
  return { promise, tell };
}

/** A subscription that reads the ledger until it has caught up. */
interface Replay {
  readonly subscription: Subscription;
  readonly reader: Reader;
  /** Its first slot; a fork that is left moves it. */
  from: number;
  /** The next slot that it gets. */
  position: number;
  /** At `finalized`: content of blocks below the position that are not final. */
  held: Pending[];
  /** Counts the bytes of `held`. */
  readonly lease: Lease;
  /** Number of forks that were left. */
  turns: number;
  /** Set once it has caught up. */
  left: Leave | null;
  isOver: boolean;
}

function demandKept(kept: LedgerReader, slot: number): void {
  const first = kept.firstOfRun();
  if (first < 0 || slot < first) throw outOfRange(kept, slot);
}

function outOfRange(kept: LedgerReader, slot: number): GrpcError {
  const first = kept.firstOfRun();
  const last = first < 0 ? 'none' : String(first);
  return new GrpcError('outOfRange', `broadcast from ${slot} is not available, last available: ${last}`);
}

/** The first block in a range of slots; null if it has none. Throws GrpcError if that is unknown. */
function nextKept(kept: LedgerReader, from: number, to: number): number | null {
  for (let slot = from; slot <= to; slot++) {
    const state = kept.state(slot);
    if (state === 'block') return slot;
    if (state === 'unknown') throw outOfRange(kept, slot);
  }
  return null;
}

/** False when the tenant may hold no more. */
function mayHold(lease: Lease, bytes: number): boolean {
  try {
    lease.set(bytes);
    return true;
  } catch {
    return false;
  }
}

const sizeOf = (batches: readonly Batch[]) => batches.reduce((sum, { bytes }) => sum + bytes.length, 0);

const bySlot = (a: BlockHeader, b: BlockHeader) => a.slot - b.slot;

const headerOf = ({
  slot,
  parentSlot,
  blockhash,
  previousBlockhash,
  blockHeight,
  blockTime,
}: BlockHeader): BlockHeader => ({ slot, parentSlot, blockhash, previousBlockhash, blockHeight, blockTime });
