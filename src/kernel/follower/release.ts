import { CodedError, messageOf } from '../../lib/coded-error.ts';
import type { BlockHeader, ChainBlock } from '../../ports/block.ts';
import type { StoreTx } from '../../ports/store.ts';
import { EXIT } from '../errors.ts';
import type { FollowContext } from './context.ts';
import { type Lane, ownersOf, positionOf } from './lane.ts';
import { deleteHeaders, insertHeader, moveCursors, writeGap } from './rows.ts';

/** How many headers are deleted at once, so that most blocks delete none. */
const TRIM_STEP = 32;

/**
 * One block, one transaction: the rows of all processors of the lane, their outbox rows, the header and the cursors commit together
 * or not at all. Errors: FOLLOW_FENCED, FOLLOW_PROCESSOR, STORE_*.
 */
export async function releaseBlock(context: FollowContext, lane: Lane, block: ChainBlock): Promise<void> {
  const { store, chain, clock, metrics, follow } = context;
  const startedAt = clock.monotonic();
  const header = headerOf(block);
  const trimBelow = trimPoint(lane, follow.headers);
  await store.write(async (tx) => {
    for (const processor of lane.processors) {
      try {
        await processor.apply(tx, block, chain);
      } catch (error) {
        throw processorFailed(processor.name, block.slot, error);
      }
    }
    if (lane.gap !== null) await recordGap(context, lane, tx);
    if (lane.gap !== null) await deleteHeaders(tx, chain, lane.id, { above: -1 });
    await insertHeader(tx, chain, lane.id, header);
    if (trimBelow !== null) await deleteHeaders(tx, chain, lane.id, { below: trimBelow });
    if (!(await moveCursors(tx, chain, ownersOf(lane), lane.position, positionOf(header)))) throw fenced(lane);
  });
  metrics.commitMs.record(clock.monotonic() - startedAt);
  metrics.released.add();
  if (lane.position !== null && lane.gap === null) metrics.skipped.add(block.slot - lane.position.slot - 1);
  lane.headers =
    lane.gap !== null
      ? [header]
      : [...lane.headers.filter(({ slot }) => trimBelow === null || slot >= trimBelow), header];
  lane.position = positionOf(header);
  lane.gap = null;
  lane.startSlot = null;
}

/** The slot below which headers go, once a step's worth of them is too many. */
function trimPoint(lane: Lane, keep: number): number | null {
  if (lane.headers.length < keep + TRIM_STEP) return null;
  return lane.headers[lane.headers.length - keep]?.slot ?? null;
}

async function recordGap({ chain, clock }: FollowContext, lane: Lane, tx: StoreTx): Promise<void> {
  if (lane.gap === null) return;
  const { fromSlot, toSlot, reason } = lane.gap;
  await writeGap(tx, {
    chain,
    lane: lane.id,
    from_slot: fromSlot,
    to_slot: toSlot,
    reason,
    status: 'open',
    detected_at: clock.now(),
  });
}

function headerOf({ slot, parentSlot, blockhash, previousBlockhash, blockHeight, blockTime }: ChainBlock): BlockHeader {
  return { slot, parentSlot, blockhash, previousBlockhash, blockHeight, blockTime };
}

export function processorFailed(name: string, slot: number, cause: unknown): unknown {
  // Errors of the store say what the store needs; everything else is the processor's own.
  if (cause instanceof CodedError && cause.code.startsWith('STORE_')) return cause;
  return new CodedError('FOLLOW_PROCESSOR', `processor ${name} failed at slot ${slot}: ${messageOf(cause)}`, {
    cause,
    facts: { processor: name, slot },
    retryable: true,
  });
}

export function fenced(lane: Lane): CodedError {
  return new CodedError(
    'FOLLOW_FENCED',
    `the cursor of lane ${lane.id} is not at slot ${lane.position?.slot ?? 'none'}: another process moved it`,
    {
      exitCode: EXIT.temporary,
      facts: { lane: lane.id },
    },
  );
}
