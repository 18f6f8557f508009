/**
 * Finds the parts of a `getBlock` answer (encoding base64) in its bytes without making values of them: most transactions of a
 * block are only matched against addresses, and parsing their logs and balances is most of the cost of a block.
 */
import { decodeResponse } from '../decode-response.ts';
import { JsonCursor, Unusual } from './json-cursor.ts';
import { createNames } from './names.ts';
import type { Scan } from './scan.ts';
import { scanMeta } from './scan-meta.ts';
import { ScannedBlock, type ScannedEntry, type ScannedMeta } from './scanned-block.ts';

const MAX_HEADER_BYTES = 256;

/**
 * Null when the answer is anything but a well-formed result of the usual form: then it has to be parsed, which also tells what is
 * wrong with it. The body is kept and must not be changed afterwards.
 */
export function scanBlockAnswer(body: Buffer): ScannedBlock | null {
  const scan: Scan = { cursor: new JsonCursor(body), names: createNames(), texts: [] };
  try {
    return scanAnswer(scan);
  } catch (error) {
    if (error instanceof Unusual) return null;
    throw error;
  }
}

function scanAnswer(scan: Scan): ScannedBlock {
  const { cursor } = scan;
  let block: ScannedBlock | null = null;
  for (let more = cursor.firstMember(); more; more = cursor.nextMember()) {
    const name = cursor.name(scan.names.answer, -1);
    if (name === 1 || (name === 0 && block !== null)) cursor.refuse();
    if (name === 0) block = scanBlock(scan);
    else cursor.value();
  }
  cursor.peek();
  return cursor.at === cursor.bytes.length && block !== null ? block : cursor.refuse();
}

function scanBlock(scan: Scan): ScannedBlock {
  const { cursor } = scan;
  const { bytes } = cursor;
  const header: Record<string, unknown> = Object.create(null);
  let entries: ScannedEntry[] | null = null;
  for (let more = cursor.firstMember(); more; more = cursor.nextMember()) {
    const name = cursor.nameText().toString('latin1');
    if (name === 'transactions') {
      if (entries !== null) cursor.refuse();
      entries = scanEntries(scan);
      continue;
    }
    const isNumber = isNumberStart(cursor.peek());
    const from = cursor.at;
    cursor.value();
    // What links blocks are short texts and numbers: anything longer is none of these.
    const isShort = cursor.at - from <= MAX_HEADER_BYTES;
    if (isNumber && !isShort) cursor.refuse();
    header[name] = isShort ? decodeResponse(bytes.subarray(from, cursor.at)) : null;
  }
  return entries === null ? cursor.refuse() : new ScannedBlock(bytes, header, entries, scan.texts);
}

function scanEntries(scan: Scan): ScannedEntry[] {
  const { cursor } = scan;
  const entries: ScannedEntry[] = [];
  for (let more = cursor.firstElement(); more; more = cursor.nextElement()) entries.push(scanEntry(scan));
  return entries;
}

function scanEntry(scan: Scan): ScannedEntry {
  const { cursor } = scan;
  let wireFrom = -1;
  let wireTo = -1;
  let meta: ScannedMeta | null = null;
  let name = -1;
  for (let more = cursor.firstMember(); more; more = cursor.nextMember()) {
    name = cursor.name(scan.names.entry, name);
    if (name === 0) {
      if (wireTo >= 0) cursor.refuse();
      if (!cursor.firstElement()) cursor.refuse();
      wireFrom = cursor.characters();
      wireTo = cursor.at - 1;
      if (!cursor.nextElement() || cursor.text() !== 'base64' || cursor.nextElement()) cursor.refuse();
    } else if (name === 1) {
      if (meta !== null) cursor.refuse();
      meta = scanMeta(scan);
    } else cursor.value();
  }
  return wireTo < 0 || meta === null ? cursor.refuse() : { wireFrom, wireTo, meta };
}

function isNumberStart(byte: number): boolean {
  return byte === 0x2d || (byte >= 0x30 && byte <= 0x39);
}
