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
import { backoffMs, createWakeup } from '../../../runtime/waiting.ts';
import type { CertificateRefusal } from '../../../solana/finality/certificate.ts';
import { type BlockFooter, readFooter } from '../../../solana/finality/footer.ts';
import { type Checker, createChecker } from './checker.ts';
import { type AskExactly, createFactReader } from './facts.ts';
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

export function createFinalityChecks(options: FinalityChecksOptions): FinalityChecks {
  const { chain, footers, cores, clock, random, log } = options;
  const checker = options.checker ?? createChecker();
  const stopped = new AbortController();
  const { signal } = stopped;
  const facts = createFactReader(options.ask(signal), clock);
  const wake = createWakeup(clock);
  const proven = new ProvenSlots({
    counted: (result) => counted(result),
    contradicted: (slot, text) => raise(slot, 'contradicted', text),
  });
  /** Oldest first. */
  let waiting: BlockFooter[] = [];
  let state: FinalityStatus['state'] = 'waiting';
  let reason: string | null = 'no footer has arrived';
  let alarm: FinalityAlarm | null = null;
  let saidAt = Number.NEGATIVE_INFINITY;
  let counted: (result: CertificateResult) => void = () => undefined;
  let running: Promise<unknown> = Promise.resolve();

  const offBecause =
    footers === null
      ? 'follow.stream names no Yellowstone server, which sends the certificates'
      : cores === 0
        ? 'follow.finality.checkCores is 0'
        : null;

  function raise(slot: number, result: 'refused' | 'contradicted', text: string): void {
    counted(result);
    alarm = { slot, reason: text, at: clock.now() };
    if (clock.monotonic() - saidAt < ALARM_PAUSE_MS) return;
    saidAt = clock.monotonic();
    log.error({ event: 'chain.finality', chain, slot, reason: text }, 'a certificate of finality does not hold');
  }

  function wait(text: string): void {
    if (state !== 'checking' || text !== reason) log.info({ chain, reason: text }, 'certificates are not checked');
    state = 'waiting';
    reason = text;
  }

  function takeFooter(bytes: Buffer): void {
    let footer: BlockFooter;
    try {
      footer = readFooter(bytes);
    } catch {
      raise(0, 'refused', 'the footer that carries it is malformed');
      return;
    }
    const { certificate } = footer;
    if (state === 'waiting' && reason === 'no footer has arrived') reason = 'no certificate has arrived';
    if (certificate === null) return;
    waiting.push(footer);
    if (waiting.length > MAX_WAITING) {
      waiting.shift();
      counted('sampled');
    }
    wake.wake();
  }

  async function readFooters(stream: FooterStream): Promise<void> {
    let failures = 0;
    while (!signal.aborted) {
      let count = 0;
      const end = await stream.open({
        signal,
        onFooter(bytes) {
          count += 1;
          takeFooter(bytes);
        },
      });
      if (signal.aborted) return;
      failures = count > 0 ? 1 : failures + 1;
      const why = end.kind === 'failed' ? end.reason : end.kind;
      const isRefused = REFUSALS.includes(why);
      wait(isRefused ? `the Yellowstone server refuses footers: ${why}` : `the stream of footers ended: ${why}`);
      await clock.sleep(isRefused ? REFUSED_PAUSE_MS : backoffMs(failures, random), signal).catch(() => undefined);
    }
  }

  async function checkFooters(): Promise<void> {
    while (!signal.aborted) {
      const footer = waiting.shift();
      if (footer === undefined) {
        await wake.sleep(IDLE_MS, signal);
        continue;
      }
      if (proven.isKnown(footer)) continue;
      try {
        const tookMs = await checkOne(footer);
        if (tookMs > 0) await clock.sleep(tookMs * (1 / cores - 1), signal);
      } catch (error) {
        if (signal.aborted) return;
        counted('unchecked');
        state = 'failed';
        reason = 'the thread that checks certificates has ended; the log says why';
        log.error({ chain, error: messageOf(error) }, 'a certificate of finality could not be checked');
        await clock.sleep(backoffMs(1, random), signal).catch(() => undefined);
      }
    }
  }

  /** Returns how long the thread worked, in milliseconds. */
  async function checkOne(footer: BlockFooter): Promise<number> {
    const slot = Number(footer.certificate!.slot);
    const used = await facts.of(slot);
    if (typeof used === 'string') {
      counted('unchecked');
      wait(used);
      return 0;
    }
    let { outcome, tookMs } = await checker.check(used.map, footer, used.shredVersion);
    if (typeof outcome === 'string') {
      // A cluster that was restarted has another shred version: what is known may be old.
      const newer = await facts.again(slot).catch(() => null);
      if (newer !== null) {
        const repeated = await checker.check(newer.map, footer, newer.shredVersion);
        tookMs += repeated.tookMs;
        outcome = repeated.outcome;
      }
    }
    if (typeof outcome === 'object' && 'error' in outcome) throw new Error(outcome.error);
    state = 'checking';
    reason = null;
    if (typeof outcome === 'string') raise(slot, 'refused', REASONS[outcome]);
    else proven.add(outcome);
    return tookMs;
  }

  return {
    start(count) {
      counted = count;
      if (footers === null || offBecause !== null) return;
      running = Promise.all([readFooters(footers), checkFooters()]);
    },
    released(header) {
      if (offBecause !== null) return;
      proven.noteReleased(header);
    },
    status: () =>
      offBecause === null
        ? { state, reason, verified: proven.recent[0] ?? null, recent: proven.recent, alarm }
        : { state: 'off', reason: offBecause, verified: null, recent: [], alarm: null },
    async stop() {
      stopped.abort(new Error('stopped'));
      waiting = [];
      await checker.close();
      await running;
    },
  };
}
