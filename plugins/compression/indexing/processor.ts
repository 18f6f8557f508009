import { encode32 } from '../../../src/lib/base58.ts';
import {
  type BlockProcessor,
  type ChainBlock,
  codeOf,
  type Log,
  type Store,
  type StoreTx,
} from '../../../src/plugin/plugin.ts';
import type { Metrics } from '../../../src/ports/telemetry.ts';
import { type AccountHasher, createAccountHasher } from '../../../src/solana/compression/accounts.ts';
import { KEYS_PER_STATEMENT, rowKeyText } from '../store/row-book.ts';
import type { CompressionDb } from '../store/tables.ts';
import { createHashing, type Hashing, isStateTree } from '../trees/hashing.ts';
import type { NewTree } from '../trees/tree-book.ts';
import type { TreeSource } from '../trees/tree-reader.ts';
import type { CnftBlock, CnftIndexer } from './cnft.ts';
import { createBlockDecoder, type DecodedBlock } from './decode-block.ts';
import { type ApplyOptions, createIndexer, type Indexer, namedTrees } from './indexer.ts';

interface ProcessorParts {
  readonly indexer: Pick<Indexer, 'apply' | 'revert' | 'finalized'>;
  readonly store: Pick<Store, 'read'>;
  readonly source: TreeSource;
  /** Trees that need no look-up. */
  readonly known: readonly NewTree[];
  readonly programId: string;
  /** Reads changes of trees of compressed NFTs. */
  readonly decodeConcurrent?: (block: ChainBlock) => CnftBlock | null;
  /** First slot of a first start, read when the chain is opened. Undefined: where the follower starts. */
  readonly startSlot: (() => number | undefined) | undefined;
  /** Runs before a block is applied, in its transaction. */
  readonly correct?: (tx: StoreTx, block: DecodedBlock, options: ApplyOptions) => Promise<void>;
  /** Runs whenever more blocks are final. */
  readonly conclude?: (tx: StoreTx) => Promise<void>;
  readonly log: Log;
}

/** Failures of one block caused by its contents, after which its events are skipped and its trees diverge. */
const MAX_FAILURES = 10;

/** Passes blocks to the indexer. */
export function createCompressionProcessor(parts: ProcessorParts): BlockProcessor {
  const { indexer, store, source, known, startSlot, log } = parts;
  const decode = createBlockDecoder(parts.programId, parts.decodeConcurrent);
  const prepared = new WeakMap<ChainBlock, DecodedBlock>();
  const byKey = new Map(known.flatMap((tree) => namesOf(tree).map((key) => [rowKeyText([key]), tree] as const)));
  let failing: { readonly slot: number; readonly count: number } | null = null;

  async function lookUp(decoded: DecodedBlock): Promise<DecodedBlock> {
    const newTrees: NewTree[] = [];
    const foreign: { key: Uint8Array; reason: string }[] = [];
    for (const key of await unknownTrees(store.read as CompressionDb, namedTrees(decoded))) {
      const found = byKey.get(rowKeyText([key])) ?? (await source.lookUp(key, decoded.slot));
      if ('foreign' in found) {
        foreign.push({ key, reason: found.foreign });
        log.warn({ tree: encode32(key), reason: found.foreign }, 'a block names a foreign tree');
      } else newTrees.push(found);
    }
    return { ...decoded, newTrees, foreign };
  }

  return {
    name: 'compression',
    version: 1,
    chains: ['main'],
    // Known only after the store was read.
    get startSlot() {
      return startSlot?.() as number;
    },
    outOfOrder: true,
    async prepare(block) {
      prepared.set(block, await lookUp(decode(block)));
    },
    async apply(tx, block, _chain, how) {
      const decoded = prepared.get(block) ?? (await lookUp(decode(block)));
      const hasFailedTooOften = failing?.slot === block.slot && failing.count >= MAX_FAILURES;
      try {
        const options = { isFinal: how?.isFinal === true };
        await parts.correct?.(tx, decoded, options);
        await indexer.apply(tx, hasFailedTooOften ? withoutEvents(decoded) : decoded, options);
      } catch (error) {
        if (isOurs(error)) failing = { slot: block.slot, count: failing?.slot === block.slot ? failing.count + 1 : 1 };
        throw error;
      }
    },
    revert: (tx, header) => indexer.revert(tx, header),
    async finalized(tx, slot) {
      await indexer.finalized(tx, slot);
      await parts.conclude?.(tx);
    },
    addresses: (db, _chain, limit) => treeAddresses(db as CompressionDb, limit),
  };
}

