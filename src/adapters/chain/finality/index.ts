/**
 * Verified finality: footers from a Yellowstone server, ranks from a node, signatures checked here. It runs beside the follower and changes
 * nothing that is released.
 *
 * A footer waits in a bounded queue; a thread checks one at a time, with pauses, so that checks take no more of a core than the operator
 * allows. What does not fit is left out and counted as `sampled`: a later certificate proves its ancestors too.
 */
import { messageOf } from '../../../lib/coded-error.ts';
import type {
  CertificateResult,
  ChainId,
  FinalityAlarm,
  FinalityChecks,
  FinalityStatus,
  FooterStream,
} from '../../../ports/chain.ts';
import type { Clock, Random } from '../../../ports/clock.ts';
import type { Log } from '../../../ports/telemetry.ts';
import { backoffMs, createWakeup, type Wakeup } from '../../../runtime/waiting.ts';
import type { CertificateRefusal } from '../../../solana/finality/certificate.ts';
import { type BlockFooter, readFooter } from '../../../solana/finality/footer.ts';
import { type Checker, createChecker } from './checker.ts';
import { type AskExactly, createFactReader, type FactReader } from './facts.ts';
import { ProvenSlots } from './proven-slots.ts';

export interface FinalityChecksOptions {
  readonly chain: ChainId;
  /** Null: not configured. */
  readonly footers: FooterStream | null;
  /** Share of one core that checks may take; 0: nothing is checked. */
  readonly cores: number;
  readonly ask: (signal: AbortSignal) => AskExactly;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  /** Default: a thread. */
  readonly checker?: Checker;
}

const MAX_WAITING = 16;
/** Log lines about certificates that do not hold. */
const ALARM_PAUSE_MS = 60_000;
/** Until a server that knows no footers is asked again. */
const REFUSED_PAUSE_MS = 300_000;
/** Between looks at an empty queue, besides those that a footer causes. */
const IDLE_MS = 60_000;
const REFUSALS = ['invalidArgument', 'unimplemented', 'permissionDenied', 'unauthenticated'];

const REASONS: Readonly<Record<CertificateRefusal, string>> = {
  slot: 'its slot is not below that of the block that carries it',
  'block-id': 'its block id has the wrong length',
  signature: 'its signature is no point of the curve',
  bitmap: 'its list of signers is malformed',
  key: 'a key of the ranks is no point of the curve',
  stake: 'too little stake signed it',
  verify: 'its signature is not one of these validators for this block',
};

/**
 * Two loops: one puts footers into `waiting`, the other checks them in a thread, as many as the cores allow. `state` and `reason` say which of
 * them stands still and why; an alarm stays.
 */
class CertificateChecks implements FinalityChecks {
  private readonly options: FinalityChecksOptions;
  private readonly checker: Checker;
  private readonly stopped = new AbortController();
  private readonly signal = this.stopped.signal;
  private readonly facts: FactReader;
  private readonly wake: Wakeup;
  private readonly proven: ProvenSlots;
  /** Oldest first. */
  private waiting: BlockFooter[] = [];
  private state: FinalityStatus['state'] = 'waiting';
  private reason: string | null = 'no footer has arrived';
  private alarm: FinalityAlarm | null = null;
  private saidAt = Number.NEGATIVE_INFINITY;
  private counted: (result: CertificateResult) => void = () => undefined;
  private running: Promise<unknown> = Promise.resolve();
  /** Null: it is on. */
  private readonly offBecause: string | null;

  constructor(options: FinalityChecksOptions) {
    this.options = options;
    this.checker = options.checker ?? createChecker();
    this.facts = createFactReader(options.ask(this.signal), options.clock);
    this.wake = createWakeup(options.clock);
    this.proven = new ProvenSlots({
      counted: (result) => this.counted(result),
      contradicted: (slot, text) => this.raise(slot, 'contradicted', text),
    });
    this.offBecause =
      options.footers === null
        ? 'follow.stream names no Yellowstone server, which sends the certificates'
        : options.cores === 0
          ? 'follow.finality.checkCores is 0'
          : null;
  }

  private raise(slot: number, result: 'refused' | 'contradicted', text: string): void {
    this.counted(result);
    this.alarm = { slot, reason: text, at: this.options.clock.now() };
    if (this.options.clock.monotonic() - this.saidAt < ALARM_PAUSE_MS) return;
    this.saidAt = this.options.clock.monotonic();
    this.options.log.error(
      { event: 'chain.finality', chain: this.options.chain, slot, reason: text },
      'a certificate of finality does not hold',
    );
  }

