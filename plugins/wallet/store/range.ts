import { sql } from 'kysely';
import { stateAfter, type Transitions } from '../../../src/lib/transitions.ts';
import type { WalletRow } from './tables.ts';

/**
 * How the stored range of a wallet (`floor` to `head`) meets the range that comes with the blocks (from `live_from` on). `new`: neither is
 * there; `live`: only blocks; `stored`: only the stored one; `apart`: between both something is missing; `joined`: nothing is. Blocks are not
 * matched against the others: `left` still has its stored range, `dropped` has none.
 */
export type RangeState = 'dropped' | 'left' | 'new' | 'live' | 'stored' | 'apart' | 'joined';

export const RANGE = {
  /** A wallet without a row counts as dropped. */
  register: { dropped: 'new', left: 'stored' },
  block: { new: 'live', stored: 'apart' },
  'block touches head': { new: 'live', stored: 'joined' },
  'blocks passed over': { new: 'live', live: 'live', stored: 'apart', apart: 'apart', joined: 'apart' },
  'job begins': { new: 'stored', live: 'joined' },
  /** The newest final slot is further than one below the first block that came. */
  'job begins below the blocks': { new: 'stored', live: 'apart' },
  'head moves': { stored: 'stored', apart: 'apart' },
  'head reaches the blocks': { apart: 'joined' },
  /** The upstream has pruned what would join both ranges, or an operator has the past read again. */
  'start again': { new: 'new', live: 'live', stored: 'new', apart: 'live', joined: 'live' },
  unfollow: { new: 'dropped', live: 'dropped', stored: 'left', apart: 'left', joined: 'left' },
  drop: { left: 'dropped', new: 'dropped', live: 'dropped', stored: 'dropped', apart: 'dropped', joined: 'dropped' },
} as const satisfies Transitions<RangeState, string>;

export type RangeEvent = keyof typeof RANGE;

export type RangeColumns = Pick<WalletRow, 'is_followed' | 'head' | 'live_from'>;

export function rangeOf({ is_followed, head, live_from }: RangeColumns): RangeState {
  if (is_followed === 0) return head === null ? 'dropped' : 'left';
  if (head === null) return live_from === null ? 'new' : 'live';
  if (live_from === null) return 'stored';
  return head >= live_from - 1 ? 'joined' : 'apart';
}

/** Whether an event may come in the state of a wallet. */
export const mayCome = (event: RangeEvent, row: RangeColumns): boolean =>
  stateAfter(RANGE, event, rangeOf(row)) !== null;

/** What `rangeOf` says, of a row of `wallet_wallets`. */
const CONDITIONS: Readonly<Record<RangeState, string>> = {
  dropped: 'is_followed = 0 and head is null',
  left: 'is_followed = 0 and head is not null',
  new: 'is_followed = 1 and head is null and live_from is null',
  live: 'is_followed = 1 and head is null and live_from is not null',
  stored: 'is_followed = 1 and head is not null and live_from is null',
  apart: 'is_followed = 1 and head < live_from - 1',
  joined: 'is_followed = 1 and head >= live_from - 1',
};

const inStates = (states: readonly RangeState[]) =>
  sql.raw<boolean>(`(${states.map((state) => `(${CONDITIONS[state]})`).join(' or ')})`);

/** Condition on the rows in whose state an event may come; `other`: and another one may not. */
export const whereMayCome = (event: RangeEvent, other: RangeEvent | null = null) =>
  inStates((Object.keys(RANGE[event]) as RangeState[]).filter((state) => other === null || !(state in RANGE[other])));

/** Condition on rows in these states. */
export const whereIn = (...states: readonly RangeState[]) => inStates(states);
