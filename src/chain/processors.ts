import { codeOf, messageOf } from '../lib/coded-error.ts';
import type { BlockProcessor } from '../plugin/plugin.ts';
import type { ChainId } from '../ports/chain.ts';
import type { Queries } from '../ports/store.ts';
import { type BlockPosition, type CursorOwner, hasPendingReverts, readCursor } from './cursor.ts';
import { describeFault, faultOfProcessor, type ProcessorFault, stackOf } from './faults.ts';
import type { FetchedBlock } from './fetch.ts';
import { finishFills } from './gap-fills.ts';
import { countGaps, readGaps } from './gap-records.ts';
import { recordProcessorGap } from './gaps.ts';
import type { Run } from './run.ts';
import type { FollowState } from './state.ts';
import { followTables, KEPT } from './tables.ts';

export type ProcessorPlacement = Pick<FollowState, 'live' | 'joining' | 'catchingUp' | 'stuck'>;

/**
 * Sorts the processors by their cursors: at the chain's cursor, without one, or behind it. A new one whose `startSlot` is not below the
 * cursor starts with the next block; one with an earlier start catches up from there.
 */
export async function readPlacement(
  db: Queries,
  chain: ChainId,
  processors: readonly BlockProcessor[],
  main: BlockPosition | null,
  floor: number,
): Promise<ProcessorPlacement> {
  const members = {
    live: [] as BlockProcessor[],
    joining: [] as BlockProcessor[],
    catchingUp: [] as BlockProcessor[],
    stuck: [] as string[],
  };
  for (const processor of processors) {
    const own = await readCursor(db, chain, processor);
    if (await hasPendingReverts(db, chain, processor)) members.catchingUp.push(processor);
    else if (own === null) {
      const start = processor.startSlot ?? Number.POSITIVE_INFINITY;
      (start < (main === null ? floor : main.slot + 1) ? members.catchingUp : members.joining).push(processor);
    } else if (main !== null && own.slot === main.slot && own.blockhash === main.blockhash)
      members.live.push(processor);
    else if (main !== null && own.slot < main.slot) members.catchingUp.push(processor);
    else members.stuck.push(`processor ${processor.name} is at slot ${own.slot} of another branch: index it again`);
  }
  return members;
}

/** Processors that miss the blocks of a range which the chain skips, and the ledger. */
export function missedBy(
  { cursor, live, joining, ledger }: Pick<FollowState, 'cursor' | 'live' | 'joining' | 'ledger'>,
  { toSlot }: { readonly toSlot: number },
): readonly CursorOwner[] {
  const wanted = joining.filter(
    ({ startSlot }) => cursor === null || (startSlot ?? Number.POSITIVE_INFINITY) <= toSlot,
  );
  const missing: CursorOwner[] = [...live, ...wanted].filter(({ wantsGaps }) => wantsGaps !== false);
  return ledger === null ? missing : [...missing, KEPT];
}

/** Failures after which the block is fetched again: all answers so far may have been wrong. */
const FETCH_AGAIN_EVERY = 8;

/**
 * Handles a block that was not committed. A block that a processor rejects is fetched again once, from another upstream where there is
 * one, before it counts as the processor's fault; then the chain waits, or continues without the processors of that plugin.
 * Throws the error unless something else is to be done first.
 */
export async function onFault(run: Run, { block, upstream }: FetchedBlock, error: unknown): Promise<void> {
  const { state, follow, log, chain } = run;
  const fault = faultOfProcessor(error);
  if (fault === null || fault.slot === null) throw error;
  run.meter.processorFailures.with(fault.plugin).add();
  if (fault.slot === block.slot && state.fetchedAgain !== block.slot) {
    state.fetchedAgain = block.slot;
    const facts = { chain, ...fault, code: codeOf(error), error: messageOf(error), stack: stackOf(error), upstream };
    log.warn(facts, 'a block processor rejects a block: it is fetched again');
    run.fetcher.again(block.slot, upstream);
    return;
  }
  if (follow.onError === 'skip-plugin') return await skipPlugin(run, fault, error);
  if (state.failures % FETCH_AGAIN_EVERY === FETCH_AGAIN_EVERY - 1) run.fetcher.again(block.slot, upstream);
  throw error;
}

/** Continues without the processors of a plugin: each keeps its cursor, retries in a lane of its own, and gets a gap record. */
async function skipPlugin(run: Run, fault: ProcessorFault, error: unknown): Promise<void> {
  const { state, chain, store, clock } = run;
  const leaving = await run.exclusive(async () => {
    const { cursor } = state;
    const seen = state.live.filter(({ name }) => run.pluginOf(name) === fault.plugin);
    const fromSlot = cursor === null ? state.floor : cursor.slot + 1;
    const gap = {
      fromSlot,
      toSlot: Math.max(fromSlot, fault.slot ?? fromSlot),
      reason: 'skipped',
      below: cursor,
    } as const;
    await store.write(async (tx) => {
      for (const owner of seen) await recordProcessorGap(tx, chain, owner, gap, clock.now());
    });
    return removeFromChain(run, fault.plugin, fromSlot);
  });
  await reportSkipped(run, fault, error, leaving);
}

export interface SkippedProcessor {
  readonly processor: BlockProcessor;
  /** Where a processor without a cursor starts. */
  readonly fromSlot: number;
}

/** The chain no longer waits for the processors of this plugin. Called within `run.exclusive`. */
export function removeFromChain(
  { state, pluginOf }: Run,
  plugin: string,
  fromSlot: number,
): readonly SkippedProcessor[] {
  const isIts = ({ name }: BlockProcessor) => pluginOf(name) === plugin;
  const leaving = [...state.live, ...state.joining].filter(isIts);
  state.live = state.live.filter((processor) => !isIts(processor));
  state.joining = state.joining.filter((processor) => !isIts(processor));
  state.catchingUp = [...state.catchingUp, ...leaving];
  return leaving.map((processor) => ({ processor, fromSlot }));
}

/** Reports the skipped processors in log and status, and starts a lane for each. */
export async function reportSkipped(
  run: Run,
  fault: ProcessorFault,
  error: unknown,
  leaving: readonly SkippedProcessor[],
): Promise<void> {
  const { state, chain, store, log } = run;
  const words = describeFault(fault);
  log.error(
    { chain, ...fault, code: codeOf(error), error: messageOf(error), stack: stackOf(error) },
    'the chain continues without the processors of a plugin',
  );
  for (const { processor, fromSlot } of leaving) {
    state.leftBehind.set(processor.name, processor.name === fault.processor ? words : `skipped with it: ${words}`);
    run.startLane(processor, fromSlot);
  }
  await countGaps(store.read, chain, state);
}

/** Updates the gap records of skipped processors: they grow with the chain, and close when the processor has caught up. */
export async function updateSkippedGaps({ state, store, chain, exclusive, clock }: Run): Promise<void> {
  const open = await readGaps(store.read, { chain, isOpen: true, limit: 1_000 });
  for (const gap of open.filter(({ reason }) => reason === 'skipped')) {
    const at = gap.owner === null ? null : ((await readCursor(store.read, chain, gap.owner))?.slot ?? null);
    const top = state.cursor?.slot ?? gap.toSlot;
    if (at !== null && at >= Math.max(gap.toSlot, top - 1))
      await exclusive(() => store.write((tx) => finishFills(tx, gap, gap.fills, clock.now())));
    else if (top > gap.toSlot)
      await exclusive(() =>
        store.write(async (tx) => {
          await followTables(tx.db).updateTable('follow_gaps').set({ to_slot: top }).where('id', '=', gap.id).execute();
        }),
      );
  }
}
