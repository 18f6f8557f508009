import type { BlockProcessor, PluginContext } from '../../../src/kernel/plugin.ts';
import { endDoubts } from '../chain/doubted-spends.ts';
import { dropContradicted } from '../chain/drop-contradicted.ts';
import { createTreeReader } from '../chain/tree-reader.ts';
import { createTreeSource } from '../chain/tree-source.ts';
import type { CompressionConfig } from '../config.ts';
import type { Cnft } from '../das/cnft.ts';
import type { Hashing } from '../trees/hashing.ts';
import { knownTrees } from '../trees/known-trees.ts';
import { seedTrees } from '../trees/seed-trees.ts';
import { createCompressionIndexer } from './parts.ts';
import { createCompressionProcessor } from './processor.ts';

/** The side of the plugin that follows the chain. */
export interface Indexing {
  readonly processor: BlockProcessor;
  /** Writes the trees that are there from the start. */
  start(): Promise<void>;
  stop(): void;
}

export function createIndexing(
  ctx: PluginContext<CompressionConfig>,
  hashing: Hashing,
  cnft: Cnft | null,
  startSlot: () => number | undefined,
): Indexing {
  const { config, store, clock, log, metrics, core } = ctx;
  const stopped = new AbortController();
  const chain = ctx.chain('main');
  const reader = chain === null ? null : createTreeReader(chain, config, core.follow.commitment);
  const known = knownTrees(config.trees);
  const indexer = createCompressionIndexer({ log, metrics, config, hashing, cnft });
  const processor = createCompressionProcessor({
    ...{ store, known, log, programId: config.programId },
    indexer,
    source: createTreeSource({ reader, clock, log, signal: stopped.signal }),
    ...(cnft === null ? {} : { decodeConcurrent: cnft.decode }),
    correct: (tx, block, options) => dropContradicted({ indexer, hashing, log }, tx, block, options),
    conclude: (tx) => endDoubts(tx, indexer, log),
    startSlot,
  });
  return {
    processor,
    start: () => store.write((tx) => seedTrees(tx, hashing, known)),
    stop: () => stopped.abort(new Error('the plugin stops')),
  };
}
