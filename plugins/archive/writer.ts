import { setImmediate as yieldToOthers } from 'node:timers/promises';
import { codeOf, messageOf } from '../../src/lib/coded-error.ts';
import type { ChainId } from '../../src/ports/chain.ts';
import type { Clock } from '../../src/ports/clock.ts';
import type { ArchiveEngine, LedgerReader } from '../../src/ports/ledger.ts';
import type { SinkBlock, SinkPosition, SinkTarget } from '../../src/ports/sink.ts';
import type { Log, Metrics } from '../../src/ports/telemetry.ts';
import { backoffMs } from '../../src/runtime/waiting.ts';
import { holesOf, type SlotRange } from './ranges.ts';
import { archiveKind } from './target.ts';

/** Texts of blocks. Their rows take half as much again. */
const BATCH_BYTES = 24 * 1_048_576;
const POLL_MS = 500;
const LONGEST_PAUSE_MS = 60_000;

export type ArchiveMeter = ReturnType<typeof createArchiveMeter>;

export function createArchiveMeter(metrics: Metrics, chain: ChainId = 'main') {
  const area = chain === 'main' ? '' : `${chain}_`;
  const meter = {
    look: () => ({ slot: 0, behind: 0, missing: 0 }),
    blocks: metrics.counter(`${area}blocks_total`, 'blocks that were written to the archive'),
    failures: metrics.counter(
      `${area}failures_total`,
      'batches that could not be written to the archive and are tried again',
    ),
    holes: metrics.counter(
      `${area}holes_total`,
      'ranges of slots that the archive passed over, because the ledger had them no longer or not yet',
    ),
  };
  metrics.observe(`${area}slot`, 'newest slot of the archive; 0 before the first', () => meter.look().slot);
  metrics.observe(
    `${area}behind_slots`,
    'final slots of the ledger that are not in the archive yet',
    () => meter.look().behind,
  );
  metrics.observe(
    `${area}missing_slots`,
    'slots between the oldest and the newest of the archive that it does not have',
    () => meter.look().missing,
  );
  return meter;
}

export interface ArchiveWriterOptions {
  readonly engine: ArchiveEngine;
  /** In the thread that writes it. */
  readonly ledger: Pick<LedgerReader, 'finalSlot' | 'newest' | 'state' | 'header' | 'block' | 'text'>;
  readonly clock: Clock;
  readonly log: Log;
  readonly meter: ArchiveMeter;
  /** Sleeps shorter, for tests. */
  readonly batchAgeMs?: number;
  readonly pollMs?: number;
}

export interface ArchiveWriter {
  /** Final slots of the ledger up to it are in the archive; -1 as long as that is not known. */
  readonly slot: number;
  /** In words: where it stands, and what is missing; not ok while batches fail. */
  status(): { readonly ok: boolean; readonly detail: string };
  /** Ends after the batch in flight. */
  stop(): Promise<void>;
}

/**
 * Copies final blocks of the ledger to the archive, in order, behind the follower and never in its way: it reads files that the follower
 * has written, one block per turn of the event loop. Slots that the ledger does not have are passed over and remembered as a hole: when the
 * ledger gets them, as a backfill writes them, they are copied too. What is in the archive is known from the archive alone, so a batch that
 * was interrupted is written again, and its rows replace the earlier ones. Failures are tried again for ever.
 */
