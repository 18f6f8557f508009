import { setImmediate as yieldToOthers } from 'node:timers/promises';
import { encode32 } from '../lib/base58.ts';
import { codeOf, messageOf } from '../lib/coded-error.ts';
import type { Clock } from '../ports/clock.ts';
import type { ArchiveEngine, LedgerReader } from '../ports/ledger.ts';
import type { Log, Metrics } from '../ports/telemetry.ts';
import { backoffMs } from '../runtime/waiting.ts';
import { createTables, Rows } from './tables.ts';

/** A batch ends with the first bound that is reached. */
const BATCH_SLOTS = 512;
const BATCH_BYTES = 32 * 1_048_576;
/** A batch that is not full waits so long for more slots: few large parts are what a MergeTree wants. */
const BATCH_AGE_MS = 5_000;
const POLL_MS = 500;
const LONGEST_PAUSE_MS = 60_000;

export type ArchiveMeter = ReturnType<typeof createArchiveMeter>;

export function createArchiveMeter(metrics: Metrics) {
  const meter = {
    look: () => ({ slot: 0, behind: 0 }),
    blocks: metrics.counter('blocks_total', 'blocks that were written to the archive'),
    failures: metrics.counter('failures_total', 'batches that could not be written to the archive and are tried again'),
    holes: metrics.counter(
      'holes_total',
      'ranges of slots that the archive has not, because the ledger had them no longer or never',
    ),
  };
  metrics.observe('slot', 'newest slot of the archive; 0 before the first', () => meter.look().slot);
  metrics.observe(
    'behind_slots',
    'final slots of the ledger that are not in the archive yet',
    () => meter.look().behind,
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
  /** Final slots up to it are in the archive; -1 as long as that is not known. */
  readonly slot: number;
  /** Ends after the batch in flight. */
  stop(): Promise<void>;
}

/** Where the writer stands: everything from `first` to `last` is in the archive. */
interface ArchivedRange {
  readonly first: number;
  readonly last: number;
}

/**
 * Copies final blocks of the ledger to the archive, in order, behind the follower and never in its way: it reads files that the follower
 * has written, one block per turn of the event loop. What is in the archive is known from the archive alone, so a batch that was
 * interrupted is written again, and its rows replace the earlier ones. Failures are tried again for ever.
 */
export function startArchiveWriter(options: ArchiveWriterOptions): ArchiveWriter {
  const { engine, ledger, clock, log, meter } = options;
  const { batchAgeMs = BATCH_AGE_MS, pollMs = POLL_MS } = options;
  const stopping = new AbortController();
  const { signal } = stopping;
  let slot = -1;
  /** Null: has to be asked of the archive. */
  let run: ArchivedRange | null = null;
  let isReady = false;
  meter.look = () => ({ slot: Math.max(0, slot), behind: slot < 0 ? 0 : Math.max(0, ledger.finalSlot - slot) });

  async function findRun(): Promise<ArchivedRange | null> {
    if (!isReady) await createTables(engine);
    isReady = true;
    const [found] = await engine.select<{ first: string; last: string; hash: string }>(
      `SELECT first, last, hex(hash) AS hash FROM ${engine.database}.ranges ORDER BY last DESC LIMIT 1`,
    );
    if (found === undefined) return null;
    const last = Number(found.last);
    const ours = await ledger.header(ledger.newest(last));
    const hash = encode32(Buffer.from(found.hash, 'hex'));
    // The hash is that of the newest block of the range, which the ledger may have no longer.
    if (ours !== null && ledger.newest(last) >= Number(found.first) && ours.blockhash !== hash && (await knows(last)))
      throw new Error(`the archive ends with another block ${ours.slot}: it is of another chain`);
    return { first: Number(found.first), last };
  }

  /** Whether the ledger knows every slot from its newest block at or below this one. */
  const knows = async (last: number): Promise<boolean> => {
    for (let at = ledger.newest(last) + 1; at <= last; at++) if (ledger.state(at) === 'unknown') return false;
    return true;
  };

  /** The slots of the next batch; null when there is nothing to write. */
  async function next(): Promise<readonly [from: number, first: number] | null> {
    run ??= await findRun();
    let from = run === null ? 0 : run.last + 1;
    const wanted = from;
    if (run !== null) slot = run.last;
    if (from > ledger.finalSlot) return null;
    // Slots that are unknown are passed over: the lowest known block begins a new range.
    if (ledger.state(from) === 'unknown') {
      const lowest = lowestFrom(from);
      if (lowest < 0) return null;
      from = lowest;
      while (from > wanted && ledger.state(from - 1) === 'skipped') from -= 1;
      if (run !== null) {
        meter.holes.add();
        log.error({ from: wanted, to: from - 1 }, 'slots are missing in the archive: the ledger does not have them');
      }
    }
    return [from, run !== null && from === wanted ? run.first : from];
  }

  /** The lowest final block at or above a slot; -1 without one. */
  function lowestFrom(from: number): number {
    let found = -1;
    for (let at = ledger.newest(ledger.finalSlot); at >= from; at = ledger.newest(at - 1)) found = at;
    return found;
  }

  async function writeBatch(from: number, first: number, isOld: boolean): Promise<boolean> {
    const final = ledger.finalSlot;
    if (!isOld && final - from + 1 < BATCH_SLOTS) return false;
    const rows = new Rows();
    let blocks = 0;
    let last = from - 1;
    let hash: string | null = null;
    for (let at = from; at <= final && at - from < BATCH_SLOTS && rows.bytes < BATCH_BYTES; at++) {
      const state = ledger.state(at);
      if (state === 'unknown') break;
      if (state === 'block') {
        const block = await ledger.block(at);
        // Damaged: it is repaired from an upstream or stays a hole.
        if (block === null) break;
        rows.add(block, (await ledger.text(at)) !== null);
        hash = block.blockhash;
        blocks += 1;
        await yieldToOthers();
      }
      last = at;
      if (signal.aborted) return false;
    }
    hash ??= (await ledger.header(ledger.newest(last)))?.blockhash ?? null;
    if (last < from || hash === null) throw new Error(`block ${from} of the ledger cannot be read`);
    // Until the answer is there the batch may be in the archive or not.
    run = null;
    await rows.insert(engine, [first, last], hash);
    run = { first, last };
    slot = last;
    meter.blocks.add(blocks);
    return true;
  }

  async function loop(): Promise<void> {
    let failures = 0;
    let waitsSince = clock.now();
    while (!signal.aborted) {
      let pause = pollMs;
      try {
        const batch = await next();
        if (batch === null) waitsSince = clock.now();
        else if (await writeBatch(...batch, clock.now() - waitsSince >= batchAgeMs)) {
          waitsSince = clock.now();
          pause = 0;
        }
        if (failures > 0) log.info({ archive: engine.name }, 'the archive is written again');
        failures = 0;
      } catch (error) {
        failures += 1;
        run = null;
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
      return slot;
    },
    stop() {
      stopping.abort();
      return running;
    },
  };
}
