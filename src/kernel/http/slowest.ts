import type { CoreConfig } from '../config/core.ts';

/** The longest time that any handler may take: what waits for an answer must wait longer than this. */
export function slowestMs(core: CoreConfig, handlers: readonly { readonly timeoutMs?: number }[]): number {
  return handlers.reduce(
    (most, { timeoutMs = 0 }) => Math.max(most, timeoutMs),
    Math.max(core.http.handlerTimeoutMs, core.rpc.upstreamTimeoutMs),
  );
}
