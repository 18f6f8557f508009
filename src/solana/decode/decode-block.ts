import { decode, decode32 } from '../../lib/base58.ts';
import { isPlainObject, stringify } from '../../lib/json.ts';
import type { ChainBlock, NormalTransaction, TransactionFault, TransactionVersion } from '../../ports/block.ts';
import type { RpcMeta } from '../rpc-json.ts';
import { createKeyTable, expectedKeys, type KeyTableBuilder } from './key-table.ts';
import { internTokenBalances, loadedAddressesOf, readableMeta } from './meta.ts';
import { OpaqueTransaction } from './opaque.ts';
import { badBlock, decodeExact, decodeHeader } from './response.ts';
import { ScannedBlock, type ScannedEntry, type ScannedMeta, scanBlockAnswer, type TextRange } from './scan-block.ts';
import { type BlockParts, isVote, LeanTransaction } from './transaction.ts';
import { HIGHEST_WIRE_VERSION, walkWire } from './walk-wire.ts';
import { base64Length, fromBase64, KEPT_WIRE, namedVersion, wireOfEntry } from './wire-bytes.ts';
import {
  bytesAt,
  eachTableKey,
  emptyLayout,
  repeatedSignature,
  type WireLayout,
  type WireReader,
} from './wire-layout.ts';

/**
 * Decodes the result of `getBlock` with full transaction details, in encoding base64, base58 or json: parsed, or as a scan of the
 * answer (`scanBlockAnswer`), which is several times faster and gives the same block. The result is kept and must not be changed
 * afterwards.
 *
 * Every entry becomes a transaction: one that cannot be read has a `fault`, and leaves the others as they are.
 * Throws CHAIN_BAD_BLOCK (facts {slot, reason, index?}) when the block lacks what every block has, or a signature occurs twice.
 */
export function decodeBlock(slot: number, result: unknown): ChainBlock {
  if (result instanceof ScannedBlock) {
    const isVerbatim = 'rewards' in result.header;
    return {
      ...decodeScanned(slot, result),
      answer: { isVerbatim, text: () => result.body.subarray(...result.range) },
    };
  }
  const header = decodeHeader(slot, result);
  const entries = (result as { transactions?: unknown }).transactions;
  if (!Array.isArray(entries)) throw badBlock(slot, 'transactions are missing');
  const answer = { isVerbatim: false, text: () => Buffer.from(stringify(result)) };
  return { ...header, ...decodeEntries(slot, entries, decode32(header.blockhash)!), answer };
}

/** Decodes the JSON text of a result that was made here. Its `answer` is not verbatim: no node sent these bytes. */
export function decodeBlockText(slot: number, text: Buffer): ChainBlock {
  const scanned = scanBlockAnswer(Buffer.concat([Buffer.from('{"result":'), text, Buffer.from('}')]));
  const block = decodeBlock(slot, scanned ?? (JSON.parse(text.toString()) as unknown));
  return { ...block, answer: { isVerbatim: false, text: () => text } };
}

/** The transactions of a block that could not be read completely, or are unusual. */
export const faultyTransactions = (block: Pick<ChainBlock, 'transactions'>): readonly NormalTransaction[] =>
  block.transactions.filter(({ fault }) => fault !== null);

/** One transaction as returned by a node. */
interface RpcEntry {
  readonly transaction?: unknown;
  readonly meta?: unknown;
  readonly version?: unknown;
}

/** An entry before it is decoded. */
interface EntrySource {
  /** Position in the answer; null for an entry that was given as a value. */
  readonly span: ScannedEntry | null;
  /** Parsed by the call. */
  value(): RpcEntry;
}

/** A class, so that an entry costs no closure. */
class ScannedSource implements EntrySource {
  private readonly body: Buffer;
  readonly span: ScannedEntry;

  constructor(body: Buffer, span: ScannedEntry) {
    this.body = body;
    this.span = span;
  }

  value(): RpcEntry {
    const parsed = decodeExact(this.body.subarray(this.span.from, this.span.to));
    return isPlainObject(parsed) ? parsed : {};
  }
}

