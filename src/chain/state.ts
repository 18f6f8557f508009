import type { Ledger } from '../ledger/index.ts';
import { createSlotLength, lagSeconds, SILENT_MS, type SlotLength, unseenSlots } from '../lib/slot-length.ts';
import type { BlockProcessor } from '../plugin/plugin.ts';
import type { Commitment, ConsensusFacts, FinalityStatus, UnreadTransactions } from '../ports/chain.ts';
import type { Clock } from '../ports/clock.ts';
import type { ChainGap } from '../ports/following.ts';
import type { Metrics } from '../ports/telemetry.ts';
import type { BlockPosition } from './cursor.ts';

/** A write of the chain's cursor whose answer was lost: it may be committed or not. */
export interface UnverifiedCommit {
  readonly to: BlockPosition | null;
  /** Applies the write to memory; called again when it threw. */
  readonly adopt: () => Promise<void> | void;
}

/** Position of a processor that catches up. */
export interface Lane {
  /** Null until it is known. */
  slot: number | null;
  /** Monotonic ms of its last block, or of its start. */
  movedAt: number;
}

/** A call of a block processor in flight. */
export interface RunningCall {
  /** Null where the call is about no block. */
  readonly slot: number | null;
  /** Monotonic ms of its start. */
  readonly since: number;
}

/** The upstream name of pushed blocks. */
export const STREAM = 'stream';
/** The upstream name of blocks from the ledger. */
export const LEDGER = 'ledger';

/** State of the stream. Times are monotonic ms. */
export interface StreamState {
  /** Its blocks continue the chain: polling only looks at the tip. */
  leads: boolean;
  lastBlockAt: number;
  /** Commitment with which the stream was opened. */
  readonly commitment: Commitment;
}

export interface ServedBlock extends BlockPosition {
  readonly upstream: string;
}

/** What a follower knows while it runs; everything that has to outlive it is in the store. Times are monotonic ms. */
export interface FollowState {
  cursor: BlockPosition | null;
  floor: number;
  finalizedSlot: number | null;
  /** When upstreams were asked and nothing newer was final (monotonic milliseconds); null: not since the start. */
  finalizedAt: number | null;
  consensus: ConsensusFacts;
  /** Which upstream served the newest blocks that were final as it said, oldest first, a bounded number. */
  served: readonly ServedBlock[];
  /** Since when answers contradict final blocks, with no block released meanwhile; null: they do not. */
  deepForkSince: number | null;
  tip: number | null;
  readonly slotLength: SlotLength;
  openGaps: number;
  /** Slots of the open gaps that are still missing. */
  gapSlots: number;
  /** The oldest open gaps. */
  gaps: readonly ChainGap[];
  /** Lowest slot that can be listed: nothing below is available. */
  listFrom: number;
  /** Slots up to here were listed since the last roll-back. */
  listedTo: number;
  /** The block that is missing, and since when. */
  hole: { readonly slot: number; readonly since: number; denied: boolean } | null;
  /** Set while it is not known whether the last move of the cursor was committed. */
  unverified: UnverifiedCommit | null;
  /** Why the last attempt failed or has to wait; null while things go well. */
  trouble: string | null;
  /** What the finality audit found wrong and could not fix yet. */
  mismatch: string | null;
  /** Set for good: only an operator can resume the follower. */
  halted: string | null;
  /** Null while no stream of blocks is configured or open. */
  stream: StreamState | null;
  /** Whether the current stall has been reported. */
  isStallReported: boolean;
  /** Null when it is off, or not open yet. */
  ledger: Ledger | null;
  started: boolean;
  draining: boolean;
  lastReleaseAt: number;
  lastAnswerAt: number;
  /** When a slot above all known ones was reported or released. */
  tipRoseAt: number;
  /** The chain makes blocks only for transactions: its silence means nothing. */
  readonly isOnDemand: boolean;
  /** Calls of processors in flight, by the name of the processor. */
  readonly running: Map<string, RunningCall>;
  /** The slot whose block was fetched again because a processor could not take it. */
  fetchedAgain: number | null;
  /** Up to where blocks were reported as pruned; a second report is needed. */
  prunedTo: number | null;
  /** Failure of a processor that the chain waits for, as text. */
  processorFault: string | null;
  /** Processors that fail and that the chain does not wait for: reason by name. */
  readonly leftBehind: Map<string, string>;
  /** Null while all transactions were read. */
  unread: UnreadTransactions | null;
  failures: number;
  notBefore: number;
  /** Processors at the cursor. */
  live: readonly BlockProcessor[];
  /** Processors without a cursor; they start with the next block. */
  joining: readonly BlockProcessor[];
  /** Behind the cursor. */
  catchingUp: readonly BlockProcessor[];
  /** Processors that cannot go on, with the reason. */
  stuck: readonly string[];
  /** Why a processor does not catch up, by name. */
  readonly laneTrouble: Map<string, string>;
  /** Positions of those that catch up, by name. */
  readonly lanes: Map<string, Lane>;
}

