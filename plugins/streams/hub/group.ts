import type { BlockHeader } from '../../../src/plugin/plugin.ts';
import type { Lease, Tenant } from '../../../src/ports/access.ts';
import type { Counter } from '../../../src/ports/telemetry.ts';
import { SLOT_STATUS } from '../wire/updates.ts';
import {
  bytesOfBatches,
  type Feed,
  type Leave,
  mayHold,
  type PendingContent,
  type Reader,
  sizeOfPending,
  TOO_MUCH_PENDING,
  type UpdateBatch,
} from './types.ts';

interface Member {
  readonly reader: Reader;
  /** The slot from which on it gets content. A fork that is left moves it: the new branch is news for all. */
  from: number;
}

interface GroupParts {
  /** The name under which equal subscriptions join it; null: none may. */
  readonly name: string | null;
  readonly feed: Feed;
  /** Content with which it begins. */
  readonly pending: readonly PendingContent[];
  /** At `finalized`: content of earlier blocks was not made at their release, and is made when they become final. */
  readonly madeFrom: number;
  readonly maxPendingBytes: number;
  /** Counts updates. */
  readonly sent: Counter;
  /** It has no members any more. May be called again. */
  emptied(group: SubscriptionGroup): void;
}

/** Equal subscriptions. What waits for finality is held once for all of them, by a tenant of one. */
export class SubscriptionGroup {
  readonly name: string | null;
  readonly feed: Feed;
  private readonly parts: GroupParts;
  private readonly members = new Set<Member>();
  private pending: readonly PendingContent[];
  private heldBytes = 0;
  private made: number;
  /** Holds what is pending. */
  private payer: { readonly tenant: Tenant; readonly lease: Lease } | null = null;

  constructor(parts: GroupParts) {
    this.parts = parts;
    this.name = parts.name;
    this.feed = parts.feed;
    this.pending = parts.pending;
    this.made = parts.madeFrom;
  }

  get pendingBytes(): number {
    return this.heldBytes;
  }

  /** Whether content of a block in this slot is made only when the block becomes final. */
  isMadeLate(slot: number): boolean {
    return this.feed.level === 'finalized' && slot < this.made;
  }

  /** `from`: the first slot whose content the reader gets. Throws what the tenant throws who may hold nothing. */
  join(reader: Reader, from: number): Leave {
    const member: Member = { reader, from };
    this.members.add(member);
    try {
      this.settle();
    } catch (error) {
      this.members.delete(member);
      this.settle();
      throw error;
    }
    return () => {
      this.members.delete(member);
      this.settle();
      return null;
    };
  }

  /** `isContent`: of blocks that were released before a member joined it gets nothing. */
  deliver(batches: readonly UpdateBatch[], slot: number, isContent: boolean): void {
    for (const member of [...this.members]) {
      if (isContent && slot < member.from) continue;
      for (const batch of batches) {
        this.parts.sent.add(batch.updates);
        member.reader.send(batch);
      }
    }
  }

  /** A status of a slot is news for all levels. */
  tellSlot(header: BlockHeader, status: number): void {
    const batches = this.feed.slot(header, status);
    if (batches.length === 0) return;
    // A reader at `finalized` that did not get the block does not need its status.
    const isContent = status === SLOT_STATUS.finalized && this.feed.level === 'finalized';
    this.deliver(batches, header.slot, isContent);
  }

  /** Keeps content until its block is final. */
  hold(slot: number, batches: readonly UpdateBatch[]): void {
    if (batches.length === 0) return;
    this.pending = [...this.pending, { slot, batches, bytes: bytesOfBatches(batches) }];
    this.settle();
  }

  /** Content that was held, by slot. */
  heldContent(): ReadonlyMap<number, readonly UpdateBatch[]> {
    return new Map(this.pending.map((one) => [one.slot, one.batches]));
  }

  drop(isGone: (slot: number) => boolean): void {
    this.pending = this.pending.filter(({ slot }) => !isGone(slot));
    this.settle();
  }

  /** A fork was left from this slot on. */
  revert(lowest: number): void {
    for (const member of this.members) member.from = Math.min(member.from, lowest);
    this.made = Math.min(this.made, lowest);
  }

  payForSearch(transactions: number): void {
    // The work was done once for all of them.
    const [first] = this.members;
    if (transactions > 0) first?.reader.payForSearch?.(transactions);
  }

  /** Ends all subscriptions. */
  end(how: (reader: Reader) => void): void {
    const members = [...this.members];
    this.remove();
    this.members.clear();
    for (const { reader } of members) how(reader);
  }

  /** To be called after each change of pending content or of members: a tenant of a member holds the content, or it is dropped. */
  private settle(): void {
    this.heldBytes = sizeOfPending(this.pending);
    while (this.members.size > 0) {
      const members = [...this.members];
      const isTooMuch = this.heldBytes > this.parts.maxPendingBytes;
      if (!isTooMuch && this.pay(members)) return;
      // A member whose tenant may hold no more leaves, and the next one is tried.
      const leaving = isTooMuch ? members : members.filter(({ reader }) => reader.tenant === this.payer?.tenant);
      this.releasePayer();
      for (const member of leaving) {
        this.members.delete(member);
        member.reader.lagged(TOO_MUCH_PENDING);
      }
    }
    this.remove();
  }

  private pay(members: readonly Member[]): boolean {
    if (!members.some(({ reader }) => reader.tenant === this.payer?.tenant)) {
      this.releasePayer();
      const { tenant } = (members[0] as Member).reader;
      this.payer = { tenant, lease: tenant.take('answerBytes', 0) };
    }
    return this.payer === null || mayHold(this.payer.lease, this.heldBytes);
  }

  private remove(): void {
    this.parts.emptied(this);
    this.releasePayer();
  }

  private releasePayer(): void {
    this.payer?.lease.release();
    this.payer = null;
  }
}
