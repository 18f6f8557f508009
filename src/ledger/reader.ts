import { decode32 } from '../lib/base58.ts';
import { codeOf } from '../lib/coded-error.ts';
import type { ChainId } from '../ports/chain.ts';
import type { Clock } from '../ports/clock.ts';
import type { LedgerReader } from '../ports/ledger.ts';
import type { Log } from '../ports/telemetry.ts';
import { elementsOf, transactionOf } from '../solana/block-text.ts';
import { decodeEntries } from '../solana/decode/decode-block.ts';
import { memoOf } from '../solana/memo.ts';
import { withScratch } from './bytes.ts';
import { createOpenFiles, ledgerFailed, listFiles } from './files.ts';
import { VERBATIM } from './frame.ts';
import { finalSlotOf, KeptSlots } from './kept-slots.ts';
import { createIndex, type IndexMode, type LedgerIndex } from './lookup/index.ts';
import type { IndexedBlocks } from './lookup/state.ts';

import { rowsOf } from './rows.ts';
import { loadSegment, type Segment, updateSegment } from './segment.ts';
import { decodedBlock, OTHER_FORM, StoredBlocks, type StoredFrame, type StoredText } from './stored-blocks.ts';

/** What reads the segments of a ledger, in the thread that writes them and in others. */

export interface ReaderParts {
  readonly chain: ChainId;
  readonly log: Log;
  /** Counts reads of damaged blocks. */
  readonly damaged: () => void;
  readonly segments: () => readonly Segment[];
  readonly dir: string;
  readonly mode: IndexMode;
  readonly isWriter: boolean;
  readonly flushBlocks?: number;
  /** Slots above it are unknown: the newest blocks of a ledger that the chain has left behind. */
  readonly trustedTo?: () => number;
  readonly clock: Clock;
  /** Errors: LEDGER_IO. */
  readonly refresh: () => Promise<void>;
}

export interface SegmentReader extends LedgerReader {
  readonly index: LedgerIndex;
  /** `whole`: with its payload. Null when the block is unknown or damaged. Errors: LEDGER_IO. */
  stored(slot: number, whole: boolean): Promise<StoredFrame | null>;
  /** Closes the files that are open; they may be used again. */
  closeFiles(): Promise<void>;
}

const NO_SUCH = Symbol('no such transaction');

export function createSegmentReader({ chain, clock, log, damaged, refresh, ...parts }: ReaderParts): SegmentReader {
  const files = createOpenFiles(clock);
  const slots = new KeptSlots(parts.segments, parts.trustedTo);
  const stored = new StoredBlocks({ chain, log, damaged, files, slots });
  const index = createIndex({
    dir: parts.dir,
    chain,
    files,
    log,
    index: parts.mode,
    isWriter: parts.isWriter,
    ...(parts.flushBlocks === undefined ? {} : { flushBlocks: parts.flushBlocks }),
    blocks: indexedBlocks(slots, stored),
  });

  return {
    get finalSlot() {
      return slots.finalSlot;
    },
    newest: (atMost) => slots.newest(atMost),
    firstOfRun: () => slots.firstOfRun(),
    state: (slot) => slots.state(slot),
    states: (from, to) => slots.states(from, to),
    refresh,
    stored: (slot, whole) => stored.frameAt(slot, whole),
    index,
    closeFiles: files.close,
    async header(slot) {
      await refresh();
      return (await stored.frameAt(slot, false))?.frame.header ?? null;
    },
    async text(slot) {
      await refresh();
      const found = await stored.text(slot);
      return found === null || (found.frame.flags & VERBATIM) === 0 ? null : found.text;
    },
    async block(slot) {
      await refresh();
      const found = await stored.text(slot);
      if (found === null) return null;
      const block = decodedBlock(slot, found.text);
      // Only the frame knows whether a node sent the text.
      const isVerbatim = (found.frame.flags & VERBATIM) !== 0;
      return { ...block, answer: { ...block.answer!, isVerbatim } };
    },
    async part(slot, signatures) {
      await refresh();
      const found = await stored.text(slot);
      return found === null ? null : partOf(slot, found, new Set(signatures));
    },
    async find(signature) {
      await refresh();
      return await index.find(signature);
    },
    async addressPage(query) {
      await refresh();
      return await index.page(query);
    },
    async transaction(place) {
      await refresh();
      const { slot } = place;
      const found = await withScratch((scratch) =>
        stored.pieces(
          slot,
          async (payload, { header }) => {
            if (place.index < 0 || place.index >= payload.count) return NO_SUCH;
            const text = await payload.transaction(place.index, scratch.text);
            return text === null ? null : { header, text };
          },
          scratch,
        ),
      );
      if (found === NO_SUCH) return null;
      const known = stored.demanded(slot, found);
      if (known === null) return null;
      if (known !== OTHER_FORM) return transactionOf(known.header, place, known.text);
      const whole = await stored.demandText(slot);
      return whole === null ? null : transactionOf(whole.frame.header, place, elementsOf(whole.text)[place.index]);
    },
  };
}

/** The given transactions of a block; null when it lacks one of them. */
function partOf(slot: number, { frame, text }: StoredText, wanted: ReadonlySet<string>) {
  const whole = decodedBlock(slot, text);
  const indexes = whole.transactions.filter(({ signature }) => wanted.has(signature)).map(({ index: at }) => at);
  if (indexes.length < wanted.size) return null;
  const texts = elementsOf(text);
  const entries = indexes.map((at) => JSON.parse(texts[at]!.toString()) as unknown);
  return { ...frame.header, ...decodeEntries(slot, entries, decode32(whole.blockhash)!) };
}

