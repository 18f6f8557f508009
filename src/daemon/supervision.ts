import { codeOf, messageOf } from '../lib/coded-error.ts';
import type { ChainStatus } from '../ports/chain.ts';
import type { Clock } from '../ports/clock.ts';
import type { Log } from '../ports/log.ts';
import type { Notify } from '../ports/notify.ts';
import { withDeadline } from '../runtime/deadline.ts';

export interface SupervisionOptions {
  readonly notify: Notify;
  readonly clock: Clock;
  readonly log: Log;
  readonly load: () => DaemonLoad;
  /** Proves that the store takes writes. */
  readonly probe: () => Promise<void>;
}

/** Keeps the service manager informed; without one every call does nothing. None of them throws. */
export interface Supervision {
  starting(): void;
  /** Everything listens. From here on a status is told whenever it changes, and the watchdog is fed. */
  ready(): void;
  /**
   * Runs a reload between RELOADING and READY; READY follows also when it is refused, with the reason in the status. A call while
   * another one waits for its turn is the same reload: it will read the newest file anyway.
   */
  reload(run: () => Promise<void>): Promise<void>;
  /** What is told here is what `systemctl status` shows afterwards: a signal's name, or the error. The first call counts. */
  stopping(reason: unknown): void;
  /** Waits until the last notice is taken, for at most two seconds. */
  close(): Promise<void>;
}

const STATUS_INTERVAL_MS = 10_000;
const CLOSE_TIMEOUT_MS = 2_000;
const MAX_REASON_CHARS = 200;

export function createSupervision(options: SupervisionOptions): Supervision {
  const { notify, clock, log } = options;
  const ended = new AbortController();
  const reporter = createReporter(options, ended.signal);
  let last: Promise<void> = Promise.resolve();
  let watchdog: Watchdog | null = null;
  let isReady = false;
  let running: Promise<void> | null = null;
  let next: Promise<void> | null = null;

  const tell: Notify['tell'] = (notice) => {
    last = notify.tell(notice);
    return last;
  };

  async function reloadNow(run: () => Promise<void>): Promise<void> {
    // While the daemon starts it is neither ready nor may it say so.
    const isTold = isReady;
    if (isTold) void tell({ state: 'reloading', status: 'reading the configuration' });
    try {
      await run();
      reporter.refused(null);
    } catch (error) {
      reporter.refused(inWords(error));
    }
    if (isTold && !ended.signal.aborted) void tell({ state: 'ready', status: reporter.text() });
  }

  async function inTurn(run: () => Promise<void>): Promise<void> {
    await running;
    next = null;
    running = reloadNow(run);
    await running;
  }

  return {
    starting: () => void tell({ status: 'starting' }),
    ready() {
      if (!notify.enabled || ended.signal.aborted) return;
      isReady = true;
      void tell({ state: 'ready', status: reporter.text() });
      void reporter.run((status) => tell({ status }));
      if (notify.watchdogMs === null) return;
      const alive = () => tell({ state: 'alive' });
      watchdog = createWatchdog({ timeoutMs: notify.watchdogMs, probe: options.probe, alive, clock, log });
      watchdog.start();
    },
    reload(run) {
      next ??= inTurn(run);
      return next;
    },
    stopping(reason) {
      if (ended.signal.aborted) return;
      ended.abort(new Error('the daemon stops'));
      watchdog?.stop();
      void tell({ state: 'stopping', status: `stopping: ${typeof reason === 'string' ? reason : inWords(reason)}` });
    },
    close: () => withDeadline(clock, CLOSE_TIMEOUT_MS, () => last).catch(() => undefined),
  };
}

/** Words the status, and tells it when it has changed. */
function createReporter({ load, clock }: SupervisionOptions, ended: AbortSignal) {
  let before = { requests: 0, atMs: clock.monotonic() };
  let refused: string | null = null;
  let told = '';

  const text = () => {
    const now = load();
    const atMs = clock.monotonic();
    const summary = summarize(now, { requests: before.requests, seconds: (atMs - before.atMs) / 1_000 });
    before = { requests: now.requests, atMs };
    told = refused === null ? summary : `${summary}; the last reload was refused: ${refused}`;
    return told;
  };
  return {
    text,
    refused(reason: string | null) {
      refused = reason;
    },
    async run(tell: (status: string) => Promise<void>): Promise<void> {
      for (;;) {
        await clock.sleep(STATUS_INTERVAL_MS, ended).catch(() => undefined);
        if (ended.aborted) return;
        const earlier = told;
        if (text() !== earlier) await tell(told);
      }
    },
  };
}

