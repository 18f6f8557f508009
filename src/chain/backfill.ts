import { codeOf, messageOf } from '../lib/coded-error.ts';
import { isLagBeyond } from '../lib/slot-length.ts';
import type { BlockProcessor } from '../plugin/plugin.ts';
import { backoffMs } from '../runtime/waiting.ts';
import { failureReasonOf, fatalOf } from './faults.ts';
import { fillAddresses } from './fill-addresses.ts';
import {
  type BlocksOutcome,
  type FillMember,
  type FillOptions,
  type FillOutcome,
  fillBlocks,
  findEnd,
  type OwnLedger,
} from './fill-blocks.ts';
import { finishFills, noteTrouble, restartFills } from './gap-fills.ts';
import { countGaps, type GapEnd, type GapFill, type GapRecord, readGaps } from './gap-records.ts';
import { setAskedEnd, splitGap } from './gaps.ts';
import { updateSkippedGaps } from './processors.ts';
import type { Run } from './run.ts';
import { KEPT } from './tables.ts';

const POLL_MS = 2_000;
const HOUR_MS = 3_600_000;

/** Fills gaps while the chain is at the tip: following has priority. Errors go to `onError`. */
export async function fillLoop(run: Run, onError: (error: unknown) => void): Promise<void> {
  const { signal, clock, random, log, state, store, chain, follow } = run;
  const isAutomatic = follow.gapBackfill.enabled;
  const schedule = createFillSchedule(fillOptions(run), ({ wantedAt }) => isAutomatic || wantedAt !== null);
  let failures = 0;
  while (!signal.aborted) {
    try {
      await updateSkippedGaps(run);
      const hasWorked = await schedule.pass();
      failures = 0;
      await countGaps(store.read, chain, state);
      if (!hasWorked) await clock.sleep(POLL_MS, signal);
    } catch (error) {
      if (signal.aborted) return;
      failures += 1;
      onError(error);
      log.warn({ chain, code: codeOf(error), error: messageOf(error) }, 'gaps could not be read');
      await clock.sleep(backoffMs(failures, random), signal).catch(() => undefined);
    }
  }
}

function fillOptions(run: Run): FillOptions {
  const { state, follow, source, meter } = run;
  const { chain, store, processors, clock, random, log, signal, exclusive } = run;
  const ownLedger: OwnLedger = {
    keeps(slot) {
      const slotMs = state.slotLength.ms();
      if (slotMs === null || state.ledger === null) return true;
      return ((state.tip ?? slot) - slot) * slotMs <= state.ledger.retainHours * HOUR_MS;
    },
    append: async (block) => await state.ledger?.append(block),
  };
  return {
    chain,
    source,
    store,
    processors,
    follow,
    clock,
    random,
    log,
    signal,
    exclusive,
    forget: run.shared.forget,
    ledger: run.openLedger === undefined ? 'off' : ownLedger,
    concurrency: () => follow.gapBackfill.concurrency,
    async finalSlot() {
      const slot = await source.tip({ commitment: 'finalized', signal });
      // The ledger gives what it knows to be final.
      return state.ledger === null ? slot : Math.min(slot, state.finalizedSlot ?? -1);
    },
    hindrance() {
      if (!state.started || state.draining || state.halted !== null) return 'the chain is not followed now';
      if (source.isLimited?.() === true) return 'an upstream asks for fewer calls';
      const { maxLagSeconds: seconds, maxLagSlots: slots } = follow.gapBackfill;
      const lag = { lagSlots: (state.tip ?? 0) - (state.cursor?.slot ?? 0), slotMs: state.slotLength.ms() };
      return isLagBeyond(lag, { seconds, slots }) ? 'the chain is behind the tip' : null;
    },
    filled({ blocks, slots }) {
      meter.gapBlocks.add(blocks);
      meter.gapSlots.add(slots);
    },
  };
}

/** Pauses of gaps that wait for something that happens by itself, and of gaps that need something from outside. */
const WAIT_MS = 2_000;
const FIRST_PAUSE_MS = 60_000;
/** Consecutive failures after which the record shows the reason. */
const FAILURES_TO_REPORT = 3;

interface FillSchedule {
  /** Fills one piece of the next due gap; false when none is due. Errors: those that a retry does not fix. */
  pass(): Promise<boolean>;
}

interface Pause {
  /** Monotonic ms. */
  readonly until: number;
  readonly kind: 'waits' | 'stuck' | 'failed';
  /** Consecutive pauses of this kind. */
  readonly tries: number;
  readonly wantedAt: number | null;
}

