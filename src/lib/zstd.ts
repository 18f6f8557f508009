import * as zlib from 'node:zlib';
import { Decompress, decompress } from 'fzstd';

/** Zstandard. Node has it from 22.15 on; before, frames are stored without compression here, and read with a package. */

interface NativeZstd {
  zstdCompressSync(bytes: Uint8Array): Buffer;
  zstdDecompressSync(bytes: Uint8Array, options: { readonly maxOutputLength: number }): Buffer;
}

const native = 'zstdCompressSync' in zlib ? (zlib as unknown as NativeZstd) : null;

/** Whether frames are compressed here, or only stored. */
export const hasZstd = native !== null;

export function zstdCompress(bytes: Uint8Array): Buffer {
  return native === null ? zstdFrame(bytes) : native.zstdCompressSync(bytes);
}

/** Throws when the bytes are no frame, or hold more than `limit`. */
export function zstdDecompress(bytes: Uint8Array, limit: number): Buffer {
  return native === null ? inflate(bytes, limit) : native.zstdDecompressSync(bytes, { maxOutputLength: limit });
}

function inflate(bytes: Uint8Array, limit: number): Buffer {
  return Buffer.concat([...zstdParts(bytes, { limit, reserve: () => undefined })]);
}

interface PartsOptions {
  /** Most bytes that the frames may hold. */
  readonly limit: number;
  /** Called with the memory that the next part takes before it is made; may throw. */
  reserve(bytes: number): void;
}

/** A frame and where it stands. */
interface Frame {
  readonly start: number;
  readonly end: number;
  /** Bytes of its header. */
  readonly headBytes: number;
  /** Bytes that it holds; null: it does not say. */
  readonly contentBytes: number | null;
  /** How far back a block may refer. */
  readonly windowBytes: number;
  readonly blocks: number;
}

/** Every decoder supports this much, and compressors ask for more only when they are told to (RFC 8878, 3.1.1.1.2). */
const MAX_WINDOW_BYTES = 8_388_608;

/** The package moves the window with each block. Blocks that bring little are refused after this much, and 64 times what came out. */
const FREE_MOVED_BYTES = 67_108_864;
const MOVED_FOR_BYTE = 64;

/** Bytes of a frame that are taken at once. */
const STEP_BYTES = 4_096;

/**
 * The content of frames in parts, in JavaScript. Nothing is allocated that the bytes do not justify, whatever their headers say. Throws RangeError
 * when the bytes are no frames or hold more than the limit, and errors of the package for damaged blocks.
 */
export function* zstdParts(bytes: Uint8Array, { limit, reserve }: PartsOptions): Generator<Uint8Array> {
  let size = 0;
  for (const frame of framesOf(bytes)) {
    const most = frame.blocks * MAX_BLOCK_BYTES;
    if (frame.contentBytes !== null && frame.contentBytes > most) throw new RangeError('zstd: blocks are missing');
    for (const part of frame.contentBytes === null ? blocksOf(bytes, frame, most) : wholeOf(bytes, frame)) {
      size += part.length;
      if (size > limit) throw tooLong(limit);
      yield part;
    }
  }

  function* wholeOf(from: Uint8Array, { start, end, contentBytes }: Frame): Generator<Uint8Array> {
    if (size + contentBytes! > limit) throw tooLong(limit);
    reserve(contentBytes!);
    // Without a buffer of its own it would allocate one of the size of the window for an empty frame.
    if (contentBytes! > 0) yield decompress(from.subarray(start, end));
  }

  function* blocksOf(from: Uint8Array, frame: Frame, most: number): Generator<Uint8Array> {
    const windowBytes = Math.max(MIN_WINDOW_BYTES, Math.min(frame.windowBytes, most));
    reserve(windowBytes);
    const before = size;
    let parts: Uint8Array[] = [];
    let moved = 0;
    let produced = 0;
    const stream = new Decompress((part) => {
      moved += windowBytes;
      produced += part.length;
      if (moved > FREE_MOVED_BYTES + MOVED_FOR_BYTE * produced) throw new RangeError('zstd: too many small blocks');
      if (before + produced > limit) throw tooLong(limit);
      reserve(part.length);
      parts.push(part.slice());
    });
    stream.push(headOf(windowBytes, (from[frame.start + 4]! & CHECKSUM) !== 0));
    for (let at = frame.start + frame.headBytes; at < frame.end; at += STEP_BYTES) {
      const next = Math.min(at + STEP_BYTES, frame.end);
      stream.push(from.subarray(at, next), next === frame.end);
      yield* parts;
      parts = [];
    }
  }
}

const tooLong = (limit: number): RangeError => new RangeError(`zstd: more than ${limit} bytes`);

const MIN_WINDOW_BYTES = 1_024;
const SKIPPABLE = 0x184d2a5;
const CHECKSUM = 0b100;
const CHECKSUM_BYTES = 4;

/** The header of a frame that refers back at most this far, rounded up to a power of two, and does not say what it holds. */
function headOf(windowBytes: number, hasChecksum: boolean): Buffer {
  const head = Buffer.alloc(6);
  head.writeUInt32LE(MAGIC, 0);
  head[4] = hasChecksum ? CHECKSUM : 0;
  head[5] = (Math.ceil(Math.log2(windowBytes)) - 10) << 3;
  return head;
}

