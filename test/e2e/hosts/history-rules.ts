/** What must never be seen in the history of writes, whoever was killed, paused or cut off meanwhile. */
import type { CursorWrite, DeliveryState, DeliveryWrite, HeaderWrite, Place, Write } from './write-history.ts';

export interface HistoryRules {
  /** Takes the next writes; in words what is wrong with them. */
  take(writes: readonly Write[]): string | null;
  /** Unix ms at which the outcomes of first attempts were written, since the last time they were asked for. */
  takeFirstAttempts(): readonly number[];
  /** Unix ms until which a process has written what it counted; null when it never has. */
  writtenUntil(process: string): number | null;
  readonly deliveries: number;
  readonly blocks: number;
}

export function createHistoryRules(): HistoryRules {
  const cursor = createCursorRules();
  const outbox = createOutboxRules(cursor);
  const usage = new Map<string, number>();
  const faultOf = (write: Write): string | null => {
    if (write.what === 'cursor') return cursor.fault(write);
    if (write.what === 'usage') {
      usage.set(write.process, write.begunAt);
      return null;
    }
    return write.what === 'header' ? headerFault(write, cursor.last) : outbox.fault(write);
  };
  return {
    take(writes) {
      for (const write of writes) {
        const fault = faultOf(write);
        if (fault !== null) return `${fault}: ${JSON.stringify(write)}`;
      }
      return null;
    },
    takeFirstAttempts: outbox.takeFirstAttempts,
    writtenUntil: (process) => usage.get(process) ?? null,
    get deliveries() {
      return outbox.count();
    },
    get blocks() {
      return cursor.count();
    },
  };
}

const isSame = (one: Place | null, other: Place | null) =>
  one?.slot === other?.slot && one?.blockhash === other?.blockhash;

/**
 * The chain does not fork, so the cursor only goes forward, each time from where it was left. It has one writer: a process that another
 * one followed never writes again, by whatever name or epoch, and each process has one epoch and one name.
 */
function createCursorRules() {
  let last: CursorWrite | null = null;
  let count = 0;
  const before = new Set<string>();

  function moveFault({ op, from, to }: CursorWrite): string | null {
    if (op === 'DELETE' || to === null) return 'the cursor was removed';
    // Of the first write that is known it is not known what was before.
    if (last !== null && !isSame(from, last.to)) return `the cursor was left at ${JSON.stringify(last.to)}`;
    return from !== null && from.slot >= to.slot ? 'the cursor went back' : null;
  }

  function writerFault({ process, epoch, leader }: CursorWrite): string | null {
    if (leader === null || epoch === null) return 'nobody leads, and the cursor moves';
    if (last === null) return null;
    if (process === last.process) {
      const isOne = epoch === last.epoch && leader === last.leader;
      return isOne ? null : `it wrote as ${last.leader} in epoch ${last.epoch} before`;
    }
    before.add(last.process);
    if (before.has(process)) return `it writes again after ${last.process}`;
    return epoch > (last.epoch ?? 0) ? null : `epoch ${last.epoch} was that of ${last.process}`;
  }

  return {
    get last() {
      return last;
    },
    count: () => count,
    fault(write: CursorWrite): string | null {
      const fault = moveFault(write) ?? writerFault(write);
      last = write;
      count += 1;
      return fault;
    },
  };
}

/** A header comes with the move of the cursor to it, from its parent, and goes when it is old. */
function headerFault({ op, tx, place, parent }: HeaderWrite, cursor: CursorWrite | null): string | null {
  if (op === 'UPDATE') return 'a header was changed';
  if (op === 'DELETE') return place.slot < (cursor?.to?.slot ?? 0) ? null : 'the newest header was removed';
  if (cursor?.tx !== tx || !isSame(cursor.to, place)) return 'a header without the cursor';
  return cursor.from === null || isSame(cursor.from, parent) ? null : 'its parent is not where the cursor was';
}

/** A delivery is made once, with its block, by its writer; it is never taken away, and what is done stays so. */
function createOutboxRules(cursor: { readonly last: CursorWrite | null }) {
  const states = new Map<string, DeliveryState>();
  let firstAttempts: number[] = [];

  function insertFault({ key, tx, process, to }: DeliveryWrite): string | null {
    if (states.has(key)) return 'a delivery was made twice';
    if (cursor.last?.tx !== tx || cursor.last.process !== process) return 'a delivery without its block';
    return to?.state === 'pending' && to.attempts === 0 ? null : 'a delivery does not begin as one';
  }

  function changeFault({ key, from, to }: DeliveryWrite): string | null {
    const known = states.get(key);
    if (known === undefined) return 'a delivery that was never made';
    if (from?.state !== known.state || from.attempts !== known.attempts) return `it was ${JSON.stringify(known)}`;
    if (known.state === 'done') return 'a delivery that was done was changed';
    return (to?.attempts ?? 0) < known.attempts ? 'attempts were forgotten' : null;
  }

  return {
    count: () => states.size,
    takeFirstAttempts() {
      const taken = firstAttempts;
      firstAttempts = [];
      return taken;
    },
    fault(write: DeliveryWrite): string | null {
      const { op, key, at, from, to } = write;
      if (op === 'DELETE' || to === null) return 'a delivery was removed';
      const fault = op === 'INSERT' ? insertFault(write) : changeFault(write);
      states.set(key, to);
      if (from?.attempts === 0 && to.attempts > 0) firstAttempts.push(at);
      return fault;
    },
  };
}
