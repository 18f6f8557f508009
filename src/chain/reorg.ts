import { CodedError, EXIT } from '../lib/coded-error.ts';
import type { BlockProcessor } from '../plugin/plugin.ts';
import type { BlockHeader } from '../ports/block.ts';
import type { ChainId, ChainSource, Commitment } from '../ports/chain.ts';
import type { Store, StoreTx } from '../ports/store.ts';
import { isSameChain, moveChain } from './commit.ts';
import { followedCommitment } from './consensus.ts';
import {
  type BlockPosition,
  type CursorOwner,
  deferRevert,
  hasPendingReverts,
  moveCursors,
  readCursor,
  readHeaders,
  readMarks,
  removeCursors,
  resetFinalized,
  samePosition,
} from './cursor.ts';
import { faultOfProcessor, type ProcessorFault } from './faults.ts';
import { forgetEnds, recordGap, recordProcessorGap } from './gaps.ts';
import { readPlacement, removeFromChain, reportSkipped, type SkippedProcessor } from './processors.ts';

import { type Run, tellListeners } from './run.ts';
import { followTables, KEPT, MAIN } from './tables.ts';

type ForkResult = 'rolled-back' | 'stale' | 'unknown';

/**
 * Handles a block that does not continue the cursor: rolls back to the common ancestor when the chain has really changed.
 * Errors: FOLLOW_DEEP_FORK when that would roll back finalized blocks, or more than is stored; those of source and store.
 */
export async function followFork(run: Run, from: BlockHeader): Promise<ForkResult> {
  const { state, source, signal } = run;
  const { cursor } = state;
  if (cursor === null) return 'unknown';
  const ask = { commitment: followedCommitment(run), signal } as const;
  const ours = await source.header(cursor.slot, ask);
  // The cursor's block still exists: the other block belongs to a dead branch, or to a wrong node.
  if (ours !== null && ours.blockhash === cursor.blockhash) return 'stale';
  return await rollBackToAncestor(run, cursor, from, {
    commitment: ask.commitment,
    floor: cursor.slot < state.floor ? -1 : state.floor,
  });
}

/**
 * Like `followFork`, for a finalized block that differs from the last one released below a gap. What is above the gap is rolled back too, and
 * released again.
 */
export async function rollBackBelowGap(run: Run, from: ChildLink): Promise<ForkResult> {
  const { cursor } = run.state;
  return cursor === null
    ? 'unknown'
    : await rollBackToAncestor(run, cursor, from, { commitment: 'finalized', floor: -1 });
}

async function rollBackToAncestor(
  run: Run,
  cursor: BlockPosition,
  from: ChildLink,
  search: Pick<AncestorSearch, 'commitment' | 'floor'>,
): Promise<ForkResult> {
  const { source, signal, store, chain } = run;
  if (!(await isSameChain(run))) return 'unknown';
  const stored = await readHeaders(store.read, chain, 0);
  const held = (slot: number) => run.buffer.get(slot)?.block ?? null;
  const verdict = await findAncestor(from, { source, signal, ...search, stored, held });
  if (verdict.kind === 'stale' || verdict.kind === 'unknown') return verdict.kind;
  const ancestor = verdict.kind === 'found' ? verdict.header : null;
  // From the store: the answer to the write that moved the mark may have been lost.
  const finalizedSlot = (await readMarks(store.read, chain))?.finalizedSlot ?? null;
  if (!mayRollBack(run.state.floor, finalizedSlot, ancestor, stored)) {
    if (isPerhapsWrong(run)) return 'unknown';
    throw new CodedError('FOLLOW_DEEP_FORK', `a fork reaches below finalized or known blocks of the ${chain} chain`, {
      facts: { ancestorSlot: ancestor?.slot ?? null, finalizedSlot, cursorSlot: cursor.slot },
    });
  }
  return (await rollBackTo(run, cursor, ancestor)) ? 'rolled-back' : 'unknown';
}

/** How long answers may contradict final blocks before the chain stops for it. */
const DEEP_FORK_MS = 60_000;

/**
 * Where `auto` follows `finalized`, almost everything is final, so that one wrong or stale upstream contradicts it easily: others are asked,
 * until nothing could be released for a while.
 */
function isPerhapsWrong(run: Run): boolean {
  const { state, follow, clock } = run;
  if (follow.commitment !== 'auto' || followedCommitment(run) !== 'finalized') return false;
  state.deepForkSince ??= clock.monotonic();
  return clock.monotonic() - state.deepForkSince < DEEP_FORK_MS;
}