/** The frames of a text in their order. Throws RangeError. */
function framesOf(bytes: Uint8Array): Frame[] {
  const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  const frames: Frame[] = [];
  for (let at = 0; at < view.length; ) {
    if (at + 8 > view.length) throw cutOff();
    const magic = view.readUInt32LE(at);
    if (magic >>> 4 === SKIPPABLE) {
      at += 8 + view.readUInt32LE(at + 4);
      if (at > view.length) throw cutOff();
      continue;
    }
    const frame = frameAt(view, at);
    frames.push(frame);
    at = frame.end;
  }
  if (frames.length === 0) throw new RangeError('zstd: there is no frame');
  return frames;
}

const cutOff = (): RangeError => new RangeError('zstd: the frame is cut off');

function frameAt(view: Buffer, start: number): Frame {
  if (view.readUInt32LE(start) !== MAGIC) throw new RangeError('zstd: not a frame');
  const descriptor = view[start + 4]!;
  const isSingle = (descriptor & 0b10_0000) !== 0;
  const dictionaryBytes = [0, 1, 2, 4][descriptor & 3]!;
  const sizeBytes = [isSingle ? 1 : 0, 2, 4, 8][descriptor >> 6]!;
  const sizeAt = start + 5 + (isSingle ? 0 : 1) + dictionaryBytes;
  const headBytes = sizeAt + sizeBytes - start;
  if (start + headBytes > view.length) throw cutOff();
  if (dictionaryBytes > 0 && view.readUIntLE(sizeAt - dictionaryBytes, dictionaryBytes) !== 0)
    throw new RangeError('zstd: dictionaries are not supported');
  const contentBytes =
    sizeBytes === 0
      ? null
      : sizeBytes === 8
        ? Number(view.readBigUInt64LE(sizeAt))
        : view.readUIntLE(sizeAt, sizeBytes) + (sizeBytes === 2 ? 256 : 0);
  const exponent = 10 + (view[start + 5]! >> 3);
  const windowBytes = isSingle ? contentBytes! : 2 ** exponent * (1 + (view[start + 5]! & 7) / 8);
  if (!isSingle && windowBytes > MAX_WINDOW_BYTES) throw new RangeError('zstd: the window is too large');
  let at = start + headBytes;
  let blocks = 0;
  for (let isLast = false; !isLast; blocks += 1) {
    if (at + 3 > view.length) throw cutOff();
    const header = view.readUIntLE(at, 3);
    isLast = (header & 1) === 1;
    at += 3 + (((header >> 1) & 3) === RUN ? 1 : header >> 3);
  }
  const end = at + ((descriptor & CHECKSUM) === 0 ? 0 : CHECKSUM_BYTES);
  if (end > view.length) throw cutOff();
  return { start, end, headBytes, contentBytes, windowBytes, blocks };
}

const MAGIC = 0xfd2fb528;
/** One segment, and an 8-byte content size, so that a reader knows the whole size before the first block. */
const DESCRIPTOR = 0b1110_0000;
const MAX_BLOCK_BYTES = 128 * 1024;
/** A shorter run is cheaper inside the block around it. */
const MIN_RUN_BYTES = 16;
const RAW = 0;
const RUN = 1;

/** A Zstandard frame (RFC 8878) of stored blocks, and of runs of one byte, which are most of a large account: made without a compressor. */
export function zstdFrame(data: Uint8Array): Buffer {
  const head = Buffer.alloc(13);
  head.writeUInt32LE(MAGIC, 0);
  head[4] = DESCRIPTOR;
  head.writeBigUInt64LE(BigInt(data.length), 5);
  const parts: Uint8Array[] = [head];
  for (const { type, from, to } of blocks(data)) {
    const header = Buffer.alloc(3);
    header.writeUIntLE((to === data.length ? 1 : 0) | (type << 1) | ((to - from) << 3), 0, 3);
    parts.push(header, data.subarray(from, type === RUN ? from + 1 : to));
  }
  return Buffer.concat(parts);
}

/** The parts of the data in order; empty data is one empty block. */
function blocks(data: Uint8Array): { type: number; from: number; to: number }[] {
  const found: { type: number; from: number; to: number }[] = [];
  let stored = 0;
  const store = (until: number): void => {
    for (; stored < until; stored = Math.min(until, stored + MAX_BLOCK_BYTES)) {
      found.push({ type: RAW, from: stored, to: Math.min(until, stored + MAX_BLOCK_BYTES) });
    }
  };
  for (let at = 0; at < data.length; ) {
    let end = at + 1;
    while (end < data.length && data[end] === data[at]) end += 1;
    if (end - at >= MIN_RUN_BYTES) {
      store(at);
      for (; stored < end; stored = Math.min(end, stored + MAX_BLOCK_BYTES)) {
        found.push({ type: RUN, from: stored, to: Math.min(end, stored + MAX_BLOCK_BYTES) });
      }
    }
    at = end;
  }
  store(data.length);
  return found.length === 0 ? [{ type: RAW, from: 0, to: 0 }] : found;
}
