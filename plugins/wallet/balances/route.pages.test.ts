import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { encode32 } from '../../../src/lib/base58.ts';
import type { MintFacts } from '../../../src/ports/tokens.ts';
import { WRAPPED_SOL_MINT } from '../../../src/solana/programs.ts';
import { buildTable, type TableInput } from './holdings.ts';
import { cutHoldings, solRow, tokenRow, totalValue } from './route.ts';

const mint = fc.uint8Array({ minLength: 32, maxLength: 32 }).map((bytes) => encode32(bytes));
const holding = fc.record({
  mint: fc.oneof({ weight: 9, arbitrary: mint }, fc.constant(WRAPPED_SOL_MINT)),
  program: fc.constantFrom('spl-token' as const, 'token-2022' as const),
  amount: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
  decimals: fc.nat(18),
  isNft: fc.boolean(),
  isKnown: fc.integer({ min: 0, max: 9 }).map((roll) => roll > 0),
  price: fc.option(fc.constantFrom<number>(0, 0.5, 1, 1e-9, 151.23), { nil: null }),
});
/** Wrapped SOL is always known. */
const asWrapped = <T extends { mint: string; isNft: boolean; isKnown: boolean }>(one: T): T =>
  one.mint === WRAPPED_SOL_MINT ? { ...one, isNft: false, isKnown: true } : one;
const wallet = fc.record({
  lamports: fc.bigInt({ min: 0n, max: 2n ** 60n }),
  solPrice: fc.option(fc.constantFrom<number>(0, 140.5), { nil: null }),
  tokens: fc.uniqueArray(holding.map(asWrapped), { maxLength: 60, selector: (one) => one.mint }),
});

type Wallet = typeof wallet extends fc.Arbitrary<infer W> ? W : never;

function factsOf({ mint, decimals, isNft }: Wallet['tokens'][number]): MintFacts {
  return {
    mint,
    decimals,
    isNft,
    program: '',
    supply: 1n,
    name: `token ${mint}`,
    symbol: null,
    uri: null,
    logoUri: null,
    tokenStandard: null,
    collection: null,
    scale: null,
    transferFee: null,
  };
}

function inputOf({ lamports, solPrice, tokens }: Wallet): TableInput {
  const prices = new Map(tokens.map(({ mint, price }) => [mint, price]));
  prices.set(WRAPPED_SOL_MINT, solPrice);
  return {
    lamports,
    tokens,
    prices,
    atS: 1_700_000_000,
    facts: new Map(tokens.map((one) => [one.mint, one.isKnown ? factsOf(one) : null])),
  };
}

test('pages of any size give the whole list in order, each row once', () => {
  fc.assert(
    fc.property(wallet, fc.integer({ min: 1, max: 100 }), fc.boolean(), (given, limit, showNative) => {
      const input = inputOf(given);
      const table = buildTable(input);
      const seen: string[] = [];
      let value = 0;
      for (let page = 1; ; page += 1) {
        const cut = cutHoldings(table, { page, limit, showNative });
        const rows = cut.rows.map((row) => tokenRow(row, input.facts.get(row.mint) ?? null));
        const all = cut.withSol ? [solRow(table, null), ...rows] : rows;
        assert.ok(all.length <= limit && (all.length === limit || !cut.hasMore));
        assert.equal(cut.withSol, showNative && page === 1);
        seen.push(...all.map(({ mint, symbol }) => (symbol === 'SOL' ? 'SOL' : mint)));
        value += totalValue(all);
        if (!cut.hasMore) break;
      }
      const expected = given.tokens.filter((one) => one.isKnown && !one.isNft).map(({ mint }) => mint);
      assert.deepEqual([...seen].sort(), [...expected, ...(showNative ? ['SOL'] : [])].sort());
      const whole = cutHoldings(table, { page: 1, limit: 1_000, showNative });
      assert.deepEqual(
        seen.slice(whole.withSol ? 1 : 0),
        whole.rows.map((row) => row.mint),
      );
      const sum = whole.rows.reduce((total, row) => total + (row.value ?? 0), 0);
      const sol = showNative && given.solPrice !== null ? (Number(given.lamports) / 1e9) * given.solPrice : 0;
      assert.ok(Math.abs(value - sum - sol) <= 1e-9 * Math.max(1, Math.abs(value)));
      const past = cutHoldings(table, { page: 1_000_000, limit, showNative });
      assert.deepEqual(past, { withSol: false, rows: [], hasMore: false });
    }),
    { numRuns: 300 },
  );
});

test('the order is by value, then by mint, whatever order the node has', () => {
  fc.assert(
    fc.property(wallet, fc.infiniteStream(fc.double({ min: 0, max: 1, noNaN: true })), (given, rolls) => {
      const input = inputOf(given);
      const { rows, nfts, unknown } = buildTable(input);
      for (const [at, row] of rows.entries()) {
        const next = rows[at + 1];
        if (next === undefined) break;
        if (row.value === null) assert.equal(next.value, null, 'what has no price comes last');
        if (row.value === next.value) assert.ok(row.mint < next.mint);
        else if (next.value !== null) assert.ok((row.value as number) > next.value);
      }
      const shuffled = given.tokens
        .map((one) => ({ one, roll: rolls.next().value as number }))
        .sort((a, b) => a.roll - b.roll)
        .map(({ one }) => one);
      const again = buildTable(inputOf({ ...given, tokens: shuffled }));
      assert.deepEqual({ rows: again.rows, nfts: again.nfts, unknown: again.unknown }, { rows, nfts, unknown });
    }),
    { numRuns: 200 },
  );
});

test('NFTs are not balances, and only held ones are shown', () => {
  fc.assert(
    fc.property(wallet, (given) => {
      const { nfts, unknown } = buildTable(inputOf(given));
      const held = given.tokens.filter((one) => one.isKnown && one.isNft && one.amount > 0n);
      assert.deepEqual(nfts, held.map(({ mint }) => mint).sort());
      assert.deepEqual(
        unknown,
        given.tokens
          .filter((one) => !one.isKnown)
          .map(({ mint }) => mint)
          .sort(),
      );
    }),
  );
});

test('amounts are exact within the precision of a number', () => {
  const one = { mint: WRAPPED_SOL_MINT, program: 'spl-token' as const, isNft: false, isKnown: true, price: 2 };
  const table = buildTable(
    inputOf({
      lamports: 9_007_199_254_740_993_001n,
      solPrice: null,
      tokens: [{ ...one, amount: 123_456_789n, decimals: 9 }],
    }),
  );
  assert.equal(solRow(table, null).balance, 9007199254.740993);
  assert.deepEqual(solRow({ ...table, lamports: 0n }, null).balance, 0);
  const [row] = table.rows;
  // The price of wrapped SOL is that of SOL, which is unknown here.
  assert.deepEqual([row?.balance, row?.value], [0.123456789, null]);
  assert.deepEqual(
    [tokenRow(row!, null).symbol, tokenRow(row!, null).name, tokenRow(row!, null).mint],
    ['WSOL', 'Wrapped SOL', WRAPPED_SOL_MINT],
  );
});
