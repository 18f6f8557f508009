import type { BlockProcessor, Command, JobKind, PluginContext } from '../../../src/plugin/plugin.ts';
import { accessPlans, storedBudgets } from '../../../src/ports/access.ts';
import type { Outbox } from '../../../src/ports/outbox.ts';
import { tokenFacts } from '../../../src/ports/token-facts.ts';
import { balanceAtRoute } from '../balance-at.ts';
import { followCommands } from '../commands/follow.ts';
import type { WalletConfig } from '../config.ts';
import { createFundingSearches, fundedByRoute } from '../funded-by.ts';
import { historyRoute } from '../history.ts';
import { refusedAs503 } from '../input.ts';
import type { Label, WalletPart } from '../part.ts';
import { createTokenWords } from '../token-words.ts';
import { transfersRoute } from '../transfers.ts';
import { createAdmission } from './admission.ts';
import { createDigests } from './digests.ts';
import { createWalletMetrics } from './metrics.ts';
import { createOpenWallet } from './open-wallet.ts';
import { createWalletProcessor } from './processor.ts';
import { createTracker } from './tracker.ts';
import { createIndexJob, createSchedule, createUpkeep } from './upkeep.ts';
import { createWalletUpstream } from './upstream.ts';
import { noChain } from './view.ts';
import { createWholeAnswers } from './whole-answers.ts';

export interface TrackingPart extends WalletPart {
  readonly processors: readonly BlockProcessor[];
  readonly jobs: readonly JobKind[];
  readonly commands: readonly Command[];
}

/** Finished answers take this part of the memory for what answers tell. */
const PART_OF_ANSWERS = 4;
/** Searches for first fundings under way at once; more are told to come again. */
const MOST_SEARCHES = 64;

/** The index of wallets and what is answered from it. */
export function trackingPart(
  ctx: PluginContext<WalletConfig>,
  outbox: Outbox,
  labelOf: (address: string) => Label | null,
): TrackingPart {
  const { config, store, clock, log } = ctx;
  const { readThroughMs, scanLimit, commitment, explorerTxUrl, historyFloorSlot } = config;
  const { maxPages } = config.fundedBy;
  // One half for transactions, one for what answers tell of them.
  const cacheBytes = Math.ceil(config.transactions.cacheBytes / 2);
  const chain = ctx.chain('main');
  const metrics = createWalletMetrics(ctx.metrics);
  const upstream =
    chain === null ? null : createWalletUpstream(chain, { concurrency: config.backfill.concurrency, historyFloorSlot });
  const schedule = createSchedule(outbox, ctx.jobs.add);
  const admission =
    chain === null || upstream === null
      ? null
      : createAdmission({
          ...{ store, clock, chain, upstream, limits: config.limits, plans: ctx.use(accessPlans) ?? null },
          budgets: ctx.use(storedBudgets) ?? null,
        });
  const finalSlot = () => chain?.status().finalizedSlot ?? null;
  const upkeep = createUpkeep({ store, clock, log, schedule, config, admission, finalSlot });
  const tracker =
    chain === null || upstream === null
      ? null
      : createTracker({
          ...{ store, clock, chain, upstream, schedule, admission, commitment, readThroughMs },
          cacheBytes,
        });
  const open = createOpenWallet(chain, tracker);
  const answerBytes = Math.ceil(cacheBytes / PART_OF_ANSWERS);
  const words = createTokenWords(ctx.use(tokenFacts) ?? null, log);
  const answers = createWholeAnswers({ store, chain, words, maxBytes: answerBytes });
  const digests = createDigests(cacheBytes - answerBytes);
  const searches =
    upstream === null
      ? null
      : createFundingSearches(
          { store, upstream, maxPages, log },
          (signal) => clock.sleep(readThroughMs, signal),
          MOST_SEARCHES,
        );
  const limits = { ...config.limits, now: () => clock.now() };
  const newestSlot = (signal: AbortSignal) =>
    chain === null
      ? Promise.reject(noChain())
      : refusedAs503('getSlot', chain.call<number>('getSlot', [{ commitment: 'confirmed' }], { signal }));
  return {
    routes: [
      historyRoute({ open, digests, answers, words, scanLimit }),
      transfersRoute({ open, digests, words, scanLimit }),
      balanceAtRoute({ open, words, clock, newestSlot, knownSlot: () => chain?.status().cursorSlot ?? -1 }),
      fundedByRoute({
        ...{ store, open, log, searches, labelOf, explorerTxUrl, maxPages },
        checkAddress: (address, signal) => admission?.checkAddress(address, signal) ?? Promise.reject(noChain()),
      }),
    ],
    processors: [createWalletProcessor({ ...{ random: ctx.random, isFull: config.full, limits }, ...metrics })],
    jobs:
      upstream === null || admission === null
        ? []
        : [
            createIndexJob(
              { ...{ store, upstream, clock, log }, kept: metrics.kept, mayGoOn: admission.mayGoOn },
              config.backfill.wallets,
            ),
          ],
    commands: followCommands(clock),
    start: () => upkeep.start(ctx.roles),
    stop() {
      searches?.stop();
      upkeep.stop();
    },
  };
}
