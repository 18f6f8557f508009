import { API_VERSION, definePlugin } from '../../src/plugin/plugin.ts';
import { tokenFacts } from '../../src/ports/token-facts.ts';
import { tokenNames } from '../../src/ports/token-names.ts';
import { assembleTokenMetadata } from './assemble.ts';
import { tokenMetadataConfig } from './config.ts';
import { migrations } from './store/tables.ts';

export default definePlugin({
  id: 'token-metadata',
  apiVersion: API_VERSION,
  summary: 'tells what is known of tokens, on the chain and beside it',
  config: tokenMetadataConfig,
  offers: [tokenFacts, tokenNames],
  migrations,
  provision: (ctx) => assembleTokenMetadata(ctx),
});
