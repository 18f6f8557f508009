import { lazy } from '../../lib/lazy.ts';
import type { TokenMove } from '../movements/movement.ts';
import {
  DRIFT,
  JUPITER_LEND_DEPOSITS,
  JUPITER_LEND_VAULTS,
  JUPITER_PERPETUALS,
  KAMINO_LEND,
  MARGINFI,
  SOLEND,
  WRAPPED_SOL_MINT,
} from '../programs.ts';
import type { Parsed, TransactionParser, TransactionView } from './parser.ts';
import { SOURCES } from './programs.ts';
import {
  describeSwap,
  directSwap,
  legOf,
  marketOf,
  type SwapFacts,
  type SwapLeg,
  swapEvents,
  TRADING_PROGRAMS,
  userMoves,
  userOf,
} from './swap.ts';

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

/** Net change of one token of the fee payer. */
interface NetChange {
  /** base58 */
  readonly mint: string;
  /** Raw units. */
  readonly change: bigint;
  readonly decimals: number;
}

/** Programs in which the incoming token is not the price of the outgoing one: debt and collateral, margin. */
const LENDING: readonly string[] = [
  // Jupiter Lend: deposits, vaults; Jupiter perpetuals
  JUPITER_LEND_DEPOSITS,
  JUPITER_LEND_VAULTS,
  JUPITER_PERPETUALS,
  // Kamino, Marginfi, Solend, Drift
  KAMINO_LEND,
  MARGINFI,
  SOLEND,
  DRIFT,
];

/**
 * A swap on an unknown program: the fee payer gives one token and receives another one. SOL and wrapped SOL are one token; the
 * fee, rent and payments requested by the message itself are excluded. Shares that are minted or burned for the payer are a deposit
 * or a withdrawal, and a single indivisible token is a sale.
 */
export const unknownSwap: TransactionParser = {
  name: 'unknown-swap',
  programs: null,
  parse(view) {
    if (view.tx.error !== null || view.steps.some(({ programId }) => LENDING.includes(programId))) return null;
    const legs = legsOf(view);
    if (legs === null) return null;
    const facts: SwapFacts = { user: view.feePayer, ...legs, fees: [], inner: [] };
    return {
      type: 'SWAP',
      source: 'UNKNOWN',
      describe: (words) => describeSwap(words, facts),
      events: (words) => swapEvents(view, words, facts),
    };
  },
};

function legsOf(view: TransactionView): { readonly input: SwapLeg; readonly output: SwapLeg } | null {
  const tokens = netTokens(view);
  // Only tokens moved by a program count as traded.
  if (tokens.length === 0 || tokens.length > 2 || !tokens.every((token) => isTraded(view, token))) return null;
  const sol = tokens.length === 1 ? netSol(view) : null;
  const changes = sol === null ? tokens : [...tokens, sol];
  const [input, output] = [changes.filter(({ change }) => change < 0n), changes.filter(({ change }) => change > 0n)];
  if (input.length !== 1 || output.length !== 1) return null;
  const leg = ({ mint, change, decimals }: NetChange): SwapLeg => {
    const amount = change < 0n ? -change : change;
    const made = legOf(view, view.tokens, view.feePayer, change < 0n ? -1 : 1, mint, amount);
    // Without an account of wrapped SOL these are lamports.
    return { ...made, decimals, isNative: made.isNative || (mint === WRAPPED_SOL_MINT && made.tokenAccount === '') };
  };
  return { input: leg(input[0] as NetChange), output: leg(output[0] as NetChange) };
}

/** All tokens of the payer except SOL. */
function netTokens({ movements, key, feePayer }: TransactionView): NetChange[] {
  const net = new Map<string, NetChange>();
  for (const { owner, mint, change, decimals } of movements.tokenChanges) {
    const text = key(mint);
    if (key(owner) !== feePayer || text === WRAPPED_SOL_MINT) continue;
    net.set(text, { mint: text, decimals, change: change + (net.get(text)?.change ?? 0n) });
  }
  return [...net.values()].filter(({ change }) => change !== 0n);
}

function isTraded(view: TransactionView, { mint, change, decimals }: NetChange): boolean {
  if (decimals === 0 && (change === 1n || change === -1n)) return false;
  const own = view.tokens.filter(
    (move) =>
      view.key(move.mint) === mint &&
      view.key(change < 0n ? move.sourceOwner : move.destinationOwner) === view.feePayer,
  );
  return own.some(({ inner }) => inner >= 0) && own.every(({ kind }) => kind !== 'mint' && kind !== 'burn');
}

/** SOL of the payer, wrapped or not; null when no program moved it. */
function netSol(view: TransactionView): NetChange | null {
  const { tx, natives, tokens, feePayer, key, movements } = view;
  const wrappedAt = (position: number, when: typeof tx.preTokenBalances) => {
    const found = when.find(({ accountIndex }) => accountIndex === position);
    return found !== undefined && key(found.mintKey) === WRAPPED_SOL_MINT ? BigInt(found.amount) : 0n;
  };
  let change = BigInt(tx.postBalances[0] ?? 0) - BigInt(tx.preBalances[0] ?? 0) + BigInt(tx.fee);
  for (const { owner, mint, change: wrapped } of movements.tokenChanges)
    if (key(owner) === feePayer && key(mint) === WRAPPED_SOL_MINT) change += wrapped;
  const funded = new Set(natives.filter(({ from }) => from === 0).map(({ to }) => to));
  for (let at = 1; at < tx.keys.length; at += 1) {
    const [before, after] = [BigInt(tx.preBalances[at] ?? 0), BigInt(tx.postBalances[at] ?? 0)];
    // Rent that the payer left in a new account, or got back from an own account.
    if (before === 0n && after > 0n && funded.has(at) && isAccountOfProgram(view, at))
      change += after - wrappedAt(at, tx.postTokenBalances);
    const owned = tx.preTokenBalances.find(({ accountIndex }) => accountIndex === at);
    if (after === 0n && before > 0n && owned !== undefined && key(owned.ownerKey) === feePayer)
      change -= before - wrappedAt(at, tx.preTokenBalances);
  }
  // Tips and fees of the program that created the message.
  for (const { inner, from, to, toToken, kind, amount } of natives)
    if (inner < 0 && from === 0 && to !== 0 && toToken === null && kind.startsWith('transfer')) change += amount;
  const isMoved =
    tokens.some(
      ({ inner, mint, sourceOwner, destinationOwner }) =>
        inner >= 0 &&
        key(mint) === WRAPPED_SOL_MINT &&
        [sourceOwner, destinationOwner].some((owner) => key(owner) === feePayer),
    ) ||
    natives.some(
      ({ inner, from, to, kind }) => inner >= 0 && kind.startsWith('transfer') && (from === 0 || to === 0),
    ) ||
    change > 0n;
  return change === 0n || !isMoved ? null : { mint: WRAPPED_SOL_MINT, change, decimals: 9 };
}

/** Whether an account was created for a program in the transaction, as opposed to only receiving lamports. */
const isAccountOfProgram = ({ natives, tx }: TransactionView, at: number): boolean =>
  natives.some(({ to, kind }) => to === at && kind.startsWith('create')) ||
  tx.postTokenBalances.some(({ accountIndex }) => accountIndex === at);
