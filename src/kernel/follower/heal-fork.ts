import { CodedError } from '../../lib/coded-error.ts';
import type { BlockHeader } from '../../ports/block.ts';
import { type AncestorSearch, type ChildLink, findAncestor } from './ancestor.ts';
import { readMarks } from './chain-row.ts';
import { type Position, samePosition } from './decide.ts';
import { moveChain } from './doubt.ts';
import { readMembers } from './members.ts';
import { readHeaders } from './positions.ts';
import { rollBack } from './roll-back.ts';
import type { Run } from './run.ts';

export type Healed = 'rolled-back' | 'stale' | 'unknown';

/**
 * Deals with a block that does not continue the cursor: rolls back to the common ancestor when the chain has really changed.
 * Errors: FOLLOW_DEEP_FORK when that would take back finalized blocks, or more than is known; those of source and store.
 */
export async function healFork(run: Run, from: BlockHeader): Promise<Healed> {
  const { state, source, follow, signal } = run;
  const { cursor } = state;
  if (cursor === null) return 'unknown';
  const ask = { commitment: follow.commitment, signal } as const;
  const ours = await source.header(cursor.slot, ask);
  // The cursor's block is still there: the other block belongs to a branch that is gone, or to a node that is wrong.
  if (ours !== null && ours.blockhash === cursor.blockhash) return 'stale';
  return await goBack(run, cursor, from, {
    commitment: follow.commitment,
    floor: cursor.slot < state.floor ? -1 : state.floor,
  });
}

/**
 * The same for a final block that is not the one which was released last below a gap: what is above the gap goes too, and comes
 * again behind it.
 */
export async function healBelowGap(run: Run, from: ChildLink): Promise<Healed> {
  const { cursor } = run.state;
  return cursor === null ? 'unknown' : await goBack(run, cursor, from, { commitment: 'finalized', floor: -1 });
}

async function goBack(
  run: Run,
  cursor: Position,
  from: ChildLink,
  search: Pick<AncestorSearch, 'commitment' | 'floor'>,
): Promise<Healed> {
  const { source, signal, store, chain } = run;
  const stored = await readHeaders(store.read, chain, 0);
  const held = (slot: number) => run.buffer.get(slot)?.block ?? null;
  const verdict = await findAncestor(from, { source, signal, ...search, stored, held });
  if (verdict.kind === 'stale' || verdict.kind === 'unknown') return verdict.kind;
  const ancestor = verdict.kind === 'found' ? verdict.header : null;
  // From the store: the answer to the write that moved the mark may have been lost.
  const finalizedSlot = (await readMarks(store.read, chain))?.finalizedSlot ?? null;
  if (!mayGo(run.state.floor, finalizedSlot, ancestor, stored)) {
    throw new CodedError('FOLLOW_DEEP_FORK', `a fork reaches below finalized or known blocks of the ${chain} chain`, {
      facts: { ancestorSlot: ancestor?.slot ?? null, finalizedSlot, cursorSlot: cursor.slot },
    });
  }
  return (await takeBack(run, cursor, ancestor)) ? 'rolled-back' : 'unknown';
}

/** Without an ancestor everything may go only if everything since the first block is still stored and nothing is finalized. */
function mayGo(
  floor: number,
  finalizedSlot: number | null,
  ancestor: BlockHeader | null,
  stored: readonly BlockHeader[],
): boolean {
  if (ancestor !== null) return finalizedSlot === null || ancestor.slot >= finalizedSlot;
  const oldest = stored.at(-1);
  return finalizedSlot === null && oldest !== undefined && oldest.parentSlot < floor && oldest.slot >= floor;
}

/** False when the cursor moved while the ancestor was looked for: release and audit may meet the same fork at once. */
async function takeBack(run: Run, seen: Position, ancestor: BlockHeader | null): Promise<boolean> {
  const { state, store, chain, clock } = run;
  return await run.turn(async () => {
    const { cursor } = state;
    if (cursor === null || !samePosition(cursor, seen)) return false;
    const processors = [...state.live, ...state.catchingUp];
    let gone: readonly BlockHeader[] = [];
    const write = async () => {
      gone = await rollBack({ store, chain, processors, now: clock.now() }, cursor, ancestor);
    };
    const to = ancestor === null ? null : { slot: ancestor.slot, blockhash: ancestor.blockhash };
    await moveChain(run, write, { to, adopt: () => wentBack(run, to, gone) });
    return true;
  });
}

async function wentBack(run: Run, to: Position | null, gone: readonly BlockHeader[]): Promise<void> {
  const { state, store, chain } = run;
  if (to === null) Object.assign(state, await readMembers(store.read, chain, run.processors, null, state.floor));
  state.cursor = to;
  run.buffer.clear();
  run.fetcher.clear();
  state.listedTo = -1;
  state.hole = null;
  // The next audit compares what is there now.
  state.mismatch = null;
  run.meter.forks.add();
  run.meter.rolledBack.add(gone.length);
  run.meter.forkDepth.record(gone.length);
  run.log.warn(
    { chain, depth: gone.length, ancestor: to?.slot ?? null, newest: gone[0]?.slot ?? null },
    'rolled back a fork',
  );
  run.pollWake.call();
}
