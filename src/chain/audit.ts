import { codeOf, messageOf } from '../lib/coded-error.ts';
import type { BlockHeader } from '../ports/block.ts';
import { readCursor, readHeader, readHeaders, writeFinalized } from './cursor.ts';
import { failureReasonOf, faultOfProcessor } from './faults.ts';
import { findEnd } from './fill-blocks.ts';
import { countGaps } from './gap-records.ts';

import { type ChildLink, followFork, rollBackBelowGap } from './reorg.ts';
import { type Run, tellListeners } from './run.ts';

/** Verifies at intervals that the released blocks are the finalized ones. Errors go to `onError`. */
export async function auditLoop(run: Run, onError: (error: unknown) => void): Promise<void> {
  const { signal, clock, follow, log } = run;
  while (!signal.aborted) {
    try {
      await clock.sleep(follow.auditIntervalMs, signal);
      if (run.state.started && run.state.halted === null && !run.state.draining) await audit(run);
    } catch (error) {
      if (signal.aborted) return;
      if (codeOf(error) === 'FOLLOW_DEEP_FORK' || codeOf(error)?.startsWith('STORE_') || codeOf(error) === 'LEDGER_IO')
        onError(error);
      else if (faultOfProcessor(error) !== null) {
        run.state.mismatch = failureReasonOf(error, 'rolling back');
        log.error({ chain: run.chain, ...faultOfProcessor(error), error: messageOf(error) }, 'a block processor fails');
      } else
        log.debug({ code: codeOf(error), error: messageOf(error) }, 'the finality audit failed; it will be retried');
    }
  }
}

/**
 * One audit. Released blocks are linked by their hashes, so that one equal hash proves all blocks below it as well, down to a gap:
 * each side of one is proven by itself. A slot without an answer proves nothing: the mark stays.
 */
async function audit(run: Run): Promise<void> {
  const { state, source, chain, store, signal } = run;
  const askedAt = run.clock.monotonic();
  const finalized = await source.tip({ commitment: 'finalized', signal });
  const headers = await readHeaders(store.read, chain, Math.max(0, (state.finalizedSlot ?? -1) + 1));
  const [newest, ...lower] = topsOf(headers.filter((header) => header.slot <= finalized));
  if (newest === undefined) {
    // An upstream that is behind the mark says nothing of what is newer.
    if (finalized >= (state.finalizedSlot ?? -1)) state.finalizedAt = askedAt;
    return;
  }
  for (const top of lower) if (!(await isProvenBelowGap(run, top))) return;
  const theirs = await source.header(newest.slot, { commitment: 'finalized', signal });
  if (theirs === null) return;
  if (theirs.blockhash !== newest.blockhash) {
    // It may have been rolled back while the answer was in flight: then nothing is wrong.
    if ((await readHeader(store.read, chain, newest.slot))?.blockhash !== newest.blockhash) return;
    await resolve(run, `the finalized block at slot ${newest.slot} is not the one that was released`, () =>
      followFork(run, theirs),
    );
    return;
  }
  await run.exclusive(() => advance(run, newest.slot, newest.blockhash, askedAt));
  state.mismatch = null;
}

/**
 * The audit may be the first to see a fork, while the follower waits for blocks: what it rolls back is one like any other. What cannot be rolled
 * back contradicts the chain.
 */
async function resolve(
  { chain, log, meter, state }: Run,
  mismatch: string,
  rollBack: () => ReturnType<typeof followFork>,
): Promise<void> {
  let isFork = false;
  try {
    isFork = (await rollBack()) === 'rolled-back';
  } finally {
    if (!isFork) {
      meter.mismatches.add();
      log.error({ chain }, mismatch);
      state.mismatch = mismatch;
    }
  }
}

/** The newest header of each linked run, newest first. */
function topsOf(headers: readonly BlockHeader[]): readonly BlockHeader[] {
  return headers.filter((header, index) => {
    const above = headers[index - 1];
    return above === undefined || above.parentSlot !== header.slot || above.previousBlockhash !== header.blockhash;
  });
}

/**
 * A block that no upstream has any more cannot be verified; the gap record above it shows that something is missing. A block that is not
 * the finalized one is rolled back with everything above it. False: to be checked again.
 */
async function isProvenBelowGap(run: Run, top: BlockHeader): Promise<boolean> {
  const { source, signal, chain } = run;
  const theirs = await source.header(top.slot, { commitment: 'finalized', signal });
  if (theirs?.blockhash === top.blockhash) return true;
  if (theirs === null && top.slot < (await source.firstAvailable(signal))) return true;
  // Where the finalized chain has no block at this slot, the next one above decides.
  const above = theirs ?? (await blockAbove(run, top.slot));
  if (above === null) return false;
  if (theirs === null && above.parentSlot === top.slot && above.previousBlockhash === top.blockhash) return true;
  if ((await readHeader(run.store.read, chain, top.slot))?.blockhash !== top.blockhash) return false;
  await resolve(run, `the last block below a gap, at slot ${top.slot}, is not the finalized one`, () =>
    rollBackBelowGap(run, above),
  );
  return false;
}

async function blockAbove({ source, follow, signal }: Run, slot: number): Promise<ChildLink | null> {
  const finalSlot = await source.tip({ commitment: 'finalized', signal });
  return await findEnd(source, slot, { finalSlot, window: follow.window, signal });
}

/** Moves the finalized mark; each processor drops its undo data up to its own cursor. */
async function advance(run: Run, slot: number, blockhash: string, askedAt: number): Promise<void> {
  const { state, store, chain } = run;
  const isOurs = await store.write(async (tx) => {
    // The block may have been rolled back while the answer was in flight.
    const still = await readHeaders(tx.db, chain, slot);
    if (!still.some((header) => header.slot === slot && header.blockhash === blockhash)) return false;
    await writeFinalized(tx, chain, slot);
    for (const processor of [...state.live, ...state.catchingUp]) {
      const own = await readCursor(tx.db, chain, processor);
      if (own !== null) await processor.finalized?.(tx, Math.min(slot, own.slot), chain);
    }
    return true;
  });
  // Listeners that keep finalized data in memory must not hear of another block.
  if (!isOurs) return;
  await state.ledger?.finalize(slot);
  state.finalizedSlot = Math.max(slot, state.finalizedSlot ?? 0);
  state.finalizedAt = askedAt;
  tellListeners(run, (listener) => listener.finalized(slot));
  await countGaps(store.read, chain, state);
}
