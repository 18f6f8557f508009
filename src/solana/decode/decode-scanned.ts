import { decode32 } from '../../lib/base58.ts';
import type { ChainBlock, NormalTransaction } from '../../ports/block.ts';
import { createKeyTable, expectedKeys, type KeyTableBuilder } from './key-table.ts';
import { decodeHeader } from './response.ts';
import type { ScannedBlock, ScannedEntry, TextRange } from './scan-block.ts';
import { type BlockParts, isVote, LeanTransaction, type TransactionParts } from './transaction.ts';
import { walkWire } from './walk-wire.ts';
import { base64Length } from './wire-bytes.ts';
import { eachTableKey, emptyLayout, repeatedSignature, type WireLayout, type WireReader } from './wire-layout.ts';

/** The block being decoded. */
interface Decoding {
  readonly scanned: ScannedBlock;
  readonly block: BlockParts;
  readonly view: DataView;
  readonly texts: TextIds;
  readonly pool: IdPool;
  readonly noOwners: Uint32Array;
}

/**
 * The same block as from the parsed answer, with each `meta` parsed on first use. Null when anything about the
 * transactions is wrong or unusual: parsing then finds the reason. Throws CHAIN_BAD_BLOCK for a bad header.
 */
export function decodeScanned(slot: number, scanned: ScannedBlock): ChainBlock | null {
  const header = decodeHeader(slot, scanned.header);
  const wires = wiresOf(scanned);
  if (wires === null) return null;
  const { bytes, starts } = wires;
  const seed = decode32(header.blockhash)!;
  const keys = createKeyTable(new Uint32Array(seed.slice().buffer), expectedKeys(scanned.entries.length));
  const decoding: Decoding = {
    scanned,
    block: { slot, bytes, keys },
    view: new DataView(bytes.buffer, bytes.byteOffset, bytes.length),
    texts: createTextIds(scanned.body, keys, expectedKeys(scanned.entries.length)),
    pool: new IdPool(),
    noOwners: new Uint32Array(0),
  };
  const reader: WireReader = { bytes, at: 0, end: 0 };
  const transactions: NormalTransaction[] = [];
  const signaturesAt: number[] = [];
  for (let index = 0; index < scanned.entries.length; index++) {
    reader.at = starts[index]!;
    reader.end = starts[index + 1]!;
    const layout = emptyLayout();
    const range = { wireFrom: starts[index]!, wireTo: starts[index + 1]! };
    const transaction = walkWire(reader, layout) === null ? decodeEntry(decoding, layout, range, index) : null;
    if (transaction === null) return null;
    transactions.push(transaction);
    signaturesAt.push(layout.signaturesAt);
  }
  if (repeatedSignature(bytes, signaturesAt) >= 0) return null;
  return { ...header, transactions, keys };
}

/** The concatenated bytes of all transactions; null when one is not base64. */
function wiresOf({ body, entries }: ScannedBlock): { bytes: Buffer; starts: Uint32Array } | null {
  const texts = entries.map(({ wireFrom, wireTo }) => body.toString('latin1', wireFrom, wireTo));
  let total = 0;
  for (const text of texts) total += Math.max(0, base64Length(text));
  const bytes = Buffer.allocUnsafeSlow(total);
  const starts = new Uint32Array(entries.length + 1);
  let at = 0;
  for (let index = 0; index < texts.length; index++) {
    const text = texts[index]!;
    const length = base64Length(text);
    if (length < 0 || bytes.write(text, at, 'base64') !== length) return null;
    at += length;
    starts[index + 1] = at;
  }
  return { bytes, starts };
}

function decodeEntry(
  decoding: Decoding,
  layout: WireLayout,
  range: Pick<TransactionParts, 'wireFrom' | 'wireTo'>,
  index: number,
): NormalTransaction | null {
  const { scanned, block, view, pool } = decoding;
  const { meta } = scanned.entries[index]!;
  const { writable, readonly } = meta;
  if (writable.count !== layout.loadedWritable || readonly.count !== layout.loadedReadonly) return null;
  const keyCount = layout.keyCount + writable.count + readonly.count;
  if (meta.preBalances !== keyCount || meta.postBalances !== keyCount || meta.largestIndex >= keyCount) return null;
  if (meta.largestGroup >= layout.instructionCount) return null;
  pool.begin(keyCount);
  for (let number = 0; number < layout.keyCount; number++)
    pool.add(block.keys.intern(view, layout.keysAt + number * 32));
  if (!intern(decoding, writable) || !intern(decoding, readonly)) return null;
  const keys = pool.end();
  const tokenOwners = ownersOf(decoding, scanned.entries[index]!);
  if (tokenOwners === null) return null;
  if (layout.lookupCount > 0) eachTableKey(block.bytes, layout, (at) => block.keys.intern(view, at));
  return new LeanTransaction(block, {
    index,
    version: layout.version < 0 ? 'legacy' : layout.version,
    layout,
    ...range,
    keys,
    loadedWritableCount: writable.count,
    tokenOwners,
    isVote: isVote(block, layout, keys, 0),
    meta: null,
    metaText: { body: scanned.body, from: meta.from, to: meta.to, hasError: meta.hasError },
  });
}

