import { decode32 } from '../../lib/base58.ts';
import type { ChainBlock, NormalTransaction, TransactionVersion } from '../../ports/block.ts';
import type { RpcMeta } from '../rpc-json.ts';
import { createKeyTable, expectedKeys, type KeyTableBuilder } from './key-table.ts';
import { faultOfMeta, internTokenBalances } from './meta.ts';
import { badBlock, badTransaction, decodeHeader, decodeResponse } from './response.ts';
import { ScannedBlock, type ScannedEntry, type TextRange } from './scan-block.ts';
import { type BlockParts, isVote, LeanTransaction, type TransactionParts } from './transaction.ts';
import { HIGHEST_WIRE_VERSION, walkWire } from './walk-wire.ts';
import { base64Length, wireBytesOf } from './wire-bytes.ts';
import { eachTableKey, emptyLayout, repeatedSignature, type WireLayout, type WireReader } from './wire-layout.ts';

/**
 * Decodes the result of `getBlock` with full transaction details, in encoding base64, base58 or json: parsed, or as a scan of the
 * answer (`scanBlockAnswer`), which is several times faster and gives the same block. The result is kept and must not be changed
 * afterwards.
 * Throws CHAIN_BAD_TRANSACTION (facts {index, reason}) when the bytes of a transaction are malformed or of a version above
 * HIGHEST_WIRE_VERSION: only encoding json shows every version. Throws CHAIN_BAD_BLOCK (facts {slot, reason, index?}) when the block
 * is inconsistent or lacks what every block has.
 */
export function decodeBlock(slot: number, result: unknown): ChainBlock {
  if (result instanceof ScannedBlock) {
    const answer = () => decodeResponse(result.body) as { readonly result: unknown };
    const block = decodeScanned(slot, result) ?? decodeBlock(slot, answer().result);
    const isVerbatim = 'rewards' in result.header;
    return { ...block, answer: { isVerbatim, text: () => result.body.subarray(...result.range) } };
  }
  const header = decodeHeader(slot, result);
  const entries = (result as { transactions?: unknown }).transactions;
  if (!Array.isArray(entries)) throw badBlock(slot, 'transactions are missing');
  const answer = { isVerbatim: false, text: () => Buffer.from(JSON.stringify(result)) };
  return { ...header, ...decodeEntries(slot, entries, decode32(header.blockhash)!), answer };
}

/** One transaction as returned by a node. */
interface RpcEntry {
  readonly transaction?: unknown;
  readonly meta?: unknown;
  readonly version?: unknown;
}

/** Decodes entries in order. `seed`: 32 bytes that were unknown when the transactions were created. */
export function decodeEntries(
  slot: number,
  entries: readonly unknown[],
  seed: Uint8Array,
): Pick<ChainBlock, 'transactions' | 'keys'> {
  const { bytes, starts } = wireBytesOf(entries);
  const seedWords = new Uint32Array(seed.slice().buffer);
  const keys = createKeyTable(seedWords, expectedKeys(entries.length));
  const block: BlockParts = { slot, bytes, keys };
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const reader: WireReader = { bytes, at: 0, end: 0 };
  const transactions: NormalTransaction[] = [];
  const signaturesAt: number[] = [];
  for (let index = 0; index < entries.length; index++) {
    reader.at = starts[index]!;
    reader.end = starts[index + 1]!;
    const layout = emptyLayout();
    const fault = walkWire(reader, layout);
    if (fault !== null) throw badTransaction(index, fault);
    const range = { wireFrom: starts[index]!, wireTo: starts[index + 1]! };
    transactions.push(decodeEntry(block, view, layout, range, index, entries[index] as RpcEntry));
    signaturesAt.push(layout.signaturesAt);
  }
  const repeated = repeatedSignature(bytes, signaturesAt);
  if (repeated >= 0) throw badBlock(slot, 'its signature is that of an earlier transaction', repeated);
  return { transactions, keys };
}

