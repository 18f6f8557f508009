import { type FileHandle, type open, rm } from 'node:fs/promises';
import type { Clock } from '../ports/clock.ts';
import {
  type BlockUsage,
  createTrainer,
  type Dictionary,
  emptyDictionary,
  readDictionary,
  writeDictionary,
} from './dictionary.ts';
import { ledgerFailed, segmentPath, syncFolder } from './files.ts';
import { DICTIONARY, type Frame, HEADER_BYTES, INDEX, isSound, markOf, readFrame, writeFrame } from './frame.ts';

import { addFrame, indexOf, newSegment, readAt, type Segment } from './segment.ts';

/** A frame to write, and its payload. */
export type NewFrame = readonly [Omit<Frame, 'payload' | 'payloadCrc'>, Uint8Array];

interface WriterParts {
  readonly dir: string;
  readonly clock: Clock;
  /** A file is complete at this size. */
  readonly segmentBytes: number;
  /** Milliseconds after which a file is complete. */
  readonly segmentMs: number;
  /** Counts bytes. */
  readonly written: (bytes: number) => void;
  /** A file was completed, at this time. */
  readonly completed: (now: number) => Promise<void>;
  /** The file system, for tests that let it fail. */
  readonly openFile: typeof open;
}

/** A dictionary is at most this part of its file. */
const DICTIONARY_PART = 64;
const TRAINING_BLOCKS = 64;
const TRAINING_BYTES = 4_194_304;

/** Writes frames to the newest file, and begins another one when that is complete. Callers write one after the other. */
export class SegmentWriter {
  /** All files, oldest first. */
  segments: readonly Segment[];
  private readonly parts: WriterParts;
  /** The writable file; null until the first write. */
  private file: FileHandle | null = null;
  /** A write failed, or has not ended: what is on disk behind the last frame of the file is unknown. */
  private isBroken = false;
  /** Dictionary of the newest file; null until the first block. */
  private dictionary: Dictionary | null = null;
  private trainer: ReturnType<typeof createTrainer> | null = null;

  constructor(parts: WriterParts, segments: readonly Segment[]) {
    this.parts = parts;
    this.segments = segments;
  }

  /** The dictionary of the newest file, if it is in memory. */
  get knownDictionary(): Dictionary | null {
    return this.dictionary;
  }

  /** What the next block is encoded with. Errors: those of the file system. */
  async dictionaryToUse(): Promise<Dictionary> {
    if (this.isBroken) await this.repair();
    const { segment, handle } = await this.writable();
    if (this.dictionary === null) {
      const frame =
        segment.dictionaryAt < 0 ? null : readFrame(await readAt(handle, segment.dictionaryAt, HEADER_BYTES));
      const payload = frame === null ? null : await readAt(handle, segment.dictionaryAt + HEADER_BYTES, frame.payload);
      const isFine = frame?.kind === DICTIONARY && isSound(frame, payload!);
      this.dictionary = isFine ? readDictionary(payload!) : emptyDictionary();
    }
    this.trainer ??= createTrainer(this.dictionary);
    return this.dictionary;
  }

  /** What a block had that was encoded with `dictionary`: the next file's is made of it. */
  learn(dictionary: Dictionary, seen: BlockUsage): void {
    this.trainer?.saw(dictionary, seen);
  }

  /** Acknowledged when this resolves; without `sync` a crash may lose it. Errors: LEDGER_IO, LEDGER_FULL. */
  async put(frames: readonly NewFrame[], sync = true): Promise<void> {
    try {
      if (this.isBroken) await this.repair();
      const { segment } = await this.writable();
      const parts = frames.map(([frame, payload]) => writeFrame(frame, payload));
      const bytes = Buffer.concat(parts);
      await this.write(segment, bytes, sync);
      for (const part of parts) addFrame(segment, readFrame(part)!, segment.bytes);
      this.parts.written(bytes.length);
      await this.rotate(segment);
    } catch (error) {
      throw ledgerFailed('write', error);
    }
  }

  /** Removes a complete file. */
  async remove(segment: Segment): Promise<void> {
    await rm(segment.path, { force: true });
    this.segments = this.segments.filter((each) => each !== segment);
  }

  async close(): Promise<void> {
    await this.file?.datasync().catch(() => undefined);
    await this.file?.close();
    this.file = null;
  }

  /** Where the next frame goes. Errors: those of the file system. */
  private async writable(): Promise<{ readonly segment: Segment; readonly handle: FileHandle }> {
    const { dir, openFile, segmentBytes } = this.parts;
    const last = this.segments.at(-1);
    if (this.file !== null && last !== undefined && !last.isComplete) return { segment: last, handle: this.file };
    if (last !== undefined && !last.isComplete) {
      this.file = await openFile(last.path, 'r+');
      // What follows the last whole frame was never acknowledged.
      await this.file.truncate(last.bytes);
      await this.file.datasync();
      return { segment: last, handle: this.file };
    }
    const number = (last?.number ?? 0) + 1;
    const segment = newSegment(number, segmentPath(dir, number));
    const made = await openFile(segment.path, 'w+', 0o600);
    await syncFolder(dir);
    this.file = made;
    this.segments = [...this.segments, segment];
    this.dictionary = this.trainer?.make(segmentBytes / DICTIONARY_PART) ?? emptyDictionary();
    if (this.dictionary.crc !== 0) await this.putFrame(segment, DICTIONARY, writeDictionary(this.dictionary));
    return { segment, handle: this.file };
  }

  private async putFrame(segment: Segment, kind: number, payload: Buffer): Promise<void> {
    const frame = writeFrame({ kind, flags: 0, writtenAt: this.parts.clock.now(), header: markOf(0) }, payload);
    await this.write(segment, frame, true);
    addFrame(segment, readFrame(frame)!, segment.bytes);
  }

  private async write(segment: Segment, bytes: Buffer, sync: boolean): Promise<void> {
    const file = this.file!;
    this.isBroken = true;
    for (let done = 0; done < bytes.length; ) {
      const { bytesWritten } = await file.write(bytes, done, bytes.length - done, segment.bytes + done);
      done += bytesWritten;
    }
    if (sync) await file.datasync();
    this.isBroken = false;
  }

  /** After a failed write: what is on disk behind the last acknowledged frame is cut off before the next one. */
  private async repair(): Promise<void> {
    await this.file?.close().catch(() => undefined);
    this.file = null;
    // It may be what was not written.
    this.dictionary = null;
    await this.writable();
    this.isBroken = false;
  }

  /** Completes a file that is large or old enough. */
  private async rotate(segment: Segment): Promise<void> {
    const { clock, segmentBytes, segmentMs, completed } = this.parts;
    const now = clock.now();
    const isOld = now - segment.firstAt >= segmentMs;
    // The first file has no dictionary, so it ends as soon as there is enough to make one.
    const isTrained = segment.dictionaryAt < 0 && (this.trainer?.blocks ?? 0) >= TRAINING_BLOCKS;
    const isFull = segment.bytes >= segmentBytes || (isTrained && segment.bytes >= TRAINING_BYTES);
    if (segment.slots.length === 0 || (!isFull && !isOld)) return;
    await this.putFrame(segment, INDEX, indexOf(segment));
    await this.file!.close();
    this.file = null;
    await completed(now);
  }
}
