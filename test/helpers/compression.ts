/** Recorded transactions of the Light programs as blocks, and the indexer on a store without a daemon around it. */

import {
  type CompressionParts,
  createCompressionIndexer,
  createCompressionProcessor,
} from '../../plugins/compression/indexing/processor.ts';
import type { CompressionDb, CompressionTables } from '../../plugins/compression/store/tables.ts';
import { createHashing } from '../../plugins/compression/trees/hashing.ts';
import { knownTrees, seedTrees } from '../../plugins/compression/trees/tree-book.ts';
import type { TreeSource } from '../../plugins/compression/trees/tree-reader.ts';
import { createTreeSource } from '../../plugins/compression/trees/tree-reader.ts';
import { createSystemClock } from '../../src/adapters/clock.ts';
import type { BlockProcessor, ChainBlock } from '../../src/plugin/plugin.ts';
import type { Store } from '../../src/ports/store.ts';
import { decodeBlock } from '../../src/solana/decode/decode-block.ts';
import { createCompressionTables } from './compression-rows.ts';
import { listFixtures, readJsonFixture, skipWithoutFixtures } from './fixtures.ts';
import { createMemoryLog, type LogLine } from './memory-log.ts';
import { blockOf } from './rpc-block.ts';

export interface ExpectedAccount {
  readonly hash: string;
  readonly owner: string;
  readonly lamports: string;
  readonly address: string | null;
  readonly data: { readonly discriminatorLE: string; readonly dataBase64: string; readonly dataHash: string } | null;
  readonly tree: string;
  readonly leafIndex: number;
  readonly seq: number | null;
  readonly slotCreated: number;
  readonly spent: boolean;
  readonly inOutputQueue: boolean;
  readonly nullifier: string | null;
  readonly nullifierQueueIndex: number | null;
  readonly nullifiedInTree: boolean;
  readonly leafInTree: boolean;
}

/** What a recording must lead to. Keys and hashes are base58. */
export interface ExpectedState {
  readonly compressionProgramId: string;
  readonly trees: Readonly<
    Record<string, { readonly type: number; readonly height: number; readonly queue: string | null }>
  >;
  readonly steps: readonly {
    readonly file: string;
    readonly slot: number;
    readonly roots: Readonly<Record<string, { readonly root: string; readonly rootSeq: number }>>;
    readonly batchEvents?: readonly { readonly seq: number; readonly eventNewRoot: string }[];
  }[];
  readonly accounts: readonly ExpectedAccount[];
  readonly inclusionProofsAfterLastStep: readonly {
    readonly hash: string;
    readonly merkleTree: string;
    readonly leafIndex: number;
    readonly root: string;
    readonly rootSeq: number;
    readonly proof: readonly string[];
  }[];
  readonly newAddressProofsAfterLastStep: readonly {
    readonly address: string;
    readonly merkleTree: string;
    readonly lowElementLeafIndex: number;
    readonly nextIndex: number;
    readonly lowerRangeAddress: string;
    readonly higherRangeAddress: string;
    readonly root: string;
    readonly rootSeq: number;
    readonly proof: readonly string[];
  }[];
  readonly addressQueueAfterLastStep: Readonly<Record<string, readonly string[]>>;
}

/** One recorded transaction, as an entry of `getBlock`. */
export interface RecordedEntry {
  readonly slot: number;
  readonly entry: object;
}

export interface Recording {
  readonly name: string;
  readonly expected: ExpectedState;
  /** In the order of `expected.steps`. */
  readonly entries: readonly RecordedEntry[];
  /** Every tree of the recording, as `compression.trees` declares it. */
  readonly trees: readonly DeclaredTree[];
  /** It begins in the middle of the life of a tree: sequence numbers cannot be checked. */
  readonly isPartial: boolean;
}

interface DeclaredTree {
  readonly tree: string;
  readonly queue: string | null;
  readonly type: number;
  readonly height: number;
  readonly rootHistoryCapacity: number;
}

const FOLDER = 'compression';
const PARTIAL = new Set(['address_with_nullifiers', 'nullfiier_and_address_queue_transactions', 'index_transaction']);
/** Trees that no cluster has; some recordings name only their queue. */
const V2_STATE: DeclaredTree = {
  tree: 'HLKs5NJ8FXkJg8BrzJt56adFYYuwg5etzDtBbQYTsixu',
  type: 3,
  height: 32,
  rootHistoryCapacity: 200,
  queue: '6L7SzhYB3anwEQ9cphpJ1U7Scwj57bx2xueReg7R9cKU',
};

export const recordingNames: readonly string[] =
  skipWithoutFixtures === false
    ? listFixtures(`${FOLDER}/expected`).map((path) => path.split('/').at(-1)!.slice(0, -'.json'.length))
    : [];

export function loadRecording(name: string): Recording {
  const expected = readJsonFixture<ExpectedState>(`${FOLDER}/expected/${name}.json`);
  const entries = expected.steps.map(({ file, slot }) => {
    const { transaction, meta, version } = readJsonFixture<Record<string, unknown>>(
      `${FOLDER}/transactions/${name}/${file}`,
    );
    return { slot, entry: { transaction, meta, version } };
  });
  const named = Object.entries(expected.trees).map(([tree, { queue, type, height }]) => ({
    tree,
    queue,
    type,
    height,
    rootHistoryCapacity: type <= 2 ? 2400 : 200,
  }));
  const trees = named.some(({ tree }) => tree === V2_STATE.tree) ? named : [...named, V2_STATE];
  return { name, expected, entries, trees, isPartial: PARTIAL.has(name) };
}

