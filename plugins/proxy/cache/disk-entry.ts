import { createHash } from 'node:crypto';
import type { CacheEntry } from './entry.ts';

const MAGIC = 0x50524331;
const HEADER_BYTES = 36;
const SUM_BYTES = 16;

/** The file of an entry: header, key, bytes. The sum makes half-written and damaged files harmless. */
export function encodeEntry(key: string, entry: CacheEntry): Buffer {
  const keyBytes = Buffer.from(key);
  const file = Buffer.alloc(HEADER_BYTES + keyBytes.length + entry.bytes.length);
  file.writeUInt32LE(MAGIC, 0);
  file.writeUInt32LE(keyBytes.length, 4);
  file.writeUInt32LE(entry.idStart, 8);
  file.writeUInt32LE(entry.idEnd, 12);
  file.writeUInt32LE(entry.bytes.length, 16);
  keyBytes.copy(file, HEADER_BYTES);
  entry.bytes.copy(file, HEADER_BYTES + keyBytes.length);
  checksum(file).copy(file, 20);
  return file;
}

/** The entry that a file holds for this key, or null when it is damaged or holds another key. */
export function decodeEntry(key: string, file: Buffer): CacheEntry | null {
  if (file.length < HEADER_BYTES || file.readUInt32LE(0) !== MAGIC) return null;
  const keyLength = file.readUInt32LE(4);
  const idStart = file.readUInt32LE(8);
  const idEnd = file.readUInt32LE(12);
  const length = file.readUInt32LE(16);
  if (file.length !== HEADER_BYTES + keyLength + length || idStart > idEnd || idEnd > length) return null;
  if (file.toString('utf8', HEADER_BYTES, HEADER_BYTES + keyLength) !== key) return null;
  if (!checksum(file).equals(file.subarray(20, 20 + SUM_BYTES))) return null;
  return { bytes: file.subarray(HEADER_BYTES + keyLength), idStart, idEnd };
}

function checksum(file: Buffer): Buffer {
  const hash = createHash('sha256').update(file.subarray(4, 20)).update(file.subarray(HEADER_BYTES));
  return hash.digest().subarray(0, SUM_BYTES);
}
