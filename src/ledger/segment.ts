import { type FileHandle, open } from 'node:fs/promises';
import { decode32 } from '../lib/base58.ts';
import type { Scratch } from './bytes.ts';
import { type Dictionary, readDictionary } from './dictionary.ts';
import {
  BLOCK,
  CUT,
  DICTIONARY,
  FINAL,
  type Frame,
  findFrame,
  HEADER_BYTES,
  INDEX,
  isSound,
  readFrame,
} from './frame.ts';

/** What is known in memory of one file: about 32 bytes a block. */
export interface Segment {
  readonly number: number;
  readonly path: string;
  /** Bytes that hold frames. */
  bytes: number;
  /** Blocks in ascending order of their slots: four lists of the same length. */
  readonly slots: number[];
  readonly parents: number[];
  readonly places: number[];
  /** The first 48 bits of each blockhash. */
  readonly hashes: number[];
  /** Blocks of earlier segments above it are void; infinite without a cut. */
  cutTo: number;
  finalSlot: number;
  /** Unix ms of the first and the last frame. */
  firstAt: number;
  lastAt: number;
  /** Place of its dictionary; -1 without one. */
  dictionaryAt: number;
  /** Blocks that were written below others, as those of a filled gap. */
  outOfOrder: number;
  /** Byte ranges without sound frames. */
  damaged: number;
  /** Its index is written: nothing is added to it any more. */
  isComplete: boolean;
}

export const newSegment = (number: number, path: string): Segment => ({
  number,
  path,
  bytes: 0,
  slots: [],
  parents: [],
  places: [],
  hashes: [],
  cutTo: Number.POSITIVE_INFINITY,
  finalSlot: -1,
  firstAt: 0,
  lastAt: 0,
  dictionaryAt: -1,
  outOfOrder: 0,
  damaged: 0,
  isComplete: false,
});

/** Index of the lowest slot at or above `slot`. */
export function lowerBound(slots: readonly number[], slot: number): number {
  let [from, to] = [0, slots.length];
  while (from < to) {
    const middle = (from + to) >>> 1;
    if (slots[middle]! < slot) from = middle + 1;
    else to = middle;
  }
  return from;
}

/** The first 48 bits of a blockhash. */
export const hashNumber = (blockhash: string): number => Buffer.from(decode32(blockhash)!.buffer).readUIntBE(0, 6);

/** Applies a frame, which stands at `place`, to what is known of its segment. */
export function addFrame(segment: Segment, { kind, header, writtenAt, payload }: Frame, place: number): void {
  const { slots, parents, places, hashes } = segment;
  if (kind === BLOCK) {
    const at = lowerBound(slots, header.slot);
    const replaced = slots[at] === header.slot ? 1 : 0;
    if (at < slots.length) segment.outOfOrder += 1;
    slots.splice(at, replaced, header.slot);
    parents.splice(at, replaced, header.parentSlot);
    places.splice(at, replaced, place);
    hashes.splice(at, replaced, hashNumber(header.blockhash));
  } else if (kind === CUT) {
    const kept = lowerBound(slots, header.slot + 1);
    for (const list of [slots, parents, places, hashes]) list.length = kept;
    segment.cutTo = Math.min(segment.cutTo, header.slot);
    segment.finalSlot = Math.min(segment.finalSlot, header.slot);
  } else if (kind === FINAL) segment.finalSlot = Math.max(segment.finalSlot, header.slot);
  else if (kind === DICTIONARY) segment.dictionaryAt = place;
  else if (kind === INDEX) segment.isComplete = true;
  if (segment.bytes === 0) segment.firstAt = writtenAt;
  segment.lastAt = writtenAt;
  segment.bytes = place + HEADER_BYTES + payload;
}

/** The payload of the index: see README.md. */
export function indexOf({ cutTo, finalSlot, firstAt, dictionaryAt, slots, parents, places, hashes }: Segment): Buffer {
  const numbers = [cutTo, finalSlot, firstAt, dictionaryAt, slots.length];
  for (let at = 0; at < slots.length; at++) numbers.push(slots[at]!, parents[at]!, places[at]!, hashes[at]!);
  const bytes = Buffer.alloc(numbers.length * 8 + 8);
  for (const [at, value] of numbers.entries()) bytes.writeDoubleLE(value, at * 8);
  // The last bytes of the file lead to the frame.
  bytes.writeDoubleLE(bytes.length + HEADER_BYTES, bytes.length - 8);
  return bytes;
}

async function readIndex(file: FileHandle, segment: Segment, size: number): Promise<boolean> {
  const tail = await readAt(file, Math.max(0, size - 8), 8);
  const length = tail.length === 8 ? tail.readDoubleLE(0) : Number.NaN;
  if (!Number.isSafeInteger(length) || length < HEADER_BYTES + 48 || length > size) return false;
  const bytes = await readAt(file, size - length, length);
  const frame = readFrame(bytes);
  const payload = bytes.subarray(HEADER_BYTES);
  if (frame?.kind !== INDEX || !isSound(frame, payload)) return false;
  const number = (at: number) => payload.readDoubleLE(at * 8);
  segment.cutTo = number(0);
  segment.finalSlot = number(1);
  for (let at = 0; at < number(4); at++) {
    segment.slots.push(number(5 + at * 4));
    segment.parents.push(number(6 + at * 4));
    segment.places.push(number(7 + at * 4));
    segment.hashes.push(number(8 + at * 4));
  }
  segment.dictionaryAt = number(3);
  addFrame(segment, frame, size - length);
  segment.firstAt = number(2);
  return true;
}

