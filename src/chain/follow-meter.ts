import { lagSeconds } from '../lib/chain-lag.ts';
import type { Clock } from '../ports/clock.ts';
import type { Metrics } from '../ports/metrics.ts';
import { type FollowState, lagOf } from './follow-state.ts';

export type FollowMeter = ReturnType<typeof createFollowMeter>;

const BUCKETS_SECONDS = [0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10];
const BUCKETS_BLOCKS = [1, 2, 4, 8, 16, 31, 64, 128, 512];

export function createFollowMeter(metrics: Metrics, state: FollowState, clock: Clock) {
  const { observe } = metrics;
  observe('tip_slot', 'newest slot that the upstreams know', () => state.tip ?? 0);
  observe('cursor_slot', 'slot of the last released block', () => state.cursor?.slot ?? 0);
  observe('finalized_slot', 'slot up to which blocks were found finalized', () => state.finalizedSlot ?? 0);
  observe('lag_slots', 'tip minus cursor', () => lagOf(state, clock.monotonic()));
  observe('lag_seconds', 'tip minus cursor in time, by the measured length of a slot', () => {
    const lag = { lagSlots: lagOf(state, clock.monotonic()), slotMs: state.slotLength.ms() };
    return lagSeconds(lag) ?? 0;
  });
  observe('slot_seconds', 'measured length of a slot; 0 until it is known', () => (state.slotLength.ms() ?? 0) / 1_000);
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
  observe(
    'processors_failing',
    'block processors that throw or miss their deadline',
    () => state.leftBehind.size + (state.processorFault === null ? 0 : 1),
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
    processorFailures: metrics.counter(
      'processor_failures_total',
      'calls of block processors that threw or missed their deadline',
      ['plugin'],
    ),
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
