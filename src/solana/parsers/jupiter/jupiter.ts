import { PROGRAM_ADDRESSES as AT } from '../data/program-addresses.ts';
import { discriminatorOf } from '../discriminator.ts';
import type { Parsed, TransactionParser } from '../parser.ts';
import { JUPITER_V6 } from '../program-ids.ts';
import { describeMint } from '../spl/token.ts';
import { describeSwap, swapEvents } from '../swap/swap-event.ts';
import type { TransactionView, ViewStep } from '../view.ts';
import { oldSwapFacts } from './old-swap.ts';
import { routeFacts } from './route.ts';
import { routeSwaps } from './route-events.ts';

const OLD = [AT.JUPITER_V1, AT.JUPITER_V2, AT.JUPITER_V3, AT.JUPITER_V4];

/** Instructions of version 6 that swap; they are routes also when they tell nothing. */
const ROUTES = new Set([
  // route, shared_accounts_route, exact_out_route, shared_accounts_exact_out_route
  ...['e517cb977ae3ad2a', 'c1209b3341d69c81', 'd033ef977b2bed5c', 'b0d169a89a7d453e'],
  // route_with_token_ledger, shared_accounts_route_with_token_ledger
  ...['96564774a75d0e68', 'e6798f50779f6aaa'],
  // route_v2, shared_accounts_route_v2, exact_out_route_v2, shared_accounts_exact_out_route_v2
  ...['bb64facc31c4af14', 'd19853937cfed8e9', '9d8ab85215f4f324', '3560e5cad8bbfa18'],
]);

export const jupiter: TransactionParser = {
  name: 'jupiter',
  programs: [JUPITER_V6, ...OLD],
  parse(view) {
    const routes = view.outer.filter((step) => step.programId === JUPITER_V6 && isRoute(view, step));
    const swaps = routes.length > 0 ? [] : view.outer.filter((step) => isOldSwap(view, step));
    if (routes.length === 0 && swaps.length === 0) return null;
    // As the hosted parser has it: shares of a pool that are minted on the way make the whole a mint.
    if (!view.options.preferSwapOverMint && view.tokens.some(({ kind }) => kind === 'mint'))
      return { type: 'TOKEN_MINT', source: 'UNKNOWN', describe: () => describeMint(view) };
    return swapped(view, routes, swaps);
  },
};

function swapped(view: TransactionView, routes: readonly ViewStep[], swaps: readonly ViewStep[]): Parsed {
  const facts = () => (routes.length > 0 ? routeFacts(view, routes) : oldSwapFacts(view, swaps));
  return {
    ...{ type: 'SWAP', source: 'JUPITER' },
    describe: (words) => describeSwap(words, facts()),
    events: (words) => swapEvents(view, words, facts()),
  };
}

function isRoute(view: TransactionView, { data, outer }: ViewStep): boolean {
  if (ROUTES.has(discriminatorOf(data))) return true;
  return view.steps.some(
    (step) => step.outer === outer && step.programId === JUPITER_V6 && routeSwaps(step).length > 0,
  );
}

/** Older versions have an instruction per market; those that swap move tokens both ways. */
function isOldSwap(view: TransactionView, { programId, outer }: ViewStep): boolean {
  if (!OLD.includes(programId as (typeof OLD)[number])) return false;
  return view.tokens.filter((move) => move.outer === outer && move.inner >= 0).length > 1;
}
