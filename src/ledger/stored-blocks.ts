import type { FileHandle } from 'node:fs/promises';
import { CodedError, codeOf } from '../lib/coded-error.ts';
import type { ChainBlock } from '../ports/block.ts';
import type { ChainId } from '../ports/chain.ts';
import type { Log } from '../ports/telemetry.ts';
import { decodeBlock } from '../solana/decode/decode-block.ts';
import { scanBlockAnswer } from '../solana/decode/scan-block.ts';
import type { Scratch } from './bytes.ts';
import { type Dictionary, emptyDictionary, readDictionary } from './dictionary.ts';
import { ledgerFailed, type OpenFiles } from './files.ts';
import { BLOCK, DICTIONARY, type Frame, HEADER_BYTES, isSound, PARTS, readFrame } from './frame.ts';
import type { KeptSlots } from './kept-slots.ts';
import { LIKELY_HEAD_BYTES, PayloadReader, plainText } from './payload.ts';
import { readAt, type Segment } from './segment.ts';

/** A block as it stands in a file. */
export interface StoredFrame {
  readonly frame: Frame;
  readonly payload: Buffer;
}

/** The text of a block, with its frame. */
export interface StoredText {
  readonly frame: Frame;
  readonly text: Buffer;
}

interface StoredBlocksParts {
  readonly chain: ChainId;
  readonly log: Log;
  /** Counts reads of damaged blocks. */
  readonly damaged: () => void;
  readonly files: OpenFiles;
  readonly slots: KeptSlots;
}

/** The block is in a form without pieces. */
export const OTHER_FORM = Symbol('other form');

/** Reads blocks, or pieces of them, from the files that have them. A damaged block is logged and never served. */
export class StoredBlocks {
  private readonly parts: StoredBlocksParts;
  private readonly dictionaries = new Dictionaries();

  constructor(parts: StoredBlocksParts) {
    this.parts = parts;
  }

  /** `whole`: with its payload. Null when the block is unknown or damaged. Errors: LEDGER_IO. */
  frameAt(slot: number, whole: boolean): Promise<StoredFrame | null> {
    return this.within(slot, async (handle, _segment, place) => {
      const frame = readFrame(await readAt(handle, place, HEADER_BYTES));
      const isRight = frame !== null && frame.kind === BLOCK && frame.header.slot === slot;
      const payload = isRight && whole ? await readAt(handle, place + HEADER_BYTES, frame.payload) : Buffer.alloc(0);
      return isRight && (!whole || isSound(frame, payload)) ? { frame, payload } : this.sawDamage(slot);
    });
  }

  /** Reads pieces of a block. What cannot be decoded is damaged: null. */
  pieces<T>(
    slot: number,
    work: (payload: PayloadReader, frame: Frame) => Promise<T | null>,
    scratch?: Scratch,
  ): Promise<T | typeof OTHER_FORM | null> {
    return this.within(slot, async (handle, segment, place) => {
      const bytes = await readAt(handle, place, HEADER_BYTES + LIKELY_HEAD_BYTES, scratch);
      const frame = readFrame(bytes);
      if (frame === null || frame.kind !== BLOCK || frame.header.slot !== slot) return this.sawDamage(slot);
      if ((frame.flags & PARTS) === 0) return OTHER_FORM;
      const end = place + HEADER_BYTES + frame.payload;
      const read = (at: number, length: number) => {
        if (at + length <= LIKELY_HEAD_BYTES && at + length <= frame.payload)
          return Promise.resolve(bytes.subarray(HEADER_BYTES + at, HEADER_BYTES + at + length));
        return readAt(
          handle,
          place + HEADER_BYTES + at,
          Math.max(0, Math.min(length, end - place - HEADER_BYTES - at)),
          scratch,
        );
      };
      const payload = await PayloadReader.open(read, (crc) => this.dictionaries.of(segment, handle, crc));
      try {
        return (payload === null ? null : await work(payload, frame)) ?? this.sawDamage(slot);
      } catch (error) {
        if (codeOf(error) !== undefined && !String(codeOf(error)).startsWith('Z_')) throw error;
        return this.sawDamage(slot);
      }
    });
  }

  /** Null when the block is unknown or damaged. Errors: LEDGER_IO. */
  async text(slot: number): Promise<StoredText | null> {
    const found = await this.frameAt(slot, true);
    if (found === null) return null;
    const text = await decodeText(found, (crc) =>
      this.within(slot, (handle, segment) => this.dictionaries.of(segment, handle, crc)),
    ).catch((error: unknown) => {
      if (codeOf(error) === 'LEDGER_IO') throw error;
      return null;
    });
    return text === null ? this.sawDamage(slot) : { frame: found.frame, text };
  }

