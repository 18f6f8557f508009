import { type Static, Type } from '@sinclair/typebox';
import { reloadable } from '../../src/lib/reloadable.ts';
import { USDC_MINT, USDT_MINT } from '../../src/solana/programs.ts';

const closed = { additionalProperties: false } as const;
const secret = { secret: true } as const;
const key = (description: string) => Type.String({ format: 'address', description });
const count = (value: number, description: string, minimum = 1) =>
  Type.Integer({ minimum, default: value, description });
const sourceNames = [Type.Literal('static'), Type.Literal('http'), Type.Literal('onchain')];

const pool = Type.Object(
  {
    mint: key('token that the pool prices'),
    quote: key('token that it is priced in: a stable one or wrapped SOL'),
    baseVault: key('token account of the pool that holds the first'),
    quoteVault: key('token account of the pool that holds the second'),
    sqrtPrice: Type.Optional(
      Type.Object(
        {
          account: key('account of the pool'),
          offset: Type.Integer({
            minimum: 0,
            description: 'byte at which the square root of the price starts, a 64.64-bit number',
          }),
          inverted: Type.Boolean({ default: false, description: 'whether the pool names the quote first' }),
        },
        { ...closed, description: 'pools of concentrated liquidity, whose vault balances do not give a price' },
      ),
    ),
  },
  closed,
);

export const pricesConfig = Type.Object(
  {
    source: Type.Union([Type.Literal('none'), ...sourceNames, Type.Array(Type.Union(sourceNames), { maxItems: 3 })], {
      default: 'none',
      description:
        'static = a file; http = a server with the interface of Jupiter price v3; onchain = pools; a list = the first source in this order that has the price',
    }),
    file: Type.Union([Type.String({ format: 'file' }), Type.Null()], {
      default: null,
      description: 'static: JSON file {mint: dollars}; reloaded when it changes',
    }),
    baseUrl: Type.String({
      format: 'http-url',
      default: 'https://lite-api.jup.ag',
      description: 'http: base address to which /price/v3 is appended',
    }),
    apiKey: Type.Union([Type.String(secret), Type.Null()], {
      default: null,
      description: 'http: sent as x-api-key',
      ...secret,
    }),
    allowCidrs: Type.Array(Type.String(), {
      default: [],
      description: 'http: non-public networks that may be requested',
    }),
    stables: Type.Array(key('mint'), {
      default: [USDC_MINT, USDT_MINT],
      description: 'onchain: mints with a value of one dollar',
    }),
    pools: Type.Array(pool, { default: [], maxItems: 1_000, description: 'onchain: a pool for each mint' }),
    minLiquidityUsd: reloadable(
      Type.Number({
        minimum: 0,
        default: 10_000,
        description: 'onchain: dollars that a pool must hold in total for its price to be used',
      }),
    ),
    timeoutMs: reloadable(count(3_000, 'deadline of a request to a source')),
    waitMs: reloadable(
      count(3_000, 'how long a response waits for prices; later prices are used by the next response'),
    ),
    ttlMs: reloadable(count(60_000, 'how long a price is cached')),
    staleMs: reloadable(count(3_600_000, 'how long an outdated price is used while its source does not respond')),
    retryMs: reloadable(count(5_000, 'pause before a failed source is requested again for the same mint')),
    maxKept: count(50_000, 'prices in memory'),
  },
  { ...closed, default: {} },
);

export type PricesConfig = Static<typeof pricesConfig>;
export type PoolConfig = Static<typeof pool>;

/** Coded errors of this plugin. @public */
export const PRICES_ERRORS = {
  PRICES_FILE_MISSING: 'prices.source names static, and prices.file is not set',
  PRICES_BAD_ANSWER: 'a price server returned an invalid response',
} as const;
