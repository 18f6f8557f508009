import type { ChainId, PluginContext } from '../../../src/kernel/plugin.ts';
import type { GapBook } from '../../../src/ports/gaps.ts';
import type { Outbox } from '../../../src/ports/outbox.ts';
import type { WebhooksConfig } from '../config.ts';
import { createAlerts } from './alerts.ts';
import { createGapAlerts } from './gap-alerts.ts';
import { createOperational } from './operational.ts';
import { createRevertAlerts } from './revert-alerts.ts';
import { createStallAlerts } from './stall-alerts.ts';

export interface OperatorAlertParts {
  readonly outbox: Outbox;
  readonly gaps: GapBook | null;
  readonly chains: readonly ChainId[];
  /** The processor whose gaps count. */
  readonly processor: string;
}

/** All that the operator is told of. */
export function createOperatorAlerts(ctx: PluginContext<WebhooksConfig>, parts: OperatorAlertParts) {
  const { config, store, clock, random, log } = ctx;
  const { outbox, gaps, chains, processor } = parts;
  const operational = createOperational({ config: config.operational, enqueue: ctx.enqueue, clock, random });
  return {
    alerts: createAlerts(operational, clock, log),
    gapAlerts: gaps === null ? null : createGapAlerts(operational, gaps, store, processor),
    stallAlerts: createStallAlerts({
      ...{ operational, outbox, store, clock, chains, maxLagSlots: config.maxLagSlots },
      status: (chain) => ctx.chain(chain)?.status() ?? null,
      patienceMs: ctx.core.follow.stalledAfterSeconds * 1_000,
    }),
    ...createRevertAlerts(operational, store, log),
  };
}
