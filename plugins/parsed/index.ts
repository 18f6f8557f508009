import { API_VERSION, definePlugin } from '../../src/plugin/plugin.ts';
import { addressWalks } from '../../src/ports/address-walk.ts';
import { kernelLedger } from '../../src/ports/ledger.ts';
import { tokenNames } from '../../src/ports/token-names.ts';
import { createWords } from '../../src/solana/parsers/words.ts';
import { parsedConfig } from './config.ts';
import { createInterfaces } from './interfaces.ts';
import { historyRoute, scanRoute, transactionsRoute } from './routes.ts';
import { migrations } from './store.ts';
import { createFetch } from './transactions.ts';

/** How often the folder of interfaces is looked at. */
const FOLDER_MS = 2_000;

/** Parsed Events: transactions of any program, decoded by the interface (IDL) that was valid in their slot. */
export default definePlugin({
  id: 'parsed',
  apiVersion: API_VERSION,
  summary: 'decodes transactions of any program by its IDL',
  roles: ['api'],
  config: parsedConfig,
  migrations,
  uses: [addressWalks, kernelLedger, tokenNames],
  provision(ctx) {
    const { config } = ctx;
    if (ctx.chain('main') === null) return;
    const chain = () => ctx.chain('main');
    const ledgers = ctx.use(kernelLedger);
    const interfaces = createInterfaces({ chain, config, log: ctx.log, store: () => ctx.store });
    if (config.idls.folder !== null) {
      ctx.onStart(() => interfaces.readFolder());
      ctx.every(FOLDER_MS, () => interfaces.readFolder());
    }
    const words = createWords(ctx.use(tokenNames) ?? null);
    const fetch = createFetch({
      ...{ chain, config, log: ctx.log, random: ctx.random },
      ledger: () => ledgers?.('main') ?? null,
    });
    const elements = { interfaces, words };
    ctx.http.route(transactionsRoute({ config, fetch, elements }));
    const open = ctx.use(addressWalks);
    if (open === undefined) return;
    const parts = { open, config, elements, clock: ctx.clock };
    ctx.http.route(historyRoute({ config }, parts));
    ctx.http.route(scanRoute({ config }, parts));
  },
});