export const newFollowState = (now: number, isOnDemand = false): FollowState => ({
  isOnDemand,
  cursor: null,
  floor: 0,
  finalizedSlot: null,
  finalizedAt: null,
  consensus: { era: 'unknown', genesisSlot: null, source: null },
  served: [],
  deepForkSince: null,
  tip: null,
  slotLength: createSlotLength(),
  openGaps: 0,
  gapSlots: 0,
  gaps: [],
  listFrom: 0,
  listedTo: -1,
  hole: null,
  unverified: null,
  trouble: null,
  mismatch: null,
  halted: null,
  stream: null,
  isStallReported: false,
  ledger: null,
  started: false,
  draining: false,
  lastReleaseAt: now,
  lastAnswerAt: now,
  tipRoseAt: now,
  running: new Map(),
  fetchedAgain: null,
  prunedTo: null,
  processorFault: null,
  leftBehind: new Map(),
  unread: null,
  failures: 0,
  notBefore: now,
  live: [],
  joining: [],
  catchingUp: [],
  stuck: [],
  laneTrouble: new Map(),
  lanes: new Map(),
});

/** Milliseconds for which no upstream has reported a new slot: the chain hangs, or the upstreams do. */
const silenceMs = ({ tipRoseAt, isOnDemand }: FollowState, now: number): number => (isOnDemand ? 0 : now - tipRoseAt);

/** Whether that is longer than the time between two slots can be. */
export const isSilent = (state: FollowState, now: number): boolean => silenceMs(state, now) >= SILENT_MS;

/**
 * Slots behind the tip, or behind the slots that the chain should have made by now: while no upstream reports a new slot, whether it does
 * not answer or repeats an old one, the tip is extrapolated by the slot length. Before the first block, counted from the floor.
 */
export function lagOf(state: FollowState, now: number): number {
  const { tip, cursor, floor, slotLength } = state;
  const reached = cursor?.slot ?? Math.min(floor, tip ?? floor) - 1;
  return Math.max(0, (tip ?? reached) + unseenSlots(silenceMs(state, now), slotLength.ms()) - reached);
}

/** A slot that an upstream reports or that was released. */
export function sawSlot(state: FollowState, slot: number, now: number): void {
  if (state.tip !== null && slot <= state.tip) return;
  state.tip = slot;
  state.tipRoseAt = now;
}

export type FollowMeter = ReturnType<typeof createFollowMeter>;

const BUCKETS_SECONDS = [0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10];
const BUCKETS_BLOCKS = [1, 2, 4, 8, 16, 31, 64, 128, 512];

