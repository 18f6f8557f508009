import { CodedError, EXIT } from '../../lib/coded-error.ts';
import { isPlainObject } from '../../lib/json.ts';

export interface PricePlan {
  readonly name: string;
  readonly usdPerMonth: number;
  readonly creditsPerMonth: number;
}

/** What a hosted service charges, as it was published on a day. */
export interface PriceTable {
  readonly service: string;
  /** YYYY-MM-DD on which somebody read the source. */
  readonly date: string;
  readonly source: string;
  readonly plans: readonly PricePlan[];
  /** Null: credits beyond the plan cannot be bought. */
  readonly usdPerMillionCredits: number | null;
}

/** What running this daemon costs; only the operator knows. */
export interface OwnCosts {
  readonly machineUsdPerMonth: number;
  readonly upstreamUsdPerMillionCalls: number;
  /** Length of a slot, for the calls that following the chain takes: one for each block. */
  readonly slotMs: number;
}

export interface CostPrices {
  readonly hosted: PriceTable;
  readonly own: OwnCosts;
}

export const PRICES: CostPrices = {
  hosted: {
    service: 'helius',
    date: '2026-11-29',
    source: 'helius.dev/docs/billing/credits, helius.dev/docs/billing/additional-credits',
    plans: [
      { name: 'free', usdPerMonth: 0, creditsPerMonth: 1_000_000 },
      { name: 'developer', usdPerMonth: 49, creditsPerMonth: 10_000_000 },
      { name: 'business', usdPerMonth: 499, creditsPerMonth: 100_000_000 },
      { name: 'professional', usdPerMonth: 999, creditsPerMonth: 200_000_000 },
    ],
    usdPerMillionCredits: 5,
  },
  own: { machineUsdPerMonth: 0, upstreamUsdPerMillionCalls: 0, slotMs: 400 },
};

/** Products whose calls go to an upstream here; the others are answered from followed blocks and their own index. */
const FORWARDED: ReadonlySet<string> = new Set(['rpc', 'archival']);
const MONTH_MS = 30 * 86_400_000;

export interface CostRow {
  readonly product: string;
  readonly credits: number;
  /** Null: metered by bytes. */
  readonly requests: number | null;
  /** Its share of their bill. */
  readonly usdThere: number;
  /** Calls to upstreams here. */
  readonly upstreamCalls: number;
  readonly usdHere: number;
}

export interface CostReport {
  readonly service: string;
  readonly date: string;
  readonly source: string;
  /** Their cheapest plan for this usage. */
  readonly plan: string;
  readonly credits: number;
  readonly usdThere: number;
  readonly usdHere: number;
  readonly followingCalls: number;
  readonly usdFollowing: number;
  readonly usdMachine: number;
  readonly rows: readonly CostRow[];
}

/** `usage`: the answer of the admin endpoint of the hosted service for one month. Error: MOVE_USAGE. */
export function costOf(usage: unknown, { hosted, own }: CostPrices): CostReport {
  const credits = numbersOf(usage, 'credits');
  const requests = numbersOf(usage, 'requests');
  if (credits === null) throw usageError('the usage has no member credits with numbers by product');
  const total = [...credits.values()].reduce((sum, one) => sum + one, 0);
  const { plan, usd } = cheapest(total, hosted);
  const upstreamUsd = own.upstreamUsdPerMillionCalls / 1_000_000;
  const rows = [...credits].map(([product, amount]): CostRow => {
    const calls = requests?.get(product) ?? null;
    const upstreamCalls = FORWARDED.has(product) ? (calls ?? amount) : 0;
    return {
      product,
      credits: amount,
      requests: calls,
      usdThere: total === 0 ? 0 : (usd * amount) / total,
      upstreamCalls,
      usdHere: upstreamCalls * upstreamUsd,
    };
  });
  const followingCalls = Math.round(MONTH_MS / own.slotMs);
  const usdFollowing = followingCalls * upstreamUsd;
  const usdMachine = own.machineUsdPerMonth;
  const usdHere = rows.reduce((sum, row) => sum + row.usdHere, usdFollowing + usdMachine);
  const { service, date, source } = hosted;
  return {
    service,
    date,
    source,
    plan,
    credits: total,
    usdThere: usd,
    usdHere,
    followingCalls,
    usdFollowing,
    usdMachine,
    rows,
  };
}

function cheapest(credits: number, { plans, usdPerMillionCredits }: PriceTable): { plan: string; usd: number } {
  const offers = plans.flatMap(({ name, usdPerMonth, creditsPerMonth }) => {
    const beyond = Math.max(0, credits - creditsPerMonth);
    if (beyond > 0 && (usdPerMillionCredits === null || usdPerMonth === 0)) return [];
    return [{ plan: name, usd: usdPerMonth + (beyond * (usdPerMillionCredits ?? 0)) / 1_000_000 }];
  });
  const [best] = offers.sort((a, b) => a.usd - b.usd);
  if (best === undefined) throw usageError('no plan of the price table allows this usage');
  return best;
}

/** Prices of a file over the built-in ones. Error: MOVE_USAGE. */
export function readPrices(text: string): CostPrices {
  let found: unknown = null;
  try {
    found = JSON.parse(text);
  } catch {
    // Said below.
  }
  if (!isPlainObject(found)) throw usageError('the price file is not a JSON object with the members hosted and own');
  const hosted = { ...PRICES.hosted, ...(found['hosted'] as Partial<PriceTable> | undefined) };
  const own = { ...PRICES.own, ...(found['own'] as Partial<OwnCosts> | undefined) };
  const isAmount = (value: unknown) => typeof value === 'number' && Number.isFinite(value) && value >= 0;
  const isPlan = (plan: unknown) =>
    isPlainObject(plan) &&
    typeof plan['name'] === 'string' &&
    isAmount(plan['usdPerMonth']) &&
    isAmount(plan['creditsPerMonth']);
  if (!Array.isArray(hosted.plans) || hosted.plans.length === 0 || !hosted.plans.every(isPlan))
    throw usageError('hosted.plans must be a list of {name, usdPerMonth, creditsPerMonth}');
  if (!/^\d{4}-\d{2}-\d{2}$/.test(String(hosted.date)) || typeof hosted.source !== 'string')
    throw usageError('hosted.date (YYYY-MM-DD) and hosted.source say where the prices come from');
  if (hosted.usdPerMillionCredits !== null && !isAmount(hosted.usdPerMillionCredits))
    throw usageError('hosted.usdPerMillionCredits must be a number or null');
  if (!isAmount(own.machineUsdPerMonth) || !isAmount(own.upstreamUsdPerMillionCalls) || !(own.slotMs > 0))
    throw usageError('own.machineUsdPerMonth, own.upstreamUsdPerMillionCalls and own.slotMs must be numbers');
  return { hosted, own };
}

function numbersOf(usage: unknown, member: string): ReadonlyMap<string, number> | null {
  const found = isPlainObject(usage) ? usage[member] : undefined;
  if (!isPlainObject(found)) return null;
  const isCount = (value: unknown): value is number =>
    typeof value === 'number' && Number.isFinite(value) && value >= 0;
  return new Map(Object.entries(found).filter((entry): entry is [string, number] => isCount(entry[1])));
}

const usageError = (text: string) => new CodedError('MOVE_USAGE', text, { exitCode: EXIT.usage });
