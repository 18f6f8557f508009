import { defineHostPlugin } from '../../src/plugin/host.ts';
import { API_VERSION, CodedError } from '../../src/plugin/plugin.ts';
import { accessCharges, accessPlans, storedBudgets } from '../../src/ports/access.ts';
import { kernelFollowing } from '../../src/ports/following.ts';
import { kernelGaps } from '../../src/ports/gaps.ts';
import { kernelOutbox } from '../../src/ports/outbox.ts';
import { kernelParsers } from '../../src/ports/parsers.ts';
import { tokenNames } from '../../src/ports/token-names.ts';
import { assembleWebhooks } from './assemble.ts';
import { webhooksConfig } from './config.ts';
import { WEBHOOKS_ERRORS } from './errors.ts';
import { migrations } from './store/tables.ts';

export default defineHostPlugin({
  id: 'webhooks',
  apiVersion: API_VERSION,
  summary: 'watches addresses and sends matching transactions to HTTP endpoints',
  config: webhooksConfig,
  uses: [
    kernelOutbox,
    kernelGaps,
    kernelParsers,
    tokenNames,
    kernelFollowing,
    accessPlans,
    accessCharges,
    storedBudgets,
  ],
  migrations,
  provision(ctx) {
    const outbox = ctx.use(kernelOutbox);
    if (outbox === undefined) throw new CodedError('WEBHOOKS_NO_OUTBOX', WEBHOOKS_ERRORS.WEBHOOKS_NO_OUTBOX);
    return assembleWebhooks(ctx, {
      outbox,
      gaps: ctx.use(kernelGaps) ?? null,
      plans: ctx.use(accessPlans) ?? null,
      charges: ctx.use(accessCharges) ?? null,
      budgets: ctx.use(storedBudgets) ?? null,
      following: ctx.use(kernelFollowing) ?? null,
    });
  },
});
