import { promisify } from 'node:util';
import { brotliCompress, brotliDecompress, constants, crc32, deflateRaw, inflateRaw, inflateRawSync } from 'node:zlib';
import { messageOf } from '../lib/coded-error.ts';
import { JsonCursor, Unusual } from '../lib/json-cursor.ts';
import type { ChainBlock } from '../ports/block.ts';
import { memoOf } from '../solana/memo.ts';
import { ByteSink, Source } from './bytes.ts';
import { BlockTables, decodePart, encodePart, ReadTables, type Signatures, type SoughtTransaction } from './codec.ts';
import { type BlockUsage, type Dictionary, presetOf } from './dictionary.ts';
import { PARTS, PLAIN } from './frame.ts';
import { type BlockRows, readIndexRows, writeIndexRows } from './rows.ts';

/**
 * The payload of a block: pieces that are read one by one, so that a transaction costs its part of 32 and not its block.
 *
 * Six numbers of 32 bits, little-endian: count of transactions · transactions in a part · count of pieces · length of the text before
 * the transactions · CRC-32 of the dictionary, 0 without one · CRC-32 of all this and the list. The list: length and CRC-32 of each
 * piece. Then for each transaction its signature and the CRC-32 of it. Then the pieces: keys · tables, with errors and memos · what
 * stands around the transactions · rows of the index, empty without one · parts.
 */
const HEAD_BYTES = 24;
const ENTRY_BYTES = 8;
const SIGNATURE_BYTES = 68;
const PER_PART = 32;
const KEYS = 0;
const TABLES = 1;
const ROWS = 3;
const FIRST_PART = 4;
/** Bytes of a payload that usually hold head and list. */
export const LIKELY_HEAD_BYTES = 1_024;

const QUALITY = 5;
const compress = promisify<Buffer, object, Buffer>(brotliCompress);
const decompress = promisify<Buffer, Buffer>(brotliDecompress);
const deflate = promisify<Uint8Array, object, Buffer>(deflateRaw);
const inflate = promisify<Uint8Array, object, Buffer>(inflateRaw);

/** What lists of transactions need to know of a block. */
export interface PayloadSummary {
  /** Errors by the index of their transaction. */
  readonly errors: ReadonlyMap<number, unknown>;
  readonly memos: ReadonlyMap<number, string>;
}

export interface Payload {
  readonly bytes: Uint8Array;
  /** `PARTS` or `PLAIN`. */
  readonly flags: number;
  /** Null where the block is kept as text. */
  readonly seen: BlockUsage | null;
  /** Why the block is kept as text; null where it has another form than pieces can have, or is in pieces. */
  readonly fault: string | null;
}

/** The payload of a block. */
export async function payloadOf(
  block: ChainBlock,
  text: Buffer,
  dictionary: Dictionary,
  rows: BlockRows | null,
): Promise<Payload> {
  const places = placesOf(text, block.transactions.length);
  const found = places === null ? null : piecesOf(block, text, places, dictionary, rows);
  if (found === null || places === null) return { bytes: await plain(text), flags: PLAIN, seen: null, fault: null };
  if ('fault' in found) return { bytes: await plain(text), flags: PLAIN, seen: null, fault: found.fault };
  const { pieces, seen } = found;
  const { preset } = dictionary;
  const packed = await Promise.all(
    pieces.map(async (piece, index) =>
      index === KEYS || piece.length === 0 ? piece : await deflate(piece, index >= FIRST_PART ? presetOf(preset) : {}),
    ),
  );
  const head = Buffer.alloc(HEAD_BYTES + packed.length * ENTRY_BYTES);
  const numbers = [block.transactions.length, PER_PART, packed.length, places[0] ?? text.length, dictionary.crc];
  for (const [at, number] of numbers.entries()) head.writeUInt32LE(number, at * 4);
  for (const [index, piece] of packed.entries()) {
    head.writeUInt32LE(piece.length, HEAD_BYTES + index * ENTRY_BYTES);
    head.writeUInt32LE(crc32(piece), HEAD_BYTES + index * ENTRY_BYTES + 4);
  }
  head.writeUInt32LE(crc32(head), 20);
  return { bytes: Buffer.concat([head, signaturesOf(block), ...packed]), flags: PARTS, seen, fault: null };
}

async function plain(text: Buffer): Promise<Buffer> {
  const params = {
    [constants.BROTLI_PARAM_QUALITY]: QUALITY,
    [constants.BROTLI_PARAM_LGWIN]: constants.BROTLI_MAX_WINDOW_BITS,
    [constants.BROTLI_PARAM_SIZE_HINT]: text.length,
  };
  return await compress(text, { params });
}

