import type { Clock } from '../../../src/plugin/plugin.ts';
import type { Link, LinkSubscription } from './link.ts';

/**
 * A node closes the whole connection over a message that it does not like, and with it the subscriptions of everybody else. So what was
 * unanswered when a link broke is tried again alone, on a socket of its own, and comes to the others only when the node has taken it
 * there. Whose subscription broke a link, has all further ones tried alone for a while. Networks and restarts break connections too: a
 * second socket with a subscription that no node dislikes is the control, and a break counts only while that one lives.
 */
export interface Quarantine {
  /** Whether new subscriptions of this owner have to be tried alone first. */
  distrusts(owner: string): boolean;
  /** A link broke while a subscription of this owner was unanswered. */
  suspect(owner: string): void;
  /** Tries it alone when its turn comes. The returned function gives it up. */
  add(candidate: Candidate): () => void;
  close(): void;
}

/** One of these is called, once. */
export interface Candidate extends Pick<LinkSubscription, 'family' | 'method' | 'paramsText' | 'owner'> {
  /** The upstream took it: it harms nobody. */
  cleared(): void;
  /** `errorText` is the upstream's error object, raw. */
  refused(errorText: string): void;
  /** The upstream closed the connection over it, more than once, and no other connection. */
  condemned(): void;
}

export interface QuarantineParts {
  readonly clock: Clock;
  /** A socket that carries nothing else; null when no upstream can be asked now. `lost` tells whether the socket had opened. */
  openProbe(lost: (wasOpen: boolean) => void): Link | null;
}

/** Probes at once, and of one owner. */
const MAX_PROBES = 16;
const MAX_PROBES_OF_ONE = 1;
/** So often a connection has to break over the same subscription while the control lives. */
const BREAKS = 2;
/** How long the control has to outlive the probe: what breaks both may reach one of them first. */
const OUTLIVE_MS = 250;
const PAUSE_MS = 500;
const MAX_PAUSE_MS = 8_000;
const CONTROL = { owner: '', family: 'slot', method: 'slotSubscribe', paramsText: null } as const;
const DISTRUST_MS = 60_000;
const GUILTY_MS = 600_000;

export function createQuarantine({ clock, openProbe }: QuarantineParts): Quarantine {
  interface Entry {
    readonly candidate: Candidate;
    tries: number;
    /** Breaks that the control outlived. */
    breaks: number;
    /** Monotonic milliseconds. */
    notBefore: number;
    isOver: boolean;
    probe: Link | null;
    /** Ends what is in flight for it. */
    stop(): void;
  }
  const waiting: Entry[] = [];
  const probing = new Map<string, number>();
  /** By owner: until when, in monotonic milliseconds. */
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
    let control: Link | null = null;
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
      entry.notBefore = clock.monotonic() + Math.min(MAX_PAUSE_MS, PAUSE_MS * 2 ** entry.tries);
      waiting.push(entry);
    };
    const finish = (tell: () => void) => {
      entry.isOver = true;
      tell();
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
        ...{ owner, family, method, paramsText },
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
      // A node that refuses this one too is alive.
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
        ...{ candidate, tries: 0, breaks: 0, notBefore: 0, isOver: false, probe: null },
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
