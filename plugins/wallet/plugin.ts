import { CodedError, type PluginContext } from '../../src/plugin/plugin.ts';
import { accessPlans, accessRemoval, storedBudgets, tenantOf } from '../../src/ports/access.ts';
import { addressHistories } from '../../src/ports/address-history.ts';
import { kernelPast } from '../../src/ports/ledger.ts';
import { kernelOutbox } from '../../src/ports/outbox.ts';
import { tokenFacts } from '../../src/ports/tokens.ts';
import { balanceAtRoute } from './balance-at.ts';
import { balancesRoutes } from './balances/route.ts';
import { WALLET_ERRORS, type WalletConfig } from './config.ts';
import { createFundingSearches, fundedByRoute } from './funded-by.ts';
import { createResponseCache, walletHistoryRoute } from './history.ts';
import { identityRoutes } from './identity/routes.ts';
import { followCommands, walletsRoute } from './operator.ts';
import { leaveProject } from './store/wallets.ts';
import { createWalletAdmission } from './tracking/admission.ts';
import { createChainHistory } from './tracking/chain-history.ts';
import { createDerivedRows } from './tracking/derived-rows.ts';
import { createWalletProcessor } from './tracking/processor.ts';
import { createOpenHistory, createOpenWallet, createTracker, type OpenWallet } from './tracking/tracker.ts';
import { createIndexJob, createSchedule, createWalletUpkeep } from './tracking/upkeep.ts';
import { noChain } from './tracking/view.ts';
import { transfersRoute } from './transfers.ts';
import { createMintFactsReader, refusedAs503 } from './wallet-route.ts';

/** Share of the memory for derived rows that the response cache uses. */
const RESPONSE_SHARE = 1 / 4;
/** First-funding searches in flight at once; further ones get a 503 with Retry-After. */
const MAX_SEARCHES = 64;

/** The composition root of the plugin: the index of wallets, the routes that read it, balances and identities. */
export function provision(ctx: PluginContext<WalletConfig>): void {
  const outbox = ctx.use(kernelOutbox);
  if (outbox === undefined) throw new CodedError('WALLET_NO_OUTBOX', WALLET_ERRORS.WALLET_NO_OUTBOX);
  const { config, store, clock, log, metrics } = ctx;
  const { commitment, historyFloorSlot } = config;
  const chain = ctx.chain('main');
  const identity = identityRoutes(ctx, config);
  const balances = balancesRoutes(ctx, config);

  const { concurrency } = config.backfill;
  const past = ctx.use(kernelPast)?.('main') ?? null;
  const upstream = chain === null ? null : createChainHistory(chain, { concurrency, historyFloorSlot, past });
  const schedule = createSchedule(outbox, ctx.jobs.add);
  const admission =
    chain === null || upstream === null
      ? null
      : createWalletAdmission({
          store,
          clock,
          chain,
          upstream,
          limits: config.limits,
          plans: ctx.use(accessPlans) ?? null,
          budgets: ctx.use(storedBudgets) ?? null,
        });
  const finalSlot = () => chain?.status().finalizedSlot ?? null;
  const upkeep = createWalletUpkeep({ store, clock, log, schedule, config, admission, finalSlot });

  // Half of the memory for transactions, half for what responses are made of.
  const cacheBytes = Math.ceil(config.transactions.cacheBytes / 2);
  const responseBytes = Math.ceil(cacheBytes * RESPONSE_SHARE);
  const tracker =
    chain === null || upstream === null
      ? null
      : createTracker({ store, clock, chain, upstream, schedule, admission, commitment, config, cacheBytes });
  const open = createOpenWallet(chain, tracker);
  /** A node that is behind lacks what was released since: its list would be shorter. */
  const openToTip: OpenWallet = async (key, address, call) => {
    const releasedSlot = chain?.status().cursorSlot ?? -1;
    const view = await open(key, address, call);
    await view.reach(releasedSlot);
    return view;
  };
  ctx.provide(addressHistories, createOpenHistory(open, tracker));
  const mintFacts = createMintFactsReader(ctx.use(tokenFacts) ?? null, log);
  const responses = createResponseCache({ store, chain, mintFacts, maxBytes: responseBytes });
  const derivedRows = createDerivedRows(cacheBytes - responseBytes);
  const searches =
    upstream === null
      ? null
      : createFundingSearches(
          { store, upstream, config, log },
          (signal) => clock.sleep(config.readThroughMs, signal),
          MAX_SEARCHES,
        );
  const newestSlot = (signal: AbortSignal) =>
    chain === null
      ? Promise.reject(noChain())
      : refusedAs503(
          'getSlot',
          chain.call<number>('getSlot', [{ commitment: 'confirmed' }], { signal, tenant: tenantOf(signal) }),
        );

  const matched = metrics.counter('rows_matched_total', 'Rows of wallets and token accounts found in blocks');
  const merged = metrics.counter('rows_merged_total', 'Rows of final blocks merged into the history');
  const kept = metrics.counter('transactions_backfilled_total', 'Past transactions of wallets that were stored');
  const routes = [
    ...identity.routes,
    ...balances.routes,
    walletHistoryRoute({ open: openToTip, derivedRows, responses, mintFacts, config }),
    transfersRoute({ open: openToTip, derivedRows, mintFacts, config }),
    balanceAtRoute({ open, mintFacts, clock, newestSlot, knownSlot: () => chain?.status().cursorSlot ?? -1 }),
    fundedByRoute({
      store,
      open,
      log,
      searches,
      labelOf: identity.labelOf,
      config,
      checkAddress: (address, signal) => admission?.checkAddress(address, signal) ?? Promise.reject(noChain()),
    }),
    walletsRoute(store),
  ];
  for (const route of routes) ctx.http.route(route);
  const limitsNow = {
    get transactions() {
      return config.limits.transactions;
    },
    get transactionsPerMinute() {
      return config.limits.transactionsPerMinute;
    },
    now: () => clock.now(),
  };
  ctx.blocks.on(
    createWalletProcessor({
      random: ctx.random,
      isFull: config.full,
      limits: limitsNow,
      matched: (rows) => matched.add(rows),
      merged: (rows) => merged.add(rows),
    }),
  );
  if (upstream !== null && admission !== null) {
    const parts = {
      store,
      upstream,
      clock,
      log,
      mayContinue: admission.mayContinue,
      kept: (transactions: number) => kept.add(transactions),
    };
    ctx.jobs.define(createIndexJob(parts, config.backfill.wallets));
  }
  for (const command of followCommands(clock)) ctx.command(command);
  ctx.use(accessRemoval)?.onDelete((tx, project) => leaveProject(tx, project, config.full, clock.now()));
  ctx.onStart(async () => {
    await identity.start();
    await upkeep.start(ctx.roles);
  });
  ctx.onStop(async () => {
    identity.stop();
    await balances.stop();
    searches?.stop();
    upkeep.stop();
  });
}
