import { encode32 } from '../../../src/lib/base58.ts';
import type { Log, Store, StoreTx } from '../../../src/plugin/plugin.ts';
import type { GapBook } from '../../../src/ports/gaps.ts';
import { TREE_TYPE } from '../../../src/solana/compression/events.ts';
import { readNote, writeNote } from '../store/notes.ts';
import type { Db, TreeRow } from '../store/tables.ts';
import type { TreeReader } from './tree-reader.ts';

interface MissingParts {
  readonly store: Store;
  readonly gaps: GapBook;
  readonly reader: Pick<TreeReader, 'one'>;
  readonly processor: { readonly name: string; readonly version: number };
  /** Updates that are fetched one by one without being asked for. */
  readonly maxUpdates: number;
  /** Where the chain's trees begin. */
  readonly firstSlot: () => Promise<number>;
  readonly log: Log;
}

/** How wide to look: from where the tree stands, or over its whole life. */
type Width = 'near' | 'whole';

/** Has the transactions of trees read again that lie behind what their rows hold. */
export interface MissingUpdates {
  /**
   * Asks for what comes after the rows of a tree, in a transaction of its own with `also`, which is told from which slot on all is read.
   * False when it is too much to be fetched without being asked for. Errors: those of store and reader.
   */
  ask(tree: TreeRow, width: Width, also?: (tx: StoreTx, fromSlot: number) => Promise<void>): Promise<boolean>;
  /** Whether what was asked for is still being read. */
  isBeingRead(tree: TreeRow): Promise<boolean>;
}

export function createMissingUpdates(parts: MissingParts): MissingUpdates {
  const { store, gaps, processor, log } = parts;

  return {
    async ask(tree, width, also) {
      const count = await countMissing(parts, tree, width);
      const name = encode32(tree.key);
      if (count > parts.maxUpdates) {
        log.error(
          { tree: name, seq: tree.seq, missing: count },
          'a Merkle tree lacks more updates than are fetched without being asked for: load a snapshot, or run backfill',
        );
        return false;
      }
      const near = width === 'near' ? await nearSlot(store.read as Db, tree) : null;
      const fromSlot = near ?? (await parts.firstSlot());
      const gap = await store.write(async (tx) => {
        await also?.(tx, fromSlot);
        const db = tx.db as Db;
        const head = await db.selectFrom('compression_head').select('slot').executeTakeFirst();
        const toSlot = Math.max(fromSlot, head?.slot ?? 0);
        const wish = { chain: 'main', processor, fromSlot, toSlot, addresses: addressesOf(tree) } as const;
        const id = await gaps.request(tx, wish);
        await noteFill(tx, tree, id);
        return id;
      });
      log.warn({ tree: name, seq: tree.seq, fromSlot, gap }, 'missing updates of a Merkle tree are fetched');
      return true;
    },

    isBeingRead: (tree) => isBeingRead(parts, tree),
  };
}

/** Transactions that put something into a V2 tree name only its queue. */
export function addressesOf({ key, queue, type }: Pick<TreeRow, 'key' | 'queue' | 'type'>): string[] {
  const tree = encode32(key);
  return type === TREE_TYPE.stateV2 && queue !== null ? [tree, encode32(queue)] : [tree];
}

/** An estimate from above, up to the few transactions that change nothing. */
async function countMissing({ reader }: MissingParts, tree: TreeRow, width: Width): Promise<number> {
  const answer = await reader.one(tree.key);
  if (answer.kind !== 'tree') return 0;
  const { seq, nextIndex } = answer.tree;
  const isV1 = tree.type === TREE_TYPE.stateV1 || tree.type === TREE_TYPE.addressV1;
  const [theirs, ours] = isV1 ? [seq, tree.seq] : [nextIndex, tree.next_index];
  return Math.max(0, width === 'whole' ? theirs : theirs - ours);
}

/** At or before the slot of the first update that the rows lack; null when nothing is known of the tree yet. */
async function nearSlot(db: Db, tree: TreeRow): Promise<number | null> {
  const isV1 = tree.type === TREE_TYPE.stateV1 || tree.type === TREE_TYPE.addressV1;
  // What goes into a V2 tree next has waited in its queue for a while: as long as the roots go back that are kept.
  const root = await db
    .selectFrom('compression_roots')
    .select('slot')
    .where('tree', '=', tree.id)
    .orderBy('seq', isV1 ? 'desc' : 'asc')
    .limit(1)
    .executeTakeFirst();
  return root?.slot ?? null;
}

const noteOf = ({ id }: Pick<TreeRow, 'id'>): string => `fill:${id}`;

/** Remembers the gap that was asked for, for the sake of a tree. */
export async function noteFill(tx: StoreTx, tree: Pick<TreeRow, 'id'>, gap: number): Promise<void> {
  await writeNote(tx, noteOf(tree), String(gap));
}

/** Whether what was asked for is still being read. Errors: those of the store. */
export async function isBeingRead(
  {
    store,
    gaps,
    processor,
  }: { readonly store: Store; readonly gaps: GapBook; readonly processor: { readonly name: string } },
  tree: Pick<TreeRow, 'id'>,
): Promise<boolean> {
  const gap = await readNote(store.read as Db, noteOf(tree));
  if (gap === null) return false;
  const open = await gaps.list({ chain: 'main', processor: processor.name, isOpen: true, limit: 1_000 });
  return open.some(({ id }) => id === Number(gap));
}
