import type { BlockHeader, ChainBlock } from '../../../src/plugin/plugin.ts';
import type { LedgerReader } from '../../../src/ports/ledger.ts';
import { GrpcError } from '../grpc-server.ts';
import { headerOf } from './types.ts';

/** Released blocks that are not final; more means that finality stands still, and the oldest are forgotten. */
const MAX_OPEN_BLOCKS = 16_384;

/**
 * Transactions of released blocks that are kept in memory until they are final, for subscriptions at `finalized` that come later: some 8 KB
 * each. TowerBFT finalizes a block when 31 follow it, Alpenglow at once.
 */
const MAX_HELD_TRANSACTIONS = 100_000;

/** Blocks that were released and are not final yet, and how far the chain is. */
export class OpenBlocks {
  private readonly ledger: () => LedgerReader | null;
  /** Ascending. */
  private headers: BlockHeader[] = [];
  /** The newest of them, by slot, ascending. */
  private readonly held = new Map<number, ChainBlock>();
  private released = -1;
  private final = -1;
  private change = createChange();

  constructor(ledger: () => LedgerReader | null) {
    this.ledger = ledger;
  }

  /** Blocks up to it were released; -1: not known before the first release of this process. */
  get releasedTo(): number {
    return this.released;
  }

  /** The newest slot of which this process has heard that it is final; -1: none. */
  get finalTo(): number {
    return this.final;
  }

  /** The slot from which on blocks are still to be released. */
  get firstToCome(): number {
    return (this.headers.at(-1)?.slot ?? -1) + 1;
  }

  /** Resolves with the next block that is released or reverted. */
  get nextChange(): Promise<void> {
    return this.change.promise;
  }

  /** The ledger may know of finality before the hub has heard of it. */
  finalUpTo(kept: LedgerReader): number {
    return this.final < 0 ? kept.finalSlot : this.final;
  }

  has(block: BlockHeader): boolean {
    return this.headers.some(({ slot, blockhash }) => slot === block.slot && blockhash === block.blockhash);
  }

  /** Adds the next block. Returns those that leave the memory for it, oldest first. */
  add(block: ChainBlock): ChainBlock[] {
    this.headers.push(headerOf(block));
    this.released = block.slot;
    this.tellChange();
    if (this.headers.length > MAX_OPEN_BLOCKS) this.held.delete(this.headers.shift()!.slot);
    this.held.set(block.slot, block);
    let count = 0;
    for (const { transactions } of this.held.values()) count += transactions.length;
    const leaving: ChainBlock[] = [];
    for (const oldest of this.held.values()) {
      if (count <= MAX_HELD_TRANSACTIONS) break;
      count -= oldest.transactions.length;
      this.held.delete(oldest.slot);
      leaving.push(oldest);
    }
    return leaving;
  }

  /** Adds one that was released before this process started: no release in this process reports that it is final. */
  addEarlier(block: BlockHeader): void {
    if (this.headers.some(({ slot }) => slot === block.slot)) return;
    this.headers = [...this.headers, headerOf(block)].sort((a, b) => a.slot - b.slot);
  }

  /** A block in memory; undefined: it is not there. */
  heldBlock(slot: number): ChainBlock | undefined {
    return this.held.get(slot);
  }

  /** Forgets blocks of a fork that was left. */
  revert(slots: ReadonlySet<number>): void {
    this.headers = this.headers.filter(({ slot }) => !slots.has(slot));
    this.released = Math.min(this.released, Math.min(...slots) - 1);
    for (const slot of slots) this.held.delete(slot);
    this.tellChange();
  }

  /** Takes out the blocks that become final. They stay in memory until `forget`. */
  takeFinal(upTo: number): BlockHeader[] {
    this.final = Math.max(this.final, upTo);
    const taken = this.headers.filter(({ slot }) => slot <= upTo);
    if (taken.length > 0) this.headers = this.headers.filter(({ slot }) => slot > upTo);
    return taken;
  }

  forget(headers: readonly BlockHeader[]): void {
    for (const { slot } of headers) this.held.delete(slot);
  }

  /** The first block that is not final and not in memory, because this process did not release it or finality is far behind; null: none. */
  firstNotHeld(): number | null {
    const known = this.headers.find(({ slot }) => !this.held.has(slot))?.slot ?? null;
    const kept = this.ledger();
    if (kept === null || kept.firstOfRun() < 0) return known;
    const from = Math.max(this.finalUpTo(kept) + 1, kept.firstOfRun());
    const [firstHeld = Number.POSITIVE_INFINITY] = this.held.keys();
    return nextKept(kept, from, Math.min(kept.newest(), firstHeld - 1)) ?? known;
  }

  private tellChange(): void {
    this.change.tell();
    this.change = createChange();
  }
}

function createChange() {
  let tell = (): void => undefined;
  const promise = new Promise<void>((resolve) => {
    tell = resolve;
  });
  return { promise, tell };
}

/** The first block in a range of slots; null if it has none. Throws GrpcError if that is unknown. */
export function nextKept(kept: LedgerReader, from: number, to: number): number | null {
  for (let slot = from; slot <= to; slot++) {
    const state = kept.state(slot);
    if (state === 'block') return slot;
    if (state === 'unknown') throw outOfRange(kept, slot);
  }
  return null;
}

export function outOfRange(kept: LedgerReader, slot: number): GrpcError {
  const first = kept.firstOfRun();
  const last = first < 0 ? 'none' : String(first);
  return new GrpcError('outOfRange', `broadcast from ${slot} is not available, last available: ${last}`);
}
