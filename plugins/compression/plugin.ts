import { decode32 } from '../../src/lib/base58.ts';
import type { HostContext } from '../../src/plugin/host.ts';
import type { Log, RpcMethod, Store } from '../../src/plugin/plugin.ts';
import { OWN_WORK } from '../../src/ports/access.ts';
import { type CompressedAssets, compressedAssets, type InvalidCode } from '../../src/ports/compressed-assets.ts';
import { kernelGaps } from '../../src/ports/following.ts';
import type { Metrics } from '../../src/ports/telemetry.ts';
import { readCommitment } from '../../src/runtime/commitment.ts';
import { createKeccakPairs } from '../../src/solana/concurrent/tree.ts';
import { DEVNET_GENESIS, MAINNET_GENESIS } from '../../src/solana/programs.ts';
import { createQueueCheck, createQueueReader } from './chain/queue-check.ts';
import { createMissingUpdates, createRepair } from './chain/repair.ts';
import {
  type CnftRepair,
  type CnftRepairParts,
  createCnftRepair,
  createTreeAccountReader,
  createTreeHistory,
  type TreeAccountReader,
} from './chain/repair-cnft.ts';
import { createRootCheck } from './chain/root-check.ts';
import { createChainWatch, createTreeCheck, treesRoute } from './chain/watch.ts';
import type { CompressionConfig } from './config.ts';
import { type CnftIndexer, createCnftDecoder, createCnftIndexer, createConcurrentHashing } from './indexing/cnft.ts';
import { dropContradicted, revertUnverifiedSpends } from './indexing/corrections.ts';
import { createCompressionIndexer, createCompressionProcessor } from './indexing/processor.ts';
import { type AssetIndexParts, createCompressedAssets } from './rpc/asset-index.ts';
import { assetMethods } from './rpc/assets.ts';
import type { MethodParts } from './rpc/method.ts';
import { createCompressionRpc, createProofMethods } from './rpc/methods.ts';
import { createDamageGuard, createPageCache, createPathReader } from './rpc/path-reader.ts';
import { snapshotCommands } from './snapshot/commands.ts';
import { createSnapshotKeeper } from './snapshot/save.ts';
import { rowKeyText } from './store/row-book.ts';
import { type CompressionDb, dropNote, NOTES, readNote, type TreeRow } from './store/tables.ts';
import { createHashing, type Hashing } from './trees/hashing.ts';
import { leadsToRoot } from './trees/page-book.ts';
import { rebuildTree } from './trees/rebuild.ts';
import { knownTrees, seedTrees } from './trees/tree-book.ts';
import { createTreeReader, createTreeSource } from './trees/tree-reader.ts';
import { verifyCommand } from './verify-command.ts';

const PROCESSOR = { name: 'compression', version: 1 } as const;

/** The composition root: indexing, the JSON-RPC methods, checks against the chain, and commands. */
export function provision(ctx: HostContext<CompressionConfig>): void {
  const { config, store, clock, log, random, metrics } = ctx;
  const commitment = readCommitment(ctx.core.follow.commitment);
  const stopped = new AbortController();
  const chain = ctx.chain('main');
  const gaps = ctx.use(kernelGaps) ?? null;
  const reader = chain === null ? null : createTreeReader(chain, config, commitment);
  const hashing = createHashing(metrics.counter('hashes_total', 'hashes computed in Merkle trees'));
  const known = knownTrees(config.trees);
  const cnft = createCnft(ctx);

  const proofs = createProofMethods(ctx, hashing);
  const rpc = config.serve ? createCompressionRpc(ctx, proofs.factories, cnft === null ? [] : [cnft.methods]) : null;

  const missingTo = async (db: Store['read']) => (await gaps?.missingTo(db, 'main', PROCESSOR.name)) ?? null;
  ctx.provide(compressedAssets, {
    index: cnft?.assets(store, missingTo) ?? null,
    reportInvalidAs: (code) => cnft?.reportInvalidAs(code),
  });

  let startSlot: number | undefined;
  const createProcessor = () => {
    const indexer = createCompressionIndexer({ log, metrics, config, hashing, cnft });
    return createCompressionProcessor({
      indexer,
      store,
      known,
      log,
      programId: config.programId,
      source: createTreeSource({ reader, clock, log, signal: stopped.signal }),
      ...(cnft === null ? {} : { decodeConcurrent: cnft.decode }),
      correct: (tx, block, options) => dropContradicted({ indexer, hashing, log }, tx, block, options),
      conclude: (tx) => revertUnverifiedSpends(tx, indexer, log),
      startSlot: () => startSlot,
    });
  };

  const genesisHash = async () =>
    chain === null ? null : await chain.call<string>('getGenesisHash', [], { tenant: OWN_WORK });
  const queues =
    chain === null || !config.verifyChain
      ? null
      : createQueueCheck({ store, hashing, reader: createQueueReader(chain, commitment), log });
  const isSuspect = (tree: TreeRow) => queues?.isSuspect(tree) ?? false;
  const roots = reader === null || !config.verifyChain ? null : createRootCheck({ store, reader, log, isSuspect });
  const shared = { store, processor: PROCESSOR, maxUpdates: config.historyMaxUpdates, log };
  const missing =
    reader === null || gaps === null
      ? null
      : createMissingUpdates({
          ...shared,
          gaps,
          reader,
          firstSlot: async () => FIRST_SLOTS[(await genesisHash()) ?? ''] ?? 0,
        });
  const repair = createRepair({
    store,
    hashing,
    reader,
    missing,
    clock,
    log,
    leavesHistory: config.startSlot === 'latest',
    rebuild: (tree, signal) => rebuildTree({ store, hashing }, tree, signal),
  });
  const repairs = [
    repair,
    ...(cnft === null || gaps === null || chain === null
      ? []
      : [
          cnft.repair({
            ...shared,
            gaps,
            clock,
            account: createTreeAccountReader(chain, commitment),
            lightHashing: hashing,
          }),
        ]),
  ];
  const newestSlot = async () =>
    chain === null ? 0 : await chain.call<number>('getSlot', [{ commitment }], { tenant: OWN_WORK });
  const refresh = reader === null || roots === null ? null : { store, hashing, reader, check: roots, log, newestSlot };
  const watch = createChainWatch({ store, chain, refresh, checks: [roots, queues], repairs, metrics, clock, log });
  const keeper = createSnapshotKeeper({ store, config, chain, clock, log, genesisHash });

  const indexes = config.index && ctx.roles.has('indexer');
  for (const method of rpc?.methods ?? []) ctx.rpc.method(method);
  if (config.index) ctx.blocks.on(createProcessor());
  if (config.index && ctx.roles.has('api')) {
    const { name, run } = createTreeCheck(store, config.trees);
    ctx.check(name, run);
  }
  ctx.http.route(treesRoute({ store, gaps, processor: PROCESSOR }));
  const loading = { config, hashing, random, clock, gaps, chain, reader, genesisHash, processor: PROCESSOR };
  for (const command of [...snapshotCommands(loading), verifyCommand({ hashing, reader })]) ctx.command(command);
  ctx.onStart(async () => {
    startSlot = await firstStart(store.read as CompressionDb, config.startSlot);
    if (indexes) {
      watch.start();
      keeper.start();
      await store.write(async (tx) => {
        await seedTrees(tx, hashing, known);
        if (cnft === null) await dropNote(tx, NOTES.allTreesFrom);
      });
    }
    if (ctx.roles.has('api')) rpc?.start();
  });
  ctx.onStop(async (signal) => {
    await watch.stop();
    await keeper.stop(indexes ? signal : null);
    stopped.abort(new Error('the plugin is stopping'));
    rpc?.stop();
    await proofs.stop();
  });
}