/** Fills the open gaps in turn, a piece of each; one that cannot be filled now pauses. */
export function createFillSchedule(options: FillOptions, wants: (gap: GapRecord) => boolean): FillSchedule {
  const { store, chain, clock, random, follow, log, exclusive } = options;
  const pauses = new Map<number, Pause>();
  let lastId = -1;

  function isDue(gap: GapRecord): boolean {
    const paused = pauses.get(gap.id);
    // An operator who asks for it ends the pause.
    return (
      wants(gap) && (paused === undefined || paused.until <= clock.monotonic() || paused.wantedAt !== gap.wantedAt)
    );
  }

  function pause(gap: GapRecord, kind: Pause['kind'], pauseMs: (tries: number) => number): number {
    const before = pauses.get(gap.id);
    const tries = before?.kind === kind && before.wantedAt === gap.wantedAt ? before.tries + 1 : 1;
    pauses.set(gap.id, { kind, until: clock.monotonic() + pauseMs(tries), tries, wantedAt: gap.wantedAt });
    return tries;
  }

  async function recordTrouble(gap: GapRecord, reason: string, isTry: boolean): Promise<void> {
    if (!isTry && gap.trouble === reason) return;
    await exclusive(() => store.write((tx) => noteTrouble(tx, gap, reason, isTry ? clock.now() : null)));
  }

  async function applyOutcome(gap: GapRecord, outcome: FillOutcome): Promise<boolean> {
    if (outcome.kind === 'more' || outcome.kind === 'filled') {
      pauses.delete(gap.id);
      if (outcome.kind === 'filled') {
        const { fromSlot, toSlot, reason } = gap;
        log.info({ chain, gap: gap.id, fromSlot, toSlot, reason }, 'a gap is filled');
      }
      return true;
    }
    if (outcome.kind === 'waits') {
      pause(gap, 'waits', () => WAIT_MS);
      await recordTrouble(gap, outcome.reason, false);
      return false;
    }
    const longestMs = follow.gapBackfill.retryMaxSeconds * 1_000;
    pause(gap, 'stuck', (tries) => backoffMs(tries, null, { firstMs: FIRST_PAUSE_MS, longestMs }));
    if (gap.trouble !== outcome.reason)
      log.warn({ chain, gap: gap.id, reason: outcome.reason }, 'a gap cannot be filled now');
    await recordTrouble(gap, outcome.reason, true);
    return false;
  }

  async function recordFailure(gap: GapRecord, error: unknown): Promise<boolean> {
    if (options.signal.aborted || fatalOf(error) !== null) throw error;
    const tries = pause(gap, 'failed', (count) => backoffMs(count, random));
    log.warn({ chain, gap: gap.id, code: codeOf(error), error: messageOf(error) }, 'filling a gap failed');
    if (tries >= FAILURES_TO_REPORT) await recordTrouble(gap, failureReasonOf(error, 'filling it'), true);
    return false;
  }

  return {
    async pass() {
      if (options.hindrance() !== null) return false;
      const open = (await readGaps(store.read, { chain, isOpen: true, limit: 1_000 })).reverse();
      for (const id of pauses.keys()) if (!open.some((gap) => gap.id === id)) pauses.delete(id);
      const due = open.filter(isDue);
      const gap = due.find(({ id }) => id > lastId) ?? due[0];
      if (gap === undefined) return false;
      lastId = gap.id;
      try {
        return await applyOutcome(gap, await fillGap(options, gap));
      } catch (error) {
        return await recordFailure(gap, error);
      }
    },
  };
}

/**
 * Fills a piece of a gap: with blocks, or with the transactions of single addresses, where that is what is wanted or where the blocks
 * are gone and the configuration allows it.
 * Errors: FOLLOW_GAP_TAKEN, those of source, store and processors.
 */
async function fillGap(options: FillOptions, gap: GapRecord): Promise<FillOutcome> {
  const { store, clock, exclusive } = options;
  if (gap.reason === 'skipped') return { kind: 'waits', reason: 'its processor fails, or catches up' };
  // Filled blocks cannot be rolled back.
  if (!(await options.source.confirmChain(options.signal)))
    return { kind: 'waits', reason: 'no upstream is confirmed to serve this chain' };
  const { ready, outdated, reason } = sortFills(gap, options);
  if (outdated.length > 0 && (await exclusive(() => store.write((tx) => finishFills(tx, gap, outdated, clock.now())))))
    return { kind: 'filled' };
  if (ready.length === 0) return { kind: 'stuck', reason: reason ?? 'no processor wants it' };
  const finalSlot = await options.finalSlot();
  if (gap.toSlot >= finalSlot) return { kind: 'waits', reason: `slot ${gap.toSlot} is not final` };
  const members = lowest(ready);
  if (gap.addresses !== null) return await fillAddresses(options, gap, members, null);
  const end = gap.end ?? (gap.isEndAsked ? await askEnd(options, gap, finalSlot) : null);
  if (end === null && gap.isEndAsked)
    return { kind: 'stuck', reason: `no upstream has the blocks behind slot ${gap.toSlot}` };
  if (end === null) return { kind: 'waits', reason: `no block behind slot ${gap.toSlot} was released yet` };
  if (end.slot > finalSlot) return { kind: 'waits', reason: `the block behind it, at slot ${end.slot}, is not final` };
  return await applyBlocks(options, gap, members, await fillBlocks(options, gap, end, members));
}

