import { inBytes } from '../../../src/lib/in-list.ts';
import { changeOf } from '../../../src/lib/transitions.ts';
import {
  type BlockProcessor,
  type ChainBlock,
  CodedError,
  messageOf,
  RpcError,
  type Store,
  type StoreTx,
} from '../../../src/plugin/plugin.ts';
import { decodeTokenAccount } from '../../../src/solana/accounts/token.ts';
import type { AccountSource } from '../source.ts';
import { type BlockRead, BlockReads } from './block-reads.ts';
import type { FollowedSets } from './followed.ts';
import { bytesOf, readIndexState } from './stored-rows.ts';
import { type AccountRow, type AssetDb, FILL, FLAG, hexOf, LIST, listKeys, readListed } from './tables.ts';
import { keepUndo, revertAssets, writeReads } from './write.ts';

const PASSED = changeOf(FILL['blocks passed over']);

interface ProcessorParts {
  readonly store: Pick<Store, 'read' | 'dialect'>;
  /** Reads accounts at or above a slot. */
  readonly source: (atLeast: number) => AccountSource;
  /** Starts the fill jobs of newly followed keys once the transaction has committed. */
  readonly fill: (tx: StoreTx) => Promise<void>;
}

/**
 * Keeps the assets of what is followed current: the accounts of a block that are ours are read again before its transaction, and written in it.
 * An answer may be of a later slot than the block; the blocks up to there change nothing then.
 */
export function createDasProcessor({ store, source, fill }: ProcessorParts): BlockProcessor {
  const reads = new BlockReads({ store, source });
  /** Null: nothing was followed. */
  const prepared = new WeakMap<ChainBlock, BlockRead | null>();

  return {
    name: 'das',
    version: 1,
    chains: ['main'],
    // What was passed over is read from the upstream like everything before the first block.
    wantsGaps: false,
    async prepare(block) {
      prepared.set(block, await unwrapped(() => reads.read(block)));
    },
    async apply(tx, block, _chain, how) {
      // What is followed from now on starts with the next block.
      if (prepared.get(block) === null) return;
      const db = tx.db as AssetDb;
      // Locks the row, as those do who write between blocks.
      const state = await db
        .updateTable('das_state')
        .set(({ ref }) => ({ version: ref('version') }))
        .where('id', '=', 1)
        .returningAll()
        .executeTakeFirstOrThrow();
      const before = prepared.get(block) ?? null;
      const followed = await reads.followedAt(db, state.version);
      if (followed.isEmpty) return;
      if (before?.version !== state.version) await reads.noteLate(tx, block, before, followed);
      let version = state.version;
      const isCut = state.slot === null || block.parentSlot > state.slot;
      const written =
        before === null
          ? { accounts: [], assets: [] }
          : await writeReads(tx, {
              slot: block.slot,
              book: before.book,
              kept: before.kept,
              ids: before.ids,
              isSpare: (address, old) => followed.isFilled && isSpare(before, address, old),
              created: { keys: before.created, time: block.blockTime },
            });
      const hasMore = await followCollections(
        tx,
        written.assets.map(([id]) => id),
        followed,
      );
      if (isCut)
        await db.updateTable('das_followed').set({ state: PASSED.to }).where('state', 'in', PASSED.from).execute();
      if (isCut || hasMore) {
        version += 1;
        await fill(tx);
      }
      await db
        .updateTable('das_state')
        .set(({ eb }) => ({
          slot: block.slot,
          version,
          // A revision of its own: nothing of those before is valid, though nothing may have changed since the last.
          ...(isCut ? { current_from: block.slot, revision: eb('revision', '+', 1) } : {}),
        }))
        .where('id', '=', 1)
        .execute();
      if (how?.isFinal !== true) await keepUndo(tx, { slot: block.slot, version }, written);
    },
    async revert(tx, { slot, parentSlot }) {
      const { slot: newest, version } = await readIndexState(tx.db as AssetDb);
      if (newest === null) return;
      await revertAssets(tx, slot, parentSlot, version);
      await (tx.db as AssetDb).updateTable('das_state').set({ slot: parentSlot }).where('id', '=', 1).execute();
    },
    async finalized(tx, slot) {
      if (reads.isEmpty) return;
      await (tx.db as AssetDb).deleteFrom('das_undo').where('slot', '<=', slot).execute();
    },
  };
}

/** Core collections of followed authorities: their assets have these authorities too. */
async function followCollections(tx: StoreTx, ids: readonly Uint8Array[], { authority }: FollowedSets) {
  if (authority.size === 0 || ids.length === 0) return false;
  const db = tx.db as AssetDb;
  const rows = await db
    .selectFrom('das_assets')
    .select(['id', 'listed'])
    .where(inBytes(tx.dialect, 'id', ids))
    .execute();
  const authorities = listKeys(authority);
  const added: [string, Uint8Array, string, Uint8Array][] = [];
  for (const { id, listed } of rows)
    for (const { kind, key, flags } of readListed(listed)) {
      const parent = authorities.get(hexOf(key));
      if (kind === LIST.authority && (flags & FLAG.coreCollection) !== 0 && parent !== undefined)
        added.push(['collection', id, FILL['follow for its authority'].none, bytesOf(parent)]);
    }
  return (await tx.insertMany('das_followed', ['kind', 'key', 'state', 'parent'], added, 'ignore')) > 0;
}

/** Token accounts are stored for who holds an NFT, unless their owner or mint is followed. */
function isSpare({ followed, book }: BlockRead, address: string, old: AccountRow | null): boolean {
  const account = book.reads.get(address)?.account ?? null;
  const held = account === null ? null : decodeTokenAccount(account).value;
  if (held === null) return old?.token_owner != null;
  return !followed.owner.has(held.owner) && !followed.mint.has(held.mint);
}

/** Errors of the upstream as they are: the follower knows them. What cannot be read now is read again later. */
async function unwrapped<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof RpcError)) throw error;
    if (error.cause instanceof CodedError) throw error.cause;
    throw new CodedError('CHAIN_RPC_ERROR', messageOf(error), { cause: error, retryable: true });
  }
}
