import type { CoreConfig } from '../../../kernel/config/core.ts';
import type { Clock } from '../../../ports/clock.ts';
import type { UpstreamOutcome } from '../../../ports/upstream.ts';

/** What is known of one upstream. Times are monotonic milliseconds. */
export interface Health {
  readonly order: number;
  failures: number;
  /** Left alone until then. */
  restUntil: number;
  /** It said itself that it wants no request until then. */
  limitedUntil: number;
  /** Why it is left alone, in words. */
  reason: string | null;
  slot: number | null;
  behind: boolean;
  /** Not so far behind that it is left out, but others know newer slots. */
  late: boolean;
  inFlight: number;
}

export const newHealth = (order: number): Health => ({
  order,
  failures: 0,
  restUntil: Number.NEGATIVE_INFINITY,
  limitedUntil: Number.NEGATIVE_INFINITY,
  reason: null,
  slot: null,
  behind: false,
  late: false,
  inFlight: 0,
});

/** The reason of a rest that an upstream asked for. */
export const RATE_LIMITED = 'rate limited';

/** Failures in a row after which the next upstream is preferred. */
const FAILURES_TO_REST = 2;

/** Applies what a caller made of an answer. */
export function applyOutcome(health: Health, outcome: UpstreamOutcome, now: number, core: CoreConfig): void {
  const rest = (ms: number, reason: string) => {
    health.restUntil = Math.max(health.restUntil, now + ms);
    health.reason = reason;
  };
  switch (outcome.kind) {
    case 'ok':
      health.failures = 0;
      // A good answer ends a rest that failures began, but not one for a contradiction or a limit.
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

export const isHealthy = (health: Health, now: number): boolean => health.restUntil <= now && !health.behind;

export function reasonOf(health: Health, now: number): string | null {
  if (health.restUntil > now) return health.reason;
  return health.behind ? 'behind the others' : null;
}

/** Differences up to this come from asking at different moments. */
const LATE_SLOTS = 8;

/** Marks those that lag behind the best tip known. */
export function markBehind(all: readonly Health[], maxLagSlots: number): void {
  const best = Math.max(...all.map((health) => health.slot ?? 0));
  for (const health of all) {
    health.behind = health.slot !== null && health.slot < best - maxLagSlots;
    health.late = health.slot !== null && health.slot < best - LATE_SLOTS;
  }
}

/** Healthy ones first, those with room before those at their limit, those at the tip before late ones; then as configured. */
export function byPreference(clock: Clock, prefer: number | null) {
  const now = clock.monotonic();
  const rank = (health: Health, full: boolean) =>
    (isHealthy(health, now) ? 0 : 8) + (full ? 4 : 0) + (health.late ? 2 : 0) + (health.order === prefer ? 0 : 1);
  return (a: { health: Health; full: boolean }, b: { health: Health; full: boolean }) =>
    rank(a.health, a.full) - rank(b.health, b.full) || a.health.order - b.health.order;
}