/** Decodes entries in order. `seed`: 32 bytes that were unknown when the transactions were created. Throws CHAIN_BAD_BLOCK for a signature that occurs twice. */
export function decodeEntries(
  slot: number,
  entries: readonly unknown[],
  seed: Uint8Array,
): Pick<ChainBlock, 'transactions' | 'keys'> {
  const sources = entries.map((entry): EntrySource => {
    const value: RpcEntry = isPlainObject(entry) ? entry : {};
    return { span: null, value: () => value };
  });
  return decodeSources(slot, sources, { seed, scanned: null });
}

/** Decodes a scanned block. Equals the result of the parsed answer, but each `meta` is parsed on first use. Throws CHAIN_BAD_BLOCK. */
function decodeScanned(slot: number, scanned: ScannedBlock): ChainBlock {
  const header = decodeHeader(slot, scanned.header);
  const sources = scanned.entries.map((span) => new ScannedSource(scanned.body, span));
  return { ...header, ...decodeSources(slot, sources, { seed: decode32(header.blockhash)!, scanned }) };
}

/** The block being decoded. */
interface Decoding {
  readonly scanned: ScannedBlock | null;
  readonly block: BlockParts;
  readonly view: DataView;
  /** Offsets of the transactions in the bytes of the block, see `GatheredWires`. */
  readonly starts: Uint32Array;
  readonly texts: TextIds | null;
  readonly pool: IdPool;
  readonly noOwners: Uint32Array;
}

function decodeSources(
  slot: number,
  sources: readonly EntrySource[],
  { seed, scanned }: { readonly seed: Uint8Array; readonly scanned: ScannedBlock | null },
): Pick<ChainBlock, 'transactions' | 'keys'> {
  const wires = gatherWires(sources, scanned);
  const { bytes, starts } = wires;
  const keys = createKeyTable(new Uint32Array(seed.slice().buffer), expectedKeys(sources.length));
  const decoding: Decoding = {
    scanned,
    block: { slot, bytes, keys },
    view: new DataView(bytes.buffer, bytes.byteOffset, bytes.length),
    starts,
    texts: scanned === null ? null : createTextIds(scanned.body, keys, expectedKeys(sources.length)),
    pool: new IdPool(),
    noOwners: new Uint32Array(0),
  };
  const reader: WireReader = { bytes, at: 0, end: 0 };
  const transactions: NormalTransaction[] = [];
  const signaturesAt: number[] = [];
  for (let index = 0; index < sources.length; index++) {
    const source = sources[index]!;
    reader.at = starts[index]!;
    reader.end = starts[index + 1]!;
    const layout = emptyLayout();
    const reason = wires.reasons.get(index) ?? walkWire(reader, layout);
    const { span } = source;
    const usual = reason === null && span?.usual != null ? decodeUsual(decoding, span, index, layout) : null;
    const transaction =
      usual ?? decodeUnusual(decoding, source, { index, layout, reason, original: wires.originals.get(index) });
    transactions.push(transaction);
    signaturesAt.push(transaction instanceof LeanTransaction && layout.signatureCount > 0 ? layout.signaturesAt : -1);
  }
  const repeated = repeatedSignature(bytes, signaturesAt);
  if (repeated >= 0) throw badBlock(slot, 'its signature is that of an earlier transaction', repeated);
  return { transactions, keys };
}

/** The bytes of all transactions of a block. */
interface GatheredWires {
  readonly bytes: Uint8Array;
  /** Start of each transaction; one more entry contains the end of the last one. */
  readonly starts: Uint32Array;
  /** Why an entry has no bytes, by its index. */
  readonly reasons: ReadonlyMap<number, string>;
  /** Signed bytes by index, where they differ from `bytes`; null where they are unknown. */
  readonly originals: ReadonlyMap<number, Uint8Array | null>;
}

