import type { CallContext, Clock } from '../../../src/kernel/plugin.ts';
import { createLru } from '../../../src/lib/lru.ts';

/** Remembers which upstream answered a caller last, so that slots do not appear to go backwards between its calls. */
export interface Sticky {
  /** Label of the upstream to prefer, or undefined. */
  of(context: CallContext): string | undefined;
  /** Called after each answer: the time counts from the last one. */
  keep(context: CallContext, label: string): void;
}

export function createSticky(clock: Clock, stickyMs: number, callers: number): Sticky {
  const seen = createLru<string, { readonly label: string; readonly at: number }>({ max: callers });
  return {
    of(context) {
      const entry = seen.get(callerName(context));
      return entry !== undefined && clock.monotonic() - entry.at < stickyMs ? entry.label : undefined;
    },
    keep(context, label) {
      if (stickyMs > 0) seen.set(callerName(context), { label, at: clock.monotonic() });
    },
  };
}

/** A key is one caller wherever it calls from; without a key the address is. */
function callerName({ caller, remoteAddress }: CallContext): string {
  return caller?.keyId ?? `${caller?.projectId ?? ''} ${remoteAddress}`;
}
