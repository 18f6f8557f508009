import { sql } from 'kysely';
import { LRUCache } from 'lru-cache';
import { encode32 } from '../../../src/lib/base58.ts';
import type { Store } from '../../../src/plugin/plugin.ts';
import { type Db, KEPT_CHANGES } from './tables.ts';

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
}

/** What is valid as of one state of the index. */
export interface KeptView {
  /** The newest indexed block. */
  readonly slot: number;
  /** `how`: all options that the text depends on. */
  find(id: string, how: string): KeptAsset | undefined;
  /** `group`: the collection whose account the text depends on too. */
  keep(id: string, how: string, asset: KeptAsset, group: string | null): void;
}

export interface KeptAssets {
  /** Null: no block was indexed yet. Errors: those of a read. */
  view(): Promise<KeptView | null>;
  /** The last view, where the store knows that nothing was written since; otherwise null. */
  viewNow(): KeptView | null;
}

interface Entry extends KeptAsset {
  /** Its accounts were read at or after this revision. */
  readonly revision: number;
  readonly group: string | null;
}

interface State {
  readonly slot: number | null;
  readonly from: number;
  readonly revision: number;
}

const ENTRY_BYTES = 400;
/** Of those that changed; beyond this, nothing that was kept is valid. */
const MOST_REMEMBERED = 50_000;

/**
 * Texts of assets of the index in memory. Each write of the index has a revision, and says which assets it changed: a text is valid while no
 * later write names its asset, or the collection that it takes its authority from.
 */
export function createKeptAssets(store: Pick<Store, 'read' | 'version'>, maxBytes: number): KeptAssets {
  const db = store.read as Db;
  const entries = new LRUCache<string, Entry>({
    maxSize: maxBytes,
    sizeCalculation: ({ body, uri }, key) => body.length + uri.length + key.length + ENTRY_BYTES,
  });
  const changedAt = new Map<string, number>();
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
    const { rows } = await sql<{ slot: number | null; from: number; revision: number; at: number; ids: Uint8Array }>`
      select s.slot, s.current_from as "from", s.revision, c.revision as at, c.ids
        from das_state s left join das_changes c on c.revision > ${state.revision} where s.id = 1`.execute(db);
    for (const { at, ids } of rows)
      if (at !== null)
        for (let next = 0; next < ids.length; next += 32) {
          const id = encode32(ids, next);
          changedAt.set(id, Math.max(at, changedAt.get(id) ?? 0));
        }
    // Another one that was started later has the newer state.
    if (turn < taken) return view;
    taken = turn;
    const { slot, from, revision } = rows[0]!;
    const isLost = revision - state.revision > KEPT_CHANGES || changedAt.size > MOST_REMEMBERED;
    if (isLost || from !== state.from || slot === null) {
      floor = revision;
      changedAt.clear();
    }
    state = { slot, from, revision };
    seen = version;
    view =
      slot === null
        ? null
        : { slot, find, keep: (id, how, asset, group) => keep(id, how, { ...asset, revision, group }) };
    return view;
  }

  const isValid = (id: string, revision: number) => revision >= floor && (changedAt.get(id) ?? 0) <= revision;

  function find(id: string, how: string): KeptAsset | undefined {
    const entry = entries.get(`${id}${how}`);
    if (entry === undefined || !isValid(id, entry.revision)) return undefined;
    return entry.group === null || isValid(entry.group, entry.revision) ? entry : undefined;
  }

  const keep = (id: string, how: string, entry: Entry): void => void entries.set(`${id}${how}`, entry);

  const viewNow = () => (seen !== null && store.version() === seen ? view : null);

  return { viewNow, view: async () => viewNow() ?? (await sync()) };
}
