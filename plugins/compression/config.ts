import { type Static, Type } from '@sinclair/typebox';
import { reloadable, reloadableWhenSet } from '../../src/lib/reloadable.ts';
import { LIGHT_COMPRESSION_PROGRAM } from '../../src/solana/programs.ts';

const closed = { additionalProperties: false } as const;
/** Hidden when the configuration is printed. */
const secret = { secret: true } as const;
const key = (description: string) => Type.String({ format: 'address', description });
const count = (value: number, description: string, minimum = 1) =>
  Type.Integer({ minimum, default: value, description });

const tree = Type.Object(
  {
    tree: key('the Merkle tree'),
    queue: Type.Union([key('its queue'), Type.Null()], { description: 'queue; null = the tree is its own queue' }),
    type: Type.Integer({ minimum: 1, maximum: 4, description: '1 state V1, 2 address V1, 3 state V2, 4 address V2' }),
    height: Type.Integer({ minimum: 1, maximum: 40, description: 'levels below the root' }),
    rootHistoryCapacity: Type.Integer({ minimum: 1, description: 'roots kept in the account' }),
  },
  closed,
);

export const compressionConfig = Type.Object(
  {
    index: Type.Boolean({ default: true, description: 'index blocks' }),
    serve: Type.Boolean({ default: true, description: 'serve the JSON-RPC methods' }),
    programId: Type.String({
      format: 'address',
      default: LIGHT_COMPRESSION_PROGRAM,
      description: 'account-compression program; older deployments use another one',
    }),
    trees: Type.Array(tree, { default: [], description: 'trees that cannot be read from the chain' }),
    cnft: Type.Object(
      {
        trees: Type.Union([Type.Array(key('the Merkle tree'), { maxItems: 1_000 }), Type.Literal('all')], {
          default: [],
          description:
            'trees of compressed NFTs to index, or all; if empty, getAssetProof and related methods go to the upstream',
        }),
      },
      { ...closed, default: {}, description: 'compressed NFTs (Bubblegum)' },
    ),
    startSlot: Type.Union([Type.Integer({ minimum: 0 }), Type.Literal('latest'), Type.Null()], {
      default: null,
      description:
        'where the first start begins; null = after the loaded snapshot, otherwise where the follower starts, and the missing history of ' +
        'trees is fetched; latest = where the follower starts, without fetching history',
    }),
    historyMaxUpdates: count(200_000, 'largest number of missing updates of a tree that are fetched automatically'),
    verifyChain: Type.Boolean({ default: true, description: 'compare roots with the accounts of the trees' }),
    verifyOnRead: Type.Boolean({
      default: false,
      description: 'verify the hash of every proof before it is returned; for diagnosis',
    }),
    pageCacheBytes: count(67_108_864, 'memory for tree nodes'),
    proverUrl: reloadableWhenSet(
      Type.Union([Type.String({ format: 'http-url', ...secret }), Type.Null()], {
        default: null,
        description: 'address of the prover for validity proofs; null = validity proofs return an error',
        ...secret,
      }),
    ),
    proverApiKey: reloadable(
      Type.Union([Type.String(secret), Type.Null()], {
        default: null,
        description: 'sent to the prover as a bearer token',
        ...secret,
      }),
    ),
    proverTimeoutMs: count(60_000, 'deadline of one proof'),
    proverConcurrency: count(4, 'concurrent proofs; further ones wait'),
    snapshotDir: Type.Union([Type.String({ format: 'path' }), Type.Null()], {
      default: null,
      description: 'folder for state snapshots; null = no snapshots are written',
    }),
    snapshotEverySlots: count(100_000, 'slots between snapshots; the last two are kept'),
  },
  { ...closed, default: {} },
);

export type CompressionConfig = Static<typeof compressionConfig>;
export type DeclaredTree = Static<typeof tree>;

/** Coded errors of this plugin. @public */
export const COMPRESSION_ERRORS = {
  COMPRESSION_TREE_UNREADABLE: 'the account of a tree that a block references cannot be read',
  COMPRESSION_TREE_UNDECLARED: 'a block references a tree that is neither declared nor readable from a chain',
  COMPRESSION_USAGE: 'a command was called with options that do not fit together',
  COMPRESSION_SNAPSHOT_EMPTY: 'nothing is indexed yet',
  COMPRESSION_SNAPSHOT_DAMAGED: 'a file is not a snapshot, or is damaged',
  COMPRESSION_SNAPSHOT_FOREIGN: 'a snapshot is of another chain, program or schema',
  COMPRESSION_SNAPSHOT_WRONG: 'a tree of a snapshot contradicts itself or the chain',
  COMPRESSION_SNAPSHOT_IN_USE: 'the store already contains compressed accounts',
  COMPRESSION_SNAPSHOT_FETCH: 'a snapshot cannot be downloaded',
  COMPRESSION_SNAPSHOT_LISTEN: 'the address for serving snapshots cannot be listened on',
  COMPRESSION_TREE_WRONG: 'trees do not match their rows, or the chain',
} as const;
