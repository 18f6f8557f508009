import type { CoreConfig } from '../../../config/core.ts';
import { isLagBeyond, type LagLimit } from '../../../lib/chain-lag.ts';
import type { Clock } from '../../../ports/clock.ts';
import type { UpstreamOutcome } from '../../../ports/upstream.ts';

/** State of one upstream. Times are monotonic milliseconds. */
export interface Health {
  /** Place in the list of upstreams. */
  order: number;
  failures: number;
  /** Cooling down until then. */
  restUntil: number;
  /** The upstream asked for no requests until then. */
  limitedUntil: number;
  /** Why it is cooling down, as text for people. */
  reason: string | null;
  slot: number | null;
  behind: boolean;
  /** Not far enough behind to be excluded, but others report newer slots. */
  late: boolean;
  inFlight: number;
  /** Time of the last good answer. */
  answeredAt: number;
  /** Genesis hash of the other chain that it serves; null when it serves ours or has not answered. */
  otherChain: string | null;
  /** Whether it identified its chain since it was last unreachable. */
  isKnown: boolean;
}

export const newHealth = (order = 0): Health => ({
  order,
  failures: 0,
  restUntil: Number.NEGATIVE_INFINITY,
  limitedUntil: Number.NEGATIVE_INFINITY,
  reason: null,
  slot: null,
  behind: false,
  late: false,
  inFlight: 0,
  answeredAt: Number.NEGATIVE_INFINITY,
  otherChain: null,
  isKnown: true,
});

/** Reason of a cool-down that the upstream asked for. */
export const RATE_LIMITED = 'rate limited';

/** Consecutive failures after which the next upstream is preferred. */
const FAILURES_TO_REST = 2;

/** Applies the outcome that a caller reports for an answer. */
export function applyOutcome(health: Health, outcome: UpstreamOutcome, now: number, core: CoreConfig): void {
  const rest = (ms: number, reason: string) => {
    health.restUntil = Math.max(health.restUntil, now + ms);
    health.reason = reason;
  };
  switch (outcome.kind) {
    case 'ok':
      health.failures = 0;
      health.answeredAt = now;
      // A good answer ends a cool-down caused by failures, but not one for a contradiction or a limit.
      if (health.reason?.startsWith('failing')) {
        health.restUntil = Number.NEGATIVE_INFINITY;
        health.reason = null;
      }
      return;
    case 'failed':
      health.failures += 1;
      if (health.failures >= FAILURES_TO_REST) rest(core.upstream.coolDownMs, `failing: ${outcome.reason}`);
      return;
    case 'limited':
      rest(outcome.retryAfterMs ?? 1_000, RATE_LIMITED);
      health.limitedUntil = now + (outcome.retryAfterMs ?? 1_000);
      return;
    case 'denied':
      rest(core.upstream.coolDownMs, `refuses us with status ${outcome.status}: check its key`);
      return;
    case 'contradicted':
      rest(core.upstream.distrustMs, `contradicted the chain: ${outcome.reason}`);
  }
}

/** Whether it may be called at all: an answer of another chain must never be taken for one of ours. */
export const isInService = ({ otherChain, isKnown }: Health): boolean => otherChain === null && isKnown;

export const isHealthy = (health: Health, now: number): boolean =>
  isInService(health) && health.restUntil <= now && !health.behind;

export function reasonOf(health: Health, now: number): string | null {
  if (health.otherChain !== null) return `UPSTREAM_OTHER_CHAIN: its genesis hash is ${health.otherChain}`;
  if (health.restUntil > now) return health.reason;
  if (!health.isKnown) return 'it has not identified its chain yet';
  return health.behind ? 'behind the others' : null;
}

/** Differences up to this come from polling at different moments. */
const LATE: LagLimit = { seconds: 3.2, slots: null };

/** Marks upstreams that lag behind the best known tip. `slotMs`: null until it is measured. */
export function markBehind(all: readonly Health[], maxLag: LagLimit, slotMs: number | null): void {
  const best = Math.max(...all.map((health) => (isInService(health) ? (health.slot ?? 0) : 0)));
  for (const health of all) {
    const lag = { lagSlots: health.slot === null ? null : best - health.slot, slotMs };
    health.behind = isLagBeyond(lag, maxLag);
    health.late = isLagBeyond(lag, LATE);
  }
}

/** Order: healthy, with room, at the tip, preferred, then as configured. */
export function byPreference(clock: Clock, prefer: number | null) {
  const now = clock.monotonic();
  const rank = (health: Health, full: boolean) =>
    (isHealthy(health, now) ? 0 : 8) + (full ? 4 : 0) + (health.late ? 2 : 0) + (health.order === prefer ? 0 : 1);
  return (a: { health: Health; full: boolean }, b: { health: Health; full: boolean }) =>
    rank(a.health, a.full) - rank(b.health, b.full) || a.health.order - b.health.order;
}
