import { codeOf, messageOf } from '../../lib/coded-error.ts';
import type { BlockHeader } from '../../ports/block.ts';
import type { FollowContext } from './context.ts';
import type { Lane } from './lane.ts';
import { writeFinalized } from './rows.ts';

export interface AuditOptions {
  readonly context: FollowContext;
  readonly main: Lane;
  /** Lanes whose processors are told as well, each up to its own cursor. */
  readonly lanes: () => readonly Lane[];
  readonly finalizedSlot: () => number | null;
  readonly onFinalized: (slot: number) => void;
  readonly onMismatch: (header: BlockHeader) => void;
}

/**
 * Compares the newest finalized block with the released one at its slot. The blocks below are linked by their hashes, so one
 * equal hash proves all. Moves the finalized mark, below which nothing is rolled back; a failed call delays, never skips.
 */
export async function auditFinality(options: AuditOptions): Promise<void> {
  const { context, main } = options;
  const { source, follow, signal, store, chain, log } = context;
  const tip =
    follow.commitment === 'finalized'
      ? (main.position?.slot ?? -1)
      : await source.tip({ commitment: 'finalized', signal });
  const own = main.headers.findLast(({ slot }) => slot <= tip);
  if (own === undefined || own.slot <= (options.finalizedSlot() ?? -1)) return;
  if (follow.commitment !== 'finalized') {
    const header = await source.header(own.slot, { commitment: 'finalized', signal });
    if (header === null) return;
    if (header.blockhash !== own.blockhash) {
      log.error({ chain, slot: own.slot }, 'the finalized block is not the one that was released');
      options.onMismatch(header);
      return;
    }
  }
  if (!main.headers.includes(own)) return;
  await store.write(async (tx) => {
    for (const lane of options.lanes()) {
      const upTo = Math.min(own.slot, lane.position?.slot ?? -1);
      for (const processor of lane.processors) await processor.finalized?.(tx, upTo, chain);
    }
    await writeFinalized(tx, chain, own.slot);
  });
  options.onFinalized(own.slot);
}

/** Runs the audit again and again until the follower stops. */
export async function runAudits(options: AuditOptions): Promise<void> {
  const { clock, signal, follow, log, chain } = options.context;
  while (!signal.aborted) {
    try {
      await clock.sleep(follow.auditIntervalMs, signal);
      await auditFinality(options);
    } catch (error) {
      if (signal.aborted) return;
      log.warn({ chain, code: codeOf(error), error: messageOf(error) }, 'finality audit failed; it is repeated');
    }
  }
}
