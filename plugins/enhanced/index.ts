import { API_VERSION, defineHostPlugin } from '../../src/plugin/host.ts';
import { keptAnswers } from '../../src/ports/address-history.ts';
import { kernelParsers } from '../../src/ports/parsers.ts';
import { tokenFacts, tokenNames } from '../../src/ports/tokens.ts';
import { enhancedConfig } from './config.ts';

export default defineHostPlugin({
  id: 'enhanced',
  apiVersion: API_VERSION,
  summary: 'describes the effects of transactions as text and structured data',
  roles: ['api'],
  config: enhancedConfig,
  uses: [kernelParsers, keptAnswers, tokenFacts, tokenNames],
  provision: async (ctx) => (await import('./plugin.ts')).provision(ctx),
});
