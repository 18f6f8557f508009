import type { BlockHeader } from '../../ports/block.ts';
import type { ChainId, ChainSource, ChainStatus } from '../../ports/chain.ts';
import type { Clock, Random } from '../../ports/clock.ts';
import type { Log } from '../../ports/log.ts';
import type { Metrics } from '../../ports/metrics.ts';
import type { Store } from '../../ports/store.ts';
import type { CoreConfig } from '../config/core.ts';
import type { BlockProcessor } from '../plugin.ts';
import { runAudits } from './audit.ts';
import type { FollowContext } from './context.ts';
import { createFollowerMetrics } from './follower-metrics.ts';
import { type Lane, MAIN_LANE } from './lane.ts';
import { createLaneLoop, type LaneLoop } from './lane-loop.ts';
import { planLanes } from './plan-lanes.ts';
import { deleteHeaders, readFinalized, readOpenGaps } from './rows.ts';
import { createWake } from './wake.ts';

export { followerMigrations } from './migrations.ts';

export interface FollowerOptions {
  readonly chain: ChainId;
  readonly source: ChainSource;
  readonly store: Store;
  readonly processors: readonly BlockProcessor[];
  readonly core: CoreConfig;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly metrics: Metrics;
  /** Ends the process: FOLLOW_FENCED, STORE_IO, STORE_READ_ONLY. */
  readonly fatal: (error: unknown) => void;
}

export interface Follower {
  /** Reads the cursors and begins; the first block may come much later. */
  start(): Promise<void>;
  /** Takes no new block; the one at work finishes. */
  drain(): Promise<void>;
  stop(): Promise<void>;
  status(): Pick<ChainStatus, 'tipSlot' | 'cursorSlot' | 'finalizedSlot' | 'lagSlots' | 'stalled' | 'openGaps'>;
  /** Calls `listener` after each block of the main lane was committed. The returned function stops it. */
  onReleased(listener: (header: BlockHeader) => void): () => void;
}

interface State {
  lanes: readonly Lane[];
  tipSlot: number | null;
  finalizedSlot: number | null;
  openGaps: number;
  releasedAt: number;
}

/** Follows one chain: blocks in order, without holes, each in one transaction. */
export function createFollower(options: FollowerOptions): Follower {
  const stopping = new AbortController();
  const context: FollowContext = {
    ...options,
    follow: options.core.follow,
    metrics: createFollowerMetrics(options.metrics),
    signal: stopping.signal,
  };
  const { chain, store, clock, source, follow } = context;
  const wake = createWake(clock, stopping.signal);
  const listeners = new Set<(header: BlockHeader) => void>();
  const state: State = { lanes: [], tipSlot: null, finalizedSlot: null, openGaps: 0, releasedAt: clock.monotonic() };
  let running: Promise<unknown> = Promise.resolve();
  let stopHints = (): void => {};

  const mainLane = (): Lane | undefined => state.lanes[0];
  observe(options.metrics, state, mainLane);

  /** A lane that stands where the main lane stands is done: its processors go on with the others. */
  function adoptEqualLanes(): void {
    const main = mainLane();
    const equal = state.lanes.filter(
      (lane) => lane !== main && lane.position !== null && lane.position.blockhash === main?.position?.blockhash,
    );
    if (main === undefined || equal.length === 0) return;
    main.processors = [...main.processors, ...equal.flatMap((lane) => lane.processors)];
    state.lanes = state.lanes.filter((lane) => !equal.includes(lane));
    for (const lane of equal) {
      options.log.info({ chain, lane: lane.id }, 'caught up');
      void store.write((tx) => deleteHeaders(tx, chain, lane.id, { above: -1 })).catch(() => {});
    }
  }

  function released(header: BlockHeader): void {
    state.releasedAt = clock.monotonic();
    for (const listener of listeners) listener(header);
    wake.call();
  }

  function loopOf(lane: Lane): LaneLoop {
    const isMain = lane.id === MAIN_LANE;
    return createLaneLoop({
      context,
      lane,
      limit: () => (isMain ? Number.MAX_SAFE_INTEGER : (mainLane()?.position?.slot ?? null)),
      finalizedSlot: () => state.finalizedSlot,
      onTip: (slot) => {
        if (isMain) state.tipSlot = slot;
      },
      beforeRelease: isMain ? adoptEqualLanes : () => {},
      onReleased: isMain ? released : () => {},
      isDone: () => !state.lanes.includes(lane),
      pause: (ms) => wake.wait(ms),
      fatal: options.fatal,
    });
  }

  return {
    async start() {
      state.lanes = await planLanes(store, chain, options.processors);
      state.finalizedSlot = await readFinalized(store, chain);
      state.openGaps = (await readOpenGaps(store, chain)).length;
      stopHints = source.onHint(() => wake.call());
      const loops = state.lanes.map(loopOf);
      const audits = runAudits({
        context,
        main: state.lanes[0] as Lane,
        lanes: () => state.lanes,
        finalizedSlot: () => state.finalizedSlot,
        onFinalized: (slot) => {
          state.finalizedSlot = slot;
          void readOpenGaps(store, chain).then(
            (gaps) => {
              state.openGaps = gaps.length;
            },
            () => {},
          );
        },
        onMismatch: (header) => {
          loops[0]?.suspect(header);
          wake.call();
        },
      });
      running = Promise.all([...loops.map((loop) => loop.run()), audits]);
    },
    async drain() {
      stopHints();
      stopping.abort(new Error('the follower stops'));
      await running;
    },
    async stop() {
      stopHints();
      stopping.abort(new Error('the follower stops'));
      await running;
    },
    status: () => statusOf(state, mainLane(), clock.monotonic(), follow.stalledAfterSeconds),
    onReleased(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

function statusOf(
  state: State,
  main: Lane | undefined,
  now: number,
  stalledAfterSeconds: number,
): ReturnType<Follower['status']> {
  const cursorSlot = main?.position?.slot ?? null;
  const lagSlots = cursorSlot === null || state.tipSlot === null ? null : Math.max(0, state.tipSlot - cursorSlot);
  const silentSeconds = Math.floor((now - state.releasedAt) / 1_000);
  const silent = silentSeconds >= stalledAfterSeconds ? `no new block for ${silentSeconds} s` : null;
  return {
    tipSlot: state.tipSlot,
    cursorSlot,
    finalizedSlot: state.finalizedSlot,
    lagSlots,
    stalled: main?.stalled ?? silent,
    openGaps: state.openGaps,
  };
}

function observe(metrics: Metrics, state: State, main: () => Lane | undefined): void {
  metrics.observe('tip_slot', 'newest slot of the followed commitment', () => state.tipSlot ?? 0);
  metrics.observe('cursor_slot', 'slot of the last released block', () => main()?.position?.slot ?? 0);
  metrics.observe('finalized_slot', 'slot up to which finality was audited', () => state.finalizedSlot ?? 0);
  metrics.observe('lag_slots', 'tip minus cursor', () =>
    Math.max(0, (state.tipSlot ?? 0) - (main()?.position?.slot ?? state.tipSlot ?? 0)),
  );
  metrics.observe('gaps_open', 'ranges of slots that were never indexed', () => state.openGaps);
  metrics.observe('lanes', 'groups of processors that move together', () => state.lanes.length);
}