function gatherWires(sources: readonly EntrySource[], scanned: ScannedBlock | null): GatheredWires {
  const reasons = new Map<number, string>();
  const originals = new Map<number, Uint8Array | null>();
  const parts: (string | Uint8Array)[] = sources.map((source, index) => {
    const usual = source.span?.usual ?? null;
    if (usual !== null) return scanned!.body.toString('latin1', usual.wireFrom, usual.wireTo);
    const wire = wireOfEntry(source.value());
    if (typeof wire === 'string') {
      reasons.set(index, wire);
      return EMPTY;
    }
    if (wire.original !== wire.bytes) originals.set(index, wire.original);
    return wire.bytes;
  });
  let total = 0;
  // Three bytes of base64 take four characters; padding makes it at most two bytes less.
  for (const part of parts) total += typeof part === 'string' ? Math.ceil((part.length * 3) / 4) : part.length;
  // Not from the pool: views of it live as long as the block.
  const bytes = Buffer.allocUnsafeSlow(total);
  const starts = new Uint32Array(sources.length + 1);
  let at = 0;
  for (let index = 0; index < parts.length; index++) {
    const part = parts[index]!;
    if (typeof part === 'string') {
      const length = base64Length(part);
      // The decoder skips characters outside the alphabet, so a short result means that there were some.
      if (length > 0 && bytes.write(part, at, 'base64') === length) at += length;
      else {
        // Escapes of JSON are longer than what they stand for, so that there is room.
        const wire = wireOfEntry(sources[index]!.value());
        if (typeof wire === 'string') reasons.set(index, wire);
        else at += bytes.write(Buffer.from(wire.bytes).toString('latin1'), at, 'latin1');
      }
    } else {
      bytes.set(part, at);
      at += part.length;
    }
    starts[index + 1] = at;
  }
  return { bytes, starts, reasons, originals };
}

const EMPTY = new Uint8Array(0);

interface UnusualPlace {
  readonly index: number;
  readonly layout: WireLayout;
  /** Why the bytes cannot be read; null when they were. */
  readonly reason: string | null;
  /** Undefined: the bytes of the block. */
  readonly original: Uint8Array | null | undefined;
}

/** Decodes an entry in any form, member by member. */
function decodeUnusual(decoding: Decoding, source: EntrySource, place: UnusualPlace): NormalTransaction {
  const { block, starts } = decoding;
  const { index, layout, reason } = place;
  const { span } = source;
  const entry = source.value();
  const body = decoding.scanned?.body ?? null;
  const text = span === null ? null : body!.subarray(span.from, span.to);
  const [wireFrom, wireTo] = [starts[index]!, starts[index + 1]!];
  const ofBlock = wireFrom === wireTo ? null : block.bytes.subarray(wireFrom, wireTo);
  const wire = place.original === undefined ? ofBlock : place.original;
  if (reason !== null) {
    const kind = layout.version > HIGHEST_WIRE_VERSION ? 'version' : 'message';
    return opaque(decoding, entry, { place, text, wire, fault: { kind, reason } });
  }
  const version = versionOf(entry, layout);
  const loaded = loadedAddressesOf((entry.meta as Partial<RpcMeta> | null | undefined)?.loadedAddresses);
  const { writable, readonly } = loaded ?? { writable: [], readonly: [] };
  // Unknown versions may load addresses by other means than lookups.
  const isKnown = version === 'legacy' || version <= HIGHEST_WIRE_VERSION;
  const fits = !isKnown || (writable.length === layout.loadedWritable && readonly.length === layout.loadedReadonly);
  const keys = fits ? internAll(block.keys, decoding.view, layout, writable, readonly) : null;
  if (keys === null) {
    const fault = { kind: 'meta' as const, reason: 'meta.loadedAddresses does not fit the lookups' };
    return opaque(decoding, entry, { place, text, wire, fault });
  }
  const read = readableMeta(entry.meta, keys.length, layout.instructionCount);
  const owners: number[] = [];
  const hasTokens =
    internTokenBalances(read.meta.preTokenBalances, block.keys, owners) &&
    internTokenBalances(read.meta.postTokenBalances, block.keys, owners);
  const meta = hasTokens ? read.meta : { ...read.meta, preTokenBalances: [], postTokenBalances: [] };
  const metaReason = read.reason ?? (hasTokens ? null : 'a token balance has an invalid address');
  if (layout.lookupCount > 0) eachTableKey(block.bytes, layout, (at) => block.keys.intern(decoding.view, at));
  return new LeanTransaction(block, {
    index,
    version,
    layout,
    wireFrom,
    wireTo,
    keys,
    loadedWritableCount: writable.length,
    tokenOwners: hasTokens ? new Uint32Array(owners) : decoding.noOwners,
    isVote: isVote(block, layout, version, keys),
    fault: layout.oddity ?? (metaReason === null ? null : { kind: 'meta', reason: metaReason }),
    body,
    span,
    given: entry,
    meta,
    original: wire,
  });
}

