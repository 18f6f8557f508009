import { codeOf } from '../lib/coded-error.ts';
import { isSameChain } from './doubt.ts';
import type { Run } from './run.ts';
import { isStreamLeading } from './stream.ts';

/** While there is much to fetch, or nothing because it is pushed. */
const SLOW_POLL_MS = 2_000;
/** Nodes refuse wider ranges, each its own. */
const PAGE_SLOTS = 500;
const PAGES_AT_ONCE = 20;
/** Lower tips in a row after which a lower tip is the truth and not another node's view. */
const LOWER_TIPS = 8;
/** Between questions to a node that says it is behind what is final. */
const CONFIRM_MS = 5_000;

/** Looks at the tip and lists produced slots again and again. Both are only hints of what to fetch. */
export async function pollLoop(run: Run): Promise<void> {
  const { source, state, follow, signal, clock, log } = run;
  let lower = 0;
  let confirmedAt = Number.NEGATIVE_INFINITY;
  /** Where the search goes on after many slots without a block; below the cursor for none. */
  let scanFrom = -1;

  async function look(): Promise<void> {
    const tip = await source.tip({ commitment: follow.commitment, signal });
    // No node of this chain that keeps up says so: it is far behind, or another chain.
    if (tip < (state.finalizedSlot ?? -1) && clock.monotonic() - confirmedAt >= CONFIRM_MS) {
      confirmedAt = clock.monotonic();
      if (!(await isSameChain(run))) return;
    }
    lower = state.tip !== null && tip < state.tip ? lower + 1 : 0;
    if (lower === 0 || lower > LOWER_TIPS) state.tip = tip;
    state.lastAnswerAt = clock.monotonic();
    if (lower === 0) state.slotLength.sawTip(tip, state.lastAnswerAt);
    if (isStreamLeading(run)) return;
    const first = Math.max((state.cursor?.slot ?? -1) + 1, state.floor, state.listFrom);
    let from = Math.max(first, scanFrom);
    scanFrom = -1;
    // A long stretch without a block must not hide what comes behind it; what a list left out is named by a later block's parent.
    for (let page = 0; page < PAGES_AT_ONCE; page += 1) {
      const span = from === first ? Math.min(follow.window, PAGE_SLOTS) : PAGE_SLOTS;
      const to = Math.min(state.tip ?? tip, from + span - 1);
      if (to < from || (await list(from, to)) > 0) return;
      from = to + 1;
    }
    scanFrom = from;
  }

  async function list(from: number, to: number): Promise<number> {
    const slots = await source.produced(from, to, { commitment: follow.commitment, signal });
    const wanted = slots.filter((slot) => slot > (state.cursor?.slot ?? -1) && slot <= to && !run.buffer.has(slot));
    for (const slot of wanted.slice(0, follow.window)) run.fetcher.want(slot);
    state.listedTo = to;
    return slots.length;
  }

  while (!signal.aborted) {
    try {
      await look();
    } catch (error) {
      if (signal.aborted) return;
      log.debug({ code: codeOf(error) }, 'the tip could not be read');
    }
    run.wake.wake();
    const behind = (state.tip ?? 0) - (state.cursor?.slot ?? 0) > follow.window;
    const isSlow = behind || isStreamLeading(run);
    await run.pollWake.sleep(isSlow ? SLOW_POLL_MS : follow.pollMs, signal);
  }
}

/** Has the next slots listed before the fetcher runs dry. */
export function listInTime({ state, follow, pollWake }: Run): void {
  const ahead = state.listedTo - (state.cursor?.slot ?? 0);
  if (state.listedTo >= 0 && (state.tip ?? 0) > state.listedTo && ahead <= follow.window / 2) pollWake.wake();
}