async function applyBlocks(
  options: FillOptions,
  gap: GapRecord,
  members: readonly FillMember[],
  outcome: BlocksOutcome,
): Promise<FillOutcome> {
  const { store, exclusive, log, chain } = options;
  switch (outcome.kind) {
    case 'pruned': {
      const { first, slot } = outcome;
      const isCut = first !== null && gap.fills.filter(({ isDone }) => !isDone).length === members.length;
      if (isCut) {
        await exclusive(() => store.write((tx) => splitGap(tx, gap, first)));
        log.warn({ chain, gap: gap.id, prunedTo: slot }, 'a gap was split: only its upper part is available');
        return { kind: 'more' };
      }
      return await fillAddresses(options, gap, members, `no upstream has the block at slot ${slot} any more`);
    }
    case 'false-end':
      await exclusive(() => store.write((tx) => setAskedEnd(tx, gap, null)));
      return { kind: 'stuck', reason: outcome.reason };
    case 'mismatch':
      log.error({ chain, gap: gap.id }, `a gap cannot be closed: ${outcome.reason}`);
      await exclusive(() =>
        store.write(async (tx) => {
          await restartFills(tx, gap, gap.fills);
          await setAskedEnd(tx, gap, null);
        }),
      );
      return { kind: 'stuck', reason: outcome.reason };
    default:
      return outcome;
  }
}

async function askEnd(options: FillOptions, gap: GapRecord, finalSlot: number): Promise<GapEnd | null> {
  const { source, store, exclusive, follow, signal } = options;
  const { produced, headerFirst: header } = source;
  const end = await findEnd({ produced, header }, gap.toSlot, { finalSlot, window: follow.window, signal });
  if (end !== null) await exclusive(() => store.write((tx) => setAskedEnd(tx, gap, end)));
  return end;
}

interface Sorted {
  readonly ready: readonly FillMember[];
  /** Fills of old processor versions: the new version indexes from its start. And of a ledger that no longer wants it. */
  readonly outdated: readonly GapFill[];
  /** Why the others cannot be filled. */
  readonly reason: string | null;
}

function sortFills(gap: GapRecord, { processors, ledger }: Pick<FillOptions, 'processors' | 'ledger'>): Sorted {
  const ready: FillMember[] = [];
  const outdated: GapFill[] = [];
  let reason: string | null = null;
  for (const fill of gap.fills.filter(({ isDone }) => !isDone)) {
    const isKept = fill.name === KEPT.name;
    const processor = isKept ? LEDGER_READER : processors.find(({ name }) => name === fill.name);
    if (isKept && (ledger === 'off' || (typeof ledger === 'object' && !ledger.keeps(gap.toSlot)))) outdated.push(fill);
    else if (isKept && ledger === 'of the daemon') reason = 'only the daemon adds blocks to the ledger';
    else if (processor === undefined) reason = `processor ${fill.name} is not loaded`;
    else if (processor.version > fill.version) outdated.push(fill);
    else if (processor.version < fill.version) reason = `processor ${fill.name} is older than the one that missed it`;
    else if (processor.outOfOrder !== true)
      reason = `processor ${fill.name} takes blocks in their order only: index it again`;
    else ready.push({ processor, fill });
  }
  return { ready, outdated, reason };
}

/** In the place of a processor: filled blocks go to the ledger before their rows are written. */
const LEDGER_READER: BlockProcessor = {
  name: KEPT.name,
  version: KEPT.version,
  chains: [],
  outOfOrder: true,
  apply: async () => undefined,
  revert: async () => undefined,
};

/** The members with the lowest position, which all share. */
function lowest(members: readonly FillMember[]): readonly FillMember[] {
  const slotOf = ({ fill }: FillMember) => fill.position?.slot ?? -1;
  const least = Math.min(...members.map(slotOf));
  return members.filter((member) => slotOf(member) === least);
}
