/** Whether a value must be awaited; awaiting a plain value would cost a turn of the promise queue. */
export function isPromise<T>(value: T | Promise<T>): value is Promise<T> {
  return typeof value === 'object' && value !== null && typeof (value as { then?: unknown }).then === 'function';
}
