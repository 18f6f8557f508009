/** Mechanisms that plugins share with the daemon, `parhelion/kit`. */
export { type BackoffOptions, backoffMs, retryAfterMs } from './backoff.ts';
export { DeadlinePassed, orAborted, withDeadline } from './deadline.ts';
export {
  type AcquireOptions,
  createSemaphore,
  type Semaphore,
  SemaphoreFull,
  type SemaphoreOptions,
} from './semaphore.ts';
export { createWakeup, startEvery, type Wakeup } from './waiting.ts';
