import { setImmediate as yieldToOthers } from 'node:timers/promises';
import { codeOf, messageOf } from '../../src/lib/coded-error.ts';
import type { ChainId } from '../../src/ports/chain.ts';
import type { Clock } from '../../src/ports/clock.ts';
import type { ArchiveEngine, LedgerReader } from '../../src/ports/ledger.ts';
import type { SinkBlock, SinkKind, SinkPosition, SinkTarget } from '../../src/ports/sink.ts';
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
class LedgerCopier implements ArchiveWriter {
  private readonly options: ArchiveWriterOptions;
  private readonly kind: SinkKind;
  private readonly batchAgeMs: number;
  private readonly pollMs: number;
  private readonly stopping = new AbortController();
  private readonly signal = this.stopping.signal;
  /** Newest slot that is known to be in the archive; -1 before that is known. */
  private newest = -1;
  private target: SinkTarget | null = null;
  private failures = 0;
  /** Code of the last failure; null: the last batch was written. Messages may name hosts. */
  private failedWith: string | null = null;
  /** What is in the archive, ascending; null: has to be asked of it. */
  private archived: readonly SinkPosition[] | null = null;
  /** What was in the archive when that was last known. A batch in flight changes nothing of it. */
  private holes: readonly SlotRange[] = [];
  private readonly running: Promise<void>;

  constructor(options: ArchiveWriterOptions) {
    this.options = options;
    this.kind = archiveKind(options.engine);
    const { batchAgeMs = this.kind.batch.seconds * 1_000, pollMs = POLL_MS } = options;
    this.batchAgeMs = batchAgeMs;
    this.pollMs = pollMs;
    options.meter.look = () => {
      const slot = this.reached();
      const isKnown = this.newest >= 0;
      return {
        slot: Math.max(0, this.newest),
        behind: isKnown ? Math.max(0, options.ledger.finalSlot - slot) : 0,
        missing: this.holes.reduce((sum, [from, to]) => sum + to - from + 1, 0),
      };
    };
    this.running = this.loop();
  }

  /** The hole that the ledger can fill now, at least in part; null without one. */
  private fillable(): SlotRange | null {
    return this.holes.find((given) => this.isInLedger(given)) ?? null;
  }

  private isInLedger([from, to]: SlotRange): boolean {
    return this.options.ledger.state(from) !== 'unknown' || this.options.ledger.newest(to) >= from;
  }

  private reached(): number {
    return Math.min(this.newest, (this.fillable()?.[0] ?? Number.POSITIVE_INFINITY) - 1);
  }

  private setArchived(positions: readonly SinkPosition[]): void {
    this.archived = positions;
    this.newest = positions.at(-1)?.last ?? -1;
    this.holes = holesOf(positions);
  }

  private async readArchived(): Promise<readonly SinkPosition[]> {
    this.target ??= await this.kind.open({
      name: 'archive',
      tables: [],
      version: 1,
      target: this.options.engine.name,
      options: {},
    });
    const positions = await this.target.positions();
    const last = positions.at(-1);
    if (last === undefined) return [];
    const ours = await this.options.ledger.header(this.options.ledger.newest(last.last));
    // The hash is that of the newest block of the range, which the ledger may have no longer.
    if (ours !== null && ours.slot >= last.first && ours.blockhash !== last.blockhash && (await this.knows(last.last)))
      throw new Error(`the archive ends with another block ${ours.slot}: it is of another chain`);
    return positions;
  }

  /** Whether the ledger knows every slot from its newest block at or below this one. */
  private async knows(last: number): Promise<boolean> {
    for (let at = this.options.ledger.newest(last) + 1; at <= last; at++)
      if (this.options.ledger.state(at) === 'unknown') return false;
    return true;
  }

  /** The slots above all that is in the archive; null when there are none to write. */
  private async nextAbove(): Promise<SlotRange | null> {
    if (this.archived === null) this.setArchived(await this.readArchived());
    const wanted = this.newest + 1;
    if (wanted > this.options.ledger.finalSlot) return null;
    const from = this.knownFrom([wanted, this.options.ledger.finalSlot]);
    if (from === null) return null;
    return [from, this.options.ledger.finalSlot];
  }

  /** The lowest slot of a range that the ledger knows; null without one. */
  private knownFrom([low, high]: SlotRange): number | null {
    if (this.options.ledger.state(low) !== 'unknown') return low;
    let from = -1;
    for (let at = this.options.ledger.newest(high); at >= low; at = this.options.ledger.newest(at - 1)) from = at;
    if (from < 0) return null;
    while (from > low && this.options.ledger.state(from - 1) === 'skipped') from -= 1;
    return from;
  }

  /** The slots of a hole that the ledger has by now; null without any. */
  private nextInHole(): SlotRange | null {
    const hole = this.fillable();
    const from = hole === null ? null : this.knownFrom(hole);
    return hole === null || from === null ? null : [from, hole[1]];
  }

