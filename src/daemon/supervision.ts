import { codeOf, messageOf } from '../lib/coded-error.ts';
import type { ChainStatus } from '../ports/chain.ts';
import type { Clock } from '../ports/clock.ts';
import type { Notify } from '../ports/processes.ts';
import type { Log } from '../ports/telemetry.ts';
import { withDeadline } from '../runtime/waiting.ts';

export interface SupervisionOptions {
  readonly notify: Notify;
  readonly clock: Clock;
  readonly log: Log;
  readonly load: () => DaemonLoad;
  /** Checks that the store accepts writes. */
  readonly probe: () => Promise<void>;
}

/** Keeps the service manager informed; without one, calls have no effect. Never throws. */
export interface Supervision {
  starting(): void;
  /** All listeners are open. From now on status changes are sent and the watchdog is fed. */
  ready(): void;
  /**
   * Runs a reload between RELOADING and READY; READY also follows a refusal, with the reason in the status. A call while another one is
   * queued joins that one, which will read the newest file anyway.
   */
  reload(run: () => Promise<{ readonly restart: readonly string[] }>): Promise<void>;
  /** Sets the final status that `systemctl status` shows: a signal name, or the error. Only the first call counts. */
  stopping(reason: unknown): void;
  /** Waits until the last notice was accepted, for at most two seconds. */
  close(): Promise<void>;
}

const STATUS_INTERVAL_MS = 10_000;
const CLOSE_TIMEOUT_MS = 2_000;
const MAX_REASON_CHARS = 200;
const MAX_STATUS_CHARS = 1_000;

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

  type RunReload = Parameters<Supervision['reload']>[0];

  async function reloadNow(run: RunReload): Promise<void> {
    // A starting daemon is not ready and must not report READY.
    const wasReady = isReady;
    if (wasReady) void tell({ state: 'reloading', status: 'reading the configuration' });
    try {
      const { restart } = await run();
      reporter.note(restart.length === 0 ? null : `a restart is needed for ${restart.join(', ')}`);
    } catch (error) {
      reporter.note(`the last reload was refused: ${inWords(error)}`);
    }
    if (wasReady && !ended.signal.aborted) void tell({ state: 'ready', status: reporter.text() });
  }

  async function inTurn(run: RunReload): Promise<void> {
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

/** Builds the status text and sends it when it has changed. */
function createReporter({ load, clock }: SupervisionOptions, ended: AbortSignal) {
  let before = { requests: 0, atMs: clock.monotonic() };
  let note: string | null = null;
  let current = '';

  const text = () => {
    const now = load();
    const atMs = clock.monotonic();
    const summary = summarizeLoad(now, { requests: before.requests, seconds: (atMs - before.atMs) / 1_000 });
    before = { requests: now.requests, atMs };
    current = note === null ? summary : `${summary}; ${note}`.slice(0, MAX_STATUS_CHARS);
    return current;
  };
  return {
    text,
    /** Text about the last reload that follows the summary. */
    note(text: string | null) {
      note = text;
    },
    async run(tell: (status: string) => Promise<void>): Promise<void> {
      for (;;) {
        await clock.sleep(STATUS_INTERVAL_MS, ended).catch(() => undefined);
        if (ended.aborted) return;
        const earlier = current;
        if (text() !== earlier) await tell(current);
      }
    },
  };
}

/** The first line suffices to find the rest in the log. */
function inWords(error: unknown): string {
  const line = messageOf(error).split('\n')[0] ?? '';
  return `${codeOf(error) ?? 'error'}: ${line}`.slice(0, MAX_REASON_CHARS);
}

export interface WatchdogOptions {
  /** The service manager ends the process if it receives no notice for this long. */
  readonly timeoutMs: number;
  /** Checks that the store accepts writes and that all roles answer. */
  readonly probe: () => Promise<void>;
  /** Feeds the watchdog of the service manager. */
  readonly alive: () => Promise<void>;
  readonly clock: Clock;
  readonly log: Log;
}

/** Feeds the watchdog at half of its timeout, as long as the daemon is healthy. */
export interface Watchdog {
  start(): void;
  stop(): void;
}

/** How long the event loop is observed before each notice. */
const SAMPLE_MS = 20;
const LONGEST_LAG_MS = 5_000;

/**
 * A notice needs a responsive event loop in each thread and a store that accepts writes. A failed check is repeated soon, so that a short
 * problem does not end the process; a long one does, which is the purpose of the watchdog.
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

  /** While a probe hangs, no second one is started. */
  function probeOnce(): Promise<void> {
    probing ??= probe().finally(() => {
      probing = null;
    });
    return probing;
  }

  /** The problem, or null. */
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
    // Only the error of `stop` gets here.
    start: () => void run().catch(() => undefined),
    stop: () => stopped.abort(new Error('the watchdog was stopped')),
  };
}

/** Load of a daemon. */
export interface DaemonLoad {
  readonly chains: readonly ChainStatus[];
  /** Requests of the API listener since the start. */
  readonly requests: number;
  /** Requests in flight. */
  readonly inFlight: number;
}

/** One line for people: the positions of the chains, and the requests since `before`. */
export function summarizeLoad(
  load: DaemonLoad,
  before: { readonly requests: number; readonly seconds: number },
): string {
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