interface OpaqueSource {
  readonly place: UnusualPlace;
  readonly text: Buffer | null;
  readonly wire: Uint8Array | null;
  readonly fault: TransactionFault;
}

/** A transaction of which the message is unknown: signatures and keys come from wherever they can be read. */
function opaque(
  { block, view }: Decoding,
  entry: RpcEntry,
  { place, text, wire, fault }: OpaqueSource,
): NormalTransaction {
  const { layout } = place;
  const { bytes, keys: table } = block;
  const json = isPlainObject(entry.transaction) ? entry.transaction : {};
  const message = isPlainObject(json['message']) ? json['message'] : json;
  const signatures = signatureTexts(json['signatures']);
  if (signatures.length === 0 && layout.signaturesAt >= 0)
    for (let number = 0; number < layout.signatureCount; number++)
      signatures.push(bytesAt(bytes, layout.signaturesAt + number * 64, 64));
  const ids: number[] = [];
  if (layout.keysAt >= 0)
    for (let number = 0; number < layout.keyCount; number++) ids.push(table.intern(view, layout.keysAt + number * 32));
  else for (const text of keyTexts(message['accountKeys'])) ids.push(table.internText(text));
  const loaded = loadedAddressesOf((entry.meta as Partial<RpcMeta> | null | undefined)?.loadedAddresses);
  const staticKeyCount = ids.length;
  for (const text of [...(loaded?.writable ?? []), ...(loaded?.readonly ?? [])]) ids.push(table.internText(text));
  const isComplete = !ids.includes(-1);
  const keys = Uint32Array.from(ids.filter((id) => id >= 0));
  // Numbers of accounts mean nothing in an incomplete list.
  const { meta } = readableMeta(entry.meta, isComplete ? keys.length : -1, 0);
  const owners: number[] = [];
  const hasTokens =
    internTokenBalances(meta.preTokenBalances, table, owners) &&
    internTokenBalances(meta.postTokenBalances, table, owners);
  return new OpaqueTransaction({
    slot: block.slot,
    index: place.index,
    version: versionOf(entry, layout),
    fault,
    signatures,
    table,
    keys,
    staticKeyCount: isComplete ? staticKeyCount : keys.length,
    loadedWritableCount: isComplete ? (loaded?.writable.length ?? 0) : 0,
    tokenOwners: Uint32Array.from(hasTokens ? owners : []),
    meta: hasTokens ? meta : { ...meta, preTokenBalances: [], postTokenBalances: [] },
    wire: wire ?? keptWire(entry),
    given: entry,
    text,
  });
}

function keptWire({ transaction, ...rest }: RpcEntry): Uint8Array | null {
  const text = Array.isArray(transaction) && transaction[1] === 'base64' ? transaction[0] : keptText(rest);
  return typeof text === 'string' ? fromBase64(text) : null;
}

const keptText = (entry: object): unknown => (entry as Readonly<Record<string, unknown>>)[KEPT_WIRE];

function signatureTexts(value: unknown): Uint8Array[] {
  if (!Array.isArray(value)) return [];
  const read = value.map((text) => (typeof text === 'string' && text.length <= 88 ? decode(text) : null));
  return read.every((bytes) => bytes?.length === 64) ? (read as Uint8Array[]) : [];
}

/** Keys as texts, or as objects with roles. */
function keyTexts(value: unknown): readonly string[] {
  if (!Array.isArray(value)) return [];
  return value
    .map((key) => (isPlainObject(key) ? key['pubkey'] : key))
    .map((key) => (typeof key === 'string' ? key : ''));
}