/** A fault when the pieces do not lead back to the same text. */
function piecesOf(
  block: ChainBlock,
  text: Buffer,
  places: readonly number[],
  dictionary: Dictionary,
  rows: BlockRows | null,
): { readonly pieces: readonly Buffer[]; readonly seen: BlockUsage } | { readonly fault: string } {
  const all = signaturesOf(block);
  const [from, to] = [places[0] ?? text.length, places.at(-1) ?? text.length];
  const around = Buffer.concat([text.subarray(0, from), text.subarray(to)]);
  const texts: Buffer[] = [];
  for (let first = 0; first < block.transactions.length; first += PER_PART)
    texts.push(text.subarray(places[first], places[Math.min(first + PER_PART, block.transactions.length)]));
  const tables = new BlockTables(dictionary);
  const rowPiece = new ByteSink();
  let parts: readonly Buffer[];
  let tokens: Buffer;
  try {
    parts = [around, ...texts].map((each, piece) => encodePart(each, tables, signaturesOfPiece(all, piece)));
    if (rows !== null) writeIndexRows(rowPiece, rows, (name) => tables.keyId(name));
    tokens = tables.written();
    const read = new ReadTables(dictionary, tables.keys.used, tokens);
    const text = new ByteSink();
    for (const [piece, part] of parts.entries()) {
      const decoded = decodePart(part, read, signaturesOfPiece(all, piece), text);
      if (!decoded.equals(piece === 0 ? around : texts[piece - 1]!)) return { fault: `piece ${piece} differs` };
    }
  } catch (error) {
    // Text that anybody wrote must not keep a block out of the ledger, and with it the follower from going on.
    return { fault: messageOf(error) };
  }
  const out = new ByteSink();
  out.sized(tokens);
  out.put(Buffer.from(JSON.stringify(summaryOf(block))));
  const [outside, ...inside] = parts;
  return {
    pieces: [tables.keys.used, out.used, outside!, rowPiece.used, ...inside],
    seen: tables.seen(inside[0] ?? outside!),
  };
}

/**
 * Signatures of one piece, which is read without the others. Piece 0 is what stands around the parts: it has none. A program may return
 * the bytes of a transaction, which then count as the next one.
 */
function signaturesOfPiece(bytes: Buffer, piece: number, perPart = PER_PART): Signatures {
  const ofPart = perPart * SIGNATURE_BYTES;
  return { bytes: bytes.subarray(Math.max(0, piece - 1) * ofPart, piece * ofPart), stride: SIGNATURE_BYTES, at: 0 };
}

function summaryOf({ transactions, keys }: ChainBlock) {
  const errors: [number, unknown][] = [];
  const memos: [number, string][] = [];
  for (const tx of transactions) {
    if (tx.error !== null) errors.push([tx.index, tx.error]);
    const memo = tx.isVote ? null : memoOf(tx, keys);
    if (memo !== null) memos.push([tx.index, memo]);
  }
  return { errors, memos };
}

function signaturesOf({ transactions }: ChainBlock): Buffer {
  const bytes = Buffer.alloc(transactions.length * SIGNATURE_BYTES);
  for (const { index, signatures } of transactions) {
    const [first] = signatures;
    bytes.set(first!, index * SIGNATURE_BYTES);
    bytes.writeUInt32LE(crc32(first!), index * SIGNATURE_BYTES + 64);
  }
  return bytes;
}

/**
 * Where the transactions of a block begin in its text, and the end of the last one: a comma stands before each but the first. Empty
 * without transactions; null when the text has another form.
 */
function placesOf(text: Buffer, count: number): readonly number[] | null {
  if (count === 0) return [];
  const list = text.indexOf('"transactions":[');
  const first = list + 16;
  const name = text.subarray(first, text.indexOf(':', first) + 1);
  const places: number[] = [];
  // A member of this name occurs in no other place: quotes within texts are escaped.
  if (list >= 0) for (let at = first; at >= 0; at = text.indexOf(name, at + 1)) places.push(at);
  try {
    const cursor = new JsonCursor(text);
    if (places.length === count) {
      cursor.at = places.at(-1)!;
      cursor.value();
      return [...places, cursor.at];
    }
    return elementsOf(text, count);
  } catch (error) {
    if (error instanceof Unusual) return null;
    throw error;
  }
}

function elementsOf(text: Buffer, count: number): readonly number[] | null {
  const cursor = new JsonCursor(text);
  const places: number[] = [];
  for (let more = cursor.firstMember(); more; more = cursor.nextMember()) {
    if (cursor.memberName() !== 'transactions') {
      cursor.value();
      continue;
    }
    for (let next = cursor.firstElement(); next; next = cursor.nextElement()) {
      cursor.peek();
      places.push(cursor.at);
      cursor.value();
      if (places.length === count) places.push(cursor.at);
    }
  }
  return places.length === count + 1 ? places : null;
}

