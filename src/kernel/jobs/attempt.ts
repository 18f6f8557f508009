import { CodedError, messageOf } from '../../lib/coded-error.ts';
import type { Clock, Random } from '../../ports/clock.ts';
import type { JobKind, JobOutcome } from '../plugin.ts';
import type { ClaimedJob } from './claim.ts';
import { type Stopper, stopReason } from './stopper.ts';
import { isStoreTrouble } from './store-trouble.ts';

export interface AttemptOptions {
  readonly kind: JobKind;
  readonly claimed: ClaimedJob;
  readonly prepared: unknown;
  /** What is left of the kind's time. */
  readonly timeoutMs: number;
  readonly stopper: Stopper;
  readonly clock: Clock;
  readonly random: Random;
  readonly maxAttempts: number;
}

/** How long a handler may go on after its signal was aborted; shorter than the rest of the lease. */
export const GRACE_MS = 25_000;

const FIRST_STEP_MS = 5_000;
const LONGEST_STEP_MS = 3_600_000;
const JITTER = 0.2;

/**
 * Runs a job once. Always resolves: a throw becomes a retry, or a failure after `maxAttempts` counted ones; a handler that does not heed its signal
 * within the grace is given up.
 */
export function runAttempt(options: AttemptOptions): Promise<JobOutcome> {
  const { kind, claimed, prepared, stopper, clock } = options;
  const control = kind.keepsTime === true ? null : new AbortController();
  return new Promise((resolve) => {
    const onTime = () => {
      const error = new CodedError('JOB_TIMEOUT', `the job did not end within ${kind.timeoutMs} ms`);
      cancel = clock.timeout(GRACE_MS, () => finish(thrown(options, error)));
      control?.abort(error);
    };
    let cancel = clock.timeout(options.timeoutMs, onTime);
    const onStop = () => {
      cancel();
      cancel = clock.timeout(GRACE_MS, () => finish(stopped(claimed)));
      control?.abort(stopReason());
    };
    const finish = (outcome: JobOutcome) => {
      cancel();
      stopper.listeners.delete(onStop);
      resolve(outcome);
    };
    if (stopper.isStopping) return finish(stopped(claimed, 'untouched'));
    stopper.listeners.add(onStop);
    const onError = (error: unknown) => finish(stopper.isStopping ? stopped(claimed) : thrown(options, error));
    try {
      kind.run(claimed.job, prepared, control?.signal ?? stopper.signal).then(finish, onError);
    } catch (error) {
      onError(error);
    }
  });
}

/** What a throw counts as. Trouble of the store is none of the job's: it is no attempt. `untouched`: before the job was run. */
export function thrown(
  { claimed, clock, random, maxAttempts }: AttemptOptions,
  error: unknown,
  began: true | 'untouched' = true,
): JobOutcome {
  const message = messageOf(error);
  const uncounted = isStoreTrouble(error) && began;
  const attempts = claimed.job.attempts + 1;
  if (uncounted === false && (attempts >= maxAttempts || claimed.job.once === true))
    return { kind: 'failed', error: message };
  const stepMs = Math.min(LONGEST_STEP_MS, FIRST_STEP_MS * 2 ** (uncounted === false ? attempts - 1 : 0));
  const jitter = 1 - JITTER + 2 * JITTER * random.float();
  return { kind: 'retry', runAt: clock.now() + Math.round(stepMs * jitter), error: message, uncounted };
}

/** Once begun it may have had its effect: at least once is what jobs promise. */
export function stopped({ runAt }: ClaimedJob, uncounted: true | 'untouched' = true): JobOutcome {
  return { kind: 'retry', runAt, error: 'the daemon stopped', uncounted };
}
