import { type Static, Type } from '@sinclair/typebox';
import { reloadable } from '../../src/lib/reloadable.ts';

const closed = { additionalProperties: false } as const;
const count = (value: number, description: string, minimum = 1) =>
  Type.Integer({ minimum, default: value, description });
const gateways = (value: string[], description: string) =>
  Type.Array(Type.String({ format: 'http-url' }), { default: value, maxItems: 10, description });

const offChain = Type.Object(
  {
    ipfsGateways: gateways(
      ['https://ipfs.io/ipfs/', 'https://dweb.link/ipfs/'],
      'base addresses to which a CID is appended, tried in order',
    ),
    arweaveGateways: gateways(['https://arweave.net/'], 'base addresses to which an id is appended, tried in order'),
    allowCidrs: Type.Array(Type.String(), {
      default: [],
      description: 'non-public networks to which URIs on the chain may lead; not needed for gateways',
    }),
    allowHttp: Type.Boolean({ default: true, description: 'allow http; false = https only' }),
    timeoutMs: reloadable(count(5_000, 'deadline of one document, including all gateways and redirects')),
    batchTimeoutMs: reloadable(
      count(15_000, 'how long a request waits for all its documents; late ones return TIMEOUT'),
    ),
    maxBytes: reloadable(count(1_048_576, 'largest document')),
    maxPictureBytes: reloadable(
      count(5_242_880, 'largest picture that the dashboard shows; 0 = pictures are not fetched', 0),
    ),
    maxRedirects: reloadable(count(3, 'redirects that are followed; each new address is checked again', 0)),
    concurrency: count(16, 'concurrent fetches of documents'),
    concurrencyPerHost: count(4, 'concurrent fetches of documents from one host'),
    maxWaiting: count(1_000, 'documents waiting to be fetched; further ones return UNKNOWN'),
    ttlMs: reloadable(count(86_400_000, 'how long a document is cached')),
    negativeTtlMs: reloadable(count(600_000, 'how long a failed fetch is cached')),
    maxKept: count(100_000, 'stored documents; the oldest are deleted first'),
  },
  { ...closed, default: {}, description: 'the JSON that metadata points to' },
);

export const tokenMetadataConfig = Type.Object(
  {
    credits: reloadable(Type.Number({ minimum: 0, default: 100, description: 'price of one request' })),
    shareAsNumber: reloadable(
      Type.Boolean({
        default: false,
        description: 'write the share of a creator as a number; false = as text, as in the published interface',
      }),
    ),
    accountTtlMs: count(60_000, 'how long an account is cached; an account that is written to is dropped at once'),
    factsTtlMs: count(300_000, 'how long data of a mint is cached for other plugins'),
    upstreamTimeoutMs: reloadable(count(10_000, 'deadline of reading accounts')),
    upstreamConcurrency: count(8, 'calls in flight, each for up to 100 accounts'),
    maxWaitingAccounts: count(20_000, 'accounts waiting to be read'),
    maxMintsPerLookUp: count(10_000, 'mints that another plugin may request at once'),
    cacheBytes: count(33_554_432, 'memory for accounts and answers'),
    maxMints: count(100_000, 'mints that are stored and whose accounts are watched'),
    watch: Type.Boolean({ default: true, description: 'check every block for changes of cached accounts' }),
    tokenList: Type.Object(
      {
        path: Type.Union([Type.String({ format: 'file' }), Type.Null()], {
          default: null,
          description: 'legacy token list as a JSON file; null = the one included in the program',
        }),
        chainId: Type.Union([Type.Integer({ minimum: 0 }), Type.Null()], {
          default: null,
          description: 'network in the list; null = by the genesis hash: 101 mainnet, 102 testnet, 103 devnet',
        }),
      },
      {
        ...closed,
        default: {},
        description: 'the legacy list of token names',
      },
    ),
    offChain,
  },
  { ...closed, default: {} },
);

export type TokenMetadataConfig = Static<typeof tokenMetadataConfig>;
export type OffChainConfig = Static<typeof offChain>;

/** Coded errors of this plugin. */
export const TOKEN_METADATA_ERRORS = {
  TOKEN_METADATA_TOO_MANY_MINTS: 'one look-up asks for more mints than token-metadata.maxMintsPerLookUp',
  TOKEN_METADATA_LIST_UNREADABLE: 'the token list that the configuration names cannot be read',
} as const;
