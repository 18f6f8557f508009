import { encode64 } from '../../lib/base58.ts';
import type { AddressPage, AddressQuery, AddressRow, LedgerPlace } from '../../ports/ledger.ts';
import {
  type BlockRows,
  isLeftOut,
  KEY_LOADED,
  KEY_ROWS,
  OWNER_CHANGED,
  OWNER_ROWS,
  rowKey,
  signatureName,
  VOTE_ROWS,
} from '../rows.ts';
import { type IndexRow, type IndexRun, isBefore, type RowQuery } from '../run.ts';
import type { Coverage } from './coverage.ts';
import type { Runs } from './runs.ts';
import type { BlockDetails, IndexedBlocks, IndexState } from './state.ts';

/** Blocks that are read at once when a page is made. */
const BLOCKS_AT_ONCE = 8;
const BOTTOM: LedgerPlace = { slot: -1, index: 0 };
const TOP: LedgerPlace = { slot: Number.MAX_SAFE_INTEGER, index: 0 };
/** Transactions whose signatures agree in eight bytes. */
const MAX_CANDIDATES = 64;

interface Reasons {
  readonly key: AddressRow['key'];
  readonly owner: AddressRow['owner'];
}

interface LookUpParts {
  readonly blocks: IndexedBlocks;
  readonly coverage: Coverage;
  readonly runs: Runs;
  readonly hasAddresses: boolean;
}

