import { type RawQuery, rawQuery } from '../../../src/ports/raw-query.ts';
import type { Store } from '../../../src/ports/store.ts';
import { pathPages } from '../../../src/solana/merkle/path.ts';
import type { Db, TreeRow } from '../store/tables.ts';
import { DAMAGED, openPage, pageId, readPages } from '../trees/page-store.ts';
import type { PageCache, PageNodes, TreeState } from './page-cache.ts';

/** What of a tree its paths depend on. */
export type PathTree = Pick<TreeRow, 'id' | 'key' | 'height' | 'seq' | 'root'>;

export interface LeafPlace {
  readonly tree: PathTree;
  readonly leafIndex: number;
}

/** Pages from a leaf to the root, bottom-up. */
export type PathPages = readonly PageNodes[];

/** A stored page is not what was written. */
export class DamagedPage extends Error {
  readonly tree: PathTree;

  constructor(tree: PathTree) {
    super(`a page of tree ${tree.id} is damaged`);
    this.name = 'DamagedPage';
    this.tree = tree;
  }
}

export interface PathReader {
  /**
   * The pages of many paths. The trees must have been read in the transaction of `db`. At most one statement per 500 pages that are not
   * cached. Errors: DamagedPage; those of the store.
   */
  paths(db: Db, places: readonly LeafPlace[]): Promise<readonly PathPages[]>;
  /**
   * The pages of one path, also outside of a transaction: none or one statement. Null when the tree has another root by now.
   * Errors as above.
   */
  path(db: Db, place: LeafPlace): Promise<PathPages | null>;
}

interface PageRow {
  readonly id: number | null;
  readonly bytes: Uint8Array | null;
  readonly root: Uint8Array;
}

export interface PathReaderParts {
  readonly store: Pick<Store, 'dialect'>;
  readonly cache: PageCache;
  /** Whether the path leads to the root; absent: it is believed to, as it was when it was written. */
  readonly verify?: (place: LeafPlace, pages: PathPages) => boolean;
}

export function createPathReader({ store, cache, verify }: PathReaderParts): PathReader {
  const queries = new Map<number, RawQuery<PageRow>>();
  const queryFor = (count: number): RawQuery<PageRow> => {
    const query = queries.get(count) ?? pagesWithRoot(store, count);
    queries.set(count, query);
    return query;
  };

  const requireVerified = (place: LeafPlace, pages: PathPages): void => {
    if (verify?.(place, pages) === false) throw new DamagedPage(place.tree);
  };

  return {
    async paths(db, places) {
      const known = new Map<number, PageNodes>();
      const missing = new Map<number, { readonly tree: PathTree; readonly state: TreeState }>();
      const keys = places.map(({ tree, leafIndex }) => {
        const state = cache.state(tree.id, tree.root);
        return pathPages(tree.height, leafIndex).map((key) => {
          const id = pageId(tree.id, key);
          const nodes = cache.get(id, state);
          if (nodes === undefined) missing.set(id, { tree, state });
          else known.set(id, nodes);
          return id;
        });
      });
      const read = await readPages(db, [...missing.keys()]);
      for (const [id, { tree, state }] of missing) {
        const nodes = checked(read.get(id) ?? null, tree);
        cache.set(id, state, nodes);
        known.set(id, nodes);
      }
      const paths = keys.map((ids) => ids.map((id) => known.get(id) ?? null));
      for (const [i, place] of places.entries()) requireVerified(place, paths[i] ?? []);
      return paths;
    },

    async path(db, place) {
      const { tree, leafIndex } = place;
      const state = cache.state(tree.id, tree.root);
      const ids = pathPages(tree.height, leafIndex).map((key) => pageId(tree.id, key));
      const pages = ids.map((id) => cache.get(id, state));
      if (pages.every((nodes) => nodes !== undefined)) {
        requireVerified(place, pages);
        return pages;
      }
      const missing = ids.filter((_, i) => pages[i] === undefined);
      // A few texts, each prepared once: an id may be there again.
      const rows = await queryFor(ids.length)(db, [...ids.map((_, i) => missing[i] ?? missing[0]), tree.id]);
      if (rows[0] === undefined || Buffer.compare(rows[0].root, tree.root) !== 0) return null;
      const read = new Map(rows.map(({ id, bytes }) => [id, bytes]));
      const path = ids.map((id, i) => {
        const cached = pages[i];
        if (cached !== undefined) return cached;
        const bytes = read.get(id) ?? null;
        const nodes = checked(bytes === null ? null : openPage(bytes), tree);
        cache.set(id, state, nodes);
        return nodes;
      });
      requireVerified(place, path);
      return path;
    },
  };
}

function checked(nodes: PageNodes | typeof DAMAGED, tree: PathTree): PageNodes {
  if (nodes === DAMAGED) throw new DamagedPage(tree);
  return nodes;
}

/** One statement sees one state: pages that come with a root are those of that root. */
function pagesWithRoot(store: Pick<Store, 'dialect'>, count: number): RawQuery<PageRow> {
  return rawQuery(store, (place) => {
    const ids = Array.from({ length: count }, () => place()).join(', ');
    return `SELECT p.id, p.bytes, t.root FROM compression_trees t LEFT JOIN compression_pages p ON p.id IN (${ids}) WHERE t.id = ${place()}`;
  });
}
