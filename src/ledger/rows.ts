import { decode32 } from '../lib/base58.ts';
import type { ChainBlock } from '../ports/block.ts';
import { changedOwners } from '../solana/changed-owners.ts';
import { WITHOUT_HISTORY } from '../solana/programs.ts';
import type { ByteSink, Source } from './bytes.ts';

/**
 * What the index has of a block: for each name the transactions in which it occurs, as numbers `index * 16 + flags`. A name is one byte of
 * kind and the bytes of a key or signature, as latin1, so that names sort like their bytes.
 */
export interface BlockRows {
  /** Ascending. */
  readonly names: readonly string[];
  /** For each name, ascending. */
  readonly rows: readonly Uint32Array[];
}

export const KEY_ROWS = '\u0000';
export const OWNER_ROWS = '\u0001';
/** The key occurs in votes, which have no rows of their own. */
export const VOTE_ROWS = '\u0002';
/** Eight bytes of a signature. */
const SIGNATURE_ROWS = '\u0003';

/** Flags of a row: of a loaded key; of an owner of whose accounts a balance changed. */
export const KEY_LOADED = 1;
export const OWNER_CHANGED = 2;

export const nameBytes = (kind: string) => (kind === SIGNATURE_ROWS ? 9 : 33);

const LEFT_OUT = new Set(WITHOUT_HISTORY.map((address) => latin1(decode32(address)!)));

function latin1(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1');
}

/** Rows as they pass from one thread to another: three values instead of one for each name. */
export interface PackedIndexRows {
  readonly names: string;
  /** Rows of each name. */
  readonly counts: Uint32Array;
  readonly rows: Uint32Array;
}

export function packRows({ names, rows }: BlockRows): PackedIndexRows {
  const counts = Uint32Array.from(rows, ({ length }) => length);
  const all = new Uint32Array(counts.reduce((sum, count) => sum + count, 0));
  let at = 0;
  for (const list of rows) {
    all.set(list, at);
    at += list.length;
  }
  return { names: names.join(''), counts, rows: all };
}

export function unpackRows({ names, counts, rows }: PackedIndexRows): BlockRows {
  const found: { names: string[]; rows: Uint32Array[] } = { names: [], rows: [] };
  let [at, from] = [0, 0];
  for (const count of counts) {
    const end = at + nameBytes(names[at]!);
    found.names.push(names.slice(at, end));
    found.rows.push(rows.subarray(from, from + count));
    [at, from] = [end, from + count];
  }
  return found;
}

export const isLeftOut = (address: Uint8Array): boolean => LEFT_OUT.has(latin1(address));
export const rowKey = (kind: string, key: Uint8Array): string => kind + latin1(key);
export const signatureName = (signature: Uint8Array): string => SIGNATURE_ROWS + latin1(signature.subarray(0, 8));

/** The rows of signatures, which sort behind all others. */
export function signatureRowsOf({ names, rows }: BlockRows): BlockRows {
  let [from, to] = [0, names.length];
  while (from < to) {
    const middle = (from + to) >>> 1;
    if (names[middle]! < SIGNATURE_ROWS) from = middle + 1;
    else to = middle;
  }
  return { names: names.slice(from), rows: rows.slice(from) };
}

export function rowsOf({ transactions, keys }: ChainBlock): BlockRows {
  const found = new Map<number, number[]>();
  const owners = new Map<number, number[]>();
  const voters = new Set<number>();
  const signatures: (readonly [string, Uint32Array])[] = [];
  for (const tx of transactions) {
    const { index } = tx;
    signatures.push([signatureName(tx.signatures[0]!), Uint32Array.of(index * 16)]);
    if (tx.isVote) {
      for (const id of tx.keys) voters.add(id);
      continue;
    }
    for (let at = 0; at < tx.keys.length; at++)
      addRow(found, tx.keys[at]!, index * 16 + (at < tx.staticKeyCount ? 0 : KEY_LOADED));
    if (tx.tokenOwners.length === 0) continue;
    const changed = changedOwners(tx);
    for (const id of tx.tokenOwners) addRow(owners, id, index * 16 + (changed.has(id) ? OWNER_CHANGED : 0));
  }
  const entries = [...signatures];
  const name = (kind: string, id: number) => kind + latin1(keys.bytes(id));
  for (const [id, list] of found) entries.push([name(KEY_ROWS, id), Uint32Array.from(list)]);
  for (const [id, list] of owners) entries.push([name(OWNER_ROWS, id), Uint32Array.from(list)]);
  for (const id of voters) entries.push([name(VOTE_ROWS, id), Uint32Array.of(0)]);
  return sorted(entries.filter(([each]) => !LEFT_OUT.has(each.slice(1))));
}

function sorted(entries: (readonly [string, Uint32Array])[]): BlockRows {
  entries.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
  const names: string[] = [];
  const rows: Uint32Array[] = [];
  for (const [name, list] of entries) {
    // Signatures may agree in eight bytes.
    if (names.at(-1) === name) rows[rows.length - 1] = Uint32Array.of(...rows.at(-1)!, ...list).toSorted();
    else {
      names.push(name);
      rows.push(list);
    }
  }
  return { names, rows };
}

function addRow(rows: Map<number, number[]>, id: number, row: number): void {
  const list = rows.get(id);
  if (list === undefined) rows.set(id, [row]);
  // A key that is loaded twice, or an owner of many accounts.
  else if (Math.floor(list.at(-1)! / 16) !== Math.floor(row / 16)) list.push(row);
}

/** Written as a piece of the block. Names are numbers of its key table, by their bytes as latin1; signatures are not written. */
export function writeIndexRows(out: ByteSink, { names, rows }: BlockRows, keyId: (name: string) => number): void {
  for (const kind of [KEY_ROWS, OWNER_ROWS, VOTE_ROWS]) {
    const numbers = names.flatMap((name, at) => (name[0] === kind ? [at] : []));
    const entries = numbers.map((at) => [keyId(names[at]!.slice(1)), rows[at]!] as const).sort(([a], [b]) => a - b);
    out.number(entries.length);
    let last = 0;
    for (const [id, list] of entries) {
      out.number(id - last);
      last = id;
      if (kind === VOTE_ROWS) continue;
      out.number(list.length);
      let before = 0;
      for (const row of list) {
        out.number(row - before);
        before = row - (row % 16);
      }
    }
  }
}

/** The reverse. `key`: the bytes of a number of the key table. Throws RangeError for other bytes. */
export function readIndexRows(
  source: Source,
  key: (id: number) => Buffer,
  signatures: readonly Uint8Array[],
): BlockRows {
  const entries: (readonly [string, Uint32Array])[] = signatures.map((signature, index) => [
    signatureName(signature),
    Uint32Array.of(index * 16),
  ]);
  for (const kind of [KEY_ROWS, OWNER_ROWS, VOTE_ROWS]) {
    let id = 0;
    for (let left = source.room(source.number()); left > 0; left--) {
      id += source.number();
      const list = new Uint32Array(kind === VOTE_ROWS ? 1 : source.room(source.number()));
      let before = 0;
      if (kind !== VOTE_ROWS)
        for (let at = 0; at < list.length; at++) {
          list[at] = source.number() + before;
          before = list[at]! - (list[at]! % 16);
        }
      entries.push([rowKey(kind, key(id)), list]);
    }
  }
  return sorted(entries);
}
