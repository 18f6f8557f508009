import type { Clock } from '../../../src/plugin/plugin.ts';
import { backoffMs } from '../../../src/runtime/waiting.ts';
import type { LinkSubscription, UpstreamLink } from './link.ts';

/**
 * A node closes the whole connection over a message that it rejects, and with it all other subscriptions on it. A subscription that was
 * unanswered when a link broke is therefore tried again in isolation, on a separate socket, and returns to the shared links only after the
 * node accepted it there. Further subscriptions of the same owner are isolated for some time. Networks and restarts break connections too:
 * a second socket with a harmless subscription is the control, and a break counts only while the control lives.
 */
interface Quarantine {
  /** Whether new subscriptions of this owner must first be tried in isolation. */
  distrusts(owner: string): boolean;
  /** A link broke while a subscription of this owner was unanswered. */
  suspect(owner: string): void;
  /** Queues the candidate for an isolated try. The returned function cancels it. */
  add(candidate: QuarantineCandidate): () => void;
  close(): void;
}

/** Exactly one of these is called, once. */
interface QuarantineCandidate extends Pick<LinkSubscription, 'family' | 'method' | 'paramsText' | 'owner'> {
  /** The upstream accepted it: it is harmless. */
  cleared(): void;
  /** `errorText` is the upstream's error object, raw. */
  refused(errorText: string): void;
  /** The upstream repeatedly closed the connection over it, and no other connection. */
  condemned(): void;
}

interface QuarantineParts {
  readonly clock: Clock;
  /** A socket without other subscriptions; null when no upstream is available. `lost` receives whether the socket had opened. */
  openProbe(lost: (wasOpen: boolean) => void): UpstreamLink | null;
}

/** Concurrent probes, in total and per owner. */
const MAX_PROBES = 16;
const MAX_PROBES_OF_ONE = 4;
/** Breaks of a connection over the same subscription, while the control lives, that condemn it. */
const BREAKS = 2;
/** How long the control must outlive the probe: a cause that breaks both may reach one of them first. */
const OUTLIVE_MS = 250;
const PROBE_BACKOFF = { firstMs: 1_000, longestMs: 8_000 };
const CONTROL = { owner: '', family: 'slot', method: 'slotSubscribe', paramsText: null } as const;
const DISTRUST_MS = 60_000;
const GUILTY_MS = 600_000;

export function createQuarantine({ clock, openProbe }: QuarantineParts): Quarantine {
  interface Entry {
    readonly candidate: QuarantineCandidate;
    tries: number;
    /** Breaks that the control survived. */
    breaks: number;
    /** Monotonic milliseconds. */
    notBefore: number;
    isOver: boolean;
    probe: UpstreamLink | null;
    /** Ends the current try. */
    stop(): void;
  }
  const waiting: Entry[] = [];
  const probing = new Map<string, number>();
  /** By owner: end of the distrust, in monotonic milliseconds. */
  const distrusted = new Map<string, number>();
  let running = 0;
  let isClosed = false;
  let cancelTimer = () => {};

  const distrust = (owner: string, ms: number) =>
    distrusted.set(owner, Math.max(distrusted.get(owner) ?? 0, clock.monotonic() + ms));

  function next(): void {
    cancelTimer();
    if (isClosed) return;
    const now = clock.monotonic();
    for (const entry of [...waiting]) {
      if (running >= MAX_PROBES) return;
      const { owner } = entry.candidate;
      if (entry.notBefore > now || (probing.get(owner) ?? 0) >= MAX_PROBES_OF_ONE) continue;
      waiting.splice(waiting.indexOf(entry), 1);
      start(entry);
    }
    const soonest = Math.min(...waiting.map(({ notBefore }) => notBefore));
    if (soonest > now && Number.isFinite(soonest)) cancelTimer = clock.timeout(Math.ceil(soonest - now), next);
  }

  function start(entry: Entry): void {
    const { candidate } = entry;
    const { owner, family, method, paramsText } = candidate;
    let control: UpstreamLink | null = null;
    let hasControl = false;
    let isDone = false;
    let cancelVerdict = () => {};
    const done = (then: () => void) => {
      if (isDone) return;
      isDone = true;
      cancelVerdict();
      running -= 1;
      const left = (probing.get(owner) ?? 1) - 1;
      if (left === 0) probing.delete(owner);
      else probing.set(owner, left);
      entry.stop = () => undefined;
      entry.probe?.close();
      control?.close();
      if (!entry.isOver) then();
      next();
    };
    const again = () => {
      entry.probe = null;
      entry.tries += 1;
      entry.notBefore = clock.monotonic() + backoffMs(entry.tries, null, PROBE_BACKOFF);
      waiting.push(entry);
    };
    const finish = (report: () => void) => {
      entry.isOver = true;
      report();
    };
    const judge = () =>
      done(() => {
        entry.breaks += 1;
        if (entry.breaks < BREAKS) return again();
        distrust(owner, GUILTY_MS);
        finish(candidate.condemned);
      });
    const probe = () => {
      if (hasControl) return;
      hasControl = true;
      entry.probe = openProbe((wasOpen) => {
        if (wasOpen && !isDone) cancelVerdict = clock.timeout(OUTLIVE_MS, judge);
        else done(again);
      });
      if (entry.probe === null) return done(again);
      entry.probe.subscribe({
        owner,
        family,
        method,
        paramsText,
        accepted: () => done(() => finish(candidate.cleared)),
        refused: (errorText) => done(() => finish(() => candidate.refused(errorText))),
        notified: () => undefined,
        unanswered: () => done(again),
      });
    };
    running += 1;
    probing.set(owner, (probing.get(owner) ?? 0) + 1);
    entry.stop = () => done(() => undefined);
    control = openProbe(() => done(again));
    if (control === null) {
      done(again);
      return;
    }
    control.subscribe({
      ...CONTROL,
      // A node that refuses this subscription is alive too.
      accepted: probe,
      refused: probe,
      notified: () => undefined,
      unanswered: () => done(again),
    });
  }

  return {
    distrusts(owner) {
      const untilMs = distrusted.get(owner);
      if (untilMs === undefined) return false;
      if (untilMs > clock.monotonic()) return true;
      distrusted.delete(owner);
      return false;
    },
    suspect: (owner) => void distrust(owner, DISTRUST_MS),
    add(candidate) {
      const entry: Entry = {
        candidate,
        tries: 0,
        breaks: 0,
        notBefore: 0,
        isOver: false,
        probe: null,
        stop: () => undefined,
      };
      waiting.push(entry);
      next();
      return () => {
        if (entry.isOver) return;
        entry.isOver = true;
        const at = waiting.indexOf(entry);
        if (at >= 0) waiting.splice(at, 1);
        entry.stop();
      };
    },
    close() {
      isClosed = true;
      cancelTimer();
      waiting.length = 0;
    },
  };
}
