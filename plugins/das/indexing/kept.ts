import { sql } from 'kysely';
import { LRUCache } from 'lru-cache';
import { encode32 } from '../../../src/lib/base58.ts';
import type { Store } from '../../../src/plugin/plugin.ts';
import { type AssetDb, hexOf, KEPT_CHANGES, LIST_NAME_BYTES } from './tables.ts';

/** An asset as it was shown, and what that depends on besides its accounts. */
export interface ShownAsset {
  readonly id: string;
  /** JSON without the slot, see `AssetText`. */
  readonly body: Uint8Array;
  /** A token, of which there may be many. */
  readonly isFungible: boolean;
  readonly uri: string;
  /** The document that was read at `uri`, and the price; compared by identity. */
  readonly document: unknown;
  readonly dollars: number | null;
  /** The collection whose account the text depends on too. */
  readonly group: string | null;
}

export interface KeptAsset extends ShownAsset {
  /** What it is kept under. */
  readonly name: string;
}

/** A page of a list as it was shown: the assets on it, and how many the list has as far as it was read. */
export interface KeptPage {
  readonly assets: readonly KeptAsset[];
  /** Ids that were looked at and are not in the list: a change can bring them in. */
  readonly others: readonly string[];
  readonly listed: number;
}

/** What is valid as of one state of the index. */
export interface KeptView {
  /** The newest indexed block. */
  readonly slot: number;
  /** Accounts that were read at an earlier slot are not valid. */
  readonly from: number;
  /** `how`: all options that the text depends on. */
  find(id: string, how: string): KeptAsset | undefined;
  keep(how: string, asset: ShownAsset): KeptAsset;
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
type KeptEntry =
  | { readonly kind: 'asset'; readonly asset: KeptAsset; readonly revision: number }
  | {
      readonly kind: 'page';
      /** What its assets are kept under: the page is gone with the first of them. */
      readonly names: readonly string[];
      readonly others: readonly string[];
      readonly listed: number;
      readonly revision: number;
      /** See `listName`, in hexadecimal. */
      readonly lists: readonly string[];
      readonly key: string;
    };

interface RevisionState {
  readonly slot: number | null;
  readonly from: number;
  readonly revision: number;
}

/** Estimated overhead per entry (objects; for texts also the buffer), and per asset id in a page. */
const ENTRY_BYTES = 600;
const ID_BYTES = 80;

function sizeOf(entry: KeptEntry): number {
  if (entry.kind === 'asset') return entry.asset.body.length + entry.asset.uri.length + ENTRY_BYTES;
  return entry.names.reduce((size, name) => size + name.length, ENTRY_BYTES + entry.others.length * ID_BYTES);
}

/** Changed assets and lists that are remembered; beyond this, all cached texts are invalid. */
const MAX_REMEMBERED = 50_000;

const note = (changed: Map<string, number>, name: string, at: number): void =>
  void changed.set(name, Math.max(at, changed.get(name) ?? 0));

/**
 * Texts of assets of the index in memory, and pages of them. Each write of the index has a revision, and says which assets and lists it
 * changed: a text is valid while no later write names its asset, or the collection that it takes its authority from; a page while its texts
 * are there and it is as old as their last change, and no later write names its list.
 */
export function createKeptAssets(store: Pick<Store, 'read' | 'version'>, maxBytes: number): KeptAssets {
  const db = store.read as AssetDb;
  const entries = new LRUCache<string, KeptEntry>({
    maxSize: maxBytes,
    sizeCalculation: (entry, key) => key.length + sizeOf(entry),
  });
  const changedAt = new Map<string, number>();
  const listChangedAt = new Map<string, number>();
  let state: RevisionState = { slot: null, from: 0, revision: 0 };
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
    const { rows } = await sql<RevisionState & { at: number | null; ids: Uint8Array; lists: Uint8Array }>`
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
    const isLost = revision - state.revision > KEPT_CHANGES || changedAt.size + listChangedAt.size > MAX_REMEMBERED;
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
            slot,
            from,
            find,
            findPage,
            keep: (how, shown) => keep({ ...shown, name: `${shown.id}${how}` }, revision),
            keepPage(name, { assets, others, listed }, lists, key) {
              const names = assets.map((asset) => asset.name);
              entries.set(name, { kind: 'page', names, others, listed, revision, lists: lists.map(hexOf), key });
            },
          };
    return view;
  }

  function keep(asset: KeptAsset, revision: number): KeptAsset {
    entries.set(asset.name, { kind: 'asset', asset, revision });
    return asset;
  }

  const isValid = (id: string, revision: number) => revision >= floor && (changedAt.get(id) ?? 0) <= revision;
  const isValidText = ({ id, group }: KeptAsset, revision: number) =>
    isValid(id, revision) && (group === null || isValid(group, revision));

  /** `since`: a newer text has to be as it was at that revision too; of a page that is older, the asset may be gone by now. */
  function findNamed(name: string, since: number): KeptAsset | undefined {
    const entry = entries.get(name);
    return entry?.kind === 'asset' && isValidText(entry.asset, Math.min(entry.revision, since))
      ? entry.asset
      : undefined;
  }

  const find = (id: string, how: string) => findNamed(`${id}${how}`, Number.POSITIVE_INFINITY);

  function findPage(name: string): KeptPage | undefined {
    const entry = entries.get(name);
    if (entry?.kind !== 'page') return undefined;
    const { names, others, listed, lists, key, revision } = entry;
    if (lists.some((list) => (listChangedAt.get(list) ?? 0) > revision)) return undefined;
    if (![key, ...others].every((id) => isValid(id, revision))) return undefined;
    const assets: KeptAsset[] = [];
    for (const one of names) {
      const asset = findNamed(one, revision);
      if (asset === undefined) return undefined;
      assets.push(asset);
    }
    return { assets, others, listed };
  }

  const viewNow = () => (seen !== null && store.version() === seen ? view : null);

  return { viewNow, view: async () => viewNow() ?? (await sync()) };
}
