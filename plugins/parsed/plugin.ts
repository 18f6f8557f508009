import type { PluginContext } from '../../src/plugin/plugin.ts';
import { accessRemoval } from '../../src/ports/access.ts';
import { addressWalks } from '../../src/ports/address-history.ts';
import { kernelLedger } from '../../src/ports/ledger.ts';
import { parsedTransactions } from '../../src/ports/parsed-transactions.ts';
import { tokenNames } from '../../src/ports/tokens.ts';
import { createWords } from '../../src/solana/parsers/parser.ts';
import { createParsedTransactions } from './board.ts';
import type { ParsedConfig } from './config.ts';
import { explainCommand } from './explain.ts';
import { createFetch } from './fetch.ts';
import { createInterfaces } from './interfaces/index.ts';
import { describeParsedMethods, parsedHistoryRoute, scanRoute, transactionsRoute } from './routes.ts';
import { forgetUploads } from './store.ts';
import { createOwnOf, uploadRoutes } from './uploads.ts';

/** How often the folder of interfaces is looked at. */
const FOLDER_MS = 2_000;

export function provision(ctx: PluginContext<ParsedConfig>): void {
  const { clock, config, random } = ctx;
  const store = () => ctx.store;
  ctx.use(accessRemoval)?.onDelete(forgetUploads);
  const chain = () => ctx.chain('main');
  const ledgers = ctx.use(kernelLedger);
  const fetch = createFetch({ chain, config, log: ctx.log, random, ledger: () => ledgers?.('main') ?? null });
  const interfaces = createInterfaces({ chain, config, log: ctx.log, store, fetch, clock });
  const ownOf = createOwnOf({ store, clock, config });
  if (config.idls.folder !== null) {
    ctx.onStart(() => interfaces.readFolder());
    ctx.every(FOLDER_MS, () => interfaces.readFolder());
  }
  const words = createWords(ctx.use(tokenNames) ?? null);
  ctx.provide(parsedTransactions, createParsedTransactions({ interfaces, ownOf, words, random }));
  if (chain() === null) return;
  const elements = { interfaces, ownOf, words };
  ctx.command(explainCommand({ fetch, elements }));
  for (const route of uploadRoutes({ store, clock, config, elements })) ctx.http.route(route);
  for (const method of describeParsedMethods({ chain, config, elements })) ctx.rpc.method(method);
  ctx.http.route(transactionsRoute({ config, fetch, elements }));
  const open = ctx.use(addressWalks);
  if (open === undefined) return;
  const parts = { open, config, elements, clock };
  ctx.http.route(parsedHistoryRoute({ config }, parts));
  ctx.http.route(scanRoute({ config }, parts));
}
