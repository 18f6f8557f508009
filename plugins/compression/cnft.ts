import { decode32 } from '../../src/lib/base58.ts';
import type { Log, RpcMethod, Store } from '../../src/plugin/plugin.ts';
import type { CompressedAssets } from '../../src/ports/compressed-assets.ts';
import type { Metrics } from '../../src/ports/telemetry.ts';
import { createKeccakPairs } from '../../src/solana/concurrent/tree.ts';
import {
  type AccountReader,
  type CnftRepair,
  type CnftRepairParts,
  createCnftRepair,
  createTreeHistory,
} from './chain/repair-cnft.ts';
import { type CnftIndexer, createCnftDecoder, createCnftIndexer, createConcurrentHashing } from './indexing/cnft.ts';
import { type AssetIndexParts, createAssetIndex } from './rpc/asset-index.ts';
import { assetMethods } from './rpc/assets.ts';
import type { MethodParts } from './rpc/method.ts';
import { createDamageGuard, createPageCache, createPathReader } from './rpc/path-reader.ts';
import { keyText } from './store/row-book.ts';
import type { Hashing } from './trees/hashing.ts';
import { leadsToRoot } from './trees/page-book.ts';

export interface CnftConfig {
  readonly cnft: { readonly trees: readonly string[] | 'all' };
  readonly pageCacheBytes: number;
  readonly verifyOnRead: boolean;
}

/** Indexing of compressed NFTs, their proofs and what the asset API shows of them. */
export interface Cnft extends CnftIndexer {
  readonly decode: ReturnType<typeof createCnftDecoder>;
  repair(parts: RepairParts): CnftRepair;
  methods(parts: Pick<MethodParts, 'store' | 'slots'>): readonly RpcMethod[];
  assets(store: Store, missingTo: AssetIndexParts['missingTo']): CompressedAssets;
}

export interface CnftParts {
  readonly config: CnftConfig;
  readonly store: Store;
  readonly log: Log;
  readonly metrics: Pick<Metrics, 'counter'>;
}

type RepairParts = Omit<CnftRepairParts, 'hashing' | 'history' | 'named'> & {
  readonly account: AccountReader;
  readonly lightHashing: Hashing;
};

/** The trees of the Light programs have the rest. */
const CACHE_SHARE = 0.25;

/** Null when no tree is configured: the methods then go to the upstream. */
export function createCnft({ config, log, metrics }: Omit<CnftParts, 'store'>): Cnft | null {
  const faults = metrics.counter('concurrent_faults_total', 'unreadable changes of concurrent trees');
  const changes = metrics.counter('concurrent_changes_total', 'applied changes of concurrent trees');
  const isWanted = wantedTrees(config.cnft.trees);
  if (isWanted === null) return null;
  const hashing = createConcurrentHashing();
  const trees = config.cnft.trees === 'all' ? 'all' : namedTrees(config.cnft.trees);
  const indexer = createCnftIndexer({ hashing, log, faults, changes, followsAll: trees === 'all' });
  return {
    ...indexer,
    decode: createCnftDecoder(isWanted),
    repair: ({ account, lightHashing, ...parts }) =>
      createCnftRepair({
        ...{ ...parts, hashing, named: trees === 'all' ? [] : trees },
        history: createTreeHistory({ store: parts.store, log: parts.log, account, hashing, lightHashing }),
      }),
    assets: (store, missingTo) => createAssetIndex({ store, missingTo, trees }),
    methods: ({ store, slots }) => {
      const keccak = createKeccakPairs();
      const reader = createPathReader({
        store,
        cache: createPageCache(config.pageCacheBytes * CACHE_SHARE),
        ...(config.verifyOnRead ? { verify: (place, pages) => leadsToRoot(keccak, hashing.zeros, place, pages) } : {}),
      });
      return assetMethods({ store, slots, reader, guarded: createDamageGuard(store, log), zeros: () => hashing.zeros });
    },
  };
}

function wantedTrees(trees: CnftConfig['cnft']['trees']): ((tree: Uint8Array) => boolean) | null {
  if (trees === 'all') return () => true;
  if (trees.length === 0) return null;
  const wanted = new Set(namedTrees(trees).map((key) => keyText([key])));
  return (tree) => wanted.has(keyText([tree]));
}

function namedTrees(trees: readonly string[]): readonly Uint8Array[] {
  return trees.map((text) => {
    const key = decode32(text);
    if (key === null) throw new TypeError(`compression.cnft.trees: ${text} is no key`);
    return key;
  });
}