/** What the index reads from the segments. */
function indexedBlocks(slots: KeptSlots, stored: StoredBlocks): IndexedBlocks {
  return {
    newest: () => slots.newest(),
    get finalSlot() {
      return slots.finalSlot;
    },
    hashAt(slot) {
      const found = slots.find(slot);
      return found === null ? -1 : found.segment.hashes[found.at]!;
    },
    parentAt(slot) {
      const found = slots.find(slot);
      return found === null ? -1 : found.segment.parents[found.at]!;
    },
    segments: () => slots.filesDown(),
    async rows(slot) {
      const found = await stored.pieces(slot, async (payload) => (await payload.rows()) ?? OTHER_FORM);
      if (found !== OTHER_FORM) return found;
      const text = await stored.text(slot);
      return text === null ? null : rowsOf(decodedBlock(slot, text.text));
    },
    details: (slot, indexes) =>
      stored.demandPieces(
        slot,
        async (payload, { header: { blockTime } }) => {
          const [summary, signatures] = await Promise.all([payload.summary(), payload.signatures(indexes)]);
          return summary === null || signatures === null ? null : { blockTime, signatures, ...summary };
        },
        ({ blockTime, transactions, keys }) => ({
          blockTime,
          signatures: new Map(indexes.map((each) => [each, transactions[each]!.signatures[0]!])),
          errors: new Map(transactions.flatMap(({ error, index: each }) => (error === null ? [] : [[each, error]]))),
          memos: new Map(
            transactions.flatMap((tx) => {
              const memo = memoOf(tx, keys);
              return memo === null ? [] : [[tx.index, memo] as const];
            }),
          ),
        }),
      ),
    signatureAt: (slot, index) =>
      stored.demandPieces(
        slot,
        async (payload) => (await payload.signatures([index]))?.get(index) ?? null,
        ({ transactions }) => transactions[index]!.signatures[0]!,
      ),
    findIn: async (slot, signature) =>
      (await stored.demandPieces(
        slot,
        (payload) => payload.findSignature(signature),
        ({ transactions }) => transactions.findIndex(({ signatures }) => Buffer.from(signature).equals(signatures[0]!)),
      )) ?? -1,
  };
}

/** A tail that was not continued for this time although the chain went on is from a process that stopped: it may be on an abandoned fork. */
const STALE_MS = 60_000;

export interface LedgerReaderOptions {
  readonly dir: string;
  readonly chain: ChainId;
  readonly clock: Clock;
  readonly log: Log;
  readonly damaged: () => void;
  /** Default `window`. */
  readonly index?: IndexMode;
  /** Whether the chain is known to have gone on above a slot; default: it always has. */
  readonly isPassed?: (slot: number) => boolean;
}

/** Blocks that a refresh adds to the index at most: more than the writer keeps out of its files. */
const MAX_ADDED = 1_024;

/**
 * Reads the ledger of another thread or process, and follows what it writes. Blocks that are not final are served as long as it writes, or
 * nobody is ahead of them: without an upstream they are what was released last. Nothing is known while the folder is missing.
 */
export function createLedgerReader({
  dir,
  chain,
  clock,
  log,
  index = 'window',
  isPassed = () => true,
  ...options
}: LedgerReaderOptions): LedgerReader {
  let segments: readonly Segment[] = [];
  let isLeftBehind = false;
  let reading: Promise<void> | null = null;

  /** Names of the files of the index. */
  async function look(): Promise<readonly string[]> {
    try {
      const known = new Map(segments.map((segment) => [segment.number, segment]));
      const { segments: found, runs } = await listFiles(dir);
      const next: Segment[] = [];
      for (const { number, path } of found) {
        const segment = known.get(number);
        const isLast = number === found.at(-1)!.number;
        if (segment?.isComplete === true) next.push(segment);
        else if (segment === undefined) next.push(await loadSegment(number, path));
        else {
          const updated = await updateSegment(segment);
          // The folder was made again.
          if (updated.bytes < segment.bytes) await reader.closeFiles();
          next.push(updated);
        }
        if (!isLast) next.at(-1)!.isComplete = true;
      }
      segments = next;
      return runs;
    } catch (error) {
      if (codeOf(error) !== 'ENOENT') throw ledgerFailed('read', error);
      segments = [];
      await reader.closeFiles();
      return [];
    }
  }

  const reader = createSegmentReader({
    dir,
    chain,
    clock,
    log,
    mode: index,
    isWriter: false,
    ...options,
    segments: () => segments,
    trustedTo: () => (isLeftBehind ? finalSlotOf(segments) : Number.MAX_SAFE_INTEGER),
    refresh() {
      reading ??= look()
        .then(async (runs) => {
          isLeftBehind = false;
          isLeftBehind = clock.now() - (segments.at(-1)?.lastAt ?? 0) > STALE_MS && isPassed(reader.newest());
          if (segments.length > 0) await reader.index.refresh(MAX_ADDED, runs);
        })
        .finally(() => {
          reading = null;
        });
      return reading;
    },
  });
  return reader;
}
