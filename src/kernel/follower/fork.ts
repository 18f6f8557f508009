import { CodedError } from '../../lib/coded-error.ts';
import type { BlockHeader } from '../../ports/block.ts';
import { EXIT } from '../errors.ts';
import type { FollowContext } from './context.ts';
import { type Lane, ownersOf, positionOf } from './lane.ts';
import { fenced, processorFailed } from './release.ts';
import { deleteHeaders, moveCursors } from './rows.ts';

export type ForkOutcome =
  | { readonly kind: 'rolled-back'; readonly ancestor: BlockHeader; readonly undone: readonly BlockHeader[] }
  /** The branch does not hold together: whoever served the block is wrong. */
  | { readonly kind: 'contradiction'; readonly reason: string };

/**
 * Walks back from a block that does not continue the lane to the newest block both branches share, and undoes what came after it.
 * Errors: FOLLOW_DEEP_FORK when there is none within the stored headers or above the finalized mark.
 */
export async function resolveFork(
  context: FollowContext,
  lane: Lane,
  block: BlockHeader,
  finalizedSlot: number | null,
): Promise<ForkOutcome> {
  const bySlot = new Map(lane.headers.map((header) => [header.slot, header]));
  const oldest = lane.headers[0]?.slot ?? Number.POSITIVE_INFINITY;
  let branch = block;
  for (;;) {
    const ancestor = bySlot.get(branch.parentSlot);
    if (ancestor !== undefined && ancestor.blockhash === branch.previousBlockhash) {
      if (finalizedSlot !== null && ancestor.slot < finalizedSlot)
        throw tooDeep(lane, `slot ${ancestor.slot} lies below the finalized slot ${finalizedSlot}`);
      return { kind: 'rolled-back', ancestor, undone: await rollBack(context, lane, ancestor) };
    }
    if (branch.parentSlot < oldest) throw tooDeep(lane, `no common block within ${lane.headers.length} headers`);
    const parent = await context.source.header(branch.parentSlot, {
      commitment: context.follow.commitment,
      signal: context.signal,
    });
    if (parent === null)
      return {
        kind: 'contradiction',
        reason: `the parent of slot ${branch.slot} is at slot ${branch.parentSlot}, and nobody has it`,
      };
    if (parent.blockhash !== branch.previousBlockhash)
      return {
        kind: 'contradiction',
        reason: `slot ${branch.slot} names another blockhash for its parent than slot ${branch.parentSlot} has`,
      };
    branch = parent;
  }
}

/** Undoes all blocks above the ancestor, newest first, in one transaction together with the cursors. */
async function rollBack(context: FollowContext, lane: Lane, ancestor: BlockHeader): Promise<readonly BlockHeader[]> {
  const { store, chain, metrics, log } = context;
  const undone = lane.headers.filter(({ slot }) => slot > ancestor.slot).reverse();
  if (undone.length === 0) return undone;
  await store.write(async (tx) => {
    for (const header of undone) {
      for (const processor of [...lane.processors].reverse()) {
        try {
          await processor.revert(tx, header, chain);
        } catch (error) {
          throw processorFailed(processor.name, header.slot, error);
        }
      }
    }
    await deleteHeaders(tx, chain, lane.id, { above: ancestor.slot });
    if (!(await moveCursors(tx, chain, ownersOf(lane), lane.position, positionOf(ancestor)))) throw fenced(lane);
  });
  lane.headers = lane.headers.filter(({ slot }) => slot <= ancestor.slot);
  lane.position = positionOf(ancestor);
  metrics.forks.add();
  metrics.rolledBack.add(undone.length);
  log.warn(
    { chain, lane: lane.id, ancestorSlot: ancestor.slot, blocks: undone.length },
    'fork: rolled back to the common block',
  );
  return undone;
}

function tooDeep(lane: Lane, reason: string): CodedError {
  return new CodedError(
    'FOLLOW_DEEP_FORK',
    `lane ${lane.id} cannot follow a fork: ${reason}. Start again from a slot before it, with an empty store`,
    {
      exitCode: EXIT.temporary,
      facts: { lane: lane.id },
    },
  );
}
