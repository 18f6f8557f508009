import { type Static, Type } from '@sinclair/typebox';
import { reloadable } from '../../src/lib/reloadable.ts';
import { CORE_PROGRAM, METADATA_PROGRAM, TOKEN_2022_PROGRAM } from '../../src/solana/programs.ts';

const MAX_FOLLOWED = 10_000;
const keys = (description: string) =>
  Type.Array(Type.String({ format: 'address' }), { default: [], maxItems: MAX_FOLLOWED, description });

export const dasConfig = Type.Object(
  {
    passOn: Type.Boolean({
      default: false,
      description: 'forward all methods of this plugin to the upstreams; for an upstream with its own DAS API',
    }),
    follow: Type.Object(
      {
        collections: keys('Metaplex and Core collections: their assets'),
        creators: keys('creators: the assets with Metaplex metadata that name them, verified or not'),
        authorities: keys(
          'update authorities: assets with Metaplex metadata, Core assets and collections, and the assets in these collections',
        ),
        owners: keys('owners: their token accounts, NFTs and Core assets'),
        mints: keys('mints: all their token accounts'),
        programs: Type.Array(
          Type.Union([METADATA_PROGRAM, CORE_PROGRAM, TOKEN_2022_PROGRAM].map((program) => Type.Literal(program))),
          { default: [], description: 'all assets of Token Metadata, Core or Token-2022, for small clusters' },
        ),
      },
      {
        additionalProperties: false,
        default: {},
        description:
          'assets to index: they are read once from the upstream, which must allow getProgramAccounts with filters, and then kept current by the blocks. compression.cnft.trees selects compressed NFTs',
      },
    ),
    dialect: reloadable(
      Type.Union([Type.Literal('hosted'), Type.Literal('metaplex')], {
        default: 'hosted',
        description: 'members and error codes of responses: those of the hosted API or of Metaplex',
      }),
    ),
    credits: reloadable(Type.Number({ minimum: 0, default: 10, description: 'price of one call' })),
    upstreamTimeoutMs: reloadable(
      Type.Integer({
        minimum: 1,
        maximum: 120_000,
        default: 10_000,
        description: 'longest wait for one upstream call',
      }),
    ),
    upstreamConcurrency: reloadable(
      Type.Integer({ minimum: 1, maximum: 256, default: 16, description: 'upstream calls of one request at once' }),
    ),
    documentWaitMs: reloadable(
      Type.Integer({
        minimum: 0,
        maximum: 60_000,
        default: 2_000,
        description:
          'longest wait for off-chain documents that were not read before; one that arrives later is in the next response. token-metadata.offChain configures how they are fetched',
      }),
    ),
    listCore: reloadable(
      Type.Boolean({
        default: true,
        description:
          'include Core assets in lists; the upstream must allow getProgramAccounts with filters for the Core program',
      }),
    ),
    maxTokenAccounts: reloadable(
      Type.Integer({
        minimum: 1,
        default: 100_000,
        description: 'token accounts of one owner or mint, or assets of one list, that are read; more are refused',
      }),
    ),
    cacheBytes: Type.Integer({
      minimum: 1,
      default: 67_108_864,
      description: 'memory for the JSON of followed assets and of returned pages, in each thread that answers',
    }),
  },
  { additionalProperties: false, default: {} },
);

export type DasConfig = Static<typeof dasConfig>;
