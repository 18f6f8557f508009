import type { BlockProcessor, Command, JobKind, PluginContext } from '../../../src/kernel/plugin.ts';
import type { Outbox } from '../../../src/ports/outbox.ts';
import { tokenFacts } from '../../../src/ports/token-facts.ts';
import { balanceAtRoute } from '../balance-at/route.ts';
import { followCommands } from '../commands/follow.ts';
import type { WalletConfig } from '../config.ts';
import { fundedByRoute } from '../funded-by/route.ts';
import { createFundingSearches } from '../funded-by/search.ts';
import { historyRoute } from '../history/route.ts';
import { refusedAs503 } from '../input/chain-call.ts';
import { createTokenWords } from '../input/token-words.ts';
import type { Label, WalletPart } from '../part.ts';
import { transfersRoute } from '../transfers/route.ts';
import { createDigests } from './digests.ts';
import { createIndexJob } from './job-kind.ts';
import { createWalletMetrics } from './metrics.ts';
import { createOpenWallet } from './open-wallet.ts';
import { createWalletProcessor } from './processor.ts';
import { noChain } from './refusals.ts';
import { createSchedule } from './schedule.ts';
import { createTracker } from './tracker.ts';
import { createUpkeep } from './upkeep.ts';
import { createWalletUpstream } from './upstream.ts';
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
  const schedule = createSchedule(outbox, ctx.enqueue);
  const upkeep = createUpkeep({ store, clock, log, schedule, config });
  const tracker =
    chain === null || upstream === null
      ? null
      : createTracker({
          ...{ store, clock, chain, upstream, schedule, commitment, readThroughMs },
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
  const newestSlot = (signal: AbortSignal) =>
    upstream === null
      ? Promise.reject(noChain())
      : refusedAs503('getSlot', upstream.slot({ commitment: 'confirmed', signal }));
  return {
    routes: [
      historyRoute({ open, digests, answers, words, scanLimit }),
      transfersRoute({ open, digests, words, scanLimit }),
      balanceAtRoute({ open, words, clock, newestSlot }),
      fundedByRoute({ store, searches, labelOf, explorerTxUrl, maxPages }),
    ],
    processors: [createWalletProcessor({ random: ctx.random, isFull: config.full, ...metrics })],
    jobs:
      upstream === null
        ? []
        : [createIndexJob({ store, upstream, clock, log, kept: metrics.kept }, config.backfill.wallets)],
    commands: followCommands(clock),
    start: () => upkeep.start(ctx.roles),
    stop() {
      searches?.stop();
      upkeep.stop();
    },
  };
}
