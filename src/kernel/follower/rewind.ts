import { CodedError } from '../../lib/coded-error.ts';
import { EXIT } from '../errors.ts';
import { readMarks, resetFinalized } from './chain-row.ts';
import { readMembers } from './members.ts';
import { readCursor, readHeaders } from './positions.ts';
import { rollBack } from './roll-back.ts';
import type { Run } from './run.ts';

/**
 * Takes back, as an operator asks, every released block above a slot, final ones too: for a store that stands on a branch which the
 * chain has left. Nothing happens when the cursor is not above it. Errors: FOLLOW_REWIND, exit 78; those of the store.
 */
export async function rewind({ store, chain, processors, clock, log }: Run, toSlot: number): Promise<void> {
  const cursor = await readCursor(store.read, chain);
  if (cursor === null || cursor.slot <= toSlot) return;
  const headers = await readHeaders(store.read, chain, 0);
  const ancestor = headers.find(({ slot }) => slot <= toSlot);
  if (ancestor === undefined)
    throw refused(`blocks of the ${chain} chain are known down to slot ${headers.at(-1)?.slot ?? cursor.slot} only`);
  const marks = await readMarks(store.read, chain);
  const { live, catchingUp } = await readMembers(store.read, chain, processors, cursor, marks?.floor ?? 0);
  const members = [...live, ...catchingUp];
  const forgetful = members.find(({ finalized }) => finalized !== undefined);
  if (forgetful !== undefined && ancestor.slot < (marks?.finalizedSlot ?? -1))
    throw refused(
      `processor ${forgetful.name} keeps nothing to go back below the final slot ${marks?.finalizedSlot}: index it again`,
    );
  // First: a mark above the cursor would forbid forks that are none.
  await store.write((tx) => resetFinalized(tx, chain, ancestor.slot));
  const gone = await rollBack({ store, chain, processors: members, now: clock.now() }, cursor, ancestor);
  log.warn({ chain, from: cursor.slot, to: ancestor.slot, blocks: gone.length }, 'rewound by the operator');
}

const refused = (why: string) => new CodedError('FOLLOW_REWIND', `cannot rewind: ${why}`, { exitCode: EXIT.config });
