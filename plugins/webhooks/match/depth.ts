import type { BlockProcessor } from '../../../src/kernel/plugin.ts';

export interface Depth {
  /** Deliveries came in since the last count. */
  added(count: number): void;
  /** A fresh count of the deliveries that are not finished. */
  counted(depth: number): void;
  readonly value: () => number;
  readonly pressure: NonNullable<BlockProcessor['pressure']>;
}

/** Follows the number of waiting deliveries between counts; at the bound the block loop pauses, and nothing is dropped. */
export function createDepth(maxRows: number): Depth {
  let depth = 0;
  return {
    added: (count) => {
      depth += count;
    },
    counted: (count) => {
      depth = count;
    },
    value: () => depth,
    pressure: () =>
      depth < maxRows
        ? { ok: true }
        : { ok: false, reason: `${depth} deliveries wait; webhooks.outbox.maxRows is ${maxRows}` },
  };
}
