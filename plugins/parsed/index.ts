import { API_VERSION, defineHostPlugin } from '../../src/plugin/host.ts';
import { accessRemoval } from '../../src/ports/access.ts';
import { addressWalks } from '../../src/ports/address-history.ts';
import { kernelLedger } from '../../src/ports/ledger.ts';
import { parsedTransactions } from '../../src/ports/parsed-transactions.ts';
import { tokenNames } from '../../src/ports/tokens.ts';
import { explainDescription } from './command-list.ts';
import { parsedConfig } from './config.ts';

/** Parsed Events: transactions of any program, decoded by the interface (IDL) that was valid in their slot. */
export default defineHostPlugin({
  id: 'parsed',
  apiVersion: API_VERSION,
  summary: 'decodes transactions of any program by its IDL',
  roles: ['api', 'indexer'],
  config: parsedConfig,
  uses: [accessRemoval, addressWalks, kernelLedger, tokenNames],
  offers: [parsedTransactions],
  commands: [explainDescription],
  migrations: async () => (await import('./store.ts')).migrations,
  provision: async (ctx) => (await import('./plugin.ts')).provision(ctx),
});
