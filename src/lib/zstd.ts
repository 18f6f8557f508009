import * as zlib from 'node:zlib';
import { Decompress } from 'fzstd';

/** Zstandard. Node has it from 22.15 on; before, frames are stored without compression, and read with a package. */

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

/** Bytes of a frame that are taken at once: what comes out of them is counted before the next ones. */
const STEP_BYTES = 4_096;

function inflate(bytes: Uint8Array, limit: number): Buffer {
  const parts: Uint8Array[] = [];
  let size = 0;
  let isDone = false;
  const stream = new Decompress((part, isFinal) => {
    size += part.length;
    if (size > limit) throw new RangeError(`zstd: more than ${limit} bytes`);
    parts.push(part.slice());
    isDone = isFinal ?? false;
  });
  for (let at = 0; at < bytes.length; at += STEP_BYTES)
    stream.push(bytes.subarray(at, at + STEP_BYTES), at + STEP_BYTES >= bytes.length);
  if (!isDone) throw new RangeError('zstd: the frame is cut off');
  return Buffer.concat(parts);
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
