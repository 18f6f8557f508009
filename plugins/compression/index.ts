import { defineHostPlugin, type HostContext } from '../../src/plugin/host.ts';
import { API_VERSION, type Store } from '../../src/plugin/plugin.ts';
import { compressedAssets } from '../../src/ports/compressed-assets.ts';
import { kernelGaps } from '../../src/ports/following.ts';
import { createQueueCheck, createQueueReader } from './chain/queue-check.ts';
import { createMissingUpdates, createRepair } from './chain/repair.ts';
import { createAccountReader } from './chain/repair-cnft.ts';
import { createRootCheck } from './chain/root-check.ts';
import { createChainWatch, createTreeCheck, treesRoute } from './chain/watch.ts';
import { createCnft } from './cnft.ts';
import { type CompressionConfig, compressionConfig } from './config.ts';
import { dropContradicted, revertUnverifiedSpends } from './indexing/corrections.ts';
import { createCompressionIndexer, createCompressionProcessor } from './indexing/processor.ts';
import { createProofMethods, createRpcFront } from './rpc/methods.ts';
import { snapshotCommands } from './snapshot/commands.ts';
import { createSnapshotKeeper } from './snapshot/save.ts';
import { type Db, dropNote, migrations, NOTES, readNote, type TreeRow } from './store/tables.ts';
import { createHashing } from './trees/hashing.ts';
import { rebuildTree } from './trees/rebuild.ts';
import { knownTrees, seedTrees } from './trees/tree-book.ts';
import { createTreeReader, createTreeSource } from './trees/tree-reader.ts';
import { verifyCommand } from './verify-command.ts';

export default defineHostPlugin({
  id: 'compression',
  apiVersion: API_VERSION,
  summary: 'indexes compressed accounts and proves them against their Merkle trees',
  roles: ['api', 'indexer'],
  config: compressionConfig,
  uses: [kernelGaps],
  offers: [compressedAssets],
  migrations,
  provision: (ctx) => assembleCompression(ctx),
});

const PROCESSOR = { name: 'compression', version: 1 } as const;

/** The composition root: indexing, the JSON-RPC methods, checks against the chain, and commands. */
function assembleCompression(ctx: HostContext<CompressionConfig>): void {
  const { config, store, clock, log, random, metrics } = ctx;
  const { commitment } = ctx.core.follow;
  const stopped = new AbortController();
  const chain = ctx.chain('main');
  const gaps = ctx.use(kernelGaps) ?? null;
  const reader = chain === null ? null : createTreeReader(chain, config, commitment);
  const hashing = createHashing(metrics.counter('hashes_total', 'hashes computed in Merkle trees'));
  const known = knownTrees(config.trees);
  const cnft = createCnft(ctx);

  const proofs = createProofMethods(ctx, hashing);
  const rpc = config.serve ? createRpcFront(ctx, proofs.factories, cnft === null ? [] : [cnft.methods]) : null;

  const missingTo = async (db: Store['read']) => (await gaps?.missingTo(db, 'main', PROCESSOR.name)) ?? null;
  ctx.provide(compressedAssets, { index: cnft?.assets(store, missingTo) ?? null });

  let startSlot: number | undefined;
  const createProcessor = () => {
    const indexer = createCompressionIndexer({ log, metrics, config, hashing, cnft });
    return createCompressionProcessor({
      ...{ indexer, store, known, log, programId: config.programId },
      source: createTreeSource({ reader, clock, log, signal: stopped.signal }),
      ...(cnft === null ? {} : { decodeConcurrent: cnft.decode }),
      correct: (tx, block, options) => dropContradicted({ indexer, hashing, log }, tx, block, options),
      conclude: (tx) => revertUnverifiedSpends(tx, indexer, log),
      startSlot: () => startSlot,
    });
  };

  const genesisHash = async () => (chain === null ? null : await chain.call<string>('getGenesisHash', []));
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
          ...{ ...shared, gaps, reader },
          firstSlot: async () => FIRST_SLOTS[(await genesisHash()) ?? ''] ?? 0,
        });
  const repair = createRepair({
    ...{ store, hashing, reader, missing, clock, log, leavesHistory: config.startSlot === 'latest' },
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
            account: createAccountReader(chain, commitment),
            lightHashing: hashing,
          }),
        ]),
  ];
  const newestSlot = async () => (chain === null ? 0 : await chain.call<number>('getSlot', [{ commitment }]));
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
  ctx.http.route(treesRoute(store));
  const loading = { config, hashing, random, clock, gaps, chain, reader, genesisHash, processor: PROCESSOR };
  for (const command of [...snapshotCommands(loading), verifyCommand({ hashing, reader })]) ctx.command(command);
  ctx.onStart(async () => {
    startSlot = await firstStart(store.read as Db, config.startSlot);
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
  '5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d': 286_193_745,
  EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG: 319_998_225,
};

/** The configured slot, or the one after a loaded snapshot; undefined to start where the follower starts. */
async function firstStart(db: Db, configured: CompressionConfig['startSlot']): Promise<number | undefined> {
  if (typeof configured === 'number') return configured;
  const slot = configured === 'latest' ? null : await readNote(db, NOTES.snapshotSlot);
  return slot === null ? undefined : Number(slot) + 1;
}
