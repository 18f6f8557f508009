import type { Command, HealthCheck, PluginContext, Route } from '../../../src/kernel/plugin.ts';
import type { GapBook } from '../../../src/ports/gaps.ts';
import { snapshotCommands } from '../commands/snapshot.ts';
import { verifyCommand } from '../commands/verify.ts';
import type { CompressionConfig } from '../config.ts';
import { createAccountReader } from '../das/account-reader.ts';
import type { Cnft } from '../das/cnft.ts';
import { createSnapshotKeeper } from '../snapshot/keeper.ts';
import { NOTES, readNote } from '../store/notes.ts';
import type { Db, TreeRow } from '../store/tables.ts';
import type { Hashing } from '../trees/hashing.ts';
import { rebuildTree } from '../trees/rebuild.ts';
import { createTreeCheck } from './health.ts';
import { createMissingUpdates } from './missing-updates.ts';
import { createQueueCheck } from './queue-check.ts';
import { createQueueReader } from './queue-reader.ts';
import { createRepair } from './repair.ts';
import { createRootCheck } from './root-check.ts';
import { createTreeReader } from './tree-reader.ts';
import { treesRoute } from './trees-route.ts';
import { createChainWatch } from './watch.ts';

/** What the plugin has to do with the chain beside its blocks, and what keeps and checks its state. */
export interface ChainPart {
  /** Where the processor begins; known once `start` has run. */
  startSlot(): number | undefined;
  readonly checks: readonly HealthCheck[];
  readonly routes: readonly Route[];
  readonly commands: readonly Command[];
  start(): Promise<void>;
  stop(signal: AbortSignal): Promise<void>;
}

const PROCESSOR = { name: 'compression', version: 1 } as const;

export function createChainPart(
  ctx: PluginContext<CompressionConfig>,
  gaps: GapBook | null,
  hashing: Hashing,
  cnft: Cnft | null = null,
): ChainPart {
  const { config, store, clock, log, random, metrics } = ctx;
  const chain = ctx.chain('main');
  const reader = chain === null ? null : createTreeReader(chain, config, ctx.core.follow.commitment);
  const genesisHash = async () => (chain === null ? null : await chain.call<string>('getGenesisHash', []));
  const queues =
    chain === null || !config.verifyChain
      ? null
      : createQueueCheck({ store, hashing, reader: createQueueReader(chain, ctx.core.follow.commitment), log });
  const isDoubted = (tree: TreeRow) => queues?.isDoubted(tree) ?? false;
  const check = reader === null || !config.verifyChain ? null : createRootCheck({ store, reader, log, isDoubted });
  const missing =
    reader === null || gaps === null
      ? null
      : createMissingUpdates({
          ...{ store, gaps, reader, log, processor: PROCESSOR, maxUpdates: config.historyMaxUpdates },
          firstSlot: async () => FIRST_SLOTS[(await genesisHash()) ?? ''] ?? 0,
        });
  const repair = createRepair({
    ...{ store, hashing, reader, missing, clock, log, leavesHistory: config.startSlot === 'latest' },
    rebuild: (tree, signal) => rebuildTree({ store, hashing }, tree, signal),
  });
  const newestSlot = async () =>
    chain === null ? 0 : await chain.call<number>('getSlot', [{ commitment: ctx.core.follow.commitment }]);
  const refresh = reader === null || check === null ? null : { store, hashing, reader, check, log, newestSlot };
  const repairs = [
    repair,
    ...(cnft === null || gaps === null || chain === null
      ? []
      : [
          cnft.repair({
            ...{ store, gaps, processor: PROCESSOR, maxUpdates: config.historyMaxUpdates, clock, log },
            account: createAccountReader(chain, ctx.core.follow.commitment),
            lightHashing: hashing,
          }),
        ]),
  ];
  const watch = createChainWatch({ store, chain, refresh, checks: [check, queues], repairs, metrics, clock, log });
  const keeper = createSnapshotKeeper({ store, config, chain, clock, log, genesisHash });
  let startSlot: number | undefined;
  const works = config.index && ctx.roles.has('indexer');
  return {
    startSlot: () => startSlot,
    checks: config.index && ctx.roles.has('api') ? [createTreeCheck(store, config.trees)] : [],
    routes: [treesRoute(store)],
    commands: [
      ...snapshotCommands({ config, hashing, random, clock, gaps, chain, reader, genesisHash, processor: PROCESSOR }),
      verifyCommand({ hashing, reader }),
    ],
    async start() {
      startSlot = await firstStart(store.read as Db, config.startSlot);
      if (!works) return;
      watch.start();
      keeper.start();
    },
    async stop(signal) {
      await watch.stop();
      await keeper.stop(works ? signal : null);
    },
  };
}

/** First slots with an account, by genesis hash: before them there is nothing to be read. */
const FIRST_SLOTS: Readonly<Record<string, number>> = {
  '5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d': 286_193_745,
  EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG: 319_998_225,
};

/** The configured slot, or what a snapshot goes on with; undefined to begin where the chain is first followed. */
async function firstStart(db: Db, configured: CompressionConfig['startSlot']): Promise<number | undefined> {
  if (typeof configured === 'number') return configured;
  const slot = configured === 'latest' ? null : await readNote(db, NOTES.snapshotSlot);
  return slot === null ? undefined : Number(slot) + 1;
}
