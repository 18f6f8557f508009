import { sql } from 'kysely';
import { LRUCache } from 'lru-cache';
import { encode32 } from '../../../src/lib/base58.ts';
import type { Store } from '../../../src/plugin/plugin.ts';
import { type Db, hexOf, KEPT_CHANGES, LIST_NAME_BYTES } from './tables.ts';

/** An asset as it was shown, and what that depends on besides its accounts. */
export interface KeptAsset {
  /** JSON without the slot, see `AssetText`. */
  readonly body: string;
  /** A token, of which there may be many. */
  readonly isFungible: boolean;
  readonly uri: string;
  /** The document that was read at `uri`, and the price; compared by identity. */
  readonly document: unknown;
  readonly dollars: number | null;
  /** The collection whose account the text depends on too. */
  readonly group: string | null;
}

/** A page of a list as it was shown: the assets on it, and how many the list has as far as it was read. */
export interface KeptPage {
  readonly items: readonly { readonly id: string; readonly asset: KeptAsset }[];
  /** Ids that were looked at and are not in the list: a change can bring them in. */
  readonly others: readonly string[];
  readonly listed: number;
}

/** What is valid as of one state of the index. */
export interface KeptView {
  /** The newest indexed block. */
  readonly slot: number;
  /** `how`: all options that the text depends on. */
  find(id: string, how: string): KeptAsset | undefined;
  keep(id: string, how: string, asset: KeptAsset): void;
  /** `name`: of the list and of all that its page depends on. */
  findPage(name: string): KeptPage | undefined;
  /** `lists`: those that the page is of, as `listName` of each. `key`: what it is the list of. */
  keepPage(name: string, page: KeptPage, lists: readonly Uint8Array[], key: string): void;
}

export interface KeptAssets {
  /** Null: no block was indexed yet. Errors: those of a read. */
  view(): Promise<KeptView | null>;
  /** The last view, where the store knows that nothing was written since; otherwise null. */
  viewNow(): KeptView | null;
}

/** Accounts and lists were read at or after the revision. */
type Entry =
  | { readonly kind: 'asset'; readonly asset: KeptAsset; readonly revision: number }
  | {
      readonly kind: 'page';
      readonly page: KeptPage;
      readonly revision: number;
      /** See `listName`, in hexadecimal. */
      readonly lists: readonly string[];
      readonly key: string;
    };

interface State {
  readonly slot: number | null;
  readonly from: number;
  readonly revision: number;
}

const ENTRY_BYTES = 400;
const ID_BYTES = 80;
const sizeOf = ({ body, uri }: KeptAsset): number => body.length + uri.length + ENTRY_BYTES;
/** As if it had its texts for itself: those of the assets may be gone before it. */
const sizeOfPage = ({ items, others }: KeptPage): number =>
  items.reduce((size, { asset }) => size + sizeOf(asset), ENTRY_BYTES + others.length * ID_BYTES);
/** Of those that changed; beyond this, nothing that was kept is valid. */
const MOST_REMEMBERED = 50_000;

const note = (changed: Map<string, number>, name: string, at: number): void =>
  void changed.set(name, Math.max(at, changed.get(name) ?? 0));

/**
 * Texts of assets of the index in memory, and pages of them. Each write of the index has a revision, and says which assets and lists it
 * changed: a text is valid while no later write names its asset, or the collection that it takes its authority from; a page while its texts
 * are and no later write names its list.
 */
export function createKeptAssets(store: Pick<Store, 'read' | 'version'>, maxBytes: number): KeptAssets {
  const db = store.read as Db;
  const entries = new LRUCache<string, Entry>({
    maxSize: maxBytes,
    sizeCalculation: (entry, key) =>
      key.length + (entry.kind === 'asset' ? sizeOf(entry.asset) : sizeOfPage(entry.page)),
  });
  const changedAt = new Map<string, number>();
  const listChangedAt = new Map<string, number>();
  let state: State = { slot: null, from: 0, revision: 0 };
  /** Texts of before this revision are not valid. */
  let floor = 0;
  let view: KeptView | null = null;
  /** The version of the store that it is of. */
  let seen: number | null = null;
  let [started, taken] = [0, 0];

  async function sync(): Promise<KeptView | null> {
    started += 1;
    const turn = started;
    const version = store.version();
    // One statement is one state.
    const { rows } = await sql<State & { at: number | null; ids: Uint8Array; lists: Uint8Array }>`
      select s.slot, s.current_from as "from", s.revision, c.revision as at, c.ids, c.lists
        from das_state s left join das_changes c on c.revision > ${state.revision} where s.id = 1`.execute(db);
    for (const { at, ids, lists } of rows) {
      if (at === null) continue;
      for (let next = 0; next < ids.length; next += 32) note(changedAt, encode32(ids, next), at);
      for (let next = 0; next < lists.length; next += LIST_NAME_BYTES)
        note(listChangedAt, hexOf(lists.subarray(next, next + LIST_NAME_BYTES)), at);
    }
    // Another one that was started later has the newer state.
    if (turn < taken) return view;
    taken = turn;
    const { slot, from, revision } = rows[0]!;
    const isLost = revision - state.revision > KEPT_CHANGES || changedAt.size + listChangedAt.size > MOST_REMEMBERED;
    if (isLost || from !== state.from || slot === null) {
      floor = revision;
      changedAt.clear();
      listChangedAt.clear();
    }
    state = { slot, from, revision };
    seen = version;
    view =
      slot === null
        ? null
        : {
            ...{ slot, find, findPage },
            keep: (id, how, asset) => void entries.set(`${id}${how}`, { kind: 'asset', asset, revision }),
            keepPage: (name, page, lists, key) =>
              void entries.set(name, { kind: 'page', page, revision, lists: lists.map(hexOf), key }),
          };
    return view;
  }

  const isValid = (id: string, revision: number) => revision >= floor && (changedAt.get(id) ?? 0) <= revision;
  const isValidText = (id: string, { group }: KeptAsset, revision: number) =>
    isValid(id, revision) && (group === null || isValid(group, revision));

  function find(id: string, how: string): KeptAsset | undefined {
    const entry = entries.get(`${id}${how}`);
    return entry?.kind === 'asset' && isValidText(id, entry.asset, entry.revision) ? entry.asset : undefined;
  }

  function findPage(name: string): KeptPage | undefined {
    const entry = entries.get(name);
    if (entry?.kind !== 'page') return undefined;
    const { page, lists, key, revision } = entry;
    if (lists.some((list) => (listChangedAt.get(list) ?? 0) > revision)) return undefined;
    const isWhole = page.items.every(({ id, asset }) => isValidText(id, asset, revision));
    return isWhole && [key, ...page.others].every((id) => isValid(id, revision)) ? page : undefined;
  }

  const viewNow = () => (seen !== null && store.version() === seen ? view : null);

  return { viewNow, view: async () => viewNow() ?? (await sync()) };
}