/** The first line is enough to find the rest in the log. */
function inWords(error: unknown): string {
  const line = messageOf(error).split('\n')[0] ?? '';
  return `${codeOf(error) ?? 'error'}: ${line}`.slice(0, MAX_REASON_CHARS);
}

export interface WatchdogOptions {
  /** The service manager ends the process when it hears nothing for this long. */
  readonly timeoutMs: number;
  /** Proves that the store takes writes and that all roles answer. */
  readonly probe: () => Promise<void>;
  /** Feeds the watchdog of the service manager. */
  readonly alive: () => Promise<void>;
  readonly clock: Clock;
  readonly log: Log;
}

/** Says at half of the manager's time-out that the daemon lives, as long as that is true. */
export interface Watchdog {
  start(): void;
  stop(): void;
}

/** How long the event loop is looked at before each sign of life. */
const SAMPLE_MS = 20;
const LONGEST_LAG_MS = 5_000;

/**
 * A sign of life needs an event loop that answers, one in each thread, and a store that takes a write. When one is missing it is tried again soon, so that a
 * short trouble does not end the process; a long one does, which is what the watchdog is for.
 */
export function createWatchdog({ timeoutMs, probe, alive, clock, log }: WatchdogOptions): Watchdog {
  const maxLagMs = Math.min(LONGEST_LAG_MS, timeoutMs / 10);
  const probeTimeoutMs = timeoutMs / 4;
  const stopped = new AbortController();
  let probing: Promise<void> | null = null;

  async function measureLag(): Promise<number> {
    const askedMs = clock.monotonic();
    await clock.sleep(SAMPLE_MS, stopped.signal);
    return clock.monotonic() - askedMs - SAMPLE_MS;
  }

  /** A probe that hangs is waited for, not joined by another one. */
  function probeOnce(): Promise<void> {
    probing ??= probe().finally(() => {
      probing = null;
    });
    return probing;
  }

  /** What is wrong, or null. */
  async function look(): Promise<string | null> {
    const lagMs = await measureLag();
    if (lagMs > maxLagMs) return `the event loop answers ${Math.round(lagMs)} ms late`;
    try {
      await withDeadline(clock, probeTimeoutMs, probeOnce, stopped.signal);
      return null;
    } catch (error) {
      const code = codeOf(error) ?? messageOf(error);
      return code.startsWith('ROLE_') ? messageOf(error) : `the store takes no write: ${code}`;
    }
  }

  async function run(): Promise<void> {
    while (!stopped.signal.aborted) {
      const reason = await look();
      if (stopped.signal.aborted) return;
      if (reason === null) await alive();
      else log.error({ reason }, 'watchdog of the service manager not fed');
      await clock.sleep(reason === null ? timeoutMs / 2 : timeoutMs / 10, stopped.signal);
    }
  }
  return {
    // The only error that gets here is the one of `stop`.
    start: () => void run().catch(() => undefined),
    stop: () => stopped.abort(new Error('the watchdog was stopped')),
  };
}

/** What a daemon does, in numbers. */
export interface DaemonLoad {
  readonly chains: readonly ChainStatus[];
  /** Requests of the API listener since the start. */
  readonly requests: number;
  /** Those that are being handled now. */
  readonly inFlight: number;
}

/** One line for people: where the chains stand, and what was asked since `before`. */
export function summarize(load: DaemonLoad, before: { readonly requests: number; readonly seconds: number }): string {
  const requests = Math.max(0, load.requests - before.requests);
  const chains = load.chains.map(describeChain);
  return [
    ...(chains.length === 0 ? ['no chain is followed'] : chains),
    `${counted(requests, 'request')} in ${Math.round(before.seconds)} s, ${load.inFlight} in flight`,
  ].join('; ');
}

function describeChain({ chain, cursorSlot, tipSlot, lagSlots, stalled }: ChainStatus): string {
  const name = chain === 'main' ? '' : `${chain} `;
  if (stalled !== null) return `${name}stalled${cursorSlot === null ? '' : ` at slot ${cursorSlot}`}: ${stalled}`;
  const slot = cursorSlot ?? tipSlot;
  if (slot === null) return `${name}not followed yet`;
  const place = `${name}slot ${slot}`;
  if (lagSlots === null) return place;
  return lagSlots <= 0 ? `${place}, at the tip` : `${place}, ${counted(lagSlots, 'slot')} behind the tip`;
}

const counted = (count: number, what: string) => `${count} ${what}${count === 1 ? '' : 's'}`;