/** Reads a block piece by piece. `read` gets bytes of the payload; fewer at its end. */
export class PayloadReader {
  readonly count: number;
  private readonly perPart: number;
  private readonly before: number;
  private readonly lengths: readonly number[];
  private readonly crcs: readonly number[];
  private readonly piecesAt: readonly number[];
  private readonly signaturesAt: number;
  private readonly read: (at: number, length: number) => Promise<Buffer>;
  private readonly dictionary: Dictionary;

  private constructor(head: Buffer, dictionary: Dictionary, read: PayloadReader['read']) {
    const number = (at: number) => head.readUInt32LE(at);
    this.read = read;
    this.dictionary = dictionary;
    [this.count, this.perPart, this.before] = [number(0), number(4), number(12)];
    const pieces = Array.from({ length: number(8) }, (_, index) => HEAD_BYTES + index * ENTRY_BYTES);
    this.lengths = pieces.map(number);
    this.crcs = pieces.map((at) => number(at + 4));
    this.signaturesAt = HEAD_BYTES + pieces.length * ENTRY_BYTES;
    let at = this.signaturesAt + this.count * SIGNATURE_BYTES;
    this.piecesAt = this.lengths.map((length) => {
      at += length;
      return at - length;
    });
  }

  /** Null when the payload is damaged, or its dictionary is missing. `dictionary`: by its CRC-32. */
  static async open(
    read: PayloadReader['read'],
    dictionary: (crc: number) => Promise<Dictionary | null>,
  ): Promise<PayloadReader | null> {
    let head = await read(0, LIKELY_HEAD_BYTES);
    if (head.length < HEAD_BYTES) return null;
    const length = HEAD_BYTES + head.readUInt32LE(8) * ENTRY_BYTES;
    if (length > head.length && length <= MAX_HEAD_BYTES) head = await read(0, length);
    if (length > head.length) return null;
    const checked = Buffer.from(head.subarray(0, length));
    checked.fill(0, 20, 24);
    if (crc32(checked) !== head.readUInt32LE(20)) return null;
    const found = await dictionary(head.readUInt32LE(16));
    return found === null ? null : new PayloadReader(head, found, read);
  }

  /** First signatures of the transactions with these indexes; null when one is damaged. */
  async signatures(indexes: readonly number[]): Promise<ReadonlyMap<number, Uint8Array> | null> {
    const first = indexes.reduce((least, index) => Math.min(least, index), this.count);
    const last = indexes.reduce((most, index) => Math.max(most, index), first);
    const from = this.signaturesAt + first * SIGNATURE_BYTES;
    // One read for all, which is at most a few thousand of them.
    const bytes = await this.read(from, (last + 1 - first) * SIGNATURE_BYTES);
    const found = new Map<number, Uint8Array>();
    for (const index of indexes) {
      const at = (index - first) * SIGNATURE_BYTES;
      if (!isSigned(bytes, at)) return null;
      found.set(index, bytes.subarray(at, at + 64));
    }
    return found;
  }

  async summary(): Promise<PayloadSummary | null> {
    const tables = await this.piece(TABLES);
    if (tables === null) return null;
    const { errors, memos } = splitTables(tables).summary();
    return { errors: new Map(errors), memos: new Map(memos) };
  }

  /** Rows of the index; null when the block has none, or they are damaged. */
  async rows(): Promise<BlockRows | null> {
    const [keys, tables, rows, signatures] = await Promise.all([
      this.piece(KEYS),
      this.piece(TABLES),
      this.piece(ROWS),
      this.read(this.signaturesAt, this.count * SIGNATURE_BYTES),
    ]);
    if (keys === null || tables === null || rows === null || rows.length === 0) return null;
    const all: Buffer[] = [];
    for (let at = 0; at < signatures.length; at += SIGNATURE_BYTES) {
      if (!isSigned(signatures, at)) return null;
      all.push(signatures.subarray(at, at + 64));
    }
    const read = new ReadTables(this.dictionary, keys, splitTables(tables).tokens);
    return all.length === this.count ? readIndexRows(new Source(rows), (id) => read.key(id), all) : null;
  }

  /** The index of the transaction with this signature; -1 without one. */
  async findSignature(signature: Uint8Array): Promise<number> {
    const all = await this.read(this.signaturesAt, this.count * SIGNATURE_BYTES);
    for (let at = 0; at + SIGNATURE_BYTES <= all.length; at += SIGNATURE_BYTES)
      if (all.compare(signature, 0, 64, at, at + 64) === 0 && isSigned(all, at)) return at / SIGNATURE_BYTES;
    return -1;
  }

