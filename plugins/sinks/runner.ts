import { CodedError, codeOf, messageOf } from '../../src/lib/coded-error.ts';
import type { Clock } from '../../src/ports/clock.ts';
import type { OpenSink, SinkKind } from '../../src/ports/sink.ts';
import type { Store } from '../../src/ports/store.ts';
import type { Log } from '../../src/ports/telemetry.ts';
import { backoffMs } from '../../src/runtime/waiting.ts';
import { type BatchBounds, type BatchEvents, OpenBatch } from './batch.ts';
import { otherChain } from './errors.ts';
import type { SinkMeter } from './meter.ts';
import { LIVE, type OpenTarget } from './open-target.ts';
import type { RowParts } from './rows/read-rows.ts';
import type { BlockSource } from './source.ts';
import { addHoles, claimSink, openTasks, readStates, releaseSink, reportSink } from './store.ts';
import { runTask } from './tasks.ts';

const POLL_MS = 500;
const LEASE_MS = 15_000;
const REPORT_MS = 1_000;
const LONGEST_PAUSE_MS = 60_000;

export interface SinkSettings {
  readonly from: 'oldest' | 'now' | number;
  readonly batchSlots: number;
  readonly batchMs: number;
  readonly limitBytes: number;
}

export interface SinkParts {
  readonly sink: OpenSink;
  readonly kind: SinkKind;
  readonly settings: SinkSettings;
  readonly rows: RowParts;
  readonly source: BlockSource;
  readonly events: BatchEvents | null;
  readonly store: () => Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly meter: SinkMeter;
  /** Name of this thread among all that could write the sink. */
  readonly holder: string;
  /** Whether another holder is known to have ended. */
  readonly isGone: (holder: string) => boolean;
  /** Sleeps shorter, for tests. */
  readonly pollMs?: number;
}

/**
 * Writes one sink: reads final blocks from where the target stands, closes a batch at its first bound, writes it, and goes on from the
 * position that the target acknowledged. After any error everything in memory is dropped and the target is asked again, so nothing here
 * can differ from what it has. Several sinks have a runner each and share nothing.
 */
export class SinkRunner {
  readonly #parts: SinkParts;
  readonly #stopping = new AbortController();
  #open: OpenTarget | null = null;
  #batch: { readonly batch: OpenBatch; readonly openedAt: number } | null = null;
  #claimedAt = Number.NEGATIVE_INFINITY;
  #reportedAt = Number.NEGATIVE_INFINITY;
  #reported = '';
  #failures = 0;
  #hole: number | null = null;
  #running: Promise<void> = Promise.resolve();

  constructor(parts: SinkParts) {
    this.#parts = parts;
  }

  start(): void {
    this.#running = this.#loop();
  }

  /** The slot that it waits for, because nobody has it; null: it waits for none. */
  get hole(): number | null {
    return this.#hole;
  }

  /** Ends after the write in flight. */
  async stop(): Promise<void> {
    this.#stopping.abort(new Error('stopped'));
    await this.#running;
  }

  async #loop(): Promise<void> {
    const { sink, clock, pollMs = POLL_MS } = this.#parts;
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      let pause: number;
      try {
        pause = (await this.#step()) ? 0 : pollMs;
        this.#failures = 0;
        this.#hole = null;
      } catch (error) {
        if (signal.aborted) break;
        pause = await this.#failed(error);
      }
      if (pause > 0) await clock.sleep(pause, signal).catch(() => undefined);
    }
    await this.#close();
    await releaseSink(this.#parts.store(), sink.name, this.#parts.holder).catch(() => undefined);
  }

  /** Whether there may be more to do at once. */
  async #step(): Promise<boolean> {
    const { sink, store, source, events, meter } = this.#parts;
    const state = (await readStates(store().read, [sink.name])).get(sink.name)!;
    const final = await source.finalSlot();
    // Also of a target that nobody reaches, or that is paused.
    const last = this.#open?.positions.get(LIVE)?.last ?? state.last;
    meter.lag.with(sink.name).set(last === null || last < 0 ? 0 : Math.max(0, final - last));
    if (state.isPaused || !(await this.#isHolder())) {
      await this.#close();
      return false;
    }
    this.#open ??= await this.#openTarget();
    const { signal } = this.#stopping;
    const fixed = events === null ? final : await events.reader.fix(events.tables, final, signal);
    const hasWritten = await this.#writeLive(fixed);
    const hasWorked = await this.#workOnTask();
    await this.#report(null);
    return hasWritten || hasWorked || fixed < final;
  }

  /** Whether this thread writes the sink. A lease that another one took meanwhile costs a refused batch, and no row. */
  async #isHolder(): Promise<boolean> {
    const { sink, store, clock, holder, isGone } = this.#parts;
    if (clock.monotonic() - this.#claimedAt < LEASE_MS / 3) return true;
    const isOurs = await claimSink(store(), { name: sink.name, holder, now: clock.now(), leaseMs: LEASE_MS, isGone });
    if (isOurs) this.#claimedAt = clock.monotonic();
    return isOurs;
  }

