import type { BlockProcessor } from '../../../src/plugin/plugin.ts';
import type { ChainId } from '../../../src/ports/chain.ts';
import type { StoreTx } from '../../../src/ports/store.ts';
import { matchBlock } from '../../../src/solana/match-block.ts';
import type { BodyBuilder } from '../bodies/builder.ts';
import type { DeliveryQueue } from '../delivery/queue.ts';
import { watchedAddresses } from '../store/changes.ts';
import type { Db } from '../store/tables.ts';
import { matchedEvents, type QueueEventsParts, queueEvents } from './queue-events.ts';
import type { HookSync } from './sync.ts';

/** The name of its cursor. */
export const PROCESSOR_NAME = 'webhooks';

interface ProcessorParts extends QueueEventsParts {
  readonly sync: HookSync;
  readonly queue: DeliveryQueue;
  readonly chains: readonly ChainId[];
  readonly bodies: BodyBuilder;
  readonly depth: Depth;
  matched(count: number): void;
  /** Told of each block that is taken back, in that transaction. */
  reverted?(tx: StoreTx, chain: ChainId, slot: number): void;
}

/** Turns the transactions of a block into deliveries: one per webhook and transaction, in the block's own transaction. */
export function createWebhooksProcessor(parts: ProcessorParts): BlockProcessor {
  return {
    name: PROCESSOR_NAME,
    version: 1,
    chains: parts.chains,
    async apply(tx, block, chain) {
      const index = await parts.sync.current(tx);
      const found = matchBlock(block, index.addresses(chain), { owners: true });
      if (found.length === 0) return;
      const events = matchedEvents(block, chain, index, found, parts.bodies);
      if (events.length === 0) return;
      const added = await queueEvents(parts, tx, chain, block.slot, events);
      tx.onCommit(() => {
        parts.depth.added(added);
        parts.matched(added);
      });
    },
    async revert(tx, header, chain) {
      parts.reverted?.(tx, chain, header.slot);
      await parts.queue.forget(tx, chain, header.slot);
    },
    // A transaction makes one delivery per webhook, however often and whenever its block comes.
    outOfOrder: true,
    addresses: (db, chain, limit) => watchedAddresses(db as Db, chain, limit),
    pressure: parts.depth.pressure,
  };
}

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
