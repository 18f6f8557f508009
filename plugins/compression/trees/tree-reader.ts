import { decode32, encode, encode32 } from '../../../src/lib/base58.ts';
import {
  type ChainReader,
  type Clock,
  CodedError,
  codeOf,
  type Log,
  messageOf,
  type StoreTx,
} from '../../../src/plugin/plugin.ts';
import { OWN_WORK } from '../../../src/ports/access.ts';
import { TREE_TYPE } from '../../../src/solana/compression/events.ts';
import {
  readQueueAccount,
  readTreeAccount,
  rootPlaces,
  TREE_DISCRIMINATORS,
  TREE_HEADER_BYTES,
} from '../../../src/solana/compression/tree-accounts.ts';
import { LIGHT_COMPRESSION_PROGRAM, LIGHT_GROUP } from '../../../src/solana/programs.ts';
import type { CompressionDb, TreeRow } from '../store/tables.ts';
import type { NewTree } from './tree-book.ts';

const HASH_BYTES = 32;

/** Contents of a tree account. */
export interface ChainTree extends NewTree {
  readonly rootCapacity: number;
  readonly seq: number;
  readonly nextIndex: number;
}

type TreeAnswer =
  | { readonly kind: 'tree'; readonly tree: ChainTree /** Slot of the node. */; readonly slot: number }
  /** The queue of this tree. */
  | { readonly kind: 'queue'; readonly tree: Uint8Array }
  /** Not one of our trees, with the reason. */
  | { readonly kind: 'foreign'; readonly reason: string };

/** The newest sequence number on the chain, and the root of a requested one. */
export interface ChainRoot {
  /** Newest sequence number. */
  readonly seq: number;
  /** Null when the account is gone. */
  readonly root: Uint8Array | null;
  /** Slot of the node when it returned the sequence number. */
  readonly slot: number;
}

/** Reads tree accounts. Errors of all: CHAIN_RPC_ERROR, CHAIN_UNREACHABLE, CHAIN_TIMEOUT. */
export interface TreeReader {
  one(key: Uint8Array, options?: TreeReadOptions): Promise<TreeAnswer>;
  /** All trees of the program, without foreign ones. Nodes may refuse this call. */
  all(options?: TreeReadOptions): Promise<ChainTree[]>;
  /** The root that the tree had at a sequence number: reliable while it is one of the newest `capacity`. */
  rootAt(
    tree: { readonly key: Uint8Array; readonly type: number },
    seq: number,
    capacity: number,
    options?: TreeReadOptions,
  ): Promise<ChainRoot>;
}

export function createTreeReader(
  chain: ChainReader,
  config: { readonly programId: string },
  commitment: 'confirmed' | 'finalized',
): TreeReader {
  const group = decode32(LIGHT_GROUP)!;

  const slice = createSliceReader(chain, commitment);

  function treeOf(key: Uint8Array, data: Uint8Array): ChainTree | string {
    const account = readTreeAccount(data);
    if (account === null) return 'the account is not a tree of a known kind';
    if (config.programId === LIGHT_COMPRESSION_PROGRAM && !Buffer.from(group).equals(account.owner))
      return `it belongs to ${encode32(account.owner)}`;
    const { type, height, nextTree } = account;
    return {
      key: Uint8Array.from(key),
      type,
      height,
      rootCapacity: account.rootHistoryCapacity,
      nextTree: nextTree === null ? null : Uint8Array.from(nextTree),
      queue: Uint8Array.from(account.queue ?? key),
      seq: Number(account.seq),
      nextIndex: Number(account.nextIndex),
    };
  }

  return {
    async one(key, options = {}) {
      const { context, value } = await slice(key, 0, TREE_HEADER_BYTES, options);
      if (value === null) return { kind: 'foreign', reason: 'the account does not exist' };
      if (value.owner !== config.programId) return { kind: 'foreign', reason: `its program is ${value.owner}` };
      const data = sliceBytes(value);
      const queueOf = readQueueAccount(data);
      if (queueOf !== null) return { kind: 'queue', tree: queueOf };
      const tree = treeOf(key, data);
      return typeof tree === 'string' ? { kind: 'foreign', reason: tree } : { kind: 'tree', tree, slot: context.slot };
    },
    async all({ signal } = {}) {
      const found: ChainTree[] = [];
      for (const discriminator of TREE_DISCRIMINATORS) {
        const accounts = await chain.call<{ readonly pubkey: string; readonly account: AccountReply }[]>(
          'getProgramAccounts',
          [
            config.programId,
            {
              encoding: 'base64',
              commitment,
              dataSlice: { offset: 0, length: TREE_HEADER_BYTES },
              filters: [{ memcmp: { offset: 0, bytes: encode(discriminator) } }],
            },
          ],
          { tenant: OWN_WORK, ...(signal === undefined ? {} : { signal }) },
        );
        for (const { pubkey, account } of accounts) {
          const key = decode32(pubkey);
          const tree = key === null ? 'no key' : treeOf(key, sliceBytes(account));
          if (typeof tree !== 'string') found.push(tree);
        }
      }
      return found;
    },
    async rootAt({ key, type }, seq, capacity, options = {}) {
      const { seqOffset, rootsOffset } = rootPlaces(type);
      // The root first: if the number read afterwards still includes it among the newest, it was valid when read.
      const place = await slice(key, rootsOffset + HASH_BYTES * (seq % capacity), HASH_BYTES, options);
      const head = await slice(key, seqOffset, 8, options);
      const root = place.value === null ? null : sliceBytes(place.value);
      const number = head.value === null ? null : sliceBytes(head.value);
      if (root?.length !== HASH_BYTES || number?.length !== 8) return { seq: 0, root: null, slot: head.context.slot };
      return { seq: Number(Buffer.from(number).readBigUInt64LE()), root, slot: head.context.slot };
    },
  };
}

