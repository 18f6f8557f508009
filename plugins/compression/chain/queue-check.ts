import { encode32 } from '../../../src/lib/base58.ts';
import { equalBytes } from '../../../src/lib/bytes.ts';
import type { ChainReader, Log, Store } from '../../../src/plugin/plugin.ts';
import { TREE_TYPE } from '../../../src/solana/compression/events.ts';
import {
  chainOfPart,
  QUEUE_HEADER_BYTES,
  type QueueHeader,
  readQueueHeader,
} from '../../../src/solana/compression/tree-accounts.ts';
import { type CompressionDb, readAtOneSlot, type TreeRow } from '../store/tables.ts';
import { type Hashing, HISTORY, hashChains } from '../trees/hashing.ts';
import {
  changeTree,
  createSliceReader,
  lockTree,
  readLightTrees,
  sliceBytes,
  type TreeReadOptions,
} from '../trees/tree-reader.ts';

/** Verifies the queues of V2 trees against their hash chains on the chain. */
interface QueueCheck {
  /** One pass over every queue with new values. Errors: those of the store and of the reader. */
  pass(signal: AbortSignal): Promise<void>;
  /** Whether a queue of this tree is wrong or incomplete. */
  isSuspect(tree: Pick<TreeRow, 'id'>): boolean;
}

interface QueueCheckParts {
  readonly store: Store;
  readonly hashing: Hashing;
  readonly reader: QueueReader;
  readonly log: Log;
}

/** Reason of a tree whose queue differs from the chain's. */
export const QUEUE = 'queue';

/** Passes after which a queue is read again without new rows: rows may be missing. */
const QUIET_PASSES = 60;
/** Parts hashed per pass and queue; the others follow in later passes. */
const PARTS_PER_PASS = 16;

type Verdict = 'right' | 'wrong' | 'missing' | 'unknown';

interface Watched {
  readonly tree: TreeRow;
  readonly kind: QueueKind;
  readonly account: Uint8Array;
}

/** State of one queue. */
interface Memory {
  /** The account as read; verified once the index has reached its slot. */
  found: QueueOnChain | null;
  /** All parts below this index were verified. */
  rightTo: number;
  /** Values in the rows at the last read. */
  seenEnd: number;
  quietPasses: number;
  /** The verdict on the first part that did not match at the last pass. */
  doubt: { readonly from: number; readonly verdict: Verdict } | null;
  /** It was reported as wrong and has not matched since. */
  isBad: boolean;
}

export function createQueueCheck(parts: QueueCheckParts): QueueCheck {
  const { store, reader } = parts;
  const memories = new Map<string, Memory>();
  const bad = new Set<number>();

  function memoryOf({ tree, kind }: Watched): Memory {
    const name = `${tree.id}:${kind}`;
    const known = memories.get(name);
    if (known !== undefined) return known;
    const fresh = { found: null, rightTo: 0, seenEnd: -1, quietPasses: 0, doubt: null, isBad: false };
    memories.set(name, fresh);
    return fresh;
  }

  async function look(watched: Watched, signal: AbortSignal): Promise<void> {
    const memory = memoryOf(watched);
    const { slot, value: end } = await readAtOneSlot(store, (db) => queueEnd(db, watched.tree, watched.kind));
    // Blocks were reverted: verified parts may have changed.
    if (end < memory.rightTo) memory.rightTo = 0;
    if (memory.found === null) {
      memory.quietPasses += 1;
      const isQuiet = end === memory.seenEnd && memory.doubt === null && !memory.isBad;
      if (isQuiet && memory.quietPasses < QUIET_PASSES) return;
      memory.found = await reader.read(watched.account, { signal, minSlot: slot });
      memory.seenEnd = end;
      memory.quietPasses = 0;
    }
    if (memory.found === null || memory.found.slot > (await headSlot())) return;
    await judge(watched, memory, memory.found, signal);
    memory.found = null;
  }

  const headSlot = async () => (await readAtOneSlot(store, async () => null)).slot;

  async function judge(watched: Watched, memory: Memory, found: QueueOnChain, signal: AbortSignal): Promise<void> {
    const open = found.chains.filter(({ from }) => from >= memory.rightTo);
    for (const chain of open.slice(0, PARTS_PER_PASS)) {
      signal.throwIfAborted();
      const verdict = await judgePart(parts, watched, chain);
      if (verdict !== 'right') return await doubt(watched, memory, chain, verdict);
      memory.rightTo = chain.from + chain.size;
    }
    memory.doubt = null;
    if (open.length > PARTS_PER_PASS) memory.seenEnd = -1;
    else memory.isBad = false;
  }

  /** A single mismatch can be a reorg, or a node on another fork. */
  async function doubt(watched: Watched, memory: Memory, { from }: QueueChain, verdict: Verdict): Promise<void> {
    const isAgain = memory.doubt?.from === from && memory.doubt.verdict === verdict;
    memory.doubt = verdict === 'unknown' ? null : { from, verdict };
    if (verdict === 'unknown' || !isAgain) return;
    memory.isBad = true;
    await (verdict === 'wrong' ? refuse(parts, watched, from) : reportMissing(parts, watched, from));
  }

  return {
    isSuspect: ({ id }) => bad.has(id),
    async pass(signal) {
      const { slot, value } = await readAtOneSlot(store, readLightTrees);
      for (const tree of slot > 0 ? value : []) {
        const queues = queuesOf(tree).map((queue) => ({ tree, ...queue }));
        if (tree.status === 'diverged') continue;
        for (const watched of queues) {
          signal.throwIfAborted();
          await look(watched, signal);
        }
        if (queues.some((watched) => memoryOf(watched).isBad)) bad.add(tree.id);
        else bad.delete(tree.id);
      }
    },
  };
}