const namesOf = ({ key, queue }: NewTree): Uint8Array[] => (queue === null ? [key] : [key, queue]);

/** Codes of errors that are not caused by the contents of the block. */
const PASSING = /^(STORE|CHAIN|FOLLOW|COMPRESSION)_/;

/** A bug of ours would repeat; errors of the store are transient. */
function isOurs(error: unknown): boolean {
  const code = codeOf(error);
  return code === 'STORE_CONFLICT' || code === 'STORE_CONSTRAINT' || !PASSING.test(code ?? '');
}

/** Makes every tree of the block a suspect instead of stopping the chain. */
function withoutEvents(decoded: DecodedBlock): DecodedBlock {
  const reason = 'its events could not be applied';
  const { concurrent = null, slot } = decoded;
  const suspects = concurrent?.trees.map(({ key }) => ({ key, reason: 'decode' })) ?? [];
  return {
    ...decoded,
    concurrent: concurrent === null ? null : { slot, suspects, steps: [], changes: [], trees: [], faults: [] },
    transactions: decoded.transactions.map((transaction) => ({
      signature: transaction.signature,
      events: [],
      faults: [...transaction.faults, { reason, trees: namedTrees({ ...decoded, transactions: [transaction] }) }],
    })),
  };
}

async function unknownTrees(db: CompressionDb, keys: readonly Uint8Array[]): Promise<Uint8Array[]> {
  const known = new Set<string>();
  for (let at = 0; at < keys.length; at += KEYS_PER_STATEMENT) {
    const some = keys.slice(at, at + KEYS_PER_STATEMENT);
    const trees = await db
      .selectFrom('compression_trees')
      .select(['key', 'queue'])
      .where((is) => is.or([is('key', 'in', some), is('queue', 'in', some)]))
      .execute();
    for (const { key, queue } of trees) {
      known.add(rowKeyText([key]));
      if (queue !== null) known.add(rowKeyText([queue]));
    }
    const foreign = await db.selectFrom('compression_foreign').select('key').where('key', 'in', some).execute();
    for (const { key } of foreign) known.add(rowKeyText([key]));
  }
  return keys.filter((key) => !known.has(rowKeyText([key])));
}

/** Accounts named by transactions with events: trees, and the output queues of V2. */
async function treeAddresses(db: CompressionDb, limit: number): Promise<string[]> {
  const rows = await db
    .selectFrom('compression_trees')
    .select(['key', 'queue', 'type'])
    .orderBy('id')
    .limit(limit)
    .execute();
  const addresses = rows.flatMap(({ key, queue, type }) =>
    queue !== null && isStateTree(type) ? [encode32(key), encode32(queue)] : [encode32(key)],
  );
  return [...new Set(addresses)].slice(0, limit);
}

export interface CompressionParts {
  readonly log: Log;
  readonly metrics: Pick<Metrics, 'counter'>;
  readonly config: { readonly verifyChain: boolean; readonly programId: string };
  /** The thread's hasher, if it has one. */
  readonly hashing?: Hashing;
  readonly cnft?: CnftIndexer | null;
}

/** Assembles the indexer and its counters. */
export function createCompressionIndexer({
  log,
  metrics,
  config,
  hashing: given,
  cnft = null,
}: CompressionParts): Indexer {
  const hashing = given ?? createHashing(metrics.counter('hashes_total', 'hashes computed in Merkle trees'));
  let hasher: AccountHasher | null = null;
  return createIndexer({
    hashing,
    log,
    isStrict: config.verifyChain,
    cnft,
    // Created on first use, like the hasher in it.
    get hasher() {
      hasher ??= createAccountHasher(hashing.poseidon);
      return hasher;
    },
    decodeErrors: metrics.counter('decode_errors_total', 'instructions that could not be decoded as events'),
    hashMismatches: metrics.counter(
      'account_hash_mismatches_total',
      'compressed accounts that do not hash to their leaf',
    ),
    rollBacks: metrics.counter('rollbacks_total', 'reverted blocks with compression'),
  });
}