  private wait(text: string): void {
    if (this.state !== 'checking' || text !== this.reason)
      this.options.log.info({ chain: this.options.chain, reason: text }, 'certificates are not checked');
    this.state = 'waiting';
    this.reason = text;
  }

  private takeFooter(bytes: Buffer): void {
    let footer: BlockFooter;
    try {
      footer = readFooter(bytes);
    } catch {
      this.raise(0, 'refused', 'the footer that carries it is malformed');
      return;
    }
    const { certificate } = footer;
    if (this.state === 'waiting' && this.reason === 'no footer has arrived') this.reason = 'no certificate has arrived';
    if (certificate === null) return;
    this.waiting.push(footer);
    if (this.waiting.length > MAX_WAITING) {
      this.waiting.shift();
      this.counted('sampled');
    }
    this.wake.wake();
  }

  private async readFooters(stream: FooterStream): Promise<void> {
    let failures = 0;
    while (!this.signal.aborted) {
      let count = 0;
      const end = await stream.open({
        signal: this.signal,
        onFooter: (bytes) => {
          count += 1;
          this.takeFooter(bytes);
        },
      });
      if (this.signal.aborted) return;
      failures = count > 0 ? 1 : failures + 1;
      const why = end.kind === 'failed' ? end.reason : end.kind;
      const isRefused = REFUSALS.includes(why);
      this.wait(isRefused ? `the Yellowstone server refuses footers: ${why}` : `the stream of footers ended: ${why}`);
      await this.options.clock
        .sleep(isRefused ? REFUSED_PAUSE_MS : backoffMs(failures, this.options.random), this.signal)
        .catch(() => undefined);
    }
  }

  private async checkFooters(): Promise<void> {
    while (!this.signal.aborted) {
      const footer = this.waiting.shift();
      if (footer === undefined) {
        await this.wake.sleep(IDLE_MS, this.signal);
        continue;
      }
      if (this.proven.isKnown(footer)) continue;
      try {
        const tookMs = await this.checkOne(footer);
        if (tookMs > 0) await this.options.clock.sleep(tookMs * (1 / this.options.cores - 1), this.signal);
      } catch (error) {
        if (this.signal.aborted) return;
        this.counted('unchecked');
        this.state = 'failed';
        this.reason = 'the thread that checks certificates has ended; the log says why';
        this.options.log.error(
          { chain: this.options.chain, error: messageOf(error) },
          'a certificate of finality could not be checked',
        );
        await this.options.clock.sleep(backoffMs(1, this.options.random), this.signal).catch(() => undefined);
      }
    }
  }

  /** Returns how long the thread worked, in milliseconds. */
  private async checkOne(footer: BlockFooter): Promise<number> {
    const slot = Number(footer.certificate!.slot);
    const used = await this.facts.of(slot);
    if (typeof used === 'string') {
      this.counted('unchecked');
      this.wait(used);
      return 0;
    }
    let { outcome, tookMs } = await this.checker.check(used.map, footer, used.shredVersion);
    if (typeof outcome === 'string') {
      // A cluster that was restarted has another shred version: what is known may be old.
      const newer = await this.facts.again(slot).catch(() => null);
      if (newer !== null) {
        const repeated = await this.checker.check(newer.map, footer, newer.shredVersion);
        tookMs += repeated.tookMs;
        outcome = repeated.outcome;
      }
    }
    if (typeof outcome === 'object' && 'error' in outcome) throw new Error(outcome.error);
    this.state = 'checking';
    this.reason = null;
    if (typeof outcome === 'string') this.raise(slot, 'refused', REASONS[outcome]);
    else this.proven.add(outcome);
    return tookMs;
  }

  readonly start: FinalityChecks['start'] = (count) => {
    this.counted = count;
    if (this.options.footers === null || this.offBecause !== null) return;
    this.running = Promise.all([this.readFooters(this.options.footers), this.checkFooters()]);
  };

  readonly released: FinalityChecks['released'] = (header) => {
    if (this.offBecause !== null) return;
    this.proven.noteReleased(header);
  };

  status(): FinalityStatus {
    return this.offBecause === null
      ? {
          state: this.state,
          reason: this.reason,
          verified: this.proven.recent[0] ?? null,
          recent: this.proven.recent,
          alarm: this.alarm,
        }
      : { state: 'off', reason: this.offBecause, verified: null, recent: [], alarm: null };
  }

  async stop(): Promise<void> {
    this.stopped.abort(new Error('stopped'));
    this.waiting = [];
    await this.checker.close();
    await this.running;
  }
}

export const createFinalityChecks = (options: FinalityChecksOptions): FinalityChecks => new CertificateChecks(options);