  /** The text of a transaction; null when it is damaged. `out`: for the text of its part. */
  async transaction(index: number, out = new ByteSink(0)): Promise<Buffer | null> {
    const part = Math.floor(index / this.perPart);
    const first = part * this.perPart;
    const count = Math.min(this.perPart, this.count - first);
    const [keys, tables, packed, signatures] = await Promise.all([
      this.piece(KEYS),
      this.piece(TABLES),
      this.piece(FIRST_PART + part),
      this.read(this.signaturesAt + first * SIGNATURE_BYTES, count * SIGNATURE_BYTES),
    ]);
    const inPart = index - first;
    if (keys === null || tables === null || packed === null || !isSigned(signatures, inPart * SIGNATURE_BYTES))
      return null;
    const read = new ReadTables(this.dictionary, keys, splitTables(tables).tokens);
    const wanted = { signatureAt: inPart * SIGNATURE_BYTES, wireAt: -1, head: Buffer.alloc(0) };
    const decode = (only: SoughtTransaction | null) =>
      decodePart(packed, read, { bytes: signatures, stride: SIGNATURE_BYTES, at: 0 }, out, only);
    const text = elementAt(decode(wanted), wanted) ?? elementOf(decode(null), count, inPart);
    return text === null ? null : Buffer.from(text);
  }

  /** The text of the block; null when it is damaged. */
  async text(): Promise<Buffer | null> {
    const all = await Promise.all(this.lengths.map((_, index) => this.piece(index)));
    const signatures = await this.read(this.signaturesAt, this.count * SIGNATURE_BYTES);
    if (all.includes(null)) return null;
    const [keys, tables, around, , ...parts] = all as Buffer[];
    const read = new ReadTables(this.dictionary, keys!, splitTables(tables!).tokens);
    const [outside, ...texts] = [around!, ...parts].map((part, piece) =>
      decodePart(part, read, signaturesOfPiece(signatures, piece, this.perPart)),
    ) as [Buffer, ...Buffer[]];
    return Buffer.concat([outside.subarray(0, this.before), ...texts, outside.subarray(this.before)]);
  }

  private async piece(index: number): Promise<Buffer | null> {
    const length = this.lengths[index];
    if (length === undefined) return null;
    const bytes = length === 0 ? Buffer.alloc(0) : await this.read(this.piecesAt[index]!, length);
    if (bytes.length !== length || crc32(bytes) !== this.crcs[index]) return null;
    if (index === KEYS || length === 0) return bytes;
    const options = index >= FIRST_PART ? presetOf(this.dictionary.preset) : {};
    // A thread for a small piece costs more than its bytes.
    return length <= SMALL_BYTES ? inflateRawSync(bytes, options) : await inflate(bytes, options);
  }
}

const MAX_HEAD_BYTES = 1_048_576;
const SMALL_BYTES = 8_192;
const LIST = Buffer.from('{"transactions":[');
const LIST_END = Buffer.from(']}');

/** The transaction whose bytes stand at a place of the text of a part, of which the end may be missing; null when it is not whole. */
function elementAt(text: Buffer, { wireAt, head }: SoughtTransaction): Buffer | null {
  const name = head.subarray(0, head.indexOf(':') + 1);
  if (wireAt < 0 || name.length === 0) return null;
  const from = text.lastIndexOf(name, wireAt);
  if (from < 0) return null;
  const cursor = new JsonCursor(text);
  cursor.at = from;
  let isOwn = false;
  try {
    for (let more = cursor.firstMember(); more; more = cursor.nextMember()) {
      const isTransaction = cursor.memberName() === 'transaction';
      const start = cursor.at;
      cursor.value();
      // Its meta may have the bytes of any transaction, as return data.
      if (isTransaction) isOwn = start < wireAt && wireAt < cursor.at;
    }
  } catch (error) {
    if (error instanceof Unusual) return null;
    throw error;
  }
  return isOwn ? text.subarray(from, cursor.at) : null;
}

/** A transaction of the text of a whole part; null when the text has another form. */
function elementOf(text: Buffer, count: number, index: number): Buffer | null {
  const places = placesOf(Buffer.concat([LIST, text, LIST_END]), count);
  const from = places?.[index];
  if (from === undefined) return null;
  // A comma stands between two transactions.
  const end = places![index + 1]! - (index + 1 < count ? 1 : 0);
  return text.subarray(from - LIST.length, end - LIST.length);
}

const isSigned = (bytes: Buffer, at: number) =>
  bytes.length >= at + SIGNATURE_BYTES && crc32(bytes.subarray(at, at + 64)) === bytes.readUInt32LE(at + 64);

function splitTables(bytes: Buffer) {
  const source = new Source(bytes);
  const tokens = source.sized();
  const rest = bytes.subarray(source.at);
  return {
    tokens,
    summary: () => JSON.parse(rest.toString()) as { errors: [number, unknown][]; memos: [number, string][] },
  };
}

/** The text of a payload that is no series of pieces. */
export const plainText = (payload: Buffer): Promise<Buffer> => decompress(payload);
