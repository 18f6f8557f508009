import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import { createSystemClock } from '../../src/adapters/clock.ts';
import { createOutbound } from '../../src/adapters/outbound/index.ts';
import { encode32 } from '../../src/lib/base58.ts';
import type { ChainReader } from '../../src/ports/chain.ts';
import { TOKEN_PROGRAM } from '../../src/solana/programs.ts';
import { createManualClock } from '../../test/helpers/manual-clock.ts';
import { createMemoryLog } from '../../test/helpers/memory-log.ts';
import { answer, startReceiver } from '../../test/helpers/receiver.ts';
import { writeMint } from '../../test/helpers/write-mint.ts';
import { createHttpSource, createOnchainSource, createPrices, createStaticSource, type PriceSource } from './plugin.ts';

const config = { timeoutMs: 1_000, waitMs: 500, ttlMs: 60_000, staleMs: 600_000, retryMs: 5_000, maxKept: 100 };
const asObject = (prices: ReadonlyMap<string, number | null>) => Object.fromEntries(prices);

/** A source that the test answers for. */
function scripted(name: PriceSource['name']) {
  const asked: (readonly string[])[] = [];
  let reply: (mints: readonly string[]) => Promise<ReadonlyMap<string, number>> = async () => new Map();
  const source: PriceSource = {
    name,
    prices(mints) {
      asked.push([...mints]);
      return reply(mints);
    },
  };
  const answers = (prices: Readonly<Record<string, number>>) => {
    reply = async (mints) => new Map(mints.flatMap((mint) => (mint in prices ? [[mint, prices[mint]!] as const] : [])));
  };
  const setReply = (next: typeof reply): void => {
    reply = next;
  };
  return { source, asked, answers, reply: setReply };
}

function bed(...scripts: ReturnType<typeof scripted>[]) {
  const clock = createManualClock();
  const failures: string[] = [];
  const sources = scripts.map(({ source }) => source);
  const prices = createPrices({ sources, clock, config, onFailure: (source) => void failures.push(source) });
  return { clock, failures, prices };
}

test('without a source everything is unknown', async () => {
  const { prices } = bed();
  assert.deepEqual(asObject(await prices.prices(['a', 'b', 'a'])), { a: null, b: null });
});

test('a price counts for a while, that there is none too', async () => {
  const script = scripted('http');
  const { clock, prices } = bed(script);
  script.answers({ a: 2 });
  assert.deepEqual(asObject(await prices.prices(['a', 'b'])), { a: 2, b: null });
  script.answers({ a: 3, b: 4 });
  await clock.advance(59_999);
  assert.deepEqual(asObject(await prices.prices(['a', 'b'])), { a: 2, b: null });
  await clock.advance(1);
  assert.deepEqual(asObject(await prices.prices(['a', 'b'])), { a: 3, b: 4 });
  assert.deepEqual(script.asked, [
    ['a', 'b'],
    ['a', 'b'],
  ]);
});

test('the first source that knows wins, and the next is asked only for the rest', async () => {
  const [first, second] = [scripted('static'), scripted('http')];
  const { prices } = bed(first, second);
  first.answers({ a: 1 });
  second.answers({ a: 100, b: 2 });
  assert.deepEqual(asObject(await prices.prices(['a', 'b', 'c'])), { a: 1, b: 2, c: null });
  assert.deepEqual(second.asked, [['b', 'c']]);
});

test('while a source is silent its last price counts, and it is left alone for a while', async () => {
  const script = scripted('http');
  const { clock, prices, failures } = bed(script);
  script.answers({ a: 2 });
  await prices.prices(['a']);
  script.reply(() => Promise.reject(new Error('no')));
  await clock.advance(60_000);
  for (let i = 0; i < 3; i++) assert.deepEqual(asObject(await prices.prices(['a', 'b'])), { a: 2, b: null });
  assert.deepEqual(failures, ['http']);
  await clock.advance(5_000);
  await prices.prices(['a']);
  assert.deepEqual(failures, ['http', 'http']);
  // Beyond an hour, or what is configured, an old price is none.
  await clock.advance(600_000);
  assert.deepEqual(asObject(await prices.prices(['a'])), { a: null });
});

