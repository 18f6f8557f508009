import { type Static, Type } from '@sinclair/typebox';
import { reloadable } from '../../src/lib/reloadable.ts';

const closed = { additionalProperties: false } as const;
const secret = { secret: true } as const;
const count = (value: number, description: string, minimum = 1) =>
  Type.Integer({ minimum, default: value, description });

const upstreamMembers = {
  url: Type.String({ format: 'http-url', description: 'http or https address', ...secret }),
  headers: Type.Optional(
    Type.Record(Type.String(), Type.String(secret), { description: 'headers sent with each request' }),
  ),
  maxConcurrent: Type.Optional(count(64, 'requests at once')),
};
const upstreamUrl = Type.String({ format: 'http-url', ...secret });
const mevProtect = Type.Optional(
  Type.Boolean({
    default: false,
    description: 'whether this address keeps transactions from validators linked to sandwich attacks, on request',
  }),
);
const sendUpstream = Type.Union([upstreamUrl, Type.Object({ ...upstreamMembers, mevProtect }, closed)]);

const TIP_ACCOUNTS = [
  '4ACfpUFoaSD9bfPdeu6DBt89gB6ENTeHBXCAi87NhDEE',
  'D2L6yPZ2FmmmTKPgzaMKdhu6EWZcTpLy1Vhx8uvZe7NZ',
  '9bnz4RShgq1hAnLnZbP8kbgBg1kEmcJBYQq3gQbmnSta',
  '5VY91ws6B2hMmBFRsXkoAAdsPHBJwRfBht4DXox3xkwn',
  '2nyhqdwKcJZR2vcqCyrYsaPVdAnFoJjiksCXJ7hfEYgD',
  '2q5pghRs6arqVjRvT5gfgWfWcHWmw1ZuCzphgd5KfWGJ',
  'wyvPkWjVZz1M8fHQnMMCDTQDbkManefNNhweYk5WkcF',
  '3KCKozbAaF75qEU33jtzozcJ29yJuaLJTy2jFdzUY8bT',
  '4vieeGHPYPG2MmyPRcYjdiDmmhN3ww7hsFNap8pVN3Ey',
  '4TQLFNWK8AovT1gFvda5jfw2oJeRMKEmw7aH6MGBJ3or',
];

export const senderConfig = Type.Object(
  {
    enabled: Type.Boolean({ default: true, description: 'enable POST /fast' }),
    requireKey: reloadable(
      Type.Boolean({ default: false, description: 'require an API key; common clients send none' }),
    ),
    urls: Type.Array(sendUpstream, {
      default: [],
      description:
        'addresses to which each transaction is sent, all at once; if empty, the upstreams of the main chain',
    }),
    mevProtect: reloadable(
      Type.Union([Type.Literal('ignore'), Type.Literal('refuse')], {
        default: 'ignore',
        description:
          'what mev-protect=true does if no entry of urls (bundleUrls for a bundle) has mevProtect: ignore = send as usual and report it in a header; refuse = -32602',
      }),
    ),
    bundleUrls: Type.Array(sendUpstream, {
      default: [],
      description:
        'addresses for sendBundle, getBundleStatuses and simulateBundle; if empty, these methods are not available',
    }),
    timeoutMs: reloadable(count(10_000, 'deadline of one transmission')),
    ratePerSecond: reloadable(count(50, 'calls per second of one key, or of one address (IPv6: /64) without a key')),
    burstFactor: reloadable(count(2, 'burst, as a multiple of the rate')),
    requireTip: reloadable(
      Type.Boolean({ default: false, description: 'require a transfer to one of the tip accounts' }),
    ),
    minTipLamports: reloadable(count(1_000_000, 'smallest tip', 0)),
    minTipLamportsSwqos: reloadable(count(5_000, 'smallest tip with swqos_only=true', 0)),
    tipAccounts: reloadable(
      Type.Array(Type.String(), {
        default: TIP_ACCOUNTS,
        description: 'accounts that receive tips',
      }),
    ),
    rebroadcast: Type.Object(
      {
        enabled: Type.Boolean({ default: true, description: 'send again until the transaction is final or expired' }),
        intervalMs: reloadable(count(2_000, 'pause between two transmissions')),
        maxQueued: reloadable(
          count(
            10_000,
            'transactions that are neither final nor expired, shared by all senders; further ones get 503, and a quarter more is for those below their fair share',
          ),
        ),
        maxAgeMs: reloadable(count(90_000, 'age after which a transaction is no longer sent')),
        maxRepeatsWithoutKey: reloadable(
          count(
            15,
            'transmissions after the first of a transaction that was sent without a key and that the chain never shows',
          ),
        ),
        concurrency: reloadable(count(16, 'transactions sent again concurrently')),
      },
      { ...closed, default: {}, description: 'sending again until a transaction is final or expired' },
    ),
  },
  closed,
);

export type SenderConfig = Static<typeof senderConfig>;
