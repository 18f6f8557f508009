import { type Static, Type } from '@sinclair/typebox';

const closed = { additionalProperties: false } as const;
const count = (value: number, description: string, minimum = 1) =>
  Type.Integer({ minimum, default: value, description });
const gateways = (value: string[], description: string) =>
  Type.Array(Type.String({ format: 'http-url' }), { default: value, maxItems: 10, description });

const offChain = Type.Object(
  {
    ipfsGateways: gateways(
      ['https://ipfs.io/ipfs/', 'https://dweb.link/ipfs/'],
      'addresses that a CID is put behind, tried in order',
    ),
    arweaveGateways: gateways(['https://arweave.net/'], 'addresses that an id is put behind, tried in order'),
    allowCidrs: Type.Array(Type.String(), {
      default: [],
      description:
        'networks that addresses on the chain may lead to although they are not public; gateways need none of it',
    }),
    allowHttp: Type.Boolean({ default: true, description: 'whether http is good enough; false = https only' }),
    timeoutMs: count(5_000, 'deadline of one document, gateways and redirects together'),
    batchTimeoutMs: count(15_000, 'how long a request waits for all its documents; those that are late say TIMEOUT'),
    maxBytes: count(1_048_576, 'largest document'),
    maxRedirects: count(3, 'redirects that are followed, each to an address that is checked again', 0),
    concurrency: count(16, 'documents that are fetched at once'),
    concurrencyPerHost: count(4, 'documents of one host that are fetched at once'),
    maxWaiting: count(1_000, 'documents waiting to be fetched; further ones are UNKNOWN'),
    ttlMs: count(86_400_000, 'how long a document is kept'),
    negativeTtlMs: count(600_000, 'how long a missing document is cached'),
    maxKept: count(100_000, 'documents that the store keeps; the oldest go first'),
  },
  { ...closed, default: {}, description: 'the JSON that metadata points to' },
);

export const tokenMetadataConfig = Type.Object(
  {
    credits: Type.Number({ minimum: 0, default: 100, description: 'price of one request' }),
    shareAsNumber: Type.Boolean({
      default: false,
      description: 'write the share of a creator as a number; false = as text, as the interface says',
    }),
    accountTtlMs: count(60_000, 'how long an account that was read counts; one that is written to is dropped at once'),
    factsTtlMs: count(300_000, 'the same for facts of mints that other plugins use'),
    upstreamTimeoutMs: count(10_000, 'deadline of reading accounts'),
    upstreamConcurrency: count(8, 'calls of up to 100 accounts each in flight'),
    maxWaitingAccounts: count(20_000, 'accounts that wait to be read'),
    maxMintsPerLookUp: count(10_000, 'mints that another plugin may ask for at once'),
    cacheBytes: count(33_554_432, 'memory for accounts and answers'),
    maxMints: count(100_000, 'mints that the store keeps and whose accounts are watched'),
    watch: Type.Boolean({ default: true, description: 'look in every block for accounts that are known here' }),
    tokenList: Type.Object(
      {
        path: Type.Union([Type.String({ minLength: 1 }), Type.Null()], {
          default: null,
          description: 'old token list as a JSON file; null = the one that comes with the program',
        }),
        chainId: Type.Union([Type.Integer({ minimum: 0 }), Type.Null()], {
          default: null,
          description: 'network in the list; null = by the genesis hash: 101 mainnet, 102 testnet, 103 devnet',
        }),
      },
      {
        ...closed,
        default: {},
        description: 'the list that names of tokens were kept in before they were on the chain',
      },
    ),
    offChain,
  },
  { ...closed, default: {} },
);

export type TokenMetadataConfig = Static<typeof tokenMetadataConfig>;
export type OffChainConfig = Static<typeof offChain>;