interface TreeSourceParts {
  /** Null without an upstream. */
  readonly reader: Pick<TreeReader, 'one'> | null;
  readonly clock: Clock;
  readonly log: Log;
  /** Cancels retries. */
  readonly signal: AbortSignal;
}

/** Pauses between attempts; afterwards the block itself is retried. */
const PAUSES_MS = [500, 1_000, 2_000, 4_000, 0] as const;

/** A key in an event that is not our tree, with the reason. */
export interface ForeignTree {
  readonly foreign: string;
}

/** Looks up unknown trees before the transaction of a block starts. */
export interface TreeSource {
  /**
   * The tree with this key, or whose output queue has it, as the block at `slot` saw it or later. Errors: COMPRESSION_TREE_UNREADABLE after all attempts, COMPRESSION_TREE_UNDECLARED
   * without a chain to read from; the block then waits and is retried.
   */
  lookUp(key: Uint8Array, slot: number): Promise<NewTree | ForeignTree>;
}

/** Looks up a key that a block uses as a tree or an output queue. */
export function createTreeSource({ reader, clock, log, signal }: TreeSourceParts): TreeSource {
  async function ask({ one }: Pick<TreeReader, 'one'>, key: Uint8Array, slot: number): Promise<NewTree | ForeignTree> {
    const named = await one(key, { signal, minSlot: slot });
    const answer = named.kind === 'queue' ? await one(named.tree, { signal, minSlot: slot }) : named;
    if (answer.kind === 'tree') return answer.tree;
    return { foreign: answer.kind === 'foreign' ? answer.reason : 'it is the queue of a queue' };
  }

  return {
    async lookUp(key, slot) {
      const tree = encode32(key);
      if (reader === null) throw undeclared(tree);
      let cause: unknown;
      for (const pauseMs of PAUSES_MS) {
        try {
          return await ask(reader, key, slot);
        } catch (error) {
          signal.throwIfAborted();
          cause = error;
          log.warn({ tree, code: codeOf(error), error: messageOf(error) }, 'the account of a tree cannot be read');
          if (pauseMs > 0) await clock.sleep(pauseMs, signal);
        }
      }
      throw new CodedError('COMPRESSION_TREE_UNREADABLE', `the account of tree ${tree} cannot be read`, {
        retryable: true,
        cause,
        facts: { tree },
      });
    },
  };
}

const undeclared = (tree: string) =>
  new CodedError(
    'COMPRESSION_TREE_UNDECLARED',
    `a block names tree ${tree}, and without an upstream it has to be declared in compression.trees`,
    { retryable: true, facts: { tree } },
  );

const TIMEOUT_MS = 10_000;

export interface TreeReadOptions {
  readonly signal?: AbortSignal;
  /** A node below this slot refuses (CHAIN_RPC_ERROR). */
  readonly minSlot?: number;
}

interface AccountReply {
  readonly data: readonly [string, string];
  readonly owner: string;
}

/** A part of an account, and the slot of the node; null for a missing account. */
interface AccountSlice {
  readonly context: { readonly slot: number };
  readonly value: AccountReply | null;
}

/** Reads a part of an account. Errors: CHAIN_RPC_ERROR, CHAIN_UNREACHABLE, CHAIN_TIMEOUT. */
type SliceReader = (key: Uint8Array, offset: number, length: number, options: TreeReadOptions) => Promise<AccountSlice>;

export function createSliceReader(chain: ChainReader, commitment: 'confirmed' | 'finalized'): SliceReader {
  return async (key, offset, length, { signal, minSlot }) =>
    await chain.call<AccountSlice>(
      'getAccountInfo',
      [
        encode32(key),
        {
          encoding: 'base64',
          commitment,
          dataSlice: { offset, length },
          ...(minSlot === undefined ? {} : { minContextSlot: minSlot }),
        },
      ],
      { tenant: OWN_WORK, timeoutMs: TIMEOUT_MS, ...(signal === undefined ? {} : { signal }) },
    );
}

export const sliceBytes = ({ data }: AccountReply): Uint8Array => Uint8Array.from(Buffer.from(data[0], 'base64'));

/** The Light trees, by id. */
export async function readLightTrees(db: CompressionDb): Promise<TreeRow[]> {
  return await db
    .selectFrom('compression_trees')
    .selectAll()
    .where('type', 'in', Object.values(TREE_TYPE))
    .orderBy('id')
    .execute();
}

/** Reads a tree and locks its row until the transaction ends, so that the indexer does not overwrite it. */
export async function lockTree({ db, dialect }: StoreTx, id: number): Promise<TreeRow | null> {
  const query = (db as CompressionDb).selectFrom('compression_trees').selectAll().where('id', '=', id);
  // SQLite has a single writer and no row locks.
  return (await (dialect === 'postgres' ? query.forUpdate() : query).executeTakeFirst()) ?? null;
}

export async function changeTree(
  { db }: StoreTx,
  id: number,
  changes: Partial<Omit<TreeRow, 'id' | 'key'>>,
): Promise<void> {
  await (db as CompressionDb).updateTable('compression_trees').set(changes).where('id', '=', id).execute();
}