/** Look-ups: the rows of an address, and the place of a signature. Errors: LEDGER_IO, LEDGER_DAMAGED. */
export function createLookUps(state: IndexState, { blocks, coverage, runs, hasAddresses }: LookUpParts) {
  /** The rows of a name in memory, within the range of the query, in no order. */
  function rowsInTail({ name, above, below }: Omit<RowQuery, 'counts'>): IndexRow[] {
    const found: IndexRow[] = [];
    for (const [slot, { hash, rows }] of state.tail) {
      if (slot < above.slot || slot > below.slot || blocks.hashAt(slot) !== hash) continue;
      for (const row of rowsIn(rows, name)) {
        const place = { slot, index: Math.floor(row / 16), flags: row % 16 };
        if (isBefore(above, place) && isBefore(place, below)) found.push(place);
      }
    }
    return found;
  }

  /** The first rows of a name, of all runs and of memory, in the order of the query. */
  async function rowsOfName(query: Omit<RowQuery, 'counts'>): Promise<IndexRow[]> {
    const { order, above, below, limit } = query;
    const isNewest = order === 'newest';
    const inOrder = (a: LedgerPlace, b: LedgerPlace) => (isBefore(a, b) === isNewest ? 1 : -1);
    let found = rowsInTail(query).sort(inOrder).slice(0, limit);
    const behind = (run: IndexRun) => (isNewest ? run.slots.at(-1)! : run.slots[0]!);
    const sorted = state.runs.toSorted((a, b) => (isNewest ? behind(b) - behind(a) : behind(a) - behind(b)));
    for (const run of sorted) {
      if (run.slots.at(-1)! < above.slot || run.slots[0]! > below.slot) continue;
      const last = found.length < limit ? null : found.at(-1)!.slot;
      if (last !== null && (isNewest ? behind(run) < last : behind(run) > last)) break;
      const more = await runs.rowsIn(run, query);
      if (more.length > 0) found = distinct([...found, ...more].sort(inOrder)).slice(0, limit);
    }
    return found;
  }

  /** The contents of a row besides its position. */
  async function withDetails(places: readonly (IndexRow & Reasons)[]): Promise<AddressRow[]> {
    const slots = [...new Set(places.map(({ slot }) => slot))];
    const indexes = (of: number) => places.flatMap(({ slot, index }) => (slot === of ? [index] : []));
    const details = new Map<number, BlockDetails | null>();
    for (let at = 0; at < slots.length; at += BLOCKS_AT_ONCE)
      await Promise.all(
        slots
          .slice(at, at + BLOCKS_AT_ONCE)
          .map(async (slot) => void details.set(slot, await blocks.details(slot, indexes(slot)))),
      );
    const rows: AddressRow[] = [];
    for (const { slot, index, key, owner } of places) {
      const block = details.get(slot) ?? null;
      const signature = block?.signatures.get(index);
      // Removed by the retention, or cut, since it was found.
      if (block === null || signature === undefined) continue;
      rows.push({
        slot,
        index,
        key,
        owner,
        signature: encode64(signature),
        blockTime: block.blockTime,
        isFinal: slot <= blocks.finalSlot,
        err: block.errors.get(index) ?? null,
        memo: block.memos.get(index) ?? null,
      });
    }
    return rows;
  }

  async function page(query: AddressQuery): Promise<AddressPage | null> {
    if (!hasAddresses || isLeftOut(query.address)) return null;
    const found = coverage.range();
    if (found === null) return { rows: [], hasMore: false, from: 0, to: -1, inVotes: false };
    const { from, to } = found;
    const lowest = { slot: from, index: -1 };
    const highest = { slot: to, index: Number.POSITIVE_INFINITY };
    const above = query.above === undefined || isBefore(query.above, lowest) ? lowest : query.above;
    const below = query.below === undefined || isBefore(highest, query.below) ? highest : query.below;
    const { order, reasons } = query;
    const limit = query.limit + 1;
    const named = (kind: string) => rowKey(kind, query.address);
    const isNewest = order === 'newest';
    const places = new Map<string, IndexRow & Reasons>();
    const add = (row: IndexRow, reason: Partial<Reasons>) => {
      const name = `${row.slot} ${row.index}`;
      places.set(name, { key: null, owner: null, ...places.get(name), ...row, ...reason });
    };
    for (const row of await rowsOfName({ name: named(KEY_ROWS), order, above, below, limit }))
      add(row, { key: (row.flags & KEY_LOADED) === 0 ? 'static' : 'loaded' });
    if (reasons !== 'keys')
      for (const row of await ownerRows({ name: named(OWNER_ROWS), order, above, below, limit }, reasons === 'changed'))
        add(row, { owner: (row.flags & OWNER_CHANGED) === 0 ? 'unchanged' : 'changed' });
    const sorted = [...places.values()].sort((a, b) => (isBefore(a, b) === isNewest ? 1 : -1)).slice(0, limit);
    const votes = await rowsOfName({ name: named(VOTE_ROWS), order, above: BOTTOM, below: TOP, limit: 1 });
    const rows = await withDetails(sorted.slice(0, query.limit));
    return { rows, hasMore: sorted.length > query.limit, from, to, inVotes: votes.length > 0 };
  }

  /** Rows of an owner; `isChanged`: only those in which a balance changed. */
  async function ownerRows(query: Omit<RowQuery, 'counts'>, isChanged: boolean): Promise<IndexRow[]> {
    const found: IndexRow[] = [];
    let { above, below } = query;
    for (;;) {
      const some = await rowsOfName({ ...query, above, below });
      found.push(...some.filter(({ flags }) => !isChanged || (flags & OWNER_CHANGED) !== 0));
      if (some.length < query.limit || found.length >= query.limit) return found.slice(0, query.limit);
      if (query.order === 'newest') below = some.at(-1)!;
      else above = some.at(-1)!;
    }
  }

  async function find(signature: Uint8Array): Promise<LedgerPlace | null> {
    const name = signatureName(signature);
    const isRight = async ({ slot, index }: LedgerPlace) => {
      const found = await blocks.signatureAt(slot, index);
      return found !== null && Buffer.from(signature).equals(found);
    };
    const query = { name, order: 'newest', above: BOTTOM, below: TOP, limit: MAX_CANDIDATES } as const;
    // It is in one place, so what is behind that need not be read.
    const found = await runs.retried(async () => {
      for (const { slot, index } of rowsInTail(query)) if (await isRight({ slot, index })) return { slot, index };
      for (const run of state.runs.toSorted((a, b) => b.slots.at(-1)! - a.slots.at(-1)!))
        for (const { slot, index } of await runs.rowsIn(run, query))
          if (await isRight({ slot, index })) return { slot, index };
      return null;
    });
    if (found !== null) return found;
    if (state.isWhole && state.failed.size === 0) return null;
    // Blocks that the index lacks.
    for (const { slots } of blocks.segments())
      for (const slot of slots) {
        const hash = blocks.hashAt(slot);
        if (hash < 0 || coverage.isCovered(slot, hash)) continue;
        const index = await blocks.findIn(slot, signature);
        if (index >= 0) return { slot, index };
      }
    return null;
  }

  return { page: (query: AddressQuery) => runs.retried(() => page(query)), find };
}

function rowsIn({ names, rows }: BlockRows, name: string): Iterable<number> {
  let [from, to] = [0, names.length];
  while (from < to) {
    const middle = (from + to) >>> 1;
    if (names[middle]! < name) from = middle + 1;
    else to = middle;
  }
  return names[from] === name ? rows[from]! : [];
}

const distinct = (rows: readonly IndexRow[]) =>
  rows.filter((row, at) => rows[at - 1]?.slot !== row.slot || rows[at - 1]?.index !== row.index);