/** Adds loaded addresses to the table and their ids to the list; false for an invalid address. */
function intern({ scanned, texts, pool }: Decoding, range: TextRange): boolean {
  for (let number = 0; number < range.count; number++) {
    const at = (range.at + number) * 2;
    const id = texts.idOf(scanned.texts[at]!, scanned.texts[at + 1]!);
    if (id < 0) return false;
    pool.add(id);
  }
  return true;
}

/** Adds mints, programs and owners to the table; returns the distinct owners, or null for an invalid address. */
function ownersOf(decoding: Decoding, { meta }: ScannedEntry): Uint32Array | null {
  const { preTokens, postTokens } = meta;
  if (preTokens.count + postTokens.count === 0) return decoding.noOwners;
  decoding.pool.begin(preTokens.count + postTokens.count);
  return internTokens(decoding, preTokens) && internTokens(decoding, postTokens) ? decoding.pool.end() : null;
}

function internTokens({ scanned, texts: ids, pool }: Decoding, { at, count }: TextRange): boolean {
  const { texts } = scanned;
  for (let place = at * 2; place < (at + count) * 2; place += 6) {
    if (ids.idOf(texts[place]!, texts[place + 1]!) < 0) return false;
    if (texts[place + 3]! > 0 && ids.idOf(texts[place + 2]!, texts[place + 3]!) < 0) return false;
    if (texts[place + 5] === 0) continue;
    const owner = ids.idOf(texts[place + 4]!, texts[place + 5]!);
    if (owner < 0) return false;
    pool.addNew(owner);
  }
  return true;
}

/** Ids of address texts in the bytes of an answer. */
export interface TextIds {
  /** The id of the text, which is added to the key table when new; -1 when it is not an address. */
  idOf(from: number, length: number): number;
}

const SHORTEST = 32;
const LONGEST = 44;
const MOST_PLACES = 8_192;

/**
 * Addresses recur in a block, so a text found at its cache slot is not decoded again. Texts that
 * evict each other only cost their decoding.
 */
function createTextIds(bytes: Buffer, keys: KeyTableBuilder, expectedTexts: number): TextIds {
  let places = 64;
  while (places < expectedTexts && places < MOST_PLACES) places *= 2;
  const mask = places - 1;
  /** Offset of the text in each cache slot; never 0, as an answer starts with a bracket. */
  const starts = new Int32Array(places);
  const lengths = new Int32Array(places);
  const ids = new Int32Array(places);

  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);

  /** Four bytes at a time; the last four may overlap those before. */
  function isSame(from: number, other: number, length: number): boolean {
    const last = length - 4;
    for (let at = 0; at < last; at += 4)
      if (view.getInt32(from + at, true) !== view.getInt32(other + at, true)) return false;
    return view.getInt32(from + last, true) === view.getInt32(other + last, true);
  }

  return {
    idOf(from, length) {
      if (length < SHORTEST || length > LONGEST) return -1;
      const some = bytes[from + 2]! ^ (bytes[from + 7]! << 8) ^ (bytes[from + 13]! << 16);
      const mixed = Math.imul(some ^ (bytes[from + 19]! << 24) ^ bytes[from + 28]!, 0x9e3779b1);
      const place = ((mixed >>> 15) ^ mixed ^ bytes[from + 24]!) & mask;
      const known = starts[place]!;
      if (known !== 0 && lengths[place] === length && isSame(from, known, length)) return ids[place]!;
      const id = keys.internText(bytes.toString('latin1', from, from + length));
      if (id < 0) return -1;
      starts[place] = from;
      lengths[place] = length;
      ids[place] = id;
      return id;
    },
  };
}

const CHUNK_IDS = 8_192;

/** Short lists of ids in few large arrays: a separate array per transaction costs more than filling it. */
class IdPool {
  private ids = new Uint32Array(CHUNK_IDS);
  private used = 0;
  private from = 0;

  /** Starts a list of up to `most` ids. */
  begin(most: number): void {
    if (this.used + most > this.ids.length) {
      this.ids = new Uint32Array(Math.max(CHUNK_IDS, most));
      this.used = 0;
    }
    this.from = this.used;
  }

  add(id: number): void {
    this.ids[this.used++] = id;
  }

  /** Adds an id that the list does not hold yet. */
  addNew(id: number): void {
    for (let at = this.from; at < this.used; at++) if (this.ids[at] === id) return;
    this.ids[this.used++] = id;
  }

  /** The list started last. */
  end(): Uint32Array {
    const { ids, from, used } = this;
    return new Uint32Array(ids.buffer, from * ids.BYTES_PER_ELEMENT, used - from);
  }
}
