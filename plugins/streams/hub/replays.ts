import { stateAfter, type Transitions } from '../../../src/lib/transitions.ts';
import { type BlockHeader, type ChainBlock, type Log, messageOf } from '../../../src/plugin/plugin.ts';
import type { Lease } from '../../../src/ports/access.ts';
import type { LedgerReader } from '../../../src/ports/ledger.ts';
import type { Counter } from '../../../src/ports/telemetry.ts';
import { createSemaphore } from '../../../src/runtime/semaphore.ts';
import { GrpcError } from '../grpc-server.ts';
import { SLOT_STATUS } from '../wire/updates.ts';
import { nextKept, type OpenBlocks, outOfRange } from './open-blocks.ts';
import {
  bytesOfBatches,
  type HubSubscription,
  type Leave,
  mayHold,
  type PendingContent,
  type Reader,
  sizeOfPending,
  TOO_MUCH_PENDING,
  type UpdateBatch,
} from './types.ts';

/** A block of mainnet takes some MB. */
const MAX_RECENT_BLOCKS = 8;

interface ReplaysParts {
  readonly log: Log;
  readonly open: OpenBlocks;
  /** Counts updates. */
  readonly sent: Counter;
  readonly maxPendingBytes: number;
  /** Makes it a live subscription that gets content from this slot on; `held`: content of blocks that are not final. */
  joinLive(subscription: HubSubscription, reader: Reader, from: number, held: readonly PendingContent[]): Leave;
}

/** `reading`: the ledger; `live`: it has caught up; `over`: its reader has left, or it cannot go on. */
export type ReplayMode = 'reading' | 'live' | 'over';

export const REPLAY = {
  'caught up': { reading: 'live' },
  'reader left': { reading: 'over', live: 'over' },
  /** The reader may hold no more content of blocks that are not final. */
  'held too much': { reading: 'over' },
  /** The ledger lacks a block or cannot be read, or it could not join the live ones. */
  failed: { reading: 'over', live: 'over' },
} as const satisfies Transitions<ReplayMode, string>;

/** A subscription that reads the ledger until it has caught up. */
interface Replay {
  readonly subscription: HubSubscription;
  readonly reader: Reader;
  /** Its first slot; a fork that is left moves it. */
  from: number;
  /** The next slot that it gets. */
  position: number;
  /** At `finalized`: content of blocks below the position that are not final. */
  held: readonly PendingContent[];
  /** Counts the bytes of `held`. */
  readonly lease: Lease;
  /** Number of forks that were left. */
  forks: number;
  mode: ReplayMode;
  /** Of the live subscription. */
  leaveLive: Leave | null;
}

export class Replays {
  private readonly parts: ReplaysParts;
  /** Replays in mode `reading`. */
  private readonly running = new Set<Replay>();
  private readonly reads = createSemaphore({ concurrency: 1 });
  /** Blocks that were read last, by slot: equal replays share a read. */
  private readonly recent = new Map<number, Promise<ChainBlock | null>>();

  constructor(parts: ReplaysParts) {
    this.parts = parts;
  }

  /** Throws GrpcError when the ledger does not have the slot. */
  start(kept: LedgerReader | null, subscription: HubSubscription, from: number, reader: Reader): Leave {
    if (kept === null) throw new GrpcError('internal', 'from_slot is not supported');
    const first = kept.firstOfRun();
    if (first < 0 || from < first) throw outOfRange(kept, from);
    const lease = reader.tenant.take('answerBytes', 0);
    const replay: Replay = {
      subscription,
      reader,
      from,
      position: from,
      held: [],
      lease,
      forks: 0,
      mode: 'reading',
      leaveLive: null,
    };
    this.running.add(replay);
    this.readOn(kept, replay).catch((error: unknown) => {
      if (!this.move(replay, 'failed')) return;
      this.parts.log.warn({ slot: replay.position, error: messageOf(error) }, 'a replay ended');
      reader.refused(
        error instanceof GrpcError ? error : new GrpcError('unavailable', 'the ledger cannot be read, try again later'),
      );
    });
    return () => {
      const { mode, leaveLive } = replay;
      this.move(replay, 'reader left');
      if (leaveLive !== null) return mode === 'live' ? leaveLive() : null;
      return replay.held[0]?.slot ?? replay.position;
    };
  }

  /** Forgets blocks of a fork that was left; `lowest`: the first slot of it. */
  revert(headers: Iterable<BlockHeader>, lowest: number): void {
    const gone = [...headers];
    for (const { slot } of gone) this.recent.delete(slot);
    for (const replay of this.running) {
      for (const header of gone) if (header.slot < replay.position) this.tell(replay, header, [SLOT_STATUS.dead]);
      forgetHeld(replay, (slot) => slot >= lowest);
      replay.position = Math.min(replay.position, lowest);
      replay.from = Math.min(replay.from, lowest);
      replay.forks += 1;
    }
  }