/** Without an ancestor everything may be rolled back only if all blocks since the first are stored and none is finalized. */
function mayRollBack(
  floor: number,
  finalizedSlot: number | null,
  ancestor: BlockHeader | null,
  stored: readonly BlockHeader[],
): boolean {
  if (ancestor !== null) return finalizedSlot === null || ancestor.slot >= finalizedSlot;
  const oldest = stored.at(-1);
  return finalizedSlot === null && oldest !== undefined && oldest.parentSlot < floor && oldest.slot >= floor;
}

interface Faulty {
  readonly fault: ProcessorFault;
  readonly error: unknown;
}

/**
 * False when the cursor moved while the ancestor was searched: release and audit may find the same fork at once. A plugin whose
 * processor cannot revert a block is skipped where the configuration says so, and the others are rolled back without it.
 */
async function rollBackTo(run: Run, seen: BlockPosition, ancestor: BlockHeader | null): Promise<boolean> {
  const faulty = new Map<string, Faulty>();
  for (;;) {
    try {
      return await tryRollBack(run, seen, ancestor, faulty);
    } catch (error) {
      const fault = faultOfProcessor(error);
      if (fault === null) throw error;
      run.meter.processorFailures.with(fault.plugin).add();
      if (run.follow.onError !== 'skip-plugin' || faulty.has(fault.plugin)) throw error;
      faulty.set(fault.plugin, { fault, error });
    }
  }
}

async function tryRollBack(
  run: Run,
  seen: BlockPosition,
  ancestor: BlockHeader | null,
  faulty: ReadonlyMap<string, Faulty>,
): Promise<boolean> {
  const { state, store, chain, clock, pluginOf } = run;
  const isKept = run.openLedger !== undefined;
  return await run.exclusive(async () => {
    const { cursor } = state;
    if (cursor === null || !samePosition(cursor, seen)) return false;
    const processors = [...state.live, ...state.catchingUp];
    const defers = ({ name }: BlockProcessor) => faulty.has(pluginOf(name));
    let gone: readonly BlockHeader[] = [];
    const write = async () => {
      gone = await rollBack({ store, chain, processors, isKept, now: clock.now(), defers }, cursor, ancestor);
    };
    const to = ancestor === null ? null : { slot: ancestor.slot, blockhash: ancestor.blockhash };
    let left: (Faulty & { readonly leaving: readonly SkippedProcessor[] })[] | null = null;
    const adopt = async () => {
      const fromSlot = to === null ? state.floor : to.slot + 1;
      left ??= [...faulty].map(([plugin, one]) => ({ ...one, leaving: removeFromChain(run, plugin, fromSlot) }));
      await afterRollBack(run, to, gone);
      for (const { fault, error, leaving } of left) await reportSkipped(run, fault, error, leaving);
    };
    await moveChain(run, write, { to, adopt });
    return true;
  });
}

async function afterRollBack(run: Run, to: BlockPosition | null, gone: readonly BlockHeader[]): Promise<void> {
  const { state, store, chain } = run;
  await state.ledger?.cut(to?.slot ?? -1);
  if (to === null) Object.assign(state, await readPlacement(store.read, chain, run.processors, null, state.floor));
  state.cursor = to;
  run.buffer.clear();
  run.fetcher.clear();
  run.shared.forgetAbove(to?.slot ?? -1);
  state.listedTo = -1;
  state.hole = null;
  // The next audit compares what is there now.
  state.mismatch = null;
  run.meter.forks.add();
  run.meter.rolledBack.add(gone.length);
  run.meter.forkDepth.record(gone.length);
  run.log.warn(
    { chain, depth: gone.length, ancestor: to?.slot ?? null, newest: gone[0]?.slot ?? null },
    'rolled back a fork',
  );
  if (gone.length > 0) tellListeners(run, (listener) => listener.reverted(gone));
  recheckServed(run, gone);
  run.pollWake.wake();
}

/** A final block is never taken back: who served one that was is asked for it again, beside the following. */
function recheckServed({ state, source, signal }: Run, gone: readonly BlockHeader[]): void {
  for (const header of gone) {
    const served = state.served.find((one) => samePosition(one, header));
    if (served !== undefined) void source.recheck?.(served.upstream, header, signal);
  }
  state.served = state.served.filter((one) => !gone.some((header) => samePosition(one, header)));
}

type AncestorVerdict =
  /** The newest block that both branches have. */
  | { readonly kind: 'found'; readonly header: BlockHeader }
  /** None within the stored headers. */
  | { readonly kind: 'none' }
  /** The first block is on a dead branch: the chain has other blocks below it by now. */
  | { readonly kind: 'stale' }
  /** A header is not available; try again. */
  | { readonly kind: 'unknown' };

