import { isLagBeyond } from '../lib/chain-lag.ts';
import type { ChainBlock } from '../ports/block.ts';
import { backoffMs } from '../runtime/backoff.ts';
import { samePosition } from './decide.ts';
import { STREAM, type StreamState } from './follow-state.ts';
import type { Run } from './run.ts';

/** Silence after which polling takes over again. */
const SILENCE_MS = 5_000;
/** Silence after which the subscription is made anew: servers fall silent without closing. */
const DEAD_MS = 30_000;
/** Time behind the tip beyond which the stream counts as behind. */
const BEHIND = { seconds: 8, slots: null };

/** Whether blocks come by themselves, in order and in time, so that asking for them would only cost. */
export function isStreamLeading({ state, clock }: Run): boolean {
  const { stream, tip, cursor } = state;
  if (stream === null || !stream.leads || cursor === null) return false;
  const isSilent = clock.monotonic() - stream.lastBlockAt >= SILENCE_MS;
  const lag = { lagSlots: (tip ?? 0) - cursor.slot, slotMs: state.slotLength.ms() };
  if (isSilent || isLagBeyond(lag, BEHIND)) stream.leads = false;
  return stream.leads;
}

/** Polling takes over: what the stream gave does not continue the chain. */
export function distrustStream({ state, pollWake }: Run): void {
  if (state.stream === null || !state.stream.leads) return;
  state.stream.leads = false;
  pollWake.wake();
}

/** Keeps a subscription open. Pushed blocks go into the buffer beside the fetched ones and are proven by their links like them. */
export async function streamLoop(run: Run): Promise<void> {
  const { source, state, signal, clock, random, log, follow, chain } = run;
  const { stream } = source;
  if (stream === undefined) return;
  let failures = 0;
  let mayReplay = true;
  while (!signal.aborted) {
    const opened: StreamState = { leads: false, lastBlockAt: clock.monotonic() };
    state.stream = opened;
    const fromSlot: number | null = mayReplay && state.cursor !== null ? state.cursor.slot + 1 : null;
    const watched = watchSilence(run, opened);
    let blocks = 0;
    const end = await stream.open({
      ...{ fromSlot, commitment: follow.commitment, signal: watched.signal },
      onBlock(block) {
        blocks += 1;
        opened.lastBlockAt = clock.monotonic();
        takePushed(run, block);
      },
      onDead: (slot) => dropDead(run, slot),
    });
    watched.stop();
    distrustStream(run);
    if (signal.aborted) break;
    // Clients do not always tell that a replay was refused. What lies farther back is polled, and the stream goes on from its newest block.
    mayReplay = blocks > 0 || (fromSlot === null && end.kind !== 'out-of-range');
    failures = blocks > 0 ? 1 : failures + 1;
    const reason = end.kind === 'failed' ? end.reason : end.kind;
    run.meter.streamEnds.with(reason).add();
    log.warn({ chain, reason, failures }, 'the stream of blocks ended; polling goes on');
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

function takePushed(run: Run, block: ChainBlock): void {
  const { state, buffer, meter } = run;
  meter.streamBlocks.add();
  const { cursor } = state;
  // Before the first block there is nothing that it could continue.
  if (cursor === null) return;
  // Asking was quicker this time; the stream is where the chain is all the same.
  if (samePosition(block, cursor) && state.stream !== null) state.stream.leads = true;
  if (block.slot <= cursor.slot) return;
  const held = buffer.get(block.slot)?.block;
  const continues = block.parentSlot === cursor.slot && block.previousBlockhash === cursor.blockhash;
  if (held !== undefined && (held.blockhash === block.blockhash || !continues)) return;
  // Without room it is left out, and fetched when its turn comes.
  if (!buffer.hasRoomFor(block.slot)) {
    distrustStream(run);
    return;
  }
  buffer.put({ block, upstream: STREAM });
  run.wake.wake();
}

/** Whatever was pushed above a dead block may descend from it: those that do not are fetched. */
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