/** Fewer bytes at the end of the file. */
export async function readAt(file: FileHandle, at: number, length: number, scratch?: Scratch): Promise<Buffer> {
  const bytes = scratch?.take(length) ?? Buffer.allocUnsafe(length);
  let read = 0;
  while (read < length) {
    const { bytesRead } = await file.read(bytes, read, length - read, at + read);
    if (bytesRead === 0) break;
    read += bytesRead;
  }
  return bytes.subarray(0, read);
}

/**
 * Reads what a file holds: from its index, else from the headers of its frames. `segment.bytes` is then the end of the last whole frame;
 * what follows it was never acknowledged. Damage in the middle is passed over. Errors: those of the file system.
 */
export async function loadSegment(number: number, path: string): Promise<Segment> {
  const file = await open(path, 'r');
  try {
    const { size } = await file.stat();
    const segment = newSegment(number, path);
    if (await readIndex(file, segment, size)) return segment;
    for await (const { frame, place } of framesOf(file, size, segment)) addFrame(segment, frame, place);
    return segment;
  } finally {
    await file.close();
  }
}

/** A segment with the frames that another process has added since. The given one stays as it is. Errors: as `loadSegment`. */
export async function updateSegment(known: Segment): Promise<Segment> {
  // On storage that hosts share, only who opens a file sees at once what another one wrote.
  const file = await open(known.path, 'r');
  try {
    const { size } = await file.stat();
    if (size === known.bytes) return known;
    if (size < known.bytes) return await loadSegment(known.number, known.path);
    const { slots, parents, places, hashes } = known;
    const lists = { slots: [...slots], parents: [...parents], places: [...places], hashes: [...hashes] };
    const segment = { ...known, ...lists };
    for await (const { frame, place } of framesOf(file, size, segment, known.bytes)) addFrame(segment, frame, place);
    return segment;
  } finally {
    await file.close();
  }
}

/** The frames of a file in order. The payload of the last one is checked: only it can be incomplete after a crash. */
async function* framesOf(file: FileHandle, size: number, segment: { damaged: number }, from = 0) {
  for (let place = from; place < size; ) {
    const frame = readFrame(await readAt(file, place, HEADER_BYTES));
    const end = frame === null ? size + 1 : place + HEADER_BYTES + frame.payload;
    const isWhole =
      frame !== null &&
      (end < size || (end === size && isSound(frame, await readAt(file, place + HEADER_BYTES, frame.payload))));
    if (isWhole) {
      yield { frame, place };
      place = end;
      continue;
    }
    const rest = await readAt(file, place + 1, size - place - 1);
    const next = findFrame(rest, 0);
    if (next < 0) return;
    segment.damaged += 1;
    place += 1 + next;
  }
}

/** A damaged place of a file. */
export interface FrameFault {
  readonly path: string;
  readonly place: number;
  /** Null when the header cannot be read. */
  readonly slot: number | null;
}

/** Reads everything in a file. `onBlock` gets each block with a sound payload; what it throws makes the block a fault. */
export async function checkSegment(
  path: string,
  onBlock: (frame: Frame, payload: Buffer, dictionary: Dictionary | null) => Promise<void>,
): Promise<{ readonly blocks: number; readonly bytes: number; readonly faults: readonly FrameFault[] }> {
  const file = await open(path, 'r');
  const faults: FrameFault[] = [];
  let [blocks, place] = [0, 0];
  let dictionary: Dictionary | null = null;
  try {
    const { size } = await file.stat();
    while (place < size) {
      const frame = readFrame(await readAt(file, place, HEADER_BYTES));
      if (frame === null) {
        const next = findFrame(await readAt(file, place + 1, size - place - 1), 0);
        faults.push({ path, place, slot: null });
        place = next < 0 ? size : place + 1 + next;
        continue;
      }
      const payload = await readAt(file, place + HEADER_BYTES, frame.payload);
      if (frame.kind === DICTIONARY && isSound(frame, payload)) dictionary = readDictionary(payload);
      const isFine =
        isSound(frame, payload) &&
        (frame.kind !== BLOCK ||
          (await onBlock(frame, payload, dictionary).then(
            () => true,
            () => false,
          )));
      if (!isFine) faults.push({ path, place, slot: frame.kind === BLOCK ? frame.header.slot : null });
      else if (frame.kind === BLOCK) blocks += 1;
      place += HEADER_BYTES + frame.payload;
    }
    return { blocks, bytes: size, faults };
  } finally {
    await file.close();
  }
}
