import { lazy } from '../../../lib/lazy.ts';
import { DEVNET } from '../data/devnet-programs.ts';
import { PROGRAM_ADDRESSES as AT } from '../data/program-addresses.ts';
import { PROGRAM_NAMES } from '../data/program-names.ts';
import { SOURCES } from '../data/sources.ts';
import { SANCTUM_ROUTER } from '../program-ids.ts';

/** A program that trades, as `programInfo` tells it. */
export interface Market {
  /** base58 */
  readonly account: string;
  readonly name: string;
  readonly source: string;
}

/** Programs that no published list names. */
const MORE: readonly Market[] = [
  { account: 'CAMMCzo5YL8w4VFF8KVHrK22GGUsp5VTaW7grrKgrWqK', name: 'RAYDIUM_CLMM', source: 'RAYDIUM' },
  { account: 'CPMMoo8L3F4NbTegBCKVNunggL7H1ZpdTHKxQB5qKP1C', name: 'RAYDIUM_CPMM', source: 'RAYDIUM' },
  { account: 'LBUZKhRxPF3XUpBCjp4YzTKgLccjZhTSDM9YuVaPwxo', name: 'METEORA_DLMM', source: 'METEORA' },
  { account: 'Eo7WjKq67rjJQSZxS6z3YkapzY3eMj6Xy8X5EQVn5UaB', name: 'METEORA_POOLS', source: 'METEORA' },
  { account: 'cpamdpZCGKUy5JxQXB4dcpGPiikHawvSWAd6mEn1sGG', name: 'METEORA_DAMM_V2', source: 'METEORA' },
  { account: 'HyaB3W9q6XdA5xwpU4XnSZV94htfmbmqJXZcEbRaJutt', name: 'INVARIANT', source: 'INVARIANT' },
  { account: 'PhoeNiXZ8ByJGLkxNfZRnkUfjvmuYqLR89jjFHGqdXY', name: 'PHOENIX', source: 'PHOENIX' },
  { account: 'srmqPvymJeFKQ4zGQed1GFppgkRHL9kaELCbyksJtPX', name: 'OPENBOOK', source: 'OPENBOOK' },
  { account: 'opnb2LAfJYbRMAHHvqjCwQxanZn7ReEHp1k81EohpZb', name: 'OPENBOOK_V2', source: 'OPENBOOK' },
  { account: '5ocnV1qiCgaQR8Jb8xWnVbApfaygJ8tNoZfgPwsgx9kx', name: 'SANCTUM_INFINITY', source: 'SANCTUM' },
  { account: SANCTUM_ROUTER, name: 'SANCTUM_ROUTER', source: 'SANCTUM' },
  { account: '6EF8rrecthR5Dkzon8Nwu78hRvfCKubJ14M5uBEwF6P', name: 'PUMP_FUN', source: 'PUMP_FUN' },
  { account: 'pAMMBay6oceH9fJKBRHGP5D4bD4sWpmSwMn52FMfXEA', name: 'PUMP_AMM', source: 'PUMP_AMM' },
  { account: DEVNET.RAYDIUM_LIQUIDITY_POOL_V4, name: 'RAYDIUM_LIQUIDITY_POOL_V4', source: 'RAYDIUM' },
  { account: DEVNET.RAYDIUM_CLMM, name: 'RAYDIUM_CLMM', source: 'RAYDIUM' },
  { account: DEVNET.RAYDIUM_CPMM, name: 'RAYDIUM_CPMM', source: 'RAYDIUM' },
  { account: DEVNET.OPENBOOK, name: 'OPENBOOK', source: 'OPENBOOK' },
];

/** Programs on which a user may trade without an aggregator. */
export const TRADING_PROGRAMS: readonly string[] = [
  ...MORE.map(({ account }) => account),
  ...[AT.ORCA_WHIRLPOOLS, AT.ORCA_TOKEN_SWAP_V1, AT.ORCA_TOKEN_SWAP_V2, AT.LIFINITY, AT.LIFINITY_V2],
  ...[AT.RAYDIUM_LIQUIDITY_POOL_V2, AT.RAYDIUM_LIQUIDITY_POOL_V3, AT.RAYDIUM_LIQUIDITY_POOL_V4],
  ...[AT.ALDRIN_AMM_V1, AT.ALDRIN_AMM_V2, AT.SABER_STABLE_SWAP, AT.MERCURIAL_STABLE_SWAP],
  ...[AT.STEP_FINANCE_SWAP_PROGRAM, AT.CYKURA, AT.CREMA_FINANCE, AT.STEPN, AT.SENCHA_EXCHANGE],
  ...[AT.CROPPER, AT.SAROS_AMM, AT.SERUM_SWAP],
];

/** A name of the list of addresses that `programName` spells otherwise. */
const RENAMED: Readonly<Record<string, string>> = {
  STEP_FINANCE_SWAP_PROGRAM: 'STEP_FINANCE',
  CREMA_FINANCE: 'CREMA',
};
const SOURCE_OF: Readonly<Record<string, string>> = { HADE_SWAP: 'HADESWAP' };

const known = lazy(() => {
  const markets = new Map<string, Market>();
  for (const [published, account] of Object.entries(AT)) {
    const name = RENAMED[published] ?? published;
    if (PROGRAM_NAMES.includes(name)) markets.set(account, { account, name, source: sourceOf(name) });
  }
  for (const market of MORE) markets.set(market.account, market);
  return markets;
});

function sourceOf(name: string): string {
  const prefixes = SOURCES.filter((source) => name.startsWith(source));
  return SOURCE_OF[name] ?? prefixes.sort((left, right) => right.length - left.length)[0] ?? 'UNKNOWN';
}

/** Of any program: one that is not known has the name and the source `UNKNOWN`. */
export function marketOf(account: string): Market {
  return known().get(account) ?? { account, name: 'UNKNOWN', source: 'UNKNOWN' };
}
