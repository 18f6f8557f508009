import { type ChainBlock, type Log, messageOf } from '../../../src/plugin/plugin.ts';
import type { Counter } from '../../../src/ports/telemetry.ts';
import type { SubscriptionGroup } from './group.ts';
import type { Board, BoardContent, Feed } from './types.ts';

/** Transactions of blocks that wait for a board, some 8 KB each; with more the oldest blocks are left out. */
const MAX_WAITING_TRANSACTIONS = 100_000;

/**
 * `idle`: nothing waits; `comparing`: the board reads the first block that waits; `late`: the same, and blocks were left out since the
 * queue was empty last.
 */
type Mode = 'idle' | 'comparing' | 'late';

interface BoardQueueParts {
  readonly log: Log;
  /** Counts blocks. */
  readonly leftOut: Counter;
}

/** The subscriptions of one board, and the released blocks that wait for it, in their order. */
export class BoardQueue {
  readonly board: Board;
  private readonly parts: BoardQueueParts;
  private readonly byFeed = new Map<Feed, SubscriptionGroup>();
  private waiting: readonly ChainBlock[] = [];
  private mode: Mode = 'idle';

  constructor(board: Board, parts: BoardQueueParts) {
    this.board = board;
    this.parts = parts;
  }

  get size(): number {
    return this.byFeed.size;
  }

  groups(): Iterable<SubscriptionGroup> {
    return this.byFeed.values();
  }

  add(group: SubscriptionGroup): void {
    this.byFeed.set(group.feed, group);
    this.board.add(group.feed);
  }

  remove(group: SubscriptionGroup): void {
    if (this.byFeed.delete(group.feed)) this.board.remove(group.feed);
  }

  push(block: ChainBlock): void {
    this.waiting = [...this.waiting, block];
    this.leaveOutOldest();
    if (this.mode === 'idle') void this.compareAll();
  }

  /** Forgets blocks of a fork that was left. */
  revert(slots: ReadonlySet<number>): void {
    this.waiting = this.waiting.filter(({ slot }) => !slots.has(slot));
  }

  /** The daemon is behind, not its clients: their subscriptions go on without these blocks. */
  private leaveOutOldest(): void {
    let count = 0;
    for (const { transactions } of this.waiting) count += transactions.length;
    const [first, ...others] = this.waiting;
    const wasLate = this.mode === 'late';
    // The first one is being compared, and the newest one stays.
    while (count > MAX_WAITING_TRANSACTIONS && others.length > 1) {
      const oldest = others.shift()!;
      count -= oldest.transactions.length;
      this.parts.leftOut.add();
      if (this.mode === 'late') continue;
      this.mode = 'late';
      this.parts.log.warn(
        { slot: oldest.slot, waitingBlocks: others.length + 1 },
        'decoding is behind the chain: subscriptions of parsed transactions miss blocks from this slot on',
      );
    }
    this.waiting = first === undefined ? [] : [first, ...others];
    if (wasLate && others.length === 0) this.mode = 'comparing';
  }

  private async compareAll(): Promise<void> {
    this.mode = 'comparing';
    for (let block = this.waiting[0]; block !== undefined; block = this.waiting[0]) {
      try {
        const found = await this.board.content(block);
        // A fork was left meanwhile, or its subscriptions have ended.
        if (this.waiting[0] !== block) continue;
        this.waiting = this.waiting.slice(1);
        for (const [feed, content] of found) {
          const group = this.byFeed.get(feed);
          if (group !== undefined) take(group, content, block.slot);
        }
      } catch (error) {
        this.parts.log.warn(
          { slot: block.slot, error: messageOf(error) },
          'a block cannot be compared with its subscriptions',
        );
        this.giveUp();
      }
    }
    this.mode = 'idle';
  }

  private giveUp(): void {
    this.waiting = [];
    for (const group of [...this.byFeed.values()])
      group.end((reader) => reader.lagged('interfaces of programs cannot be read, try again later'));
  }
}

function take(group: SubscriptionGroup, { batches, searched, problem }: BoardContent, slot: number): void {
  group.deliver(batches, slot, true);
  group.payForSearch(searched);
  if (problem !== null) group.end((reader) => reader.refused(problem));
}
