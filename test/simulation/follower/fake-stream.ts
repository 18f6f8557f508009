import type { BlockStream, StreamEnd, StreamOptions } from '../../../src/ports/chain.ts';
import type { Clock } from '../../../src/ports/clock.ts';
import { decodeBlock } from '../../../src/solana/decode/decode-block.ts';
import type { Sfc32 } from '../../helpers/sfc32.ts';
import { blockText, type World, type WorldBlock } from './world.ts';

/** A stream that repeats, leaves out, mixes up, falls silent and ends, but gives only blocks that were of the chain when it gave them. */
export function createFakeStream(world: World, draw: Sfc32, clock: Clock): BlockStream {
  const push = (options: StreamOptions, block: WorldBlock) =>
    options.onBlock(decodeBlock(block.slot, JSON.parse(blockText(block))));

  async function open(options: StreamOptions): Promise<StreamEnd> {
    const { fromSlot, signal } = options;
    if (fromSlot !== null && draw.float() < 0.2) return { kind: 'out-of-range' };
    const isQuiet = draw.float() < 0.1;
    let given = fromSlot === null || draw.float() < 0.3 ? world.slot : fromSlot - 1;
    try {
      for (;;) {
        await clock.sleep(20 + draw.below(600), signal);
        if (isQuiet) continue;
        const fresh = world.chain.filter(({ slot }) => slot > given && draw.float() > 0.1);
        given = Math.min(world.slot, Math.max(given, ...fresh.map(({ slot }) => slot)));
        for (const block of draw.float() < 0.1 ? fresh.toReversed() : fresh) push(options, block);
        if (draw.float() < 0.1) push(options, world.chain[draw.below(world.chain.length)]!);
        if (draw.float() < 0.05) options.onDead(world.slot - draw.below(4));
        if (draw.float() < 0.03) return { kind: 'failed', reason: 'internal' };
      }
    } catch {
      return { kind: 'failed', reason: 'closed' };
    }
  }
  return { start: async () => {}, open };
}