export function startArchiveWriter(options: ArchiveWriterOptions): ArchiveWriter {
  const { engine, ledger, clock, log, meter } = options;
  const kind = archiveKind(engine);
  const { batchAgeMs = kind.batch.seconds * 1_000, pollMs = POLL_MS } = options;
  const stopping = new AbortController();
  const { signal } = stopping;
  /** Newest slot that is known to be in the archive; -1 before that is known. */
  let newest = -1;
  let target: SinkTarget | null = null;
  let failures = 0;
  /** Code of the last failure; null: the last batch was written. Messages may name hosts. */
  let failedWith: string | null = null;
  /** What is in the archive, ascending; null: has to be asked of it. */
  let archived: readonly SinkPosition[] | null = null;
  /** What was in the archive when that was last known. A batch in flight changes nothing of it. */
  let holes: readonly SlotRange[] = [];

  /** The hole that the ledger can fill now, at least in part; null without one. */
  const fillable = (): SlotRange | null => holes.find(isInLedger) ?? null;

  const isInLedger = ([from, to]: SlotRange): boolean => ledger.state(from) !== 'unknown' || ledger.newest(to) >= from;

  const reached = (): number => Math.min(newest, (fillable()?.[0] ?? Number.POSITIVE_INFINITY) - 1);

  meter.look = () => {
    const slot = reached();
    const isKnown = newest >= 0;
    return {
      slot: Math.max(0, newest),
      behind: isKnown ? Math.max(0, ledger.finalSlot - slot) : 0,
      missing: holes.reduce((sum, [from, to]) => sum + to - from + 1, 0),
    };
  };

  function setArchived(positions: readonly SinkPosition[]): void {
    archived = positions;
    newest = positions.at(-1)?.last ?? -1;
    holes = holesOf(positions);
  }

  async function readArchived(): Promise<readonly SinkPosition[]> {
    target ??= await kind.open({ name: 'archive', tables: [], version: 1, target: engine.name, options: {} });
    const positions = await target.positions();
    const last = positions.at(-1);
    if (last === undefined) return [];
    const ours = await ledger.header(ledger.newest(last.last));
    // The hash is that of the newest block of the range, which the ledger may have no longer.
    if (ours !== null && ours.slot >= last.first && ours.blockhash !== last.blockhash && (await knows(last.last)))
      throw new Error(`the archive ends with another block ${ours.slot}: it is of another chain`);
    return positions;
  }

  /** Whether the ledger knows every slot from its newest block at or below this one. */
  const knows = async (last: number): Promise<boolean> => {
    for (let at = ledger.newest(last) + 1; at <= last; at++) if (ledger.state(at) === 'unknown') return false;
    return true;
  };

  /** The slots above all that is in the archive; null when there are none to write. */
  async function nextAbove(): Promise<SlotRange | null> {
    if (archived === null) setArchived(await readArchived());
    const wanted = newest + 1;
    if (wanted > ledger.finalSlot) return null;
    const from = knownFrom([wanted, ledger.finalSlot]);
    if (from === null) return null;
    return [from, ledger.finalSlot];
  }

  /** The lowest slot of a range that the ledger knows; null without one. */
  function knownFrom([low, high]: SlotRange): number | null {
    if (ledger.state(low) !== 'unknown') return low;
    let from = -1;
    for (let at = ledger.newest(high); at >= low; at = ledger.newest(at - 1)) from = at;
    if (from < 0) return null;
    while (from > low && ledger.state(from - 1) === 'skipped') from -= 1;
    return from;
  }

  /** The slots of a hole that the ledger has by now; null without any. */
  function nextInHole(): SlotRange | null {
    const hole = fillable();
    const from = hole === null ? null : knownFrom(hole);
    return hole === null || from === null ? null : [from, hole[1]];
  }

  /** A block as a target takes it; null if the ledger cannot read it. */
  async function blockAt(slot: number): Promise<SinkBlock | null> {
    const [header, text] = [await ledger.header(slot), await ledger.text(slot)];
    if (header === null) return null;
    if (text !== null) return { ...header, text, isVerbatim: true };
    // In another form than that of a node.
    const answer = (await ledger.block(slot))?.answer;
    return answer === undefined ? null : { ...header, text: answer.text(), isVerbatim: false };
  }

  /** Writes the first slots of a range that fit into a batch, up to the first that the ledger does not know. */
  async function writeBatch([from, to]: SlotRange): Promise<void> {
    const blocks: SinkBlock[] = [];
    let bytes = 0;
    let last = from - 1;
    for (let at = from; at <= to && at - from < kind.batch.slots && bytes < BATCH_BYTES; at++) {
      const state = ledger.state(at);
      if (state === 'unknown') break;
      if (state === 'block') {
        const block = await blockAt(at);
        // Damaged: it is repaired from an upstream or stays a hole.
        if (block === null) break;
        blocks.push(block);
        bytes += block.text.length;
        await yieldToOthers();
      }
      last = at;
      if (signal.aborted) return;
    }
    const blockhash = blocks.at(-1)?.blockhash ?? (await ledger.header(ledger.newest(last)))?.blockhash;
    if (last < from || blockhash === undefined) throw new Error(`block ${from} of the ledger cannot be read`);
    const [before, wanted] = [archived!, newest + 1];
    const after = before.find((position) => position.last === from - 1) ?? null;
    const part = after?.part ?? `from-${from}`;
    const position = { part, first: after?.first ?? from, last, blockhash };
    // Until the answer is there the batch may be in the archive or not.
    archived = null;
    const written = await target!.write({ after, position, first: from, rows: new Map(), blocks });
    const others = before.filter((one) => one !== after);
    // Parts that meet are one from now on.
    const meets = others.some(({ first }) => first === last + 1);
    setArchived(
      meets ? await target!.positions() : [...others, written].toSorted((one, other) => one.first - other.first),
    );
    meter.blocks.add(blocks.length);
    if (last < newest) log.info({ from, to: last }, 'slots that were missing in the archive are written');
    if (wanted === 0 || from <= wanted) return;
    meter.holes.add();
    log.error({ from: wanted, to: from - 1 }, 'slots are missing in the archive: the ledger does not have them');
  }

  async function loop(): Promise<void> {
    let waitsSince = clock.now();
    while (!signal.aborted) {
      let pause = pollMs;
      try {
        const above = await nextAbove();
        if (above === null) waitsSince = clock.now();
        const isFull = above !== null && above[1] - above[0] + 1 >= kind.batch.slots;
        const isDue = isFull || (above !== null && clock.now() - waitsSince >= batchAgeMs);
        const batch = isDue ? above : nextInHole();
        if (batch !== null) {
          await writeBatch(batch);
          if (isDue) waitsSince = clock.now();
          pause = 0;
        }
        if (failures > 0) log.info({ archive: engine.name }, 'the archive is written again');
        failures = 0;
        failedWith = null;
      } catch (error) {
        if (signal.aborted) break;
        failures += 1;
        failedWith = codeOf(error) ?? 'the log says why';
        archived = null;
        meter.failures.add();
        pause = backoffMs(failures, null, { firstMs: pollMs, longestMs: LONGEST_PAUSE_MS });
        const facts = { archive: engine.name, code: codeOf(error), error: messageOf(error), failures };
        log[failures > 3 ? 'error' : 'warn'](
          facts,
          'the archive cannot be written; the ledger keeps the blocks until it can',
        );
      }
      if (pause > 0) await clock.sleep(pause, signal).catch(() => undefined);
    }
  }

  const running = loop();
  return {
    get slot() {
      return reached();
    },
    status() {
      const [first] = holes;
      const missing = first === undefined ? '' : `, slots ${first[0]} to ${first[1]} are missing`;
      const more = holes.length > 1 ? ` and those of ${holes.length - 1} more ranges` : '';
      if (failedWith !== null) return { ok: false, detail: `cannot be written (${failedWith})` };
      return { ok: true, detail: newest < 0 ? 'has no block yet' : `has slot ${newest}${missing}${more}` };
    },
    stop() {
      stopping.abort();
      return running;
    },
  };
}
