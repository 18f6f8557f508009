import { codeOf } from '../lib/coded-error.ts';
import { isLagBeyond } from '../lib/slot-length.ts';
import type { ChainBlock } from '../ports/block.ts';
import type { Commitment } from '../ports/chain.ts';
import { backoffMs } from '../runtime/waiting.ts';
import { isSameChain } from './commit.ts';
import { followedCommitment } from './consensus.ts';
import { samePosition } from './cursor.ts';
import type { Run } from './run.ts';
import { isSilent, STREAM, type StreamState, sawSlot } from './state.ts';

/** While there is much to fetch, or nothing because it is pushed. */
const SLOW_POLL_MS = 2_000;
/** Nodes refuse wider ranges, each its own. */
const PAGE_SLOTS = 500;
const PAGES_AT_ONCE = 20;
/** Lower tips in a row after which a lower tip is the truth and not another node's view. */
const LOWER_TIPS = 8;
/** Between questions to a node that says it is behind what is final. */
const CONFIRM_MS = 5_000;

/** Polls the tip and lists produced slots. Both are only hints of what to fetch. */
export async function pollLoop(run: Run): Promise<void> {
  const { source, state, follow, signal, clock, log } = run;
  let lower = 0;
  let confirmedAt = Number.NEGATIVE_INFINITY;
  /** Slot at which the search continues after many slots without a block; -1: none. */
  let scanFrom = -1;

  async function look(): Promise<void> {
    const ask = { commitment: followedCommitment(run), signal } as const;
    // An upstream that hangs answers with its last slot: while it does, the others are asked too.
    const tip = await (isSilent(state, clock.monotonic()) ? source.highestTip(ask) : source.tip(ask));
    // A node of this chain that keeps up never reports this: it is far behind, or serves another chain.
    if (tip < (state.finalizedSlot ?? -1) && clock.monotonic() - confirmedAt >= CONFIRM_MS) {
      confirmedAt = clock.monotonic();
      if (!(await isSameChain(run))) return;
    }
    lower = state.tip !== null && tip < state.tip ? lower + 1 : 0;
    state.lastAnswerAt = clock.monotonic();
    if (lower === 0) sawSlot(state, tip, state.lastAnswerAt);
    else if (lower > LOWER_TIPS) state.tip = tip;
    if (lower === 0) state.slotLength.sawTip(tip, state.lastAnswerAt);
    if (isStreamLeading(run)) return;
    const first = Math.max((state.cursor?.slot ?? -1) + 1, state.floor, state.listFrom);
    let from = Math.max(first, scanFrom);
    scanFrom = -1;
    // A long run of slots without blocks must not hide what follows; a slot missing in a list is named by a later block's parent.
    for (let page = 0; page < PAGES_AT_ONCE; page += 1) {
      const span = from === first ? Math.min(follow.window, PAGE_SLOTS) : PAGE_SLOTS;
      const to = Math.min(state.tip ?? tip, from + span - 1);
      if (to < from || (await list(from, to)) > 0) return;
      from = to + 1;
    }
    scanFrom = from;
  }

  async function list(from: number, to: number): Promise<number> {
    const slots = await source.produced(from, to, { commitment: followedCommitment(run), signal });
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

/** Lists the next slots before the fetcher runs dry. */
export function listAhead({ state, follow, pollWake }: Run): void {
  const ahead = state.listedTo - (state.cursor?.slot ?? 0);
  if (state.listedTo >= 0 && (state.tip ?? 0) > state.listedTo && ahead <= follow.window / 2) pollWake.wake();
}

/** Silence after which polling takes over again. */
const SILENCE_MS = 5_000;
/** Silence after which the subscription is opened again: servers fall silent without closing. */
const DEAD_MS = 30_000;
/** Time behind the tip beyond which the stream counts as behind. */
const BEHIND = { seconds: 8, slots: null };

/** Whether the stream delivers the blocks in order and in time, so that fetching them would only cost. */
export function isStreamLeading({ state, clock }: Run): boolean {
  const { stream, tip, cursor } = state;
  if (stream === null || !stream.leads || cursor === null) return false;
  const pushesNothing = clock.monotonic() - stream.lastBlockAt >= SILENCE_MS;
  const lag = { lagSlots: (tip ?? 0) - cursor.slot, slotMs: state.slotLength.ms() };
  if (pushesNothing || isLagBeyond(lag, BEHIND)) stream.leads = false;
  return stream.leads;
}

/** Polling takes over: the blocks of the stream do not continue the chain. */
export function distrustStream({ state, pollWake }: Run): void {
  if (state.stream === null || !state.stream.leads) return;
  state.stream.leads = false;
  pollWake.wake();
}

/** Keeps a subscription open. Pushed blocks share the buffer with fetched ones, and their links are checked in the same way. */
export async function streamLoop(run: Run): Promise<void> {
  const { source, state, signal, clock, random, log, chain } = run;
  const { stream } = source;
  if (stream === undefined) return;
  let failures = 0;
  let mayReplay = true;
  while (!signal.aborted) {
    const opened: StreamState = { leads: false, lastBlockAt: clock.monotonic(), commitment: followedCommitment(run) };
    state.stream = opened;
    const fromSlot: number | null = mayReplay && state.cursor !== null ? state.cursor.slot + 1 : null;
    const watched = watchSilence(run, opened);
    let blocks = 0;
    const end = await stream.open({
      fromSlot,
      commitment: opened.commitment,
      signal: watched.signal,
      onBlock(block) {
        blocks += 1;
        opened.lastBlockAt = clock.monotonic();
        acceptPushed(run, block, opened.commitment);
      },
      onDead: (slot) => dropDead(run, slot),
    });
    watched.stop();
    distrustStream(run);
    if (signal.aborted) break;
    // Clients do not always report that a replay was refused. Older blocks are polled, and the stream continues from its newest block.
    mayReplay = blocks > 0 || (fromSlot === null && end.kind !== 'out-of-range');
    failures = blocks > 0 ? 1 : failures + 1;
    const reason = end.kind === 'failed' ? end.reason : end.kind;
    run.meter.streamEnds.with(reason).add();
    log.warn({ chain, reason, failures }, 'the stream of blocks ended; polling continues');
    await clock.sleep(backoffMs(failures, random), signal).catch(() => undefined);
  }
  state.stream = null;
}

/** Aborts a subscription that has said nothing for long. */
function watchSilence({ clock, signal }: Run, opened: StreamState) {
  const silent = new AbortController();
  const look = (): void => {
    const leftMs = opened.lastBlockAt + DEAD_MS - clock.monotonic();
    if (leftMs <= 0) silent.abort(new Error('the stream is silent'));
    else cancel = clock.timeout(leftMs, look);
  };
  const onAbort = () => silent.abort(signal.reason);
  signal.addEventListener('abort', onAbort, { once: true });
  let cancel = clock.timeout(DEAD_MS, look);
  if (signal.aborted) onAbort();
  return {
    signal: silent.signal,
    stop() {
      cancel();
      signal.removeEventListener('abort', onAbort);
    },
  };
}

function acceptPushed(run: Run, block: ChainBlock, commitment: Commitment): void {
  const { state, buffer, meter } = run;
  meter.streamBlocks.add();
  const { cursor } = state;
  // Before the first block there is nothing to continue.
  if (cursor === null) return;
  // Polling was faster this time; the stream is at the tip all the same.
  if (samePosition(block, cursor) && state.stream !== null) state.stream.leads = true;
  if (block.slot <= cursor.slot) return;
  const held = buffer.get(block.slot)?.block;
  const continues = block.parentSlot === cursor.slot && block.previousBlockhash === cursor.blockhash;
  if (held !== undefined && (held.blockhash === block.blockhash || !continues)) return;
  // Without room it is dropped, and fetched later.
  if (!buffer.hasRoomFor(block.slot)) {
    distrustStream(run);
    return;
  }
  buffer.put({ block, upstream: STREAM, commitment });
  run.wake.wake();
}

/** Pushed blocks above a dead block may descend from it: all are dropped, and fetched where needed. */
function dropDead(run: Run, slot: number): void {
  const { buffer } = run;
  let dropped = false;
  for (let held = buffer.after(slot - 1); held !== null; held = buffer.after(held.block.slot))
    if (held.upstream === STREAM) {
      buffer.remove(held.block.slot);
      dropped = true;
    }
  if (dropped) distrustStream(run);
}
