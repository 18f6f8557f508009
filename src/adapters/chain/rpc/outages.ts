import type { CoreConfig } from '../../../config/core.ts';
import type { Clock } from '../../../ports/clock.ts';
import type { Log } from '../../../ports/telemetry.ts';
import type { PoolMember } from './member.ts';

/** Decides which thread of a process logs an outage. */
export interface OutageLog {
  /** False when another thread has logged the start. */
  begin(upstream: string): boolean;
  /** False when another thread logged the start, and therefore logs the end. */
  end(upstream: string): boolean;
}

interface OutageParts {
  readonly label: string;
  readonly core: CoreConfig;
  readonly clock: Clock;
  readonly log: Log;
  /** Without it each pool logs separately. */
  readonly shared: OutageLog | undefined;
}

/** Logs one line at the start and one at the end of an outage: repeated failures and cool-downs are one outage. */
export function createOutages({ label, core, clock, log, shared }: OutageParts) {
  return {
    /** After an answer or a failure of an upstream. */
    note(member: PoolMember, isOk: boolean): void {
      const now = clock.monotonic();
      const { health, outage } = member;
      const about = { pool: label, upstream: member.upstream.label };
      if (health.restUntil > now) {
        if (outage !== null) outage.fineSince = null;
        else {
          member.outage = { since: now, fineSince: null };
          // Each thread of a process has its own pool and sees the same outage.
          if (shared?.begin(member.upstream.label) === false) return;
          log.warn({ ...about, reason: health.reason }, 'upstream is cooling down');
        }
      } else if (outage !== null && isOk) {
        outage.fineSince ??= now;
        if (now - outage.fineSince < core.upstream.coolDownMs) return;
        member.outage = null;
        if (shared?.end(member.upstream.label) === false) return;
        log.info({ ...about, outageMs: Math.round(outage.fineSince - outage.since) }, 'upstream is back');
      }
    },
    /** The upstream is none of this pool any more. */
    forget(member: PoolMember): void {
      if (member.outage !== null) shared?.end(member.upstream.label);
    },
  };
}
