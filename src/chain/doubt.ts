import { codeOf } from '../lib/coded-error.ts';
import { samePosition } from './decide.ts';
import type { Doubt } from './follow-state.ts';
import { readCursor } from './positions.ts';
import type { Run } from './run.ts';

/**
 * Moves the chain's own cursor, inside a turn. `adopt` runs once the write is known to be committed, if need be only after the next
 * look at the store. Errors: those of `write`.
 */
export async function moveChain(run: Run, write: () => Promise<void>, doubt: Doubt): Promise<void> {
  try {
    await write();
  } catch (error) {
    if (codeOf(error)?.startsWith('STORE_')) run.state.doubt = doubt;
    throw error;
  }
  // Committed: should the adoption fail, the next turn has to repeat it.
  run.state.doubt = doubt;
  await doubt.adopt();
  run.state.doubt = null;
}

/**
 * Looks where the cursor really stands. Only our own write is taken over: any other position is left to the next write, which finds
 * out the rival. Errors: those of the store.
 */
export async function settleDoubt({ state, store, chain }: Run): Promise<void> {
  const { doubt } = state;
  if (doubt === null) return;
  const stored = await readCursor(store.read, chain);
  if (samePosition(stored, doubt.to)) await doubt.adopt();
  state.doubt = null;
}

/**
 * To be asked before anything is written that no link to a released block proves: a roll-back, a gap record, the first block behind a gap
 * or of all. An upstream may have become another chain since it was last asked, and what came from it goes. False: nothing may be
 * concluded from what was read so far.
 */
export async function isSameChain(run: Run): Promise<boolean> {
  const isSame = await run.source.confirmChain(run.signal);
  const dropped = dropForeign(run);
  return isSame && !dropped;
}

/** Forgets what upstreams gave that are out of service now. Returns whether there was something. */
export function dropForeign({ source, buffer, state }: Pick<Run, 'source' | 'buffer' | 'state'>): boolean {
  const out = source.outOfService();
  if (out.length === 0) return false;
  let dropped = false;
  for (let held = buffer.after(-1); held !== null; held = buffer.after(held.block.slot))
    if (out.includes(held.upstream)) {
      buffer.remove(held.block.slot);
      dropped = true;
    }
  // What was listed may be of the other chain: it is listed again.
  if (dropped) state.listedTo = -1;
  return dropped;
}
