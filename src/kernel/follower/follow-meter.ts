import type { Clock } from '../../ports/clock.ts';
import type { Metrics } from '../../ports/metrics.ts';
import type { FollowState } from './follow-state.ts';

export type FollowMeter = ReturnType<typeof createFollowMeter>;

const BUCKETS_SECONDS = [0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10];
const BUCKETS_BLOCKS = [1, 2, 4, 8, 16, 31, 64, 128, 512];

export function createFollowMeter(metrics: Metrics, state: FollowState, clock: Clock) {
  const { observe } = metrics;
  observe('tip_slot', 'newest slot that the upstreams know', () => state.tip ?? 0);
  observe('cursor_slot', 'slot of the last released block', () => state.cursor?.slot ?? 0);
  observe('finalized_slot', 'slot up to which blocks were found finalized', () => state.finalizedSlot ?? 0);
  observe('lag_slots', 'tip minus cursor', () =>
    Math.max(0, (state.tip ?? 0) - (state.cursor?.slot ?? state.tip ?? 0)),
  );
  observe('lag_seconds', 'age of the last released block while the tip is ahead of it', () => lagSeconds(state, clock));
  observe('hole_open', 'whether a block that exists is missing', () => (state.hole === null ? 0 : 1));
  observe('gaps_open', 'ranges of slots that are missing', () => state.openGaps);
  observe('gap_slots', 'slots of the gaps that are missing', () => state.gapSlots);
  observe(
    'stalled_seconds',
    'time since the last released block',
    () => (clock.monotonic() - state.lastReleaseAt) / 1_000,
  );
  observe('stream_leading', 'whether blocks come from the stream and polling only looks at the tip', () =>
    state.stream?.leads === true ? 1 : 0,
  );
  observe('catching_up', 'processors behind the cursor', () => state.catchingUp.length);
  return {
    released: metrics.counter('blocks_released_total', 'blocks that were committed'),
    skipped: metrics.counter('skips_proven_total', 'slots that a parent link proved empty'),
    forks: metrics.counter('forks_total', 'roll-backs', []),
    forkDepth: metrics.histogram('fork_depth_blocks', 'blocks that one roll-back took back', BUCKETS_BLOCKS),
    rolledBack: metrics.counter('blocks_rolled_back_total', 'blocks that were taken back'),
    stale: metrics.counter('blocks_stale_total', 'fetched blocks that hung in the air'),
    contradicted: metrics.counter(
      'skips_contradicted_total',
      'slots that an upstream called skipped and another one had',
    ),
    fetched: metrics.counter('blocks_fetched_total', 'blocks that were fetched'),
    retried: metrics.counter('fetch_retries_total', 'fetches that have to be repeated', ['code']),
    mismatches: metrics.counter('finality_mismatches_total', 'finalized blocks that were not ours'),
    gapBlocks: metrics.counter('gap_blocks_filled_total', 'blocks that were filled into gaps'),
    gapSlots: metrics.counter('gap_slots_filled_total', 'slots by which gaps became smaller'),
    streamBlocks: metrics.counter('stream_blocks_total', 'blocks that the stream pushed'),
    streamEnds: metrics.counter('stream_ends_total', 'subscriptions of the stream that ended', ['reason']),
    stalls: metrics.counter('stalls_total', 'times that following stood still for follow.stalledAfterSeconds'),
    fetchSeconds: metrics.histogram('fetch_seconds', 'time to fetch a block', BUCKETS_SECONDS),
    commitSeconds: metrics.histogram('commit_seconds', 'time to write a block', BUCKETS_SECONDS),
  };
}

function lagSeconds({ tip, cursor, cursorTime }: FollowState, clock: Clock): number {
  if (tip === null || cursor === null || cursorTime === null || tip <= cursor.slot) return 0;
  return Math.max(0, clock.now() / 1_000 - cursorTime);
}