function decodeEntry(
  block: BlockParts,
  view: DataView,
  layout: WireLayout,
  range: Pick<TransactionParts, 'wireFrom' | 'wireTo'>,
  index: number,
  entry: RpcEntry,
): NormalTransaction {
  const meta = entry.meta as RpcMeta;
  const version = versionOf(entry, layout);
  const writable = meta?.loadedAddresses?.writable ?? [];
  const readonly = meta?.loadedAddresses?.readonly ?? [];
  // Unknown versions may load addresses by other means than lookups.
  const isKnown = version === 'legacy' || version <= HIGHEST_WIRE_VERSION;
  if (isKnown && (writable.length !== layout.loadedWritable || readonly.length !== layout.loadedReadonly))
    throw badBlock(block.slot, 'meta.loadedAddresses does not fit the lookups', index);
  const keys = new Uint32Array(layout.keyCount + writable.length + readonly.length);
  const fault =
    faultOfMeta(meta, keys.length, layout.instructionCount) ??
    internAll(block.keys, view, layout, keys, writable, readonly);
  if (fault !== null) throw badBlock(block.slot, fault, index);
  const owners: number[] = [];
  if (
    !internTokenBalances(meta.preTokenBalances, keys.length, block.keys, owners) ||
    !internTokenBalances(meta.postTokenBalances, keys.length, block.keys, owners)
  )
    throw badBlock(block.slot, 'a token balance is malformed', index);
  if (layout.lookupCount > 0) eachTableKey(block.bytes, layout, (at) => block.keys.intern(view, at));
  return new LeanTransaction(block, {
    index,
    version,
    layout,
    ...range,
    keys,
    loadedWritableCount: writable.length,
    tokenOwners: new Uint32Array(owners),
    isVote: isVote(block, layout, keys, 0),
    meta,
    metaText: null,
  });
}

/** Bytes contain their version; for JSON the entry has it. */
function versionOf(entry: RpcEntry, layout: WireLayout): TransactionVersion {
  if (Array.isArray(entry.transaction)) return layout.version < 0 ? 'legacy' : layout.version;
  return typeof entry.version === 'number' ? entry.version : 'legacy';
}

function internAll(
  table: KeyTableBuilder,
  view: DataView,
  layout: WireLayout,
  keys: Uint32Array,
  writable: readonly string[],
  readonly: readonly string[],
): string | null {
  for (let number = 0; number < layout.keyCount; number++)
    keys[number] = table.intern(view, layout.keysAt + number * 32);
  let at = layout.keyCount;
  for (const list of [writable, readonly]) {
    for (const text of list) {
      const id = typeof text === 'string' ? table.internText(text) : -1;
      if (id < 0) return 'meta.loadedAddresses holds no address';
      keys[at++] = id;
    }
  }
  return null;
}

/**
 * Decodes the parsed result of `getTransaction` (encoding base64, base58 or json) as a block of one transaction. Members that the
 * answer lacks are empty: blockhash and previousBlockhash are '', blockHeight is null, parentSlot is the slot before, and the
 * transaction has index 0. Errors as `decodeBlock`.
 */
export function decodeTransaction(result: unknown): ChainBlock {
  const { slot, blockTime } = (result ?? {}) as { slot?: unknown; blockTime?: unknown };
  if (!Number.isSafeInteger(slot)) throw badBlock(-1, 'slot is missing');
  return {
    slot: slot as number,
    parentSlot: Math.max(0, (slot as number) - 1),
    blockhash: '',
    previousBlockhash: '',
    blockHeight: null,
    blockTime: Number.isSafeInteger(blockTime) ? (blockTime as number) : null,
    // One transaction has too few keys for harmful collisions.
    ...decodeEntries(slot as number, [result], new Uint8Array(32).fill(1)),
  };
}

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
    const transaction = walkWire(reader, layout) === null ? decodeScannedEntry(decoding, layout, range, index) : null;
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

function decodeScannedEntry(
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
    metaText: {
      body: scanned.body,
      from: meta.from,
      to: meta.to,
      error: meta.error,
      preTokens: meta.preTokens,
      postTokens: meta.postTokens,
    },
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
  const [preTokens, postTokens] = [meta.preTokens.texts, meta.postTokens.texts];
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
interface TextIds {
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
