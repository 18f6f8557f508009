/** The bytes of transactions, in whichever encoding the node sent them, one after the other in one buffer. */
import { decode } from '../../lib/base58.ts';
import { badTransaction } from './faults.ts';
import { wireFromJson } from './wire-from-json.ts';

/** A wire transaction never comes near this; it keeps a broken node from costing a long base58 run. */
const MAX_BASE58_CHARACTERS = 32_768;

export interface WireBytes {
  readonly bytes: Uint8Array;
  /** Where each transaction begins; one more entry tells where the last one ends. */
  readonly starts: Uint32Array;
}

/** Reads the `transaction` member of each entry. Throws CHAIN_BAD_TRANSACTION (facts {index, reason}). */
export function wireBytesOf(entries: readonly unknown[]): WireBytes {
  const sources = entries.map((entry, index) => sourceOf(entry as WireEntry | null, index));
  let total = 0;
  for (const source of sources) total += typeof source === 'string' ? Math.max(0, base64Length(source)) : source.length;
  // A buffer of its own, not from the pool: views on it live as long as the block.
  const bytes = Buffer.allocUnsafeSlow(total);
  const starts = new Uint32Array(entries.length + 1);
  let at = 0;
  for (let index = 0; index < sources.length; index++) {
    const source = sources[index]!;
    starts[index] = at;
    if (typeof source === 'string') {
      const length = base64Length(source);
      // The decoder passes over characters outside the alphabet, so a short result means there were some.
      if (bytes.write(source, at, 'base64') !== length) throw badTransaction(index, 'not base64');
      at += length;
    } else {
      bytes.set(source, at);
      at += source.length;
    }
  }
  starts[entries.length] = at;
  return { bytes, starts };
}

interface WireEntry {
  readonly transaction?: unknown;
  readonly version?: unknown;
}

/** base64 text, or bytes of the other encodings. */
function sourceOf(entry: WireEntry | null, index: number): string | Uint8Array {
  const transaction = entry?.transaction;
  if (Array.isArray(transaction)) {
    const [text, encoding] = transaction;
    if (typeof text === 'string' && encoding === 'base64') return text;
    if (typeof text === 'string' && encoding === 'base58') return fromBase58(text, index);
    throw badTransaction(index, 'unknown encoding');
  }
  const bytes = wireFromJson(transaction, entry?.version);
  if (typeof bytes === 'string') throw badTransaction(index, bytes);
  return bytes;
}

function fromBase58(text: string, index: number): Uint8Array {
  const bytes = text.length <= MAX_BASE58_CHARACTERS ? decode(text) : null;
  if (bytes === null) throw badTransaction(index, 'not base58');
  return bytes;
}

/** Bytes that the text stands for; -1 for a length that no base64 text has. */
export function base64Length(text: string): number {
  let characters = text.length;
  while (characters > 0 && characters > text.length - 2 && text.charCodeAt(characters - 1) === 0x3d) characters--;
  return characters % 4 === 1 ? -1 : Math.floor((characters * 3) / 4);
}
