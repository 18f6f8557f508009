/** Mechanisms that plugins share with the daemon, `parhelion/kit`. */
export {
  type AcquireOptions,
  createSemaphore,
  type Semaphore,
  SemaphoreFull,
  type SemaphoreOptions,
} from './semaphore.ts';
export {
  type BackoffOptions,
  backoffMs,
  createWakeup,
  DeadlinePassed,
  orAborted,
  retryAfterMs,
  startEvery,
  type Wakeup,
  withDeadline,
} from './waiting.ts';