  /** Null when the block is unknown. Errors: LEDGER_IO, LEDGER_DAMAGED. */
  async demandText(slot: number): Promise<StoredText | null> {
    return this.demanded(slot, await this.text(slot));
  }

  /** Like `pieces`, but reads the whole block if it has no pieces. Null when it is unknown. Errors: LEDGER_IO, LEDGER_DAMAGED. */
  async demandPieces<T>(
    slot: number,
    some: (payload: PayloadReader, frame: Frame) => Promise<T | null>,
    whole: (block: ChainBlock) => T,
  ): Promise<T | null> {
    const found = this.demanded(slot, await this.pieces(slot, some));
    if (found !== OTHER_FORM) return found;
    const text = await this.demandText(slot);
    return text === null ? null : whole(decodedBlock(slot, text.text));
  }

  /** What was found of a block; throws when it is null although the block is known. */
  demanded<T>(slot: number, found: T | null): T | null {
    if (found === null && this.parts.slots.find(slot) !== null)
      throw new CodedError('LEDGER_DAMAGED', `block ${slot} of the ledger is damaged`, { facts: { slot } });
    return found;
  }

  /** Opens the file of a block; null when it is unknown. Errors: LEDGER_IO, and those of `work`. */
  private async within<T>(
    slot: number,
    work: (handle: FileHandle, segment: Segment, place: number) => Promise<T>,
  ): Promise<T | null> {
    const found = this.parts.slots.find(slot);
    if (found === null) return null;
    const { segment, at } = found;
    try {
      return await this.parts.files.use(segment.path, (handle) => work(handle, segment, segment.places[at]!));
    } catch (error) {
      // Removed by the retention since it was found.
      if (codeOf(error) === 'ENOENT') return null;
      throw ledgerFailed('read', error);
    }
  }

  private sawDamage(slot: number): null {
    const { chain, log, damaged, slots } = this.parts;
    damaged();
    log.error(
      { chain, slot, file: slots.find(slot)?.segment.path },
      'a block of the ledger is damaged and is not served',
    );
    return null;
  }
}

const BEFORE = Buffer.from('{"result":');
const AFTER = Buffer.from('}');

/** Decodes stored text the way the chain adapter decodes an answer. Errors: those of `decodeBlock`. */
export function decodedBlock(slot: number, text: Buffer): ChainBlock {
  const answer = Buffer.concat([BEFORE, text, AFTER]);
  return decodeBlock(slot, scanBlockAnswer(answer) ?? (JSON.parse(text.toString()) as unknown));
}

/** The text of a block; null when it is damaged. Errors: those of the decoder, for bytes that are none of its own. */
export async function decodeText(
  { frame, payload }: StoredFrame,
  dictionary: (crc: number) => Promise<Dictionary | null>,
): Promise<Buffer | null> {
  if ((frame.flags & PARTS) === 0) return await plainText(payload);
  const read = (at: number, length: number) => Promise.resolve(payload.subarray(at, at + length));
  const reader = await PayloadReader.open(read, dictionary);
  return reader === null ? null : await reader.text();
}

const MAX_DICTIONARIES = 8;

/** The dictionaries of the segments that were read last. */
class Dictionaries {
  private readonly recent = new Map<string, Promise<Dictionary | null>>();
  private readonly empty = emptyDictionary();

  /** Null when it is damaged or missing. Errors: those of the file system. */
  async of(segment: Segment, handle: FileHandle, crc: number): Promise<Dictionary | null> {
    if (crc === 0) return this.empty;
    if (segment.dictionaryAt < 0) return null;
    const { recent } = this;
    const name = `${segment.number} ${crc}`;
    let found = recent.get(name);
    if (found === undefined) found = loadDictionary(segment, handle, crc);
    recent.delete(name);
    recent.set(name, found);
    const [oldest] = recent.keys();
    if (recent.size > MAX_DICTIONARIES) recent.delete(oldest!);
    const dictionary = await found.catch((error: unknown) => {
      recent.delete(name);
      throw error;
    });
    if (dictionary === null) recent.delete(name);
    return dictionary;
  }
}

async function loadDictionary(segment: Segment, handle: FileHandle, crc: number): Promise<Dictionary | null> {
  const frame = readFrame(await readAt(handle, segment.dictionaryAt, HEADER_BYTES));
  if (frame?.kind !== DICTIONARY) return null;
  const payload = await readAt(handle, segment.dictionaryAt + HEADER_BYTES, frame.payload);
  return isSound(frame, payload) && frame.payloadCrc === crc ? readDictionary(payload) : null;
}
