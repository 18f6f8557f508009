import type { FileHandle } from 'node:fs/promises';
import { decode32 } from '../lib/base58.ts';
import { CodedError, codeOf } from '../lib/coded-error.ts';
import type { ChainBlock } from '../ports/block.ts';
import type { ChainId } from '../ports/chain.ts';
import type { Clock } from '../ports/clock.ts';
import type { LedgerReader } from '../ports/ledger.ts';
import type { Log } from '../ports/telemetry.ts';
import { elementsOf, transactionOf } from '../solana/block-text.ts';
import { decodeBlock, decodeEntries } from '../solana/decode/decode-block.ts';
import { scanBlockAnswer } from '../solana/decode/scan-block.ts';
import { memoOf } from '../solana/memo.ts';
import { type Scratch, withScratch } from './bytes.ts';
import { type Dictionary, emptyDictionary, readDictionary } from './dictionary.ts';
import { createOpenFiles, ledgerFailed, listFiles } from './files.ts';
import { BLOCK, DICTIONARY, type Frame, HEADER_BYTES, isSound, PARTS, readFrame, VERBATIM } from './frame.ts';
import { createIndex, type IndexMode, type LedgerIndex } from './lookup/index.ts';
import { LIKELY_HEAD_BYTES, PayloadReader, plainText } from './payload.ts';
import { rowsOf } from './rows.ts';
import { loadSegment, lowerBound, readAt, type Segment, updateSegment } from './segment.ts';

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

/** A block as it stands in a file. */
export interface StoredBlock {
  readonly frame: Frame;
  readonly payload: Buffer;
}

export interface SegmentReader extends LedgerReader {
  readonly index: LedgerIndex;
  /** `whole`: with its payload. Null when the block is unknown or damaged. Errors: LEDGER_IO. */
  stored(slot: number, whole: boolean): Promise<StoredBlock | null>;
  /** Closes the files that are open; they may be used again. */
  closeFiles(): Promise<void>;
}

