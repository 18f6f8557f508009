import type { ChainReader } from '../../../src/ports/chain.ts';
import type { RawAccount } from '../../../src/solana/accounts/raw-account.ts';
import { decodeMint } from '../../../src/solana/accounts/token/mint.ts';
import { decodeTokenAccount } from '../../../src/solana/accounts/token/token-account.ts';
import type { PoolConfig } from '../config.ts';
import type { PoolState } from './pool-price.ts';

const ACCOUNTS_PER_CALL = 100;
const ROOT_BYTES = 16;

interface AnsweredAccount {
  readonly owner: string;
  readonly data: readonly [string, string];
}

type Accounts = ReadonlyMap<string, Pick<RawAccount, 'owner' | 'data'>>;

/** Reads pools from the chain; those whose accounts are not what the configuration says are left out. Errors: those of `ChainReader.call`. */
export async function readPools(
  chain: ChainReader,
  pools: readonly PoolConfig[],
  timeoutMs: number,
): Promise<ReadonlyMap<PoolConfig, PoolState>> {
  const keys = new Set(pools.flatMap((pool) => [pool.mint, pool.quote, pool.baseVault, pool.quoteVault]));
  for (const { sqrtPrice } of pools) if (sqrtPrice !== undefined) keys.add(sqrtPrice.account);
  const accounts = await readAll(chain, [...keys], timeoutMs);
  const states = new Map<PoolConfig, PoolState>();
  for (const pool of pools) {
    const state = stateOf(pool, accounts);
    if (state !== null) states.set(pool, state);
  }
  return states;
}

async function readAll(chain: ChainReader, keys: readonly string[], timeoutMs: number): Promise<Accounts> {
  const found = new Map<string, Pick<RawAccount, 'owner' | 'data'>>();
  for (let from = 0; from < keys.length; from += ACCOUNTS_PER_CALL) {
    const part = keys.slice(from, from + ACCOUNTS_PER_CALL);
    const params = [part, { encoding: 'base64', commitment: 'confirmed' }];
    const options = { timeoutMs };
    const { value } = await chain.call<{ readonly value: readonly (AnsweredAccount | null)[] }>(
      'getMultipleAccounts',
      params,
      options,
    );
    part.forEach((key, index) => {
      const account = value[index];
      if (account) found.set(key, { owner: account.owner, data: Buffer.from(account.data[0], 'base64') });
    });
  }
  return found;
}

function stateOf(pool: PoolConfig, accounts: Accounts): PoolState | null {
  const base = sideOf(pool.mint, pool.baseVault, accounts);
  const quote = sideOf(pool.quote, pool.quoteVault, accounts);
  if (base === null || quote === null) return null;
  if (pool.sqrtPrice === undefined) return { base, quote, sqrtPrice: null };
  const { account, offset, inverted } = pool.sqrtPrice;
  const data = accounts.get(account)?.data;
  if (data === undefined || data.length < offset + ROOT_BYTES) return null;
  const view = new DataView(data.buffer, data.byteOffset + offset, ROOT_BYTES);
  const value = view.getBigUint64(0, true) + (view.getBigUint64(8, true) << 64n);
  return { base, quote, sqrtPrice: { value, inverted } };
}

function sideOf(mint: string, vault: string, accounts: Accounts): PoolState['base'] | null {
  const [mintAccount, vaultAccount] = [accounts.get(mint), accounts.get(vault)];
  if (mintAccount === undefined || vaultAccount === undefined) return null;
  const { value: decoded } = decodeMint(mintAccount);
  const { value: held } = decodeTokenAccount(vaultAccount);
  if (decoded === null || held === null || held.mint !== mint) return null;
  return { amount: held.amount, decimals: decoded.decimals };
}