/** A block with these transactions and a hash of its own. */
export function blockWith(slot: number, entries: readonly object[]): ChainBlock {
  return decodeBlock(slot, blockOf(entries, slot));
}

/** The recorded transactions, those of neighbours with the same slot together. */
export function blocksOf({ entries }: Recording): ChainBlock[] {
  const blocks: { slot: number; entries: object[] }[] = [];
  for (const { slot, entry } of entries) {
    const last = blocks.at(-1);
    if (last?.slot === slot) last.entries.push(entry);
    else blocks.push({ slot, entries: [entry] });
  }
  return blocks.map((block) => blockWith(block.slot, block.entries));
}

export interface IndexingBed {
  readonly processor: BlockProcessor;
  readonly lines: readonly LogLine[];
  /** Counters by name. */
  readonly counts: Readonly<Record<string, number>>;
  /** Prepares and applies a block in one transaction, like the follower. */
  apply(block: ChainBlock, how?: { readonly isFinal: boolean }): Promise<void>;
  applyAll(blocks: readonly ChainBlock[], how?: { readonly isFinal: boolean }): Promise<void>;
  /** Newest first, all in one transaction. */
  revert(slots: readonly number[]): Promise<void>;
  finalized(slot: number): Promise<void>;
}

export interface IndexingOptions {
  readonly programId?: string;
  readonly trees?: readonly DeclaredTree[];
  /** Default true. */
  readonly verifyChain?: boolean;
  /** Default: nothing is known beyond the declared and the well-known trees. */
  readonly source?: TreeSource;
}

/** Makes the tables and an indexer of its own. */
export async function createIndexingBed(store: Store, options: IndexingOptions = {}): Promise<IndexingBed> {
  await createCompressionTables(store);
  const hashing = createHashing({ add: () => undefined });
  await store.write((tx) => seedTrees(tx, hashing, knownTrees(options.trees ?? [])));
  return openIndexingBed(store, options);
}

/** Opens the harness on a store whose tables exist. */
function openIndexingBed(store: Store, options: IndexingOptions = {}): IndexingBed {
  const { programId = 'compr6CUsB5m2jS4Y3831ztGSTnDpnKJTKS95d64XVq', trees = [], verifyChain = true } = options;
  const log = createMemoryLog();
  const counts: Record<string, number> = {};
  const counter = (name: string) => {
    const add = (value = 1) => {
      counts[name] = (counts[name] ?? 0) + value;
    };
    const one = { add, with: () => one };
    return one;
  };
  const signal = new AbortController().signal;
  const source = options.source ?? createTreeSource({ reader: null, clock: createSystemClock(), log, signal });
  const parts: CompressionParts = { log, metrics: { counter }, config: { programId, verifyChain } };
  const processor = createCompressionProcessor({
    indexer: createCompressionIndexer(parts),
    store,
    source,
    known: knownTrees(trees),
    programId,
    log,
    startSlot: undefined,
  });
  const apply: IndexingBed['apply'] = async (block, how) => {
    await processor.prepare?.(block, 'main');
    await store.write((tx) => processor.apply(tx, block, 'main', how));
  };
  return {
    processor,
    counts,
    apply,
    lines: log.lines,
    async applyAll(blocks, how) {
      for (const block of blocks) await apply(block, how);
    },
    async revert(slots) {
      const header = { parentSlot: 0, blockhash: '', previousBlockhash: '', blockHeight: null, blockTime: null };
      await store.write(async (tx) => {
        for (const slot of [...slots].sort((a, b) => b - a)) await processor.revert(tx, { ...header, slot }, 'main');
      });
    },
    finalized: async (slot) => void (await store.write(async (tx) => await processor.finalized?.(tx, slot, 'main'))),
  };
}

/** Tables that the indexer fills. */
export const INDEXED_TABLES: readonly (keyof CompressionTables)[] = [
  ...(['compression_trees', 'compression_foreign', 'compression_pages', 'compression_roots'] as const),
  ...(['compression_accounts', 'compression_token_accounts', 'compression_balances'] as const),
  ...(['compression_token_balances', 'compression_early_spends', 'compression_indexed_leaves'] as const),
  ...(['compression_address_queue', 'compression_pending', 'compression_transactions'] as const),
  ...([
    'compression_subjects',
    'compression_recent',
    'compression_blocks',
    'compression_head',
    'compression_assets',
  ] as const),
];

/** Every row of the tables, as text and sorted, to be compared. */
export async function readEverything(
  store: Store,
  tables: readonly (keyof CompressionTables)[] = INDEXED_TABLES,
): Promise<Record<string, readonly string[]>> {
  const found: Record<string, readonly string[]> = {};
  for (const table of tables) {
    const rows = await (store.read as CompressionDb).selectFrom(table).selectAll().execute();
    found[table] = rows.map((row) => rowText(row as object)).sort();
  }
  return found;
}

function rowText(row: object): string {
  const fields = Object.entries(row).sort(([a], [b]) => (a < b ? -1 : 1));
  return JSON.stringify(
    fields.map(([name, value]) => [name, value instanceof Uint8Array ? Buffer.from(value).toString('hex') : value]),
  );
}