  async #openTarget(): Promise<OpenTarget> {
    const { kind, sink, source } = this.#parts;
    const target = await kind.open(sink);
    try {
      const positions = await target.positions();
      for (const { last, blockhash } of positions) {
        const header = await source.headerAt(last);
        if (header !== null && header.blockhash !== blockhash) throw otherChain(header.slot);
      }
      return { target, positions: new Map(positions.map((position) => [position.part, position])) };
    } catch (error) {
      await target.close();
      throw error;
    }
  }

  async #writeLive(final: number): Promise<boolean> {
    const { settings, source, clock } = this.#parts;
    const open = this.#open!;
    const position = open.positions.get(LIVE) ?? null;
    const first = position === null ? await this.#firstSlot(final) : position.last + 1;
    if (first === null || first > final) return false;
    this.#batch ??= { batch: new OpenBatch(LIVE, position, first), openedAt: clock.monotonic() };
    const { batch, openedAt } = this.#batch;
    const { batchSlots: slots, limitBytes } = settings;
    await batch.read(source, final, this.#bounds(), this.#stopping.signal);
    const isFull = batch.slots >= slots || batch.bytes >= limitBytes;
    if (!isFull && clock.monotonic() - openedAt < settings.batchMs) return false;
    return await this.#write(batch);
  }

  #bounds(): BatchBounds {
    const { kind, settings, rows, events } = this.#parts;
    return {
      slots: settings.batchSlots,
      limitBytes: settings.limitBytes,
      takes: kind.takes ?? 'rows',
      rows,
      events,
    };
  }

  async #write(batch: OpenBatch): Promise<boolean> {
    const { meter, sink, store, log } = this.#parts;
    const open = this.#open!;
    const closed = batch.close();
    if (closed === null) return false;
    if (batch.holes.length > 0) {
      // Before the target has the slots, so that they are never there without a word.
      await addHoles(store(), sink.name, batch.holes);
      log.error({ sink: sink.name, holes: batch.holes }, 'a sink has a hole: rows were dropped before it took them');
    }
    const acknowledged = await open.target.write(closed);
    const { position } = closed;
    if (acknowledged.part !== position.part || acknowledged.last !== position.last)
      throw new Error(
        `sink ${sink.name} acknowledged slot ${acknowledged.last} of a batch that ends at ${position.last}`,
      );
    open.positions.set(position.part, acknowledged);
    if (position.part === LIVE) this.#batch = null;
    meter.rows.with(sink.name).add(batch.rowCount);
    meter.batches.with(sink.name).add();
    return true;
  }

  /** Where an empty target begins; null: not known yet. */
  async #firstSlot(final: number): Promise<number | null> {
    const { settings, source } = this.#parts;
    if (this.#batch !== null) return this.#batch.batch.first;
    if (typeof settings.from === 'number') return settings.from;
    const slot = settings.from === 'now' ? final : await source.oldestSlot();
    return slot < 0 ? null : slot;
  }

  async #workOnTask(): Promise<boolean> {
    const { sink, store, source } = this.#parts;
    const [task] = await openTasks(store().read, sink.name);
    if (task === undefined) return false;
    return await runTask(task, {
      sink,
      store: store(),
      source,
      bounds: this.#bounds(),
      open: this.#open!,
      signal: this.#stopping.signal,
      write: (batch) => this.#write(batch),
    });
  }

  /** Returns how long to wait. */
  async #failed(error: unknown): Promise<number> {
    const { sink, log, meter, pollMs = POLL_MS } = this.#parts;
    this.#failures += 1;
    this.#hole = holeOf(error);
    const last = this.#open?.positions.get(LIVE)?.last ?? null;
    await this.#close();
    const code = codeOf(error);
    const isMoved = code === 'SINKS_MOVED';
    meter.failures.with(sink.name).add();
    const facts = { sink: sink.name, code, error: messageOf(error), failures: this.#failures, last };
    log[this.#failures > 3 ? 'error' : isMoved ? 'info' : 'warn'](facts, 'a sink cannot be written and is tried again');
    await this.#report(error).catch(() => undefined);
    return backoffMs(this.#failures, null, { firstMs: pollMs, longestMs: LONGEST_PAUSE_MS });
  }

  /** For `sinks list`, and for what the ledger has to keep. */
  async #report(error: unknown): Promise<void> {
    const { sink, store, clock } = this.#parts;
    const live = this.#open?.positions.get(LIVE);
    const known = live ?? (await readStates(store().read, [sink.name])).get(sink.name)!;
    const report = {
      first: known.first,
      last: known.last,
      errorCode: error === null ? null : (codeOf(error) ?? 'unknown'),
      error: error === null ? null : messageOf(error),
    };
    const text = JSON.stringify(report);
    if (text === this.#reported) return;
    if (error === null && clock.monotonic() - this.#reportedAt < REPORT_MS) return;
    await reportSink(store(), sink.name, report, clock.now());
    this.#reportedAt = clock.monotonic();
    this.#reported = text;
  }

  async #close(): Promise<void> {
    this.#batch = null;
    const open = this.#open;
    this.#open = null;
    await open?.target.close();
  }
}

function holeOf(error: unknown): number | null {
  const slot = error instanceof CodedError && error.code === 'SINKS_HOLE' ? error.facts['slot'] : null;
  return typeof slot === 'number' ? slot : null;
}
