import { codeOf, messageOf } from '../../lib/coded-error.ts';
import type { BlockProcessor } from '../plugin.ts';
import { backoffMs } from './backoff.ts';
import { createBlockBuffer, type Held } from './buffer.ts';
import { releaseToLane } from './commit-block.ts';
import { decide, type Position } from './decide.ts';
import { createFetcher } from './fetcher.ts';
import { readCursor, readHeaders } from './positions.ts';
import type { Run } from './run.ts';
import { createWake } from './wake.ts';

/** Little, so that those at the tip are never delayed by it. */
const LANE_BLOCKS = 8;
const LANE_FETCHES = 2;

/** Brings one processor from its own cursor to the chain's, block by block, and lets it join there. Errors go to `onError`. */
export async function catchUp(run: Run, processor: BlockProcessor, onError: (error: unknown) => void): Promise<void> {
  const { state, signal, clock, random, log } = run;
  const lane = createLane(run, processor);
  let failures = 0;
  while (!signal.aborted && state.catchingUp.includes(processor)) {
    try {
      const acted = state.begun && state.halted === null && !state.draining && (await lane.step());
      failures = 0;
      if (!acted) await lane.wait();
    } catch (error) {
      if (signal.aborted) break;
      failures += 1;
      log.warn({ processor: processor.name, code: codeOf(error), error: messageOf(error) }, 'catching up failed');
      onError(error);
      await clock.sleep(backoffMs(failures, random), signal).catch(() => undefined);
    }
  }
  await lane.settled();
}

function createLane(run: Run, processor: BlockProcessor) {
  const { state, source, follow, clock, random, signal, store, chain } = run;
  const wake = createWake(clock);
  const buffer = createBlockBuffer(LANE_BLOCKS, follow.bufferBytes);
  let position: Position | null = null;
  let floor = processor.startSlot ?? 0;
  let listedTo = -1;
  const fetcher = createFetcher({
    ...{ source, buffer, clock, random, signal, commitment: follow.commitment },
    concurrency: () => LANE_FETCHES,
    releasedSlot: () => position?.slot ?? -1,
    wake: wake.call,
    count: () => {},
  });

  /** Only slots up to the chain's own cursor are of interest. */
  async function list(): Promise<void> {
    const from = Math.max((position?.slot ?? -1) + 1, floor, listedTo + 1, state.listFrom);
    const to = Math.min(state.cursor?.slot ?? -1, from + follow.window - 1);
    if (to < from || from > (position?.slot ?? floor) + follow.window * 2) return;
    for (const slot of await source.produced(from, to, { commitment: follow.commitment, signal })) fetcher.want(slot);
    listedTo = to;
  }

  async function commit(held: Held): Promise<void> {
    const { block } = held;
    await run.turn(async () => {
      const known = (await readHeaders(store.read, chain, block.slot)).find((header) => header.slot === block.slot);
      const main = state.cursor;
      // Never another branch than the chain's own cursor is on, and never beyond it.
      if (main === null || block.slot > main.slot || (known !== undefined && known.blockhash !== block.blockhash)) {
        fetcher.again(block.slot, held.upstream);
        return;
      }
      await releaseToLane({ store, chain, headers: follow.headers }, block, position, processor);
      if (block.blockhash === main.blockhash) join();
    });
  }

  function join(): void {
    state.catchingUp = state.catchingUp.filter((other) => other !== processor);
    state.live = [...state.live, processor];
    run.log.info({ processor: processor.name, slot: state.cursor?.slot }, 'caught up');
  }

  async function step(): Promise<boolean> {
    const stored = await readCursor(store.read, chain, processor);
    if (stored?.slot !== position?.slot || stored?.blockhash !== position?.blockhash) {
      // A roll-back went below it.
      if ((stored?.slot ?? -1) < (position?.slot ?? -1)) listedTo = -1;
      position = stored;
    }
    buffer.dropThrough(Math.max(position?.slot ?? -1, position === null ? floor - 1 : -1));
    fetcher.dropThrough(position?.slot ?? -1);
    if (await joinIfEqual()) return true;
    await list();
    fetcher.pump();
    const next = buffer.first();
    const decision = decide({ cursor: position, floor, next: next?.block ?? null });
    if (decision.kind === 'release') {
      await commit(next as Held);
      return true;
    }
    if (decision.kind === 'fork') fetcher.again((next as Held).block.slot, (next as Held).upstream);
    if (decision.kind === 'hole') {
      fetcher.need(decision.slot);
      fetcher.pump();
      if (fetcher.isPruned(decision.slot) && !fetcher.openBelow(decision.slot)) floor = decision.slot + 1;
    }
    return false;
  }

  async function joinIfEqual(): Promise<boolean> {
    return await run.turn(async () => {
      const main = state.cursor;
      if (main === null || position?.slot !== main.slot || position.blockhash !== main.blockhash) return false;
      join();
      return true;
    });
  }

  return { step, wait: () => wake.wait(follow.pollMs, signal), settled: () => fetcher.settled() };
}
