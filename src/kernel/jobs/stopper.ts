import { setMaxListeners } from 'node:events';
import { CodedError } from '../../lib/coded-error.ts';

/** Tells all running attempts that the runner stops. */
export interface Stopper {
  readonly isStopping: boolean;
  /** For jobs that keep their time themselves; aborts before the listeners are told. */
  readonly signal: AbortSignal;
  /** What running attempts do when it stops; they take themselves out when they are over. */
  readonly listeners: Set<() => void>;
  stop(): void;
}

export function createStopper(): Stopper {
  const stopping = new AbortController();
  const listeners = new Set<() => void>();
  // As many listen as there are jobs under way: that is no leak.
  setMaxListeners(0, stopping.signal);
  let isStopping = false;
  return {
    get isStopping() {
      return isStopping;
    },
    signal: stopping.signal,
    listeners,
    stop() {
      isStopping = true;
      stopping.abort(stopReason());
      for (const listener of listeners) listener();
    },
  };
}

/** What attempts are aborted with when the daemon stops. */
export function stopReason(): CodedError {
  return new CodedError('JOB_STOPPED', 'the daemon stops');
}