test('no caller waits longer than allowed; a late result serves the next caller and is requested once', async () => {
  const script = scripted('http');
  const { clock, prices } = bed(script);
  let release = (): void => {};
  script.reply(
    () =>
      new Promise((resolve) => {
        release = () => resolve(new Map([['a', 7]]));
      }),
  );
  const [one, two] = [prices.prices(['a'], { timeoutMs: 100 }), prices.prices(['a'], { timeoutMs: 1_000_000 })];
  await clock.advance(100);
  assert.deepEqual(asObject(await one), { a: null });
  await clock.advance(400);
  assert.deepEqual(asObject(await two), { a: null });
  assert.equal(script.asked.length, 1);
  release();
  await clock.advance(0);
  assert.deepEqual(asObject(await prices.prices(['a'])), { a: 7 });
  assert.equal(script.asked.length, 1);
});

test('a price file is read again when it changes; invalid entries are skipped', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'parhelion-prices-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const path = join(folder, 'prices.json');
  const source = createStaticSource(path);
  await assert.rejects(source.prices(['a'], 1));
  const write = (content: unknown, timeS: number) => {
    writeFileSync(path, JSON.stringify(content));
    utimesSync(path, timeS, timeS);
  };
  write({ a: 1.5, b: { usd: 2, asOf: 7 }, c: -1, d: 'x', e: null }, 1_000);
  const mints = ['a', 'b', 'c', 'd', 'e', 'toString', '__proto__'];
  assert.deepEqual(asObject(await source.prices(mints, 1)), { a: 1.5, b: 2 });
  write({ a: 9 }, 2_000);
  assert.deepEqual(asObject(await source.prices(mints, 1)), { a: 9 });
});

test('a server is asked for at most fifty at once, with the key, and its odd answers are failures', async (t) => {
  const server = await startReceiver();
  t.after(() => server.close());
  const clock = createSystemClock();
  const client = createOutbound({ clock, log: createMemoryLog() }).open({
    allowCidrs: ['127.0.0.1/32'],
    allowHttp: true,
    allowPorts: null,
    caFile: null,
    maxConnections: 4,
  });
  t.after(() => client.close());
  const source = createHttpSource({ client, baseUrl: `${server.url}/`, apiKey: 'secret' });
  const entry = { usdPrice: 1.25, blockId: 1, decimals: 6, priceChange24h: 0, createdAt: 'x', liquidity: 1 };
  server.setFallback(
    answer(200, {}, JSON.stringify({ m0: entry, m60: { usdPrice: 3 }, m1: { usdPrice: 'x' }, m2: null })),
  );
  const mints = Array.from({ length: 120 }, (_, index) => `m${index}`);
  assert.deepEqual(asObject(await source.prices(mints, 20_000)), { m0: 1.25, m60: 3 });
  const asked = server.received.map(({ url }) => new URL(url, server.url).searchParams.get('ids')!.split(','));
  assert.deepEqual(asked.flat().sort(), [...mints].sort());
  assert.ok(asked.every((ids) => ids.length <= 50));
  assert.ok(
    server.received.every(({ url, headers }) => url.startsWith('/price/v3?') && headers['x-api-key'] === 'secret'),
  );
  for (const odd of [answer(500), answer(200, {}, '[]'), answer(200, {}, 'x'), answer(429, {}, '{}')]) {
    server.setFallback(odd);
    await assert.rejects(source.prices(['m0'], 20_000), { code: 'PRICES_BAD_ANSWER' });
  }
});

const key = (byte: number): string => encode32(new Uint8Array(32).fill(byte));
const [STABLE, SOL, TOKEN, FAR] = [key(1), key(2), key(3), key(4)];

/** A chain on which accounts are what the test says. */
function chainWith(accounts: ReadonlyMap<string, { readonly data: Buffer }>): ChainReader {
  return {
    call: async (_method: string, [keys]: readonly [readonly string[]]) => ({
      value: keys.map((name) => {
        const account = accounts.get(name);
        return account === undefined
          ? null
          : { owner: TOKEN_PROGRAM, data: [account.data.toString('base64'), 'base64'] };
      }),
    }),
  } as unknown as ChainReader;
}

