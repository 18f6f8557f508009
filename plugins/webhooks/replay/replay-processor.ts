import type { BlockProcessor } from '../../../src/kernel/plugin.ts';
import type { ChainId } from '../../../src/ports/chain.ts';
import { matchBlock } from '../../../src/solana/match-block.ts';
import type { BodyBuilder } from '../bodies/builder.ts';
import { deliveryKey } from '../delivery/payload.ts';
import { matchedEvents } from '../match/events.ts';
import { type QueueEventsParts, queueEvents } from '../match/queue-events.ts';
import type { HookSync } from '../match/sync.ts';
import { addQueued, openReplays } from '../store/replays.ts';
import { REPLAY_PROCESSOR } from './replays.ts';

export interface ReplayProcessorParts extends QueueEventsParts {
  readonly sync: HookSync;
  readonly chains: readonly ChainId[];
  readonly bodies: BodyBuilder;
}

/** Matches blocks again for the webhooks that asked for them, and for no others. Blocks that nobody asked for cost one look. */
export function createReplayProcessor(parts: ReplayProcessorParts): BlockProcessor {
  const { queue } = parts;
  return {
    ...REPLAY_PROCESSOR,
    chains: parts.chains,
    outOfOrder: true,
    // It gets the ranges that were asked for.
    wantsGaps: false,
    async apply(tx, block, chain) {
      const replays = await openReplays(tx.db, { chain, slot: block.slot });
      if (replays.length === 0) return;
      const index = await parts.sync.current(tx);
      const found = matchBlock(block, index.addresses(chain), { owners: true });
      const all = matchedEvents(block, chain, index, found, parts.bodies);
      for (const { id, number, force } of replays) {
        const events = all
          .map((event) => ({ ...event, hooks: event.hooks.filter((hook) => hook.number === number) }))
          .filter(({ hooks }) => hooks.length > 0);
        if (events.length === 0) continue;
        let queued = 0;
        if (force) {
          const keys = events.flatMap(({ hooks, signature }) => hooks.map((hook) => deliveryKey(hook.id, signature)));
          queued += await queue.requeueKeys(tx, chain, keys);
        }
        queued += await queueEvents(parts, tx, chain, block.slot, events);
        if (queued > 0) await addQueued(tx, id, queued);
      }
    },
    // What it made belongs to blocks that are final, and to the webhooks' own processor where they are not.
    revert: async () => {},
  };
}