export function createFollowMeter(
  metrics: Metrics,
  state: FollowState,
  clock: Clock,
  finality: () => FinalityStatus | null,
) {
  const { observe } = metrics;
  observe('tip_slot', 'newest slot known to the upstreams', () => state.tip ?? 0);
  observe('cursor_slot', 'slot of the last released block', () => state.cursor?.slot ?? 0);
  observe('finalized_slot', 'slot up to which blocks are verified as finalized', () => state.finalizedSlot ?? 0);
  observe(
    'lag_slots',
    'slots behind the tip; while the chain is silent, behind the slots that it should have made',
    () => lagOf(state, clock.monotonic()),
  );
  observe(
    'lag_seconds',
    'lag in time, by the measured length of a slot; while the chain is silent, at least the time without a block',
    () => {
      const lag = { lagSlots: lagOf(state, clock.monotonic()), slotMs: state.slotLength.ms() };
      return lagSeconds(lag) ?? 0;
    },
  );
  observe('alpenglow', '1 if the chain is known to finalize by Alpenglow', () =>
    state.consensus.era === 'alpenglow' ? 1 : 0,
  );
  observe(
    'verified_slot',
    'highest released slot that a certificate proves final, with its ancestors; 0 while none is checked',
    () => finality()?.verified?.slot ?? 0,
  );
  observe(
    'verified_stake_ratio',
    'share of the stake that signed the certificate of the verified slot; 0 while none is checked',
    () => (finality()?.verified?.stakePercent ?? 0) / 100,
  );
  observe('slot_seconds', 'measured length of a slot; 0 until it is known', () => (state.slotLength.ms() ?? 0) / 1_000);
  observe('hole_open', '1 while a block that exists is missing', () => (state.hole === null ? 0 : 1));
  observe('gaps_open', 'open gaps', () => state.openGaps);
  observe('gap_slots', 'missing slots of the open gaps', () => state.gapSlots);
  observe(
    'stalled_seconds',
    'time since the last released block',
    () => (clock.monotonic() - state.lastReleaseAt) / 1_000,
  );
  observe('stream_leading', '1 while the stream delivers the blocks and polling only reads the tip', () =>
    state.stream?.leads === true ? 1 : 0,
  );
  observe(
    'processors_failing',
    'block processors that fail or miss their deadline',
    () => state.leftBehind.size + (state.processorFault === null ? 0 : 1),
  );
  observe('catching_up', 'processors behind the cursor', () => state.catchingUp.length);
  return {
    released: metrics.counter('blocks_released_total', 'blocks that were committed'),
    skipped: metrics.counter('skips_proven_total', 'slots that a parent link proved empty'),
    unread: metrics.counter(
      'transactions_unread_total',
      'transactions of released blocks that were not read completely: opaque ones are kept as the node sent them; of meta, members are missing or have another form; config has bits whose meaning is unknown',
      ['what'],
    ),
    forks: metrics.counter('forks_total', 'roll-backs', []),
    forkDepth: metrics.histogram('fork_depth_blocks', 'blocks removed by one roll-back', BUCKETS_BLOCKS),
    rolledBack: metrics.counter('blocks_rolled_back_total', 'blocks removed by roll-backs'),
    stale: metrics.counter('blocks_stale_total', 'fetched blocks of branches that no longer exist'),
    contradicted: metrics.counter(
      'skips_contradicted_total',
      'slots that one upstream reported as skipped and another had',
    ),
    fetched: metrics.counter('blocks_fetched_total', 'blocks that were fetched'),
    fromLedger: metrics.counter(
      'blocks_from_ledger_total',
      'blocks that were read from the ledger and not from an upstream',
    ),
    retried: metrics.counter('fetch_retries_total', 'fetches that had to be repeated', ['code']),
    processorFailures: metrics.counter(
      'processor_failures_total',
      'calls of block processors that failed or missed their deadline',
      ['plugin'],
    ),
    mismatches: metrics.counter('finality_mismatches_total', 'finalized blocks that differed from the released ones'),
    certificates: metrics.counter(
      'certificates_total',
      'certificates of finality, by result: verified, refused and contradicted are checked; sampled and unchecked are not; unfollowed are of slots that were not followed',
      ['result'],
    ),
    gapBlocks: metrics.counter('gap_blocks_filled_total', 'blocks that were filled into gaps'),
    gapSlots: metrics.counter('gap_slots_filled_total', 'slots of gaps that were filled'),
    streamBlocks: metrics.counter('stream_blocks_total', 'blocks that the stream pushed'),
    streamEnds: metrics.counter('stream_ends_total', 'subscriptions of the stream that ended', ['reason']),
    stalls: metrics.counter('stalls_total', 'times that the follower was stalled for follow.stalledAfterSeconds'),
    fetchSeconds: metrics.histogram('fetch_seconds', 'time to fetch a block', BUCKETS_SECONDS),
    commitSeconds: metrics.histogram('commit_seconds', 'time to write a block', BUCKETS_SECONDS),
  };
}