async function judgePart(
  { store, hashing }: QueueCheckParts,
  { tree, kind }: Watched,
  { from, size, chain }: QueueChain,
): Promise<Verdict> {
  const { value } = await readAtOneSlot(store, async (db) => ({
    values: await queueValues(db, tree.id, kind, from, size),
    now: await db.selectFrom('compression_trees').select('next_index').where('id', '=', tree.id).executeTakeFirst(),
  }));
  if (value.values.length < size) {
    // Addresses move from their queue to the tree, whose root proves them.
    const hasLeft = kind === 'addresses' && (value.now?.next_index ?? 0) - 1 > from;
    return hasLeft ? 'unknown' : 'missing';
  }
  // Two accounts for one leaf: one of them never existed.
  if (value.values.length > size) return 'wrong';
  const [own] = await hashChains(() => hashing.poseidon, value.values, size);
  return own !== undefined && equalBytes(own, chain) ? 'right' : 'wrong';
}

const factsOf = ({ tree, kind }: Watched, from: number) => ({ tree: encode32(tree.key), seq: tree.seq, kind, from });

async function refuse({ store, log }: QueueCheckParts, watched: Watched, from: number): Promise<void> {
  const isDone = await store.write(async (tx) => {
    const row = await lockTree(tx, watched.tree.id);
    // While the past is being read again, missing values may still arrive.
    if (row === null || row.status === 'diverged' || row.reason === HISTORY) return false;
    await changeTree(tx, row.id, { status: 'diverged', reason: QUEUE, expected_root: null, computed_root: null });
    return true;
  });
  if (isDone)
    log.error(
      factsOf(watched, from),
      'the queue of a Merkle tree has diverged from the chain; its proofs are withheld',
    );
}

async function reportMissing({ store, log }: QueueCheckParts, watched: Watched, from: number): Promise<void> {
  const isDone = await store.write(async (tx) => {
    const row = await lockTree(tx, watched.tree.id);
    if (row === null || row.status === 'diverged' || row.status === 'gap') return false;
    await changeTree(tx, row.id, { status: 'gap', reason: HISTORY });
    return true;
  });
  if (isDone) log.warn(factsOf(watched, from), 'the queue of a Merkle tree is incomplete');
}

/** A full part of a queue and the hash over its values. */
export interface QueueChain {
  /** Index of its first value. */
  readonly from: number;
  readonly size: number;
  readonly chain: Uint8Array;
}

interface QueueOnChain {
  /** An index at this slot has all values of these parts. */
  readonly slot: number;
  /** Full parts that were not in the tree yet, ascending. */
  readonly chains: readonly QueueChain[];
}

/** Reads the account of a queue: an output queue or a V2 tree. Null when it is neither, or changes too fast. */
export interface QueueReader {
  /** Errors: CHAIN_RPC_ERROR, CHAIN_UNREACHABLE, CHAIN_TIMEOUT. */
  read(key: Uint8Array, options?: TreeReadOptions): Promise<QueueOnChain | null>;
}

