import { type FileHandle, open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { messageOf } from '../lib/coded-error.ts';
import type { BlockHeader, ChainBlock } from '../ports/block.ts';
import type { ChainId } from '../ports/chain.ts';
import type { Clock } from '../ports/clock.ts';
import type { LedgerReader } from '../ports/ledger.ts';
import type { Log, Metrics } from '../ports/telemetry.ts';
import { makeFolder } from '../runtime/make-folder.ts';
import { createMutex } from '../runtime/semaphore.ts';
import { createAhead, type Encoded } from './ahead.ts';
import { createTrainer, type Dictionary, emptyDictionary, readDictionary, writeDictionary } from './dictionary.ts';
import { ledgerFailed, listFiles, segmentPath, syncFolder } from './files.ts';
import {
  BLOCK,
  CUT,
  DICTIONARY,
  FINAL,
  type Frame,
  HEADER_BYTES,
  INDEX,
  isSound,
  markOf,
  readFrame,
  VERBATIM,
  writeFrame,
} from './frame.ts';
import type { IndexMode } from './lookup/index.ts';
import { payloadOf } from './payload.ts';
import { createSegmentReader, decodedBlock, decodeText } from './reader.ts';
import { rowsOf } from './rows.ts';
import { isSoundRun } from './run.ts';
import {
  addFrame,
  checkSegment,
  type Fault,
  hashNumber,
  indexOf,
  loadSegment,
  newSegment,
  readAt,
  type Segment,
} from './segment.ts';

export { createLedgerReader } from './reader.ts';

/** The blocks of one chain in files. One process writes; what it has not been told to keep is never served. */
export interface Ledger extends LedgerReader {
  /** How long blocks are kept. */
  readonly retainHours: number;
  /** The block is on disk when this resolves. One that is known already is not written again. Errors: LEDGER_IO, LEDGER_FULL. */
  append(block: ChainBlock): Promise<void>;
  /** Begins to encode a block that is appended later, after others. False when it takes no more for now. */
  prepare(block: ChainBlock): boolean;
  /** Blocks above the slot are void. Final ones stay unless `evenFinal`. Errors: as `append`. */
  cut(slot: number, evenFinal?: boolean): Promise<void>;
  /** Errors: as `append`. */
  finalize(slot: number): Promise<void>;
  close(): Promise<void>;
}

export interface LedgerOptions {
  /** Folder of the files; made when it is missing. */
  readonly dir: string;
  readonly chain: ChainId;
  /** Files whose last block is older are removed; fractions are allowed. */
  readonly retainHours: number;
  /** Bytes of all files together. */
  readonly retainBytes: number;
  /** Default `window`. */
  readonly index?: IndexMode;
  /** Threads that encode blocks which wait for their turn; default 0. */
  readonly threads?: number;
  /** Final blocks whose rows are in memory before they go to a file; default 256. */
  readonly flushBlocks?: number;
  readonly clock: Clock;
  readonly log: Log;
  readonly meter: LedgerMeter;
  /** Blocks above any of these slots are kept beyond both bounds, up to twice `retainBytes`: the archive or a sink still needs them. */
  readonly heldAbove?: readonly (() => number)[];
  /** The file system, for tests that let it fail. */
  readonly openFile?: typeof open;
}

const LARGEST_SEGMENT_BYTES = 268_435_456;
/** A file is at most this part of what is retained, so that removing whole files keeps near the bound. */
const PARTS = 8;
/** A dictionary is at most this part of its file. */
const DICTIONARY_PART = 64;
/** Blocks that are added to the index at once. */
const CATCH_UP_BLOCKS = 512;
const TRAINING_BLOCKS = 64;
const TRAINING_BYTES = 4_194_304;
const HOUR_MS = 3_600_000;

/** Opens or makes the ledger of a chain: what a crash left incomplete is cut off. Errors: LEDGER_IO. */
export async function openLedger(options: LedgerOptions): Promise<Ledger> {
  const { dir, chain, clock, log, meter } = options;
  const openFile = options.openFile ?? open;
  const segmentBytes = Math.min(LARGEST_SEGMENT_BYTES, Math.ceil(options.retainBytes / PARTS));
  const exclusive = createMutex();
  let segments = await load(dir);
  /** The writable file; null until the first write. */
  let file: FileHandle | null = null;
  let isBroken = false;
  /** Dictionary of the newest file; null until the first block. */
  let dictionary: Dictionary | null = null;
  let trainer: ReturnType<typeof createTrainer> | null = null;
  let tidying: Promise<void> | null = null;
  let isClosed = false;

  meter.look = () => ({
    bytes: sum(segments.map(({ bytes }) => bytes)) + index.bytes(),
    indexBytes: index.bytes(),
    rows: index.rowCount(),
    blocks: sum(segments.map(({ slots }) => slots.length)),
    oldestSlot: segments.reduce((least, { slots }) => Math.min(least, slots[0] ?? least), Number.MAX_SAFE_INTEGER),
  });

  const mode = options.index ?? 'window';
  const hasIndex = mode !== 'none';
  const reader = createSegmentReader({
    dir,
    chain,
    clock,
    log,
    mode,
    isWriter: true,
    ...(options.flushBlocks === undefined ? {} : { flushBlocks: options.flushBlocks }),
    damaged: () => meter.damaged.add(),
    segments: () => segments,
    refresh: () => Promise.resolve(),
  });
  const { newest, stored, index } = reader;
  const ahead = createAhead({ threads: options.threads ?? 0, hasIndex, chain, clock, log });

  /** Where the next frame goes. Errors: those of the file system. */
  async function writable(): Promise<{ readonly segment: Segment; readonly handle: FileHandle }> {
    const last = segments.at(-1);
    if (file !== null && last !== undefined && !last.isComplete) return { segment: last, handle: file };
    if (last !== undefined && !last.isComplete) {
      file = await openFile(last.path, 'r+');
      // What follows the last whole frame was never acknowledged.
      await file.truncate(last.bytes);
      await file.datasync();
      return { segment: last, handle: file };
    }
    const number = (last?.number ?? 0) + 1;
    const segment = newSegment(number, segmentPath(dir, number));
    const made = await openFile(segment.path, 'w+', 0o600);
    await syncFolder(dir);
    file = made;
    segments = [...segments, segment];
    dictionary = trainer?.make(segmentBytes / DICTIONARY_PART) ?? emptyDictionary();
    if (dictionary.crc !== 0)
      await putFrame(segment, { kind: DICTIONARY, header: markOf(0) }, writeDictionary(dictionary));
    return { segment, handle: file };
  }

  async function putFrame(segment: Segment, { kind, header }: Pick<Frame, 'kind' | 'header'>, payload: Buffer) {
    const frame = writeFrame({ kind, flags: 0, writtenAt: clock.now(), header }, payload);
    isBroken = true;
    for (let done = 0; done < frame.length; ) {
      const { bytesWritten } = await file!.write(frame, done, frame.length - done, segment.bytes + done);
      done += bytesWritten;
    }
    await file!.datasync();
    isBroken = false;
    addFrame(segment, readFrame(frame)!, segment.bytes);
  }

  /** What the next block is encoded with. */
  async function dictionaryToUse(): Promise<Dictionary> {
    if (isBroken) await repair();
    const { segment, handle } = await writable();
    if (dictionary === null) {
      const frame =
        segment.dictionaryAt < 0 ? null : readFrame(await readAt(handle, segment.dictionaryAt, HEADER_BYTES));
      const payload = frame === null ? null : await readAt(handle, segment.dictionaryAt + HEADER_BYTES, frame.payload);
      const isFine = frame?.kind === DICTIONARY && isSound(frame, payload!);
      dictionary = isFine ? readDictionary(payload!) : emptyDictionary();
    }
    trainer ??= createTrainer(dictionary);
    return dictionary;
  }

  async function put(frames: readonly (readonly [Omit<Frame, 'payload' | 'payloadCrc'>, Uint8Array])[], sync = true) {
    try {
      if (isBroken) await repair();
      const { segment, handle } = await writable();
      const parts = frames.map(([frame, payload]) => writeFrame(frame, payload));
      const bytes = Buffer.concat(parts);
      isBroken = true;
      for (let done = 0; done < bytes.length; ) {
        const { bytesWritten } = await handle.write(bytes, done, bytes.length - done, segment.bytes + done);
        done += bytesWritten;
      }
      if (sync) await handle.datasync();
      isBroken = false;
      for (const part of parts) addFrame(segment, readFrame(part)!, segment.bytes);
      meter.written.add(bytes.length);
      await rotate(segment);
    } catch (error) {
      throw ledgerFailed('write', error);
    }
  }

  /** After a failed write: what is on disk behind the last acknowledged frame is cut off before the next one. */
  async function repair(): Promise<void> {
    await file?.close().catch(() => undefined);
    file = null;
    // It may be what was not written.
    dictionary = null;
    await writable();
    isBroken = false;
  }

  async function encode(block: ChainBlock, text: Buffer, used: Dictionary): Promise<Encoded> {
    const rows = hasIndex ? rowsOf(block) : null;
    return { payload: await payloadOf(block, text, used, rows), rows };
  }

  /** Completes a file that is large or old enough, and removes files that are no longer retained. */
  async function rotate(segment: Segment): Promise<void> {
    const now = clock.now();
    const isOld = now - segment.firstAt >= (options.retainHours * HOUR_MS) / PARTS;
    // The first file has no dictionary, so it ends as soon as there is enough to make one.
    const isTrained = segment.dictionaryAt < 0 && (trainer?.blocks ?? 0) >= TRAINING_BLOCKS;
    const isFull = segment.bytes >= segmentBytes || (isTrained && segment.bytes >= TRAINING_BYTES);
    if (segment.slots.length === 0 || (!isFull && !isOld)) return;
    await putFrame(segment, { kind: INDEX, header: markOf(0) }, indexOf(segment));
    await file!.close();
    file = null;
    await retain(now);
  }

  async function retain(now: number): Promise<void> {
    let total = sum(segments.map(({ bytes }) => bytes)) + index.bytes();
    for (const segment of segments.filter(({ isComplete }) => isComplete)) {
      const isOld = now - segment.lastAt > options.retainHours * HOUR_MS;
      if (!isOld && total <= options.retainBytes - segmentBytes) break;
      const newestSlot = segment.slots.at(-1) ?? -1;
      if (options.heldAbove?.some((slot) => newestSlot > slot()) === true) {
        const facts = { chain, file: segment.path, to: segment.slots.at(-1) };
        if (total <= 2 * options.retainBytes - segmentBytes) {
          log.warn(facts, 'old blocks of the ledger are kept longer: the archive or a sink does not have them yet');
          break;
        }
        meter.lost.add();
        log.error(facts, 'old blocks of the ledger were removed before the archive and all sinks had them');
      }
      await rm(segment.path, { force: true });
      segments = segments.filter((each) => each !== segment);
      total -= segment.bytes;
      meter.removed.add();
      log.info(
        { chain, file: segment.path, from: segment.slots[0], to: segment.slots.at(-1) },
        'removed old blocks of the ledger',
      );
    }
    const oldest = segments
      .flatMap(({ slots }) => slots.slice(0, 1))
      .reduce((a, b) => Math.min(a, b), Number.MAX_SAFE_INTEGER);
    await index.retain(oldest);
  }

  /** Moves rows of final blocks to files, beside the writes. */
  function tidy(): void {
    if (!hasIndex || isClosed || tidying !== null) return;
    tidying = catchUp().finally(() => {
      tidying = null;
    });
  }

  /**
   * Adds the blocks that the index lacks, newest first: after a crash, a change of the configuration, or damage. What fails is tried again with
   * the next final block.
   */
  async function catchUp(): Promise<void> {
    try {
      do await index.flush();
      while (!isClosed && !index.isWhole() && (await index.cover(CATCH_UP_BLOCKS)) > 0);
    } catch (error) {
      log.warn({ chain, error: messageOf(error) }, 'the index of the ledger cannot be completed');
    }
  }

  if (hasIndex)
    try {
      await index.clean();
      await index.refresh(CATCH_UP_BLOCKS);
      tidying = catchUp().finally(() => {
        tidying = null;
      });
    } catch (error) {
      throw ledgerFailed('open', error);
    }

  const mark = (kind: number, slot: number) =>
    [{ kind, flags: 0, writtenAt: clock.now(), header: markOf(slot) }, Buffer.alloc(0)] as const;

  return {
    ...reader,
    retainHours: options.retainHours,
    get finalSlot() {
      return reader.finalSlot;
    },
    async append(block) {
      const { answer } = block;
      if (answer === undefined) throw new Error(`block ${block.slot} comes without its text`);
      await exclusive(async () => {
        // Damaged blocks are written again.
        const known = await stored(block.slot, true);
        if (known?.frame.header.blockhash === block.blockhash) return;
        const used = await dictionaryToUse().catch((error: unknown) => {
          throw ledgerFailed('write', error);
        });
        const encoded = (await ahead.take(block, used)) ?? (await encode(block, answer.text(), used));
        const { payload, rows } = encoded;
        if (payload.seen !== null) trainer!.saw(used, payload.seen);
        if (payload.fault !== null) {
          meter.asText.add();
          const facts = { chain, slot: block.slot, reason: payload.fault };
          log.warn(facts, 'a block is stored as text, which is larger: its encoding does not decode to the same block');
        }
        const frame = {
          kind: BLOCK,
          writtenAt: clock.now(),
          header: headerOf(block),
          flags: payload.flags | (answer.isVerbatim ? VERBATIM : 0),
        };
        await put([[frame, payload.bytes]]);
        meter.appended.add();
        if (rows !== null) index.add(block.slot, hashNumber(block.blockhash), rows);
      });
    },
    prepare: (block) => dictionary !== null && ahead.begin(block, dictionary),
    async cut(slot, evenFinal = false) {
      await exclusive(async () => {
        const to = evenFinal ? slot : Math.max(slot, reader.finalSlot);
        if (newest() > to) await put([mark(CUT, to)]);
        index.forgetVoid();
      });
    },
    async finalize(slot) {
      // A mark that is lost only costs a comparison at the next start.
      await exclusive(async () => {
        if (slot > reader.finalSlot) await put([mark(FINAL, slot)], false);
      });
      tidy();
    },
    async close() {
      isClosed = true;
      await Promise.all([tidying, ahead.close()]);
      await exclusive(async () => {
        await file?.datasync().catch(() => undefined);
        await file?.close();
        file = null;
      });
      await reader.closeFiles();
    },
  };
}

const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);

