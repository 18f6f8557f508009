/** What wallets hold, and what names stand for, is what the runtime says. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encode32 } from '../../../src/lib/base58.ts';
import { knownKey } from '../../../src/solana/addresses.ts';
import { WRAPPED_SOL_MINT } from '../../../src/solana/programs.ts';
import { chainMissing, startChain } from '../../helpers/chain.ts';
import { startDaemon } from '../../helpers/daemon.ts';
import { setName } from '../../helpers/name-accounts.ts';
import { createSfc32 } from '../../helpers/sfc32.ts';
import { createEconomy } from '../../helpers/wallet-economy.ts';

interface Row {
  readonly mint: string;
  readonly symbol: string | null;
  readonly balance: number;
  readonly decimals: number;
}
interface Body {
  readonly balances: readonly Row[];
  readonly pagination: { readonly hasMore: boolean };
}

const SEED = Number(process.env['TEST_SEED'] ?? 20_261_122);
const ROUNDS = 4;
const BLOCKS = 12;

test('balances of a random economy, in pages of any size', { skip: (await chainMissing()) ?? false }, async (t) => {
  const chain = await startChain();
  const economy = await createEconomy(chain, SEED);
  const daemon = await startDaemon({
    chain,
    config: {
      plugins: ['access', 'prices', 'token-metadata', 'wallet'],
      wallet: { balances: { cacheMs: 0, pagesMs: 0 } },
    },
  });
  t.after(async () => {
    await daemon.stop();
    await chain.stop();
  });
  const { below } = createSfc32(SEED);
  const get = async (path: string) => {
    const response = await fetch(`${daemon.apiUrl}/v1/wallet/${path}`, { headers: { 'X-Api-Key': daemon.key } });
    return { status: response.status, body: (await response.json()) as Body };
  };
  const readAll = async (wallet: string, limit: number): Promise<readonly Row[]> => {
    const rows: Row[] = [];
    for (let page = 1; ; page += 1) {
      const { status, body } = await get(`${wallet}/balances?limit=${limit}&page=${page}`);
      assert.equal(status, 200, JSON.stringify(body));
      rows.push(...body.balances);
      if (!body.pagination.hasMore) return rows;
    }
  };
  for (let round = 0; round < ROUNDS; round += 1) {
    await economy.run(BLOCKS);
    const truth = economy.truth.get(await economy.note());
    for (const wallet of economy.wallets) {
      const rows = await readAll(wallet, 1 + below(5));
      assert.equal(rows[0]?.symbol, 'SOL');
      const found = rows.map(({ mint, balance, decimals }, at): [string, bigint] => [
        at === 0 ? 'SOL' : mint,
        BigInt(Math.round(balance * 10 ** decimals)),
      ]);
      const held = [...(truth?.get(wallet) ?? [])];
      const expected = held.some(([mint]) => mint === 'SOL') ? held : [...held, ['SOL', 0n] as const];
      const byMint = (a: readonly [string, bigint], b: readonly [string, bigint]) => (a[0] < b[0] ? -1 : 1);
      assert.deepEqual(found.toSorted(byMint), expected.toSorted(byMint), `${wallet}, round ${round}, seed ${SEED}`);
      assert.deepEqual(
        rows.slice(1).map(({ mint }) => mint),
        rows
          .slice(1)
          .map(({ mint }) => mint)
          .toSorted(),
        'what has no price goes by mint',
      );
      if (truth?.get(wallet)?.has(WRAPPED_SOL_MINT) === true)
        assert.equal(rows.find(({ symbol }) => symbol === 'WSOL')?.mint, WRAPPED_SOL_MINT);
    }
  }
  await t.test('a name of the chain', async () => {
    const [owner = ''] = economy.wallets;
    const accounts: Parameters<typeof setName>[0] = new Map();
    setName(accounts, 'sundog', knownKey(owner));
    for (const [address, { owner: program, data }] of accounts)
      await chain.setAccount(address, { lamports: 2_000_000n, data, owner: program });
    const { status, body } = await get('sundog.sol/identity');
    assert.deepEqual(
      [status, body],
      [
        404,
        {
          error: 'No identity information available for this address',
          code: 404,
          details: `sundog.sol resolves to ${encode32(knownKey(owner))}`,
        },
      ],
    );
    assert.equal((await get('rainbow.sol/identity')).status, 404);
  });
});
