import { lazy } from '../../lib/lru.ts';
import type { TokenMove } from '../movements/movement.ts';
import type { Parsed, TransactionParser, TransactionView } from './parser.ts';
import { SOURCES } from './programs.ts';
import { directSwap, marketOf, TRADING_PROGRAMS, userMoves, userOf } from './swap.ts';

/** Sources whose hosted answers have no events. */
const WITHOUT_EVENTS = ['PUMP_AMM'];
const published = lazy(() => new Set(SOURCES));

/**
 * A swap on any known market, whatever the instruction: one token of the user goes out, another one comes in, and no
 * shares of a pool are minted or burned.
 */
export const marketSwap: TransactionParser = {
  name: 'market-swap',
  programs: TRADING_PROGRAMS,
  parse(view) {
    for (const step of view.outer) {
      const { source } = marketOf(step.programId);
      if (!TRADING_PROGRAMS.includes(step.programId) || !isExchange(view, step.outer)) continue;
      return swapOn(view, step.programId, source);
    }
    return null;
  },
};

function swapOn(view: TransactionView, program: string, source: string): Parsed | null {
  return directSwap(
    view,
    published().has(source) ? source : 'UNKNOWN',
    ({ programId, outer }) => programId === program && isExchange(view, outer),
    { events: !WITHOUT_EVENTS.includes(source) },
  );
}

function isExchange(view: TransactionView, outer: number): boolean {
  const moves = view.tokens.filter((move) => move.outer === outer && move.inner >= 0);
  if (moves.length < 2 || moves.some(({ kind }) => kind === 'mint' || kind === 'burn')) return false;
  const user = userOf(view, moves);
  const given = mintsOf(userMoves(view, moves, user, -1));
  const got = mintsOf(userMoves(view, moves, user, 1));
  return given.size === 1 && got.size === 1 && [...given][0] !== [...got][0];
}

const mintsOf = (moves: readonly TokenMove[]): ReadonlySet<number> => new Set(moves.map(({ mint }) => mint));