interface Size {
  readonly bytes: number;
  readonly indexBytes: number;
  readonly rows: number;
  readonly blocks: number;
  /** Above every slot when there is no block. */
  readonly oldestSlot: number;
}

export type LedgerMeter = ReturnType<typeof createLedgerMeter>;

/** Declares the metrics of a chain's ledger, which may be opened later. */
export function createLedgerMeter(metrics: Metrics) {
  const meter = {
    look: (): Size => ({ bytes: 0, indexBytes: 0, rows: 0, blocks: 0, oldestSlot: Number.MAX_SAFE_INTEGER }),
    appended: metrics.counter('blocks_appended_total', 'blocks that were written to the ledger'),
    asText: metrics.counter(
      'blocks_as_text_total',
      'blocks that could not be kept in pieces: they are larger, and a transaction is read with its whole block',
    ),
    written: metrics.counter('bytes_written_total', 'bytes that were written to the ledger'),
    removed: metrics.counter('files_removed_total', 'files of the ledger that the retention removed'),
    lost: metrics.counter(
      'files_unarchived_total',
      'files of the ledger that were removed before the archive and all sinks had their blocks',
    ),
    damaged: metrics.counter('blocks_damaged_total', 'reads of blocks that are damaged on disk'),
  };
  metrics.observe('disk_bytes', 'bytes of all files of the ledger', () => meter.look().bytes);
  metrics.observe('index_bytes', 'bytes of the index files of the ledger', () => meter.look().indexBytes);
  metrics.observe('index_rows', 'rows in the index of the ledger', () => meter.look().rows);
  metrics.observe('blocks', 'blocks in the ledger', () => meter.look().blocks);
  metrics.observe('oldest_slot', 'oldest slot in the ledger; 0 without one', () => {
    const { oldestSlot } = meter.look();
    return oldestSlot === Number.MAX_SAFE_INTEGER ? 0 : oldestSlot;
  });
  return meter;
}

