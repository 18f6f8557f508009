/**
 * Hands the updates of released blocks to the subscriptions. Equal subscriptions form a group: a block is matched once for each group,
 * and its frames are joined once for all readers of it. A subscription with a first slot reads the ledger by itself until it has caught up.
 */
import { GrpcError } from '../grpc-server.ts';
import { SLOT_STATUS } from '../wire/updates.ts';
import { BoardQueue } from './board-queue.ts';
import { SubscriptionGroup } from './group.ts';
import { OpenBlocks } from './open-blocks.ts';
import { Replays } from './replays.ts';
import {
  type Board,
  type HubOptions,
  type HubSubscription,
  headerOf,
  type Leave,
  type PendingContent,
  type Reader,
  type StreamHub,
  type UpdateBatch,
} from './types.ts';

export type {
  Board,
  BoardContent,
  Feed,
  HubOptions,
  HubSubscription,
  Leave,
  Reader,
  StreamHub,
  UpdateBatch,
} from './types.ts';

export function createStreamHub({ metrics, log, limits, blocks }: HubOptions): StreamHub {
  /** Without a board. */
  const groups = new Set<SubscriptionGroup>();
  const boards = new Map<Board, BoardQueue>();
  const named = new Map<string, SubscriptionGroup>();
  const open = new OpenBlocks(blocks);
  const sent = metrics.counter('updates_total', 'updates of blocks, transactions and slots that were sent to readers');
  const leftOut = metrics.counter(
    'parsed_blocks_left_out_total',
    'blocks that were not compared with subscriptions of parsed transactions because too many waited',
  );
  const { maxPendingBytes } = limits;
  const replays = new Replays({ log, open, sent, maxPendingBytes, joinLive });
  metrics.observe('groups', 'different subscriptions', () =>
    [...boards.values()].reduce((sum, { size }) => sum + size, groups.size),
  );
  metrics.observe('pending_bytes', 'updates that wait until their block is final', () =>
    [...groups].reduce((sum, { pendingBytes }) => sum + pendingBytes, 0),
  );

  function* allGroups(): Iterable<SubscriptionGroup> {
    yield* groups;
    for (const queue of boards.values()) yield* queue.groups();
  }

  function add(group: SubscriptionGroup): void {
    const { board } = group.feed;
    if (group.name !== null) named.set(group.name, group);
    if (board === undefined) {
      groups.add(group);
      return;
    }
    const queue = boards.get(board) ?? new BoardQueue(board, { log, leftOut });
    boards.set(board, queue);
    queue.add(group);
  }

  function remove(group: SubscriptionGroup): void {
    const { board } = group.feed;
    groups.delete(group);
    if (board !== undefined) boards.get(board)?.remove(group);
    if (group.name !== null && named.get(group.name) === group) named.delete(group.name);
  }

  /**
   * `from`: the first slot whose content it gets: at `finalized` of all that becomes final from now on. `held`: content of blocks that are not
   * final, with which a replay at `finalized` arrives.
   */
  function joinLive(
    { key, feed }: HubSubscription,
    reader: Reader,
    from = feed.level === 'finalized' ? 0 : open.firstToCome,
    held: readonly PendingContent[] = [],
  ): Leave {
    const name = held.length > 0 ? null : key;
    let group = name === null ? undefined : named.get(name);
    if (group === undefined) {
      const madeFrom = held.length > 0 ? 0 : open.firstToCome;
      group = new SubscriptionGroup({ name, feed, pending: held, madeFrom, maxPendingBytes, sent, emptied: remove });
      add(group);
    }
    return group.join(reader, from);
  }

  function joinFinalized(subscription: HubSubscription, reader: Reader): Leave {
    const missing = open.firstNotHeld();
    if (missing === null) return joinLive(subscription, reader);
    const kept = blocks();
    if (kept !== null) return replays.start(kept, subscription, missing, reader);
    throw new GrpcError('unavailable', `the block of slot ${missing} is not final and no longer here, try again later`);
  }

  /** Content at `finalized` of a block that was released before the group was there. */
  function madeLate(group: SubscriptionGroup, slot: number): readonly UpdateBatch[] {
    const block = group.isMadeLate(slot) ? open.heldBlock(slot) : undefined;
    return block === undefined ? [] : (group.feed.content(block) as readonly UpdateBatch[]);
  }

  return {
    released(block) {
      // After a commit whose answer was lost a block may be reported again.
      if (open.has(block)) return;
      const { slot } = block;
      const header = headerOf(block);
      // What was to be made of it when it becomes final is made now.
      for (const oldest of open.add(block))
        for (const group of [...groups])
          if (group.isMadeLate(oldest.slot))
            group.hold(oldest.slot, group.feed.content(oldest) as readonly UpdateBatch[]);
      for (const [board, queue] of boards) {
        if (queue.size === 0) boards.delete(board);
        else queue.push(block);
      }
      for (const group of [...groups]) {
        const batches = group.feed.content(block) as readonly UpdateBatch[];
        if (group.feed.level === 'finalized') group.hold(slot, batches);
        else group.deliver(batches, slot, true);
        group.tellSlot(header, SLOT_STATUS.processed);
        group.tellSlot(header, SLOT_STATUS.confirmed);
      }
    },
    reverted(headers) {
      const gone = new Map(headers.map((header) => [header.slot, header]));
      const slots = new Set(gone.keys());
      const lowest = Math.min(...slots);
      open.revert(slots);
      replays.revert(gone.values(), lowest);
      for (const queue of boards.values()) queue.revert(slots);
      for (const group of Array.from(allGroups())) {
        group.revert(lowest);
        group.drop((slot) => slots.has(slot));
        for (const header of gone.values()) group.tellSlot(header, SLOT_STATUS.dead);
      }
    },
    finalized(upTo) {
      const final = open.takeFinal(upTo);
      if (final.length === 0) return;
      replays.finalize(final);
      for (const group of [...groups]) {
        const held = group.heldContent();
        for (const header of final) {
          group.deliver(held.get(header.slot) ?? madeLate(group, header.slot), header.slot, true);
          group.tellSlot(header, SLOT_STATUS.finalized);
        }
        group.drop((slot) => slot <= upTo);
      }
      open.forget(final);
    },
    join(subscription, reader) {
      if (subscription.from !== null) return replays.start(blocks(), subscription, subscription.from, reader);
      return subscription.feed.level === 'finalized'
        ? joinFinalized(subscription, reader)
        : joinLive(subscription, reader);
    },
    firstAvailable() {
      const first = blocks()?.firstOfRun() ?? -1;
      return first < 0 ? null : first;
    },
    finalSlot: () => Math.max(0, open.finalTo, open.finalTo < 0 ? (blocks()?.finalSlot ?? 0) : 0),
  };
}