function vault(mint: number, amount: bigint): { readonly data: Buffer } {
  const data = Buffer.alloc(165);
  data.fill(mint, 0, 32);
  data.writeBigUInt64LE(amount, 64);
  data[108] = 1;
  return { data };
}

test('pools: against a stable token, over one more, by the root of a price, and never when there is too little', async () => {
  const accounts = new Map([
    [STABLE, { data: writeMint({ decimals: 6 }) }],
    [SOL, { data: writeMint({ decimals: 9 }) }],
    [TOKEN, { data: writeMint({ decimals: 5 }) }],
    [FAR, { data: writeMint({ decimals: 0 }) }],
    // 100 SOL and 15,000 dollars; 1,000 tokens and 10 SOL; 7 of the far one and 70 tokens.
    [key(12), vault(2, 100_000_000_000n)],
    [key(13), vault(1, 15_000_000_000n)],
    [key(14), vault(3, 100_000_000n)],
    [key(15), vault(2, 10_000_000_000n)],
    [key(16), vault(4, 7n)],
    [key(17), vault(3, 7_000_000n)],
  ]);
  const pools = [
    { mint: SOL, quote: STABLE, baseVault: key(12), quoteVault: key(13) },
    { mint: TOKEN, quote: SOL, baseVault: key(14), quoteVault: key(15) },
    { mint: FAR, quote: TOKEN, baseVault: key(16), quoteVault: key(17) },
  ];
  const make = (minLiquidityUsd: number, all = pools) =>
    createOnchainSource({ chain: chainWith(accounts), config: { stables: [STABLE], pools: all, minLiquidityUsd } });
  const mints = [STABLE, SOL, TOKEN, FAR, key(90)];
  assert.deepEqual(asObject(await make(0).prices(mints, 1)), { [STABLE]: 1, [SOL]: 150, [TOKEN]: 1.5 });
  assert.deepEqual(asObject(await make(3_001).prices(mints, 1)), { [STABLE]: 1, [SOL]: 150 });
  assert.deepEqual(asObject(await make(30_001).prices(mints, 1)), { [STABLE]: 1 });

  // A vault of another mint is no vault of this pool.
  accounts.set(key(12), vault(9, 1n));
  assert.deepEqual(asObject(await make(0).prices([SOL], 1)), {});
  accounts.set(key(12), vault(2, 100_000_000_000n));

  const root = Buffer.alloc(40);
  // 0.15 raw units of the quote for one of the base, as 64.64 bits.
  const scaled = BigInt(Math.round(Math.sqrt(0.15) * 2 ** 52)) << 12n;
  root.writeBigUInt64LE(scaled & (2n ** 64n - 1n), 8);
  root.writeBigUInt64LE(scaled >> 64n, 16);
  accounts.set(key(20), { data: root });
  const concentrated = [{ ...pools[0]!, sqrtPrice: { account: key(20), offset: 8, inverted: false } }];
  const found = (await make(0, concentrated).prices([SOL], 1)).get(SOL);
  assert.ok(Math.abs(found! - 150) < 1e-9, String(found));
});

test('no state of a chain makes a price that is none', async () => {
  const amount = fc.bigInt({ min: 0n, max: 2n ** 64n - 1n });
  const decimals = fc.integer({ min: 0, max: 255 });
  await fc.assert(
    fc.asyncProperty(amount, amount, decimals, decimals, async (base, quote, baseDecimals, quoteDecimals) => {
      const accounts = new Map([
        [STABLE, { data: writeMint({ decimals: quoteDecimals }) }],
        [SOL, { data: writeMint({ decimals: baseDecimals }) }],
        [key(12), vault(2, base)],
        [key(13), vault(1, quote)],
      ]);
      const pools = [{ mint: SOL, quote: STABLE, baseVault: key(12), quoteVault: key(13) }];
      const source = createOnchainSource({
        chain: chainWith(accounts),
        config: { stables: [STABLE], pools, minLiquidityUsd: 0 },
      });
      const usd = (await source.prices([SOL], 1)).get(SOL);
      assert.ok(usd === undefined || (Number.isFinite(usd) && usd > 0), String(usd));
    }),
  );
});
