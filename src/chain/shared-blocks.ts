import type { AskOptions, BlockAnswer, ChainSource } from '../ports/chain.ts';
import { orAborted } from '../runtime/deadline.ts';
import { type Held, sizeOf } from './buffer.ts';

/**
 * The blocks of a chain for all who read them: the chain's own cursor, processors that catch up, gaps that are filled. Whoever asks first
 * fetches; who asks meanwhile gets the same answer, and who comes later the same block, while somebody besides the one that fetched it still
 * has to come to it.
 */
export interface SharedBlocks {
  /** As `ChainSource.block`. */
  block(slot: number, options: AskOptions): Promise<BlockAnswer>;
  /** What was given for this slot is not believed any more. */
  forget(slot: number): void;
  /** Blocks above this one were rolled back. */
  forgetAbove(slot: number): void;
  /** Drops what nobody has to come to any more. */
  trim(): void;
}

export interface SharedBlocksOptions {
  readonly source: Pick<ChainSource, 'block' | 'outOfService'>;
  /** Of the follower: who gives up one shared call does not end it for the others. */
  readonly signal: AbortSignal;
  /** How many have yet to come to this slot. */
  readonly readers: (slot: number) => number;
  readonly maxBytes: number;
}

export function createSharedBlocks({ source, signal, readers, maxBytes }: SharedBlocksOptions): SharedBlocks {
  const kept = new Map<number, Held>();
  const flights = new Map<number, Map<string, Promise<BlockAnswer>>>();
  let bytes = 0;

  function drop(slot: number): void {
    const held = kept.get(slot);
    if (held === undefined) return;
    bytes -= sizeOf(held);
    kept.delete(slot);
  }

  function keep(held: Held): void {
    drop(held.block.slot);
    if (readers(held.block.slot) < 2) return;
    kept.set(held.block.slot, held);
    bytes += sizeOf(held);
    // All read upwards: the highest one is needed last.
    while (bytes > maxBytes) drop(Math.max(...kept.keys()));
  }

  function forget(slot: number): void {
    drop(slot);
    flights.delete(slot);
  }

  function fetch(slot: number, { commitment, avoid = [] }: AskOptions): Promise<BlockAnswer> {
    const ofSlot = flights.get(slot) ?? new Map<string, Promise<BlockAnswer>>();
    const key = [commitment, ...avoid.toSorted()].join(' ');
    const known = ofSlot.get(key);
    if (known !== undefined) return known;
    flights.set(slot, ofSlot);
    const flight = source.block(slot, { commitment, avoid, signal }).then((answer) => {
      if (answer.kind === 'block' && flights.get(slot) === ofSlot) keep(answer);
      return answer;
    });
    ofSlot.set(key, flight);
    const end = () => {
      ofSlot.delete(key);
      if (ofSlot.size === 0 && flights.get(slot) === ofSlot) flights.delete(slot);
    };
    flight.then(end, end);
    return flight;
  }

  return {
    async block(slot, options) {
      const held = kept.get(slot);
      const isGood = held !== undefined && !source.outOfService().includes(held.upstream);
      if (isGood && options.avoid?.includes(held.upstream) !== true) return { kind: 'block', ...held };
      if (held !== undefined && !isGood) drop(slot);
      return await orAborted(fetch(slot, options), options.signal);
    },
    forget,
    forgetAbove(slot) {
      for (const known of [...kept.keys(), ...flights.keys()]) if (known > slot) forget(known);
    },
    trim() {
      for (const slot of [...kept.keys()]) if (readers(slot) === 0) drop(slot);
    },
  };
}