export function createSegmentReader({ chain, clock, log, damaged, refresh, ...parts }: ReaderParts): SegmentReader {
  const { segments } = parts;
  const dictionaries = createDictionaries();
  const files = createOpenFiles(clock);
  const top = () => parts.trustedTo?.() ?? Number.MAX_SAFE_INTEGER;

  const finalSlot = () => segments().reduce((slot, each) => Math.max(Math.min(slot, each.cutTo), each.finalSlot), -1);

  /** Where the block of a slot stands. A later file replaces an earlier one, and its cuts apply to it. */
  function find(slot: number): { readonly segment: Segment; readonly at: number } | null {
    if (slot > top()) return null;
    const all = segments();
    for (let number = all.length - 1; number >= 0; number--) {
      const segment = all[number]!;
      const { slots } = segment;
      if (slots.length > 0 && slot >= slots[0]! && slot <= slots.at(-1)!) {
        const at = lowerBound(slots, slot);
        if (slots[at] === slot) return { segment, at };
      }
      if (segment.cutTo < slot) return null;
    }
    return null;
  }

  function newest(atMost = Number.MAX_SAFE_INTEGER): number {
    const all = segments();
    let found = -1;
    let limit = Math.min(atMost, top());
    for (let number = all.length - 1; number >= 0; number--) {
      const { slots, cutTo } = all[number]!;
      found = Math.max(found, slots[lowerBound(slots, limit + 1) - 1] ?? -1);
      limit = Math.min(limit, cutTo);
    }
    return found;
  }

  /** Blocks that were written out of order end the run early, which is safe. */
  function firstOfRun(): number {
    const all = segments();
    let lowest = -1;
    let parent: number | null = null;
    let limit = top();
    for (let number = all.length - 1; number >= 0; number--) {
      const { slots, parents, cutTo } = all[number]!;
      for (let at = lowerBound(slots, limit + 1) - 1; at >= 0; at--) {
        if (parent !== null && slots[at] !== parent) return lowest;
        lowest = slots[at]!;
        parent = parents[at]!;
      }
      limit = Math.min(limit, cutTo);
    }
    return lowest;
  }

  /** The lowest known block above a slot. */
  function above(slot: number): { readonly slot: number; readonly parent: number } | null {
    const all = segments();
    let found: { slot: number; parent: number } | null = null;
    let limit = top();
    for (let number = all.length - 1; number >= 0; number--) {
      const { slots, parents, cutTo } = all[number]!;
      const at = lowerBound(slots, slot + 1);
      const lowest = slots[at];
      if (lowest !== undefined && lowest <= limit && lowest < (found?.slot ?? Number.POSITIVE_INFINITY))
        found = { slot: lowest, parent: parents[at]! };
      limit = Math.min(limit, cutTo);
    }
    return found;
  }

  function state(slot: number) {
    if (find(slot) !== null) return 'block';
    const next = above(slot);
    return next !== null && next.parent < slot ? 'skipped' : 'unknown';
  }

  /** Opens the file of a block; null when it is unknown. Errors: LEDGER_IO, and those of `work`. */
  async function within<T>(
    slot: number,
    work: (handle: FileHandle, segment: Segment, place: number) => Promise<T>,
  ): Promise<T | null> {
    const found = find(slot);
    if (found === null) return null;
    const { segment, at } = found;
    try {
      return await files.use(segment.path, (handle) => work(handle, segment, segment.places[at]!));
    } catch (error) {
      // Removed by the retention since it was found.
      if (codeOf(error) === 'ENOENT') return null;
      throw ledgerFailed('read', error);
    }
  }

  function sawDamage(slot: number): null {
    damaged();
    log.error({ chain, slot, file: find(slot)?.segment.path }, 'a block of the ledger is damaged and is not served');
    return null;
  }

  const stored = (slot: number, whole: boolean): Promise<StoredBlock | null> =>
    within(slot, async (handle, _segment, place) => {
      const frame = readFrame(await readAt(handle, place, HEADER_BYTES));
      const isRight = frame !== null && frame.kind === BLOCK && frame.header.slot === slot;
      const payload = isRight && whole ? await readAt(handle, place + HEADER_BYTES, frame.payload) : Buffer.alloc(0);
      return isRight && (!whole || isSound(frame, payload)) ? { frame, payload } : sawDamage(slot);
    });

  /** Reads pieces of a block. What cannot be decoded is damaged: null. */
  const pieces = <T>(
    slot: number,
    work: (payload: PayloadReader, frame: Frame) => Promise<T | null>,
    scratch?: Scratch,
  ) =>
    within(slot, async (handle, segment, place) => {
      const bytes = await readAt(handle, place, HEADER_BYTES + LIKELY_HEAD_BYTES, scratch);
      const frame = readFrame(bytes);
      if (frame === null || frame.kind !== BLOCK || frame.header.slot !== slot) return sawDamage(slot);
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
      const payload = await PayloadReader.open(read, (crc) => dictionaries.of(segment, handle, crc));
      try {
        return (payload === null ? null : await work(payload, frame)) ?? sawDamage(slot);
      } catch (error) {
        if (codeOf(error) !== undefined && !String(codeOf(error)).startsWith('Z_')) throw error;
        return sawDamage(slot);
      }
    });

  async function readText(slot: number): Promise<{ frame: Frame; text: Buffer } | null> {
    const found = await stored(slot, true);
    if (found === null) return null;
    const text = await decodeText(found, (crc) =>
      within(slot, (handle, segment) => dictionaries.of(segment, handle, crc)),
    ).catch((error: unknown) => {
      if (codeOf(error) === 'LEDGER_IO') throw error;
      return null;
    });
    return text === null ? sawDamage(slot) : { frame: found.frame, text };
  }

  async function demandText(slot: number): Promise<{ frame: Frame; text: Buffer } | null> {
    const found = await readText(slot);
    if (found === null && find(slot) !== null) throw damagedAt(slot);
    return found;
  }

  async function demandBlock(slot: number): Promise<ChainBlock | null> {
    const found = await demandText(slot);
    return found === null ? null : decodedBlock(slot, found.text);
  }

  const damagedAt = (slot: number) =>
    new CodedError('LEDGER_DAMAGED', `block ${slot} of the ledger is damaged`, { facts: { slot } });

  /** Like `pieces`, but reads the whole block if it has no pieces. Null when it is unknown. Errors: LEDGER_IO, LEDGER_DAMAGED. */
  async function ofBlock<T>(
    slot: number,
    some: (payload: PayloadReader, frame: Frame) => Promise<T | null>,
    whole: (block: ChainBlock) => T,
  ): Promise<T | null> {
    const found = await pieces(slot, some);
    if (found === null && find(slot) !== null) throw damagedAt(slot);
    if (found !== OTHER_FORM) return found;
    const block = await demandBlock(slot);
    return block === null ? null : whole(block);
  }

  const index = createIndex({
    dir: parts.dir,
    chain,
    files,
    log,
    index: parts.mode,
    isWriter: parts.isWriter,
    ...(parts.flushBlocks === undefined ? {} : { flushBlocks: parts.flushBlocks }),
    blocks: {
      newest: () => newest(),
      get finalSlot() {
        return Math.min(finalSlot(), top());
      },
      hashAt(slot) {
        const found = find(slot);
        return found === null ? -1 : found.segment.hashes[found.at]!;
      },
      parentAt: (slot) => {
        const found = find(slot);
        return found === null ? -1 : found.segment.parents[found.at]!;
      },
      *segments() {
        let limit = top();
        for (const segment of segments().toReversed()) {
          const { slots, number, outOfOrder, isComplete } = segment;
          yield { number, outOfOrder, isComplete, slots: downFrom(slots, lowerBound(slots, limit + 1)) };
          limit = Math.min(limit, segment.cutTo);
        }
      },
      async rows(slot) {
        const found = await pieces(slot, async (payload) => (await payload.rows()) ?? OTHER_FORM);
        if (found !== OTHER_FORM) return found;
        const text = await readText(slot);
        return text === null ? null : rowsOf(decodedBlock(slot, text.text));
      },
      details: (slot, indexes) =>
        ofBlock(
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
        ofBlock(
          slot,
          async (payload) => (await payload.signatures([index]))?.get(index) ?? null,
          ({ transactions }) => transactions[index]!.signatures[0]!,
        ),
      findIn: async (slot, signature) =>
        (await ofBlock(
          slot,
          (payload) => payload.findSignature(signature),
          ({ transactions }) =>
            transactions.findIndex(({ signatures }) => Buffer.from(signature).equals(signatures[0]!)),
        )) ?? -1,
    },
  });

  function states(from: number, to: number) {
    const blocks: number[] = [];
    const unknown: number[] = [];
    for (let slot = from; slot <= to; slot++) {
      const is = state(slot);
      if (is === 'block') blocks.push(slot);
      else if (is === 'unknown') unknown.push(slot);
    }
    return { blocks, unknown };
  }

  return {
    get finalSlot() {
      return Math.min(finalSlot(), top());
    },
    newest,
    firstOfRun,
    state,
    states,
    refresh,
    stored,
    index,
    closeFiles: files.close,
    async header(slot) {
      await refresh();
      return (await stored(slot, false))?.frame.header ?? null;
    },
    async text(slot) {
      await refresh();
      const found = await readText(slot);
      return found === null || (found.frame.flags & VERBATIM) === 0 ? null : found.text;
    },
    async block(slot) {
      await refresh();
      const found = await readText(slot);
      if (found === null) return null;
      const block = decodedBlock(slot, found.text);
      // Only the frame knows whether a node sent the text.
      const isVerbatim = (found.frame.flags & VERBATIM) !== 0;
      return { ...block, answer: { ...block.answer!, isVerbatim } };
    },
    async part(slot, signatures) {
      await refresh();
      const found = await readText(slot);
      if (found === null) return null;
      const wanted = new Set(signatures);
      const whole = decodedBlock(slot, found.text);
      const indexes = whole.transactions.filter(({ signature }) => wanted.has(signature)).map(({ index: at }) => at);
      if (indexes.length < wanted.size) return null;
      const texts = elementsOf(found.text);
      const entries = indexes.map((at) => JSON.parse(texts[at]!.toString()) as unknown);
      return { ...found.frame.header, ...decodeEntries(slot, entries, decode32(whole.blockhash)!) };
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
        pieces(
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
      if (found === null && find(slot) !== null) throw damagedAt(slot);
      if (found === null) return null;
      if (found !== OTHER_FORM) return transactionOf(found.header, place, found.text);
      const whole = await demandText(slot);
      return whole === null ? null : transactionOf(whole.frame.header, place, elementsOf(whole.text)[place.index]);
    },
  };
}

/** The first items of a list, in reverse order. */
function* downFrom(slots: readonly number[], count: number): Generator<number> {
  for (let at = count - 1; at >= 0; at--) yield slots[at]!;
}

const BEFORE = Buffer.from('{"result":');
const AFTER = Buffer.from('}');

/** Decodes stored text the way the chain adapter decodes an answer. Errors: those of `decodeBlock`. */
export function decodedBlock(slot: number, text: Buffer): ChainBlock {
  const answer = Buffer.concat([BEFORE, text, AFTER]);
  return decodeBlock(slot, scanBlockAnswer(answer) ?? (JSON.parse(text.toString()) as unknown));
}

/** The block is in a form without pieces. */
const OTHER_FORM = Symbol('other form');
const NO_SUCH = Symbol('no such transaction');

const MAX_DICTIONARIES = 8;

/** The dictionaries of the segments that were read last. */
function createDictionaries() {
  const recent = new Map<string, Promise<Dictionary | null>>();
  const empty = emptyDictionary();

  async function load(segment: Segment, handle: FileHandle, crc: number): Promise<Dictionary | null> {
    const frame = readFrame(await readAt(handle, segment.dictionaryAt, HEADER_BYTES));
    if (frame?.kind !== DICTIONARY) return null;
    const payload = await readAt(handle, segment.dictionaryAt + HEADER_BYTES, frame.payload);
    return isSound(frame, payload) && frame.payloadCrc === crc ? readDictionary(payload) : null;
  }

  return {
    /** Null when it is damaged or missing. Errors: those of the file system. */
    async of(segment: Segment, handle: FileHandle, crc: number): Promise<Dictionary | null> {
      if (crc === 0) return empty;
      if (segment.dictionaryAt < 0) return null;
      const name = `${segment.number} ${crc}`;
      let found = recent.get(name);
      if (found === undefined) found = load(segment, handle, crc);
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
    },
  };
}

/** The text of a block; null when it is damaged. Errors: those of the decoder, for bytes that are none of its own. */
export async function decodeText(
  { frame, payload }: StoredBlock,
  dictionary: (crc: number) => Promise<Dictionary | null>,
): Promise<Buffer | null> {
  if ((frame.flags & PARTS) === 0) return await plainText(payload);
  const read = (at: number, length: number) => Promise.resolve(payload.subarray(at, at + length));
  const reader = await PayloadReader.open(read, dictionary);
  return reader === null ? null : await reader.text();
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

  const finalSlot = () => segments.reduce((slot, each) => Math.max(Math.min(slot, each.cutTo), each.finalSlot), -1);

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
    trustedTo: () => (isLeftBehind ? finalSlot() : Number.MAX_SAFE_INTEGER),
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
