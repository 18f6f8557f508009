import { crc32 } from 'node:zlib';
import { decode32, encode32 } from '../lib/base58.ts';
import type { BlockHeader } from '../ports/block.ts';

/**
 * A segment is a series of frames. A frame is a header of 124 bytes and a payload; both have a CRC-32, so that headers can be read without
 * payloads. All numbers are little-endian; times and heights are doubles, NaN for unknown.
 */

/** A block: its payload is the encoded JSON text. */
export const BLOCK = 1;
/** All blocks above the slot that stand before this frame are void. */
export const CUT = 2;
/** Blocks up to the slot are final. */
export const FINAL = 3;
/** Last frame of a segment that is complete: its payload is the index of the segment. */
export const INDEX = 4;

/** What the blocks of the segment have in common: the first frame, if there is one. */
export const DICTIONARY = 5;

/** The payload is the text itself, compressed. */
export const PLAIN = 1;
/** The payload is the pieces of `payload.ts`. */
export const PARTS = 4;
/** The text is the answer of a node, byte by byte; without it was built from another form. */
export const VERBATIM = 2;

const MAGIC = 0x33464c50;
export const HEADER_BYTES = 124;
const AT = { kind: 4, flags: 5, payload: 8, payloadCrc: 12, slot: 16, parent: 24, height: 32, time: 40, written: 48 };
const HASH_AT = 56;
const PREVIOUS_AT = 88;
const CRC_AT = 120;

export interface Frame {
  readonly kind: number;
  readonly flags: number;
  /** Bytes of the payload. */
  readonly payload: number;
  readonly payloadCrc: number;
  /** Unix ms. */
  readonly writtenAt: number;
  readonly header: BlockHeader;
}

/** A header without hashes, for frames that are no blocks. */
export const markOf = (slot: number): BlockHeader => ({
  slot,
  parentSlot: 0,
  blockhash: '',
  previousBlockhash: '',
  blockHeight: null,
  blockTime: null,
});

export function writeFrame(frame: Omit<Frame, 'payload' | 'payloadCrc'>, payload: Uint8Array): Buffer {
  const bytes = Buffer.alloc(HEADER_BYTES + payload.length);
  const { header } = frame;
  bytes.writeUInt32LE(MAGIC, 0);
  bytes[AT.kind] = frame.kind;
  bytes[AT.flags] = frame.flags;
  bytes.writeUInt32LE(payload.length, AT.payload);
  bytes.writeUInt32LE(crc32(payload), AT.payloadCrc);
  bytes.writeDoubleLE(header.slot, AT.slot);
  bytes.writeDoubleLE(header.parentSlot, AT.parent);
  bytes.writeDoubleLE(header.blockHeight ?? Number.NaN, AT.height);
  bytes.writeDoubleLE(header.blockTime ?? Number.NaN, AT.time);
  bytes.writeDoubleLE(frame.writtenAt, AT.written);
  if (frame.kind === BLOCK) {
    bytes.set(decode32(header.blockhash)!, HASH_AT);
    bytes.set(decode32(header.previousBlockhash)!, PREVIOUS_AT);
  }
  bytes.writeUInt32LE(crc32(bytes.subarray(0, CRC_AT)), CRC_AT);
  bytes.set(payload, HEADER_BYTES);
  return bytes;
}

/** Null when there is no sound header at this place. */
export function readFrame(bytes: Buffer, at = 0): Frame | null {
  if (bytes.length - at < HEADER_BYTES || bytes.readUInt32LE(at) !== MAGIC) return null;
  if (crc32(bytes.subarray(at, at + CRC_AT)) !== bytes.readUInt32LE(at + CRC_AT)) return null;
  const kind = bytes[at + AT.kind]!;
  const [height, time] = [bytes.readDoubleLE(at + AT.height), bytes.readDoubleLE(at + AT.time)];
  return {
    kind,
    flags: bytes[at + AT.flags]!,
    payload: bytes.readUInt32LE(at + AT.payload),
    payloadCrc: bytes.readUInt32LE(at + AT.payloadCrc),
    writtenAt: bytes.readDoubleLE(at + AT.written),
    header: {
      slot: bytes.readDoubleLE(at + AT.slot),
      parentSlot: bytes.readDoubleLE(at + AT.parent),
      blockhash: kind === BLOCK ? encode32(bytes, at + HASH_AT) : '',
      previousBlockhash: kind === BLOCK ? encode32(bytes, at + PREVIOUS_AT) : '',
      blockHeight: Number.isNaN(height) ? null : height,
      blockTime: Number.isNaN(time) ? null : time,
    },
  };
}

export const isSound = (frame: Frame, payload: Uint8Array): boolean =>
  payload.length === frame.payload && crc32(payload) === frame.payloadCrc;

/** Place of the next sound header from `from` on; -1 without one. */
export function findFrame(bytes: Buffer, from: number): number {
  const magic = Buffer.alloc(4);
  magic.writeUInt32LE(MAGIC);
  for (let at = bytes.indexOf(magic, from); at >= 0; at = bytes.indexOf(magic, at + 1))
    if (readFrame(bytes, at) !== null) return at;
  return -1;
}