export function createQueueReader(chain: ChainReader, commitment: 'confirmed' | 'finalized'): QueueReader {
  const slice = createSliceReader(chain, commitment);

  async function header(key: Uint8Array, options: TreeReadOptions) {
    const { context, value } = await slice(key, 0, QUEUE_HEADER_BYTES, options);
    return { slot: context.slot, header: value === null ? null : readQueueHeader(sliceBytes(value)) };
  }

  return {
    async read(key, options = {}) {
      const before = await header(key, options);
      if (before.header === null) return null;
      const { slot } = before;
      if (before.header.fullParts.length === 0) return { slot, chains: [] };
      const { storesOffset, storesBytes } = before.header;
      const stores = await slice(key, storesOffset, storesBytes, { ...options, minSlot: slot });
      if (stores.value === null) return null;
      const bytes = sliceBytes(stores.value);
      const after = await header(key, { ...options, minSlot: stores.context.slot });
      return { slot, chains: chainsOf(before.header, after.header, bytes) };
    },
  };
}

/** A hash chain is stable until its batch is reused; parts that disappeared during the read may be unreliable. */
function chainsOf(before: QueueHeader, after: QueueHeader | null, stores: Uint8Array): QueueChain[] {
  const still = new Set(after?.fullParts.map(({ from }) => from));
  return before.fullParts.flatMap((part) => {
    const chain = still.has(part.from) ? chainOfPart(stores, before, part) : null;
    return chain === null ? [] : [{ from: part.from, size: part.size, chain }];
  });
}

/** A queue of a V2 tree. */
export type QueueKind = 'outputs' | 'nullifiers' | 'addresses';

/** The queues of a tree and the accounts that hold them. */
export function queuesOf({ type, key, queue }: TreeRow): readonly { kind: QueueKind; account: Uint8Array }[] {
  if (type === TREE_TYPE.addressV2) return [{ kind: 'addresses', account: key }];
  if (type !== TREE_TYPE.stateV2) return [];
  return [
    { kind: 'nullifiers', account: key },
    ...(queue === null ? [] : [{ kind: 'outputs', account: queue } as const]),
  ];
}

/**
 * The values of a queue from one index on, in order. Fewer than `size` when rows are missing, or when addresses
 * have left the queue. Errors: those of the store.
 */
async function queueValues(
  db: CompressionDb,
  tree: number,
  kind: QueueKind,
  from: number,
  size: number,
): Promise<Uint8Array[]> {
  if (kind === 'addresses') {
    const rows = await db
      .selectFrom('compression_address_queue')
      .select('address')
      .where('tree', '=', tree)
      .where('queue_index', '>=', from)
      .where('queue_index', '<', from + size)
      .orderBy('queue_index')
      .execute();
    return rows.map(({ address }) => address);
  }
  const place = kind === 'outputs' ? 'leaf_index' : 'nullifier_index';
  const rows = await db
    .selectFrom('compression_accounts')
    .select(['hash', 'nullifier'])
    .where('tree', '=', tree)
    .where(place, '>=', from)
    .where(place, '<', from + size)
    .orderBy(place)
    .execute();
  return rows.flatMap(({ hash, nullifier }) => (kind === 'outputs' ? [hash] : nullifier === null ? [] : [nullifier]));
}

/** Length of a queue according to the rows: the newest index plus one. Errors: those of the store. */
async function queueEnd(db: CompressionDb, tree: TreeRow, kind: QueueKind): Promise<number> {
  if (kind === 'addresses') {
    const queued = await db
      .selectFrom('compression_address_queue')
      .select((is) => is.fn.max('queue_index').as('last'))
      .where('tree', '=', tree.id)
      .executeTakeFirst();
    return queued?.last == null ? Math.max(0, tree.next_index - 1) : Number(queued.last) + 1;
  }
  const place = kind === 'outputs' ? 'leaf_index' : 'nullifier_index';
  const row = await db
    .selectFrom('compression_accounts')
    .select(place)
    .where('tree', '=', tree.id)
    .where(place, 'is not', null)
    .orderBy(place, 'desc')
    .limit(1)
    .executeTakeFirst();
  const last = (row as { readonly leaf_index?: number; readonly nullifier_index?: number } | undefined)?.[place];
  return last === undefined ? 0 : last + 1;
}