  finalize(headers: readonly BlockHeader[]): void {
    for (const replay of this.running)
      for (const header of headers)
        if (header.slot < replay.position) {
          this.sendHeld(replay, header.slot);
          this.tell(replay, header, [SLOT_STATUS.finalized]);
        }
  }

  /** False: the event may not come in the mode of the replay, and changes nothing. */
  private move(replay: Replay, event: keyof typeof REPLAY): boolean {
    const after = stateAfter(REPLAY, event, replay.mode);
    if (after === null) return false;
    replay.mode = after;
    this.running.delete(replay);
    replay.lease.release();
    return true;
  }

  /** Sends what the ledger has, block by block, until the newest released one; in the same turn the subscription becomes a live one. */
  private async readOn(kept: LedgerReader, replay: Replay): Promise<void> {
    const { open } = this.parts;
    const { subscription, reader } = replay;
    const { feed } = subscription;
    const isOver = () => replay.mode === 'over';
    for (;;) {
      await reader.ready();
      if (isOver()) return;
      const top = Math.max(open.releasedTo, open.finalUpTo(kept));
      const newest = kept.newest();
      const slot = nextKept(kept, replay.position, Math.min(top, newest));
      // An earlier process may have released blocks that are not final yet: the first release tells that the ledger has them. And a fork
      // that is left is cut off the ledger before the hub is told.
      if (slot === null && (open.releasedTo < 0 || newest < top)) {
        await open.nextChange;
        continue;
      }
      if (slot === null) {
        this.goLive(replay, top);
        return;
      }
      const { forks } = replay;
      // Nobody who asks for no replay pays for one.
      if (subscription.from !== null) await reader.payForBlock();
      if (isOver()) return;
      const block = await this.read(kept, slot, reader.tenant.id);
      if (isOver()) return;
      // A fork was left meanwhile: the slot may have another block, or none.
      if (forks !== replay.forks) continue;
      if (block === null && slot > kept.newest()) continue;
      if (block === null) throw outOfRange(kept, slot);
      const isFinal = slot <= open.finalUpTo(kept);
      const batches = await feed.content(block);
      if (isOver()) return;
      if (forks !== replay.forks) continue;
      replay.position = slot + 1;
      if (feed.level !== 'finalized' || isFinal) this.send(reader, batches);
      else if (batches.length > 0) this.hold(replay, slot, batches);
      const { processed, confirmed, finalized } = SLOT_STATUS;
      this.tell(replay, block, isFinal ? [processed, confirmed, finalized] : [processed, confirmed]);
      if (!isFinal) open.addEarlier(block);
    }
  }

  private goLive(replay: Replay, top: number): void {
    const { subscription, reader } = replay;
    this.move(replay, 'caught up');
    const from = subscription.feed.level === 'finalized' ? replay.from : Math.max(replay.position, top + 1);
    replay.leaveLive = this.parts.joinLive(subscription, reader, from, replay.held);
  }

  /** Round robin over all projects, regardless of the number of replays of each. */
  private read(kept: LedgerReader, slot: number, group: string): Promise<ChainBlock | null> {
    const { recent } = this;
    const known = recent.get(slot);
    if (known !== undefined) return known;
    const made = this.reads.run(() => kept.block(slot), { group });
    recent.set(slot, made);
    made.then((block) => block === null && recent.delete(slot)).catch(() => recent.delete(slot));
    const [oldest] = recent.keys();
    if (recent.size > MAX_RECENT_BLOCKS && oldest !== undefined) recent.delete(oldest);
    return made;
  }

  private hold(replay: Replay, slot: number, batches: readonly UpdateBatch[]): void {
    replay.held = [...replay.held, { slot, batches, bytes: bytesOfBatches(batches) }];
    const heldBytes = sizeOfPending(replay.held);
    if (heldBytes <= this.parts.maxPendingBytes && mayHold(replay.lease, heldBytes)) return;
    this.move(replay, 'held too much');
    replay.reader.lagged(TOO_MUCH_PENDING);
  }

  private sendHeld(replay: Replay, slot: number): void {
    for (const one of replay.held) if (one.slot === slot) this.send(replay.reader, one.batches);
    forgetHeld(replay, (held) => held <= slot);
  }

  private send(reader: Reader, batches: readonly UpdateBatch[]): void {
    for (const batch of batches) {
      this.parts.sent.add(batch.updates);
      reader.send(batch);
    }
  }

  private tell({ subscription, reader }: Replay, header: BlockHeader, statuses: readonly number[]): void {
    for (const status of statuses) this.send(reader, subscription.feed.slot(header, status));
  }
}

function forgetHeld(replay: Replay, isGone: (slot: number) => boolean): void {
  replay.held = replay.held.filter(({ slot }) => !isGone(slot));
  replay.lease.set(sizeOfPending(replay.held));
}