/** First slots with a compressed account, by genesis hash: earlier blocks need not be read. */
const FIRST_SLOTS: Readonly<Record<string, number>> = {
  [MAINNET_GENESIS]: 286_193_745,
  [DEVNET_GENESIS]: 319_998_225,
};

/** The configured slot, or the one after a loaded snapshot; undefined to start where the follower starts. */
async function firstStart(db: CompressionDb, configured: CompressionConfig['startSlot']): Promise<number | undefined> {
  if (typeof configured === 'number') return configured;
  const slot = configured === 'latest' ? null : await readNote(db, NOTES.snapshotSlot);
  return slot === null ? undefined : Number(slot) + 1;
}

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
  reportInvalidAs(code: () => InvalidCode): void;
  assets(store: Store, missingTo: AssetIndexParts['missingTo']): CompressedAssets;
}

export interface CnftParts {
  readonly config: CnftConfig;
  readonly store: Store;
  readonly log: Log;
  readonly metrics: Pick<Metrics, 'counter'>;
}

type RepairParts = Omit<CnftRepairParts, 'hashing' | 'history' | 'named'> & {
  readonly account: TreeAccountReader;
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
  let invalidCode = (): InvalidCode => 'invalidParams';
  return {
    ...indexer,
    decode: createCnftDecoder(isWanted),
    repair: ({ account, lightHashing, ...parts }) =>
      createCnftRepair({
        ...parts,
        hashing,
        named: trees === 'all' ? [] : trees,
        history: createTreeHistory({ store: parts.store, log: parts.log, account, hashing, lightHashing }),
      }),
    assets: (store, missingTo) => createCompressedAssets({ store, missingTo, trees }),
    methods: ({ store, slots }) => {
      const keccak = createKeccakPairs();
      const reader = createPathReader({
        store,
        cache: createPageCache(config.pageCacheBytes * CACHE_SHARE),
        ...(config.verifyOnRead ? { verify: (place, pages) => leadsToRoot(keccak, hashing.zeros, place, pages) } : {}),
      });
      return assetMethods({
        store,
        slots,
        reader,
        guarded: createDamageGuard(store, log),
        zeros: () => hashing.zeros,
        invalidCode: () => invalidCode(),
      });
    },
    reportInvalidAs(code) {
      invalidCode = code;
    },
  };
}

function wantedTrees(trees: CnftConfig['cnft']['trees']): ((tree: Uint8Array) => boolean) | null {
  if (trees === 'all') return () => true;
  if (trees.length === 0) return null;
  const wanted = new Set(namedTrees(trees).map((key) => rowKeyText([key])));
  return (tree) => wanted.has(rowKeyText([tree]));
}

function namedTrees(trees: readonly string[]): readonly Uint8Array[] {
  return trees.map((text) => {
    const key = decode32(text);
    if (key === null) throw new TypeError(`compression.cnft.trees: ${text} is no key`);
    return key;
  });
}