async function load(dir: string): Promise<readonly Segment[]> {
  try {
    makeFolder(dir);
    const segments: Segment[] = [];
    for (const { number, path } of (await listFiles(dir)).segments) segments.push(await loadSegment(number, path));
    // Nothing is added to a file below the newest, complete or not.
    for (const segment of segments.slice(0, -1)) segment.isComplete = true;
    return segments;
  } catch (error) {
    throw ledgerFailed('open', error);
  }
}

function headerOf({
  slot,
  parentSlot,
  blockhash,
  previousBlockhash,
  blockHeight,
  blockTime,
}: BlockHeader): BlockHeader {
  return { slot, parentSlot, blockhash, previousBlockhash, blockHeight, blockTime };
}

export interface LedgerCheck {
  readonly files: number;
  readonly blocks: number;
  readonly bytes: number;
  readonly faults: readonly Fault[];
}

/** Reads and decodes every block of the files in a folder, also while they are being written. Errors: LEDGER_IO. */
export async function verifyLedger(dir: string): Promise<LedgerCheck> {
  try {
    const files = await listFiles(dir);
    const checks = [];
    for (const { path } of files.segments)
      checks.push(
        await checkSegment(path, async (frame, payload, dictionary) => {
          const text = await decodeText({ frame, payload }, async (crc) =>
            crc === 0 ? emptyDictionary() : dictionary,
          );
          if (text === null) throw new Error('a piece is damaged');
          const { blockhash } = decodedBlock(frame.header.slot, text);
          if (blockhash !== frame.header.blockhash) throw new Error('another block');
        }),
      );
    const runs: Fault[] = [];
    for (const path of files.runs.map((name) => join(dir, name)))
      if (!(await isSoundRun(path))) runs.push({ path, place: 0, slot: null });
    return {
      files: files.segments.length,
      blocks: sum(checks.map(({ blocks }) => blocks)),
      bytes: sum(checks.map(({ bytes }) => bytes)),
      faults: [...checks.flatMap(({ faults }) => faults), ...runs],
    };
  } catch (error) {
    throw ledgerFailed('read', error);
  }
}
