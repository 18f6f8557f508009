/** Methods about proofs without a daemon around them. */
import type { Static } from '@sinclair/typebox';
import { compressionConfig } from '../../plugins/compression/config.ts';
import { createProofMethods } from '../../plugins/compression/rpc/methods.ts';
import { createHashing } from '../../plugins/compression/trees/hashing.ts';
import { createSystemClock } from '../../src/adapters/clock.ts';
import { createOutbound } from '../../src/adapters/outbound/index.ts';
import type { Clock } from '../../src/ports/clock.ts';
import type { Store } from '../../src/ports/store.ts';
import { createMetricsRegistry } from '../../src/runtime/metrics.ts';
import { createMethodBed, type MethodBed } from './compression-methods.ts';
import { createMemoryLog } from './memory-log.ts';

export interface ProofBed extends MethodBed {
  readonly log: ReturnType<typeof createMemoryLog>;
  stop(): Promise<void>;
}

export function createProofBed(
  store: Store,
  options: { readonly config?: Partial<Static<typeof compressionConfig>>; readonly clock?: Clock } = {},
): ProofBed {
  const clock = options.clock ?? createSystemClock();
  const log = createMemoryLog();
  const config = { ...defaults(), ...options.config };
  const metrics = createMetricsRegistry().scope('compression');
  const outbound = createOutbound({ clock, log });
  const made = createProofMethods(
    { config, store, log, clock, metrics, outbound },
    createHashing({ add: () => undefined }),
  );
  return { ...createMethodBed(store, { clock, more: made.factories }), log, stop: made.stop };
}

function defaults(): Static<typeof compressionConfig> {
  const members = Object.entries(compressionConfig.properties).map(([name, schema]) => [
    name,
    (schema as { default?: unknown }).default,
  ]);
  return Object.fromEntries(members) as Static<typeof compressionConfig>;
}