  /** A block as a target takes it; null if the ledger cannot read it. */
  private async blockAt(slot: number): Promise<SinkBlock | null> {
    const [header, text] = [await this.options.ledger.header(slot), await this.options.ledger.text(slot)];
    if (header === null) return null;
    if (text !== null) return { ...header, text, isVerbatim: true };
    // In another form than that of a node.
    const answer = (await this.options.ledger.block(slot))?.answer;
    return answer === undefined ? null : { ...header, text: answer.text(), isVerbatim: false };
  }

  /** Writes the first slots of a range that fit into a batch, up to the first that the ledger does not know. */
  private async writeBatch([from, to]: SlotRange): Promise<void> {
    const blocks: SinkBlock[] = [];
    let bytes = 0;
    let last = from - 1;
    for (let at = from; at <= to && at - from < this.kind.batch.slots && bytes < BATCH_BYTES; at++) {
      const state = this.options.ledger.state(at);
      if (state === 'unknown') break;
      if (state === 'block') {
        const block = await this.blockAt(at);
        // Damaged: it is repaired from an upstream or stays a hole.
        if (block === null) break;
        blocks.push(block);
        bytes += block.text.length;
        await yieldToOthers();
      }
      last = at;
      if (this.signal.aborted) return;
    }
    const blockhash =
      blocks.at(-1)?.blockhash ?? (await this.options.ledger.header(this.options.ledger.newest(last)))?.blockhash;
    if (last < from || blockhash === undefined) throw new Error(`block ${from} of the ledger cannot be read`);
    const [before, wanted] = [this.archived!, this.newest + 1];
    const after = before.find((position) => position.last === from - 1) ?? null;
    const part = after?.part ?? `from-${from}`;
    const position = { part, first: after?.first ?? from, last, blockhash };
    // Until the answer is there the batch may be in the archive or not.
    this.archived = null;
    const written = await this.target!.write({ after, position, first: from, rows: new Map(), blocks });
    const others = before.filter((one) => one !== after);
    // Parts that meet are one from now on.
    const meets = others.some(({ first }) => first === last + 1);
    this.setArchived(
      meets ? await this.target!.positions() : [...others, written].toSorted((one, other) => one.first - other.first),
    );
    this.options.meter.blocks.add(blocks.length);
    if (last < this.newest)
      this.options.log.info({ from, to: last }, 'slots that were missing in the archive are written');
    if (wanted === 0 || from <= wanted) return;
    this.options.meter.holes.add();
    this.options.log.error(
      { from: wanted, to: from - 1 },
      'slots are missing in the archive: the ledger does not have them',
    );
  }

  private async loop(): Promise<void> {
    let waitsSince = this.options.clock.now();
    while (!this.signal.aborted) {
      let pause = this.pollMs;
      try {
        const above = await this.nextAbove();
        if (above === null) waitsSince = this.options.clock.now();
        const isFull = above !== null && above[1] - above[0] + 1 >= this.kind.batch.slots;
        const isDue = isFull || (above !== null && this.options.clock.now() - waitsSince >= this.batchAgeMs);
        const batch = isDue ? above : this.nextInHole();
        if (batch !== null) {
          await this.writeBatch(batch);
          if (isDue) waitsSince = this.options.clock.now();
          pause = 0;
        }
        if (this.failures > 0)
          this.options.log.info({ archive: this.options.engine.name }, 'the archive is written again');
        this.failures = 0;
        this.failedWith = null;
      } catch (error) {
        if (this.signal.aborted) break;
        this.failures += 1;
        this.failedWith = codeOf(error) ?? 'the log says why';
        this.archived = null;
        this.options.meter.failures.add();
        pause = backoffMs(this.failures, null, { firstMs: this.pollMs, longestMs: LONGEST_PAUSE_MS });
        const facts = {
          archive: this.options.engine.name,
          code: codeOf(error),
          error: messageOf(error),
          failures: this.failures,
        };
        this.options.log[this.failures > 3 ? 'error' : 'warn'](
          facts,
          'the archive cannot be written; the ledger keeps the blocks until it can',
        );
      }
      if (pause > 0) await this.options.clock.sleep(pause, this.signal).catch(() => undefined);
    }
  }

  get slot() {
    return this.reached();
  }

  readonly status: ArchiveWriter['status'] = () => {
    const [first] = this.holes;
    const missing = first === undefined ? '' : `, slots ${first[0]} to ${first[1]} are missing`;
    const more = this.holes.length > 1 ? ` and those of ${this.holes.length - 1} more ranges` : '';
    if (this.failedWith !== null) return { ok: false, detail: `cannot be written (${this.failedWith})` };
    return { ok: true, detail: this.newest < 0 ? 'has no block yet' : `has slot ${this.newest}${missing}${more}` };
  };

  stop(): Promise<void> {
    this.stopping.abort();
    return this.running;
  }
}

export const startArchiveWriter = (options: ArchiveWriterOptions): ArchiveWriter => new LedgerCopier(options);