interface AncestorSearch {
  readonly source: ChainSource;
  readonly commitment: Commitment;
  readonly signal: AbortSignal;
  /** First slot above the newest gap: nothing below it links to what is above. */
  readonly floor: number;
  /** Stored headers, newest first. */
  readonly stored: readonly BlockHeader[];
  /** A header in memory, so that it need not be requested. */
  readonly held: (slot: number) => BlockHeader | null;
}

/** Which block one names as its parent. */
export type ChildLink = Pick<BlockHeader, 'parentSlot' | 'previousBlockhash'>;

/** Walks from a block of another branch down, link by link, until it meets a stored header in slot and hash. */
async function findAncestor(from: ChildLink, search: AncestorSearch): Promise<AncestorVerdict> {
  const bySlot = new Map(search.stored.map((header) => [header.slot, header]));
  const oldest = search.stored.at(-1)?.slot ?? Number.POSITIVE_INFINITY;
  let child: ChildLink = from;
  for (;;) {
    const known = bySlot.get(child.parentSlot);
    if (known !== undefined && known.blockhash === child.previousBlockhash) return { kind: 'found', header: known };
    // The first block above a gap was accepted without its parent: what is below the gap stays.
    if (child.parentSlot < search.floor) {
      const below = search.stored.find((header) => header.slot < search.floor);
      return below === undefined ? { kind: 'none' } : { kind: 'found', header: below };
    }
    if (child.parentSlot < oldest) return { kind: 'none' };
    const held = search.held(child.parentSlot);
    const parent: BlockHeader | null =
      held !== null && held.blockhash === child.previousBlockhash
        ? held
        : await search.source.header(child.parentSlot, { commitment: search.commitment, signal: search.signal });
    if (parent === null) return { kind: 'unknown' };
    if (parent.blockhash !== child.previousBlockhash || parent.slot !== child.parentSlot) return { kind: 'stale' };
    child = parent;
  }
}

interface RollBackOptions {
  readonly store: Store;
  readonly chain: ChainId;
  readonly processors: readonly BlockProcessor[];
  /** Whether there is a ledger. */
  readonly isKept: boolean;
  /** Unix ms. */
  readonly now: number;
  /** Processors whose rows stay until they can revert them. */
  readonly defers?: (processor: BlockProcessor) => boolean;
}

/**
 * Rolls back, newest first and in one transaction, every released block above the ancestor, or all blocks without one. Processors that
 * catch up revert only what they have applied; for those that `defers` names, and those with pending reverts, the reverts are recorded
 * as pending. Returns the removed headers, newest first.
 * Errors: FOLLOW_FENCED, those of the store, those of a processor.
 */
async function rollBack(
  { store, chain, processors, isKept, now, defers = () => false }: RollBackOptions,
  cursor: BlockPosition,
  ancestor: BlockHeader | null,
): Promise<readonly BlockHeader[]> {
  const keepSlot = ancestor?.slot ?? -1;
  return await store.write(async (tx) => {
    if (ancestor === null) {
      await moveCursors(tx, chain, [MAIN], cursor, { ...cursor, blockTime: null });
      await removeCursors(tx, chain, [MAIN]);
    } else await moveCursors(tx, chain, [MAIN], cursor, ancestor);
    await forgetEnds(tx, chain, keepSlot);
    const gone = await readHeaders(tx.db, chain, keepSlot + 1);
    const behind = [];
    const atAncestor: CursorOwner[] = isKept ? [KEPT] : [];
    for (const processor of processors) {
      const position = await readCursor(tx.db, chain, processor);
      if (position !== null && position.slot >= keepSlot && processor.wantsGaps !== false) atAncestor.push(processor);
      if (position === null || position.slot <= keepSlot) continue;
      const isDeferred = defers(processor) || (await hasPendingReverts(tx.db, chain, processor));
      behind.push({ processor, position, isDeferred });
      if (ancestor === null) await removeCursors(tx, chain, [processor]);
      else await moveCursors(tx, chain, [processor], position, ancestor);
    }
    for (const header of gone)
      for (const { processor, position, isDeferred } of behind) {
        if (header.slot > position.slot) continue;
        if (isDeferred) await deferRevert(tx, chain, processor, header);
        else await processor.revert(tx, header, chain);
      }
    const below = ancestor === null ? null : { slot: ancestor.slot, blockhash: ancestor.blockhash };
    const missed = {
      fromSlot: gone.at(-1)?.slot ?? cursor.slot,
      toSlot: cursor.slot,
      reason: 'skipped',
      below,
    } as const;
    for (const { processor } of behind)
      if (defers(processor)) await recordProcessorGap(tx, chain, processor, missed, now);
    await followTables(tx.db)
      .deleteFrom('follow_headers')
      .where('chain', '=', chain)
      .where('slot', '>', keepSlot)
      .execute();
    if (ancestor !== null) await joinGaps(tx, chain, ancestor, atAncestor, now);
    return gone;
  });
}

