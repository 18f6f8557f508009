import { open } from 'node:fs/promises';
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
import { type Dictionary, emptyDictionary } from './dictionary.ts';
import { ledgerFailed, listFiles } from './files.ts';
import { BLOCK, CUT, FINAL, markOf, VERBATIM } from './frame.ts';
import type { IndexMode, LedgerIndex } from './lookup/index.ts';
import { payloadOf } from './payload.ts';
import { createSegmentReader } from './reader.ts';
import { rowsOf } from './rows.ts';
import { isSoundRun } from './run.ts';
import { checkSegment, type FrameFault, hashNumber, loadSegment, type Segment } from './segment.ts';
import { type NewFrame, SegmentWriter } from './segment-writer.ts';
import { decodedBlock, decodeText } from './stored-blocks.ts';

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
/** Blocks that are added to the index at once. */
const CATCH_UP_BLOCKS = 512;
const HOUR_MS = 3_600_000;

/** Opens or makes the ledger of a chain: what a crash left incomplete is cut off. Errors: LEDGER_IO. */
export async function openLedger(options: LedgerOptions): Promise<Ledger> {
  const { dir, chain, clock, log, meter } = options;
  const mode = options.index ?? 'window';
  const hasIndex = mode !== 'none';
  const exclusive = createMutex();
  const writer = new SegmentWriter(
    {
      dir,
      clock,
      segmentBytes: segmentBytesOf(options),
      segmentMs: (options.retainHours * HOUR_MS) / PARTS,
      written: (bytes) => meter.written.add(bytes),
      completed: (now) => retain(options, writer, index, now),
      openFile: options.openFile ?? open,
    },
    await load(dir),
  );
  const reader = createSegmentReader({
    dir,
    chain,
    clock,
    log,
    mode,
    isWriter: true,
    ...(options.flushBlocks === undefined ? {} : { flushBlocks: options.flushBlocks }),
    damaged: () => meter.damaged.add(),
    segments: () => writer.segments,
    refresh: () => Promise.resolve(),
  });
  const { newest, stored, index } = reader;
  const ahead = createAhead({ threads: options.threads ?? 0, hasIndex, chain, clock, log });
  const tidier = new IndexTidier(index, (error) =>
    log.warn({ chain, error: messageOf(error) }, 'the index of the ledger cannot be completed'),
  );

  meter.look = () => {
    const { segments } = writer;
    return {
      bytes: sum(segments.map(({ bytes }) => bytes)) + index.bytes(),
      indexBytes: index.bytes(),
      rows: index.rowCount(),
      blocks: sum(segments.map(({ slots }) => slots.length)),
      oldestSlot: segments.reduce((least, { slots }) => Math.min(least, slots[0] ?? least), Number.MAX_SAFE_INTEGER),
    };
  };

  async function encode(block: ChainBlock, text: Buffer, used: Dictionary): Promise<Encoded> {
    const rows = hasIndex ? rowsOf(block) : null;
    return { payload: await payloadOf(block, text, used, rows), rows };
  }

  if (hasIndex)
    try {
      await index.clean();
      await index.refresh(CATCH_UP_BLOCKS);
      tidier.start();
    } catch (error) {
      throw ledgerFailed('open', error);
    }

  const mark = (kind: number, slot: number): NewFrame => [
    { kind, flags: 0, writtenAt: clock.now(), header: markOf(slot) },
    Buffer.alloc(0),
  ];

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
        const used = await writer.dictionaryToUse().catch((error: unknown) => {
          throw ledgerFailed('write', error);
        });
        const encoded = (await ahead.take(block, used)) ?? (await encode(block, answer.text(), used));
        const { payload, rows } = encoded;
        if (payload.seen !== null) writer.learn(used, payload.seen);
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
        await writer.put([[frame, payload.bytes]]);
        meter.appended.add();
        if (rows !== null) index.add(block.slot, hashNumber(block.blockhash), rows);
      });
    },
    prepare: (block) => writer.knownDictionary !== null && ahead.begin(block, writer.knownDictionary),
    async cut(slot, evenFinal = false) {
      await exclusive(async () => {
        const to = evenFinal ? slot : Math.max(slot, reader.finalSlot);
        if (newest() > to) await writer.put([mark(CUT, to)]);
        index.forgetVoid();
      });
    },
    async finalize(slot) {
      // A mark that is lost only costs a comparison at the next start.
      await exclusive(async () => {
        if (slot > reader.finalSlot) await writer.put([mark(FINAL, slot)], false);
      });
      if (hasIndex) tidier.start();
    },
    async close() {
      await Promise.all([tidier.close(), ahead.close()]);
      await exclusive(() => writer.close());
      await reader.closeFiles();
    },
  };
}

const segmentBytesOf = ({ retainBytes }: LedgerOptions) =>
  Math.min(LARGEST_SEGMENT_BYTES, Math.ceil(retainBytes / PARTS));

/** Removes complete files that are too old, or too many: oldest first, and none that the archive or a sink still needs. */
async function retain(options: LedgerOptions, writer: SegmentWriter, index: LedgerIndex, now: number): Promise<void> {
  const { chain, log, meter, retainBytes, heldAbove } = options;
  const segmentBytes = segmentBytesOf(options);
  let total = sum(writer.segments.map(({ bytes }) => bytes)) + index.bytes();
  for (const segment of writer.segments.filter(({ isComplete }) => isComplete)) {
    const isOld = now - segment.lastAt > options.retainHours * HOUR_MS;
    if (!isOld && total <= retainBytes - segmentBytes) break;
    const newestSlot = segment.slots.at(-1) ?? -1;
    if (heldAbove?.some((slot) => newestSlot > slot()) === true) {
      const facts = { chain, file: segment.path, to: segment.slots.at(-1) };
      if (total <= 2 * retainBytes - segmentBytes) {
        log.warn(facts, 'old blocks of the ledger are kept longer: the archive or a sink does not have them yet');
        break;
      }
      meter.lost.add();
      log.error(facts, 'old blocks of the ledger were removed before the archive and all sinks had them');
    }
    await writer.remove(segment);
    total -= segment.bytes;
    meter.removed.add();
    log.info(
      { chain, file: segment.path, from: segment.slots[0], to: segment.slots.at(-1) },
      'removed old blocks of the ledger',
    );
  }
  const oldest = writer.segments
    .flatMap(({ slots }) => slots.slice(0, 1))
    .reduce((a, b) => Math.min(a, b), Number.MAX_SAFE_INTEGER);
  await index.retain(oldest);
}

/** Moves rows of final blocks to files of the index, and adds the blocks that it lacks, beside the writes. */
class IndexTidier {
  private readonly index: LedgerIndex;
  private readonly failed: (error: unknown) => void;
  private running: Promise<void> | null = null;
  private isClosed = false;

  constructor(index: LedgerIndex, failed: (error: unknown) => void) {
    this.index = index;
    this.failed = failed;
  }

  start(): void {
    if (this.isClosed || this.running !== null) return;
    this.running = this.catchUp().finally(() => {
      this.running = null;
    });
  }

  async close(): Promise<void> {
    this.isClosed = true;
    await this.running;
  }

  /**
   * Blocks that are lacking are added newest first: after a crash, a change of the configuration, or damage. What fails is tried again with the
   * next final block.
   */
  private async catchUp(): Promise<void> {
    const { index } = this;
    try {
      do await index.flush();
      while (!this.isClosed && !index.isWhole() && (await index.cover(CATCH_UP_BLOCKS)) > 0);
    } catch (error) {
      this.failed(error);
    }
  }
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
  readonly faults: readonly FrameFault[];
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
    const runs: FrameFault[] = [];
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
