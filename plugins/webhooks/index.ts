import { API_VERSION, defineHostPlugin } from '../../src/plugin/host.ts';
import { accessCharges, accessPlans, accessRemoval, storedBudgets } from '../../src/ports/access.ts';
import { kernelFollowing, kernelGaps } from '../../src/ports/following.ts';
import { kernelOutbox } from '../../src/ports/outbox.ts';
import { parsedTransactions } from '../../src/ports/parsed-transactions.ts';
import { kernelParsers } from '../../src/ports/parsers.ts';
import { sinkEvents } from '../../src/ports/sink.ts';
import { tokenNames } from '../../src/ports/tokens.ts';
import { WEBHOOK_COMMANDS } from './command-list.ts';
import { webhooksConfig } from './config.ts';

export default defineHostPlugin({
  id: 'webhooks',
  apiVersion: API_VERSION,
  summary: 'watches addresses and sends matching transactions to HTTP endpoints',
  config: webhooksConfig,
  uses: [
    kernelOutbox,
    kernelGaps,
    kernelParsers,
    parsedTransactions,
    tokenNames,
    kernelFollowing,
    accessPlans,
    accessCharges,
    accessRemoval,
    storedBudgets,
    sinkEvents,
  ],
  commands: Object.values(WEBHOOK_COMMANDS),
  migrations: async () => (await import('./store/tables.ts')).migrations,
  provision: async (ctx) => (await import('./plugin.ts')).provision(ctx),
});