/**
 * Rolls back, for an operator, every released block above a slot, also finalized ones: for a store on a branch that the chain has left.
 * Nothing happens when the cursor is not above it. Errors: FOLLOW_REWIND, exit 78; those of the store.
 */
export async function rewind({ store, chain, processors, openLedger, clock, log }: Run, toSlot: number): Promise<void> {
  const cursor = await readCursor(store.read, chain);
  if (cursor === null || cursor.slot <= toSlot) return;
  const headers = await readHeaders(store.read, chain, 0);
  const ancestor = headers.find(({ slot }) => slot <= toSlot);
  if (ancestor === undefined)
    throw refused(`blocks of the ${chain} chain are known down to slot ${headers.at(-1)?.slot ?? cursor.slot} only`);
  const marks = await readMarks(store.read, chain);
  const { live, catchingUp } = await readPlacement(store.read, chain, processors, cursor, marks?.floor ?? 0);
  const members = [...live, ...catchingUp];
  const forgetful = members.find(({ finalized }) => finalized !== undefined);
  if (forgetful !== undefined && ancestor.slot < (marks?.finalizedSlot ?? -1))
    throw refused(
      `processor ${forgetful.name} keeps nothing to go back below the final slot ${marks?.finalizedSlot}: index it again`,
    );
  // First: a finalized mark above the cursor would forbid ordinary forks.
  await store.write((tx) => resetFinalized(tx, chain, ancestor.slot));
  const gone = await rollBack(
    { store, chain, processors: members, isKept: openLedger !== undefined, now: clock.now() },
    cursor,
    ancestor,
  );
  log.warn({ chain, from: cursor.slot, to: ancestor.slot, blocks: gone.length }, 'rewound by the operator');
}

const refused = (why: string) => new CodedError('FOLLOW_REWIND', `cannot rewind: ${why}`, { exitCode: EXIT.config });

/**
 * After a roll-back to a block below gaps: the chain continues above the newest of them, so everything between that block and there is
 * missing now. Its open gaps become one gap, which is filled from its start. Called in the transaction of the roll-back.
 */
async function joinGaps(
  tx: StoreTx,
  chain: ChainId,
  below: BlockPosition,
  missing: readonly CursorOwner[],
  now: number,
): Promise<void> {
  const floor = (await readMarks(tx.db, chain))?.floor ?? 0;
  if (below.slot + 1 >= floor) return;
  const gap = { fromSlot: below.slot + 1, toSlot: floor - 1 };
  const inside = await gapsWithin(tx, chain, gap);
  const isCovered = inside.some(({ from_slot, to_slot }) => from_slot === gap.fromSlot && to_slot === gap.toSlot);
  if (isCovered) return;
  const tables = followTables(tx.db);
  const open = inside.filter(({ status }) => status === 'open' || status === 'filling');
  const ids = open.map(({ id }) => id);
  let owners = missing;
  if (ids.length > 0) {
    const fills = await tables.selectFrom('follow_gap_fills').selectAll().where('gap_id', 'in', ids).execute();
    owners = [...missing, ...fills.map(({ processor, version }) => ({ name: processor, version }))];
    await tables.deleteFrom('follow_gap_fills').where('gap_id', 'in', ids).execute();
    await tables.deleteFrom('follow_gaps').where('id', 'in', ids).execute();
  }
  const reason = (open[0]?.reason ?? 'hole') as 'hole';
  await recordGap(tx, chain, { ...gap, reason, below }, owners, open[0]?.detected_at ?? now);
}

/** Gaps of the chain itself, not of a processor; lowest slots first. */
async function gapsWithin(
  { db }: StoreTx,
  chain: ChainId,
  { fromSlot, toSlot }: { readonly fromSlot: number; readonly toSlot: number },
) {
  return await followTables(db)
    .selectFrom('follow_gaps')
    .select(['id', 'from_slot', 'to_slot', 'status', 'reason', 'detected_at'])
    .where('chain', '=', chain)
    .where('processor', '=', MAIN.name)
    .where('reason', '!=', 'manual')
    .where('from_slot', '>=', fromSlot)
    .where('to_slot', '<=', toSlot)
    .orderBy('from_slot')
    .execute();
}