/** Bytes contain their version; for JSON the entry has it. */
function versionOf(entry: RpcEntry, layout: WireLayout): TransactionVersion {
  const isRead = layout.headerAt > 0 || layout.version > HIGHEST_WIRE_VERSION;
  if (!Array.isArray(entry.transaction) || !isRead) return namedVersion(entry.version);
  return layout.version < 0 ? 'legacy' : layout.version;
}

/** Static keys, then loaded ones; null when a loaded address is invalid. */
function internAll(
  table: KeyTableBuilder,
  view: DataView,
  layout: WireLayout,
  writable: readonly string[],
  readonly: readonly string[],
): Uint32Array | null {
  const keys = new Uint32Array(layout.keyCount + writable.length + readonly.length);
  for (let number = 0; number < layout.keyCount; number++)
    keys[number] = table.intern(view, layout.keysAt + number * 32);
  let at = layout.keyCount;
  for (const list of [writable, readonly]) {
    for (const text of list) {
      const id = table.internText(text);
      if (id < 0) return null;
      keys[at++] = id;
    }
  }
  return keys;
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

/** Decodes an entry in the usual form, whose `meta` the scan has checked. Null when its parts do not fit together. */
function decodeUsual(
  decoding: Decoding,
  span: ScannedEntry,
  index: number,
  layout: WireLayout,
): NormalTransaction | null {
  const { block, view, pool, starts } = decoding;
  const { meta } = span.usual!;
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
  const tokenOwners = ownersOf(decoding, meta);
  if (tokenOwners === null) return null;
  if (layout.lookupCount > 0) eachTableKey(block.bytes, layout, (at) => block.keys.intern(view, at));
  const version = layout.version < 0 ? 'legacy' : layout.version;
  // Members in one order without a spread: one hidden class, and no copies.
  return new LeanTransaction(block, {
    index,
    version,
    layout,
    wireFrom: starts[index]!,
    wireTo: starts[index + 1]!,
    keys,
    loadedWritableCount: writable.count,
    tokenOwners,
    isVote: isVote(block, layout, version, keys),
    fault: layout.oddity,
    body: decoding.scanned!.body,
    span,
    given: null,
    meta: null,
    original: undefined,
  });
}

/** Adds loaded addresses to the table and their ids to the list; false for an invalid address. */
function intern({ scanned, texts: ids, pool }: Decoding, range: TextRange): boolean {
  for (let number = 0; number < range.count; number++) {
    const at = (range.at + number) * 2;
    const id = ids!.idOf(scanned!.texts[at]!, scanned!.texts[at + 1]!);
    if (id < 0) return false;
    pool.add(id);
  }
  return true;
}

/** Adds mints, programs and owners to the table; returns the distinct owners, or null for an invalid address. */
function ownersOf(decoding: Decoding, meta: ScannedMeta): Uint32Array | null {
  const [preTokens, postTokens] = [meta.preTokens.texts, meta.postTokens.texts];
  if (preTokens.count + postTokens.count === 0) return decoding.noOwners;
  decoding.pool.begin(preTokens.count + postTokens.count);
  return internTokens(decoding, preTokens) && internTokens(decoding, postTokens) ? decoding.pool.end() : null;
}

function internTokens({ scanned, texts: ids, pool }: Decoding, { at, count }: TextRange): boolean {
  const { texts } = scanned!;
  for (let place = at * 2; place < (at + count) * 2; place += 6) {
    if (ids!.idOf(texts[place]!, texts[place + 1]!) < 0) return false;
    if (texts[place + 3]! > 0 && ids!.idOf(texts[place + 2]!, texts[place + 3]!) < 0) return false;
    if (texts[place + 5] === 0) continue;
    const owner = ids!.idOf(texts[place + 4]!, texts[place + 5]!);
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
const MAX_PLACES = 8_192;

/**
 * Addresses recur in a block, so a text found at its cache slot is not decoded again. Texts that
 * evict each other only cost their decoding.
 */
function createTextIds(bytes: Buffer, keys: KeyTableBuilder, expectedTexts: number): TextIds {
  let places = 64;
  while (places < expectedTexts && places < MAX_PLACES) places *= 2;
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
