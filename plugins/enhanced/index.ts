import { API_VERSION, definePlugin } from '../../src/plugin/plugin.ts';
import { kernelParsers } from '../../src/ports/parsers.ts';
import { tokenFacts, tokenNames } from '../../src/ports/tokens.ts';
import { enhancedConfig } from './config.ts';
import { createElements, createTransactions } from './elements.ts';
import { addressRoute, transactionsRoute } from './routes.ts';

export default definePlugin({
  id: 'enhanced',
  apiVersion: API_VERSION,
  summary: 'describes the effects of transactions as text and structured data',
  roles: ['api'],
  config: enhancedConfig,
  uses: [kernelParsers, tokenFacts, tokenNames],
  provision(ctx) {
    const transactions = createTransactions({
      chain: () => ctx.chain('main'),
      random: ctx.random,
      config: ctx.config,
    });
    const elements = createElements({
      ...{ config: ctx.config, log: ctx.log, metrics: ctx.metrics, clock: ctx.clock },
      book: ctx.use(kernelParsers) ?? null,
      facts: ctx.use(tokenFacts) ?? null,
      names: ctx.use(tokenNames) ?? null,
    });
    const parts = { transactions, elements, config: ctx.config };
    ctx.http.route(transactionsRoute(parts));
    ctx.http.route(addressRoute(parts));
  },
});
