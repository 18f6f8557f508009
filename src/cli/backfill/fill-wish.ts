import type { Assembly } from '../../kernel/assembly/assemble.ts';
import type { DaemonParts } from '../../kernel/assembly/parts.ts';
import { EXIT } from '../../kernel/errors.ts';
import { type GapRecord, gapView } from '../../kernel/follower/backfill/gap-record.ts';
import { CodedError } from '../../lib/coded-error.ts';
import type { ChainId } from '../../ports/chain.ts';
import type { Store } from '../../ports/store.ts';
import type { CliIo } from '../io.ts';
import { createProgress } from '../progress.ts';
import { findRunFiles } from '../run-file.ts';
import { fillHere } from './fill-here.ts';
import { recordWish, type Wanted } from './record.ts';
import type { BackfillRequest } from './request.ts';
import { gapLine } from './show.ts';
import { type WatchEnd, watchGaps } from './watch.ts';

export interface Work {
  readonly assembly: Assembly;
  readonly parts: DaemonParts;
  readonly store: Store;
  readonly dataDir: string;
  readonly io: CliIo;
}

type Wish = Extract<BackfillRequest, { kind: 'gaps' | 'range' }>;

/**
 * Fills what is wanted and shows how it gets on: in this process, or in the daemon that runs. Returns the exit code: 75 when something
 * is left, which the same command then takes up again.
 */
export async function fillWish(work: Work, wish: Wish): Promise<number> {
  const { store, io, parts, assembly, dataDir } = work;
  const isDaemonAtIt = () =>
    assembly.config.core.follow.enabled && findRunFiles(dataDir).some(({ roles }) => roles.includes('indexer'));
  const hasDaemon = isDaemonAtIt();
  if (wish.kind === 'range') await checkFinal(work, wish.chain ?? 'main', wish.toSlot, hasDaemon);
  const wanted = await recordWish(store, assembly, wish, parts.clock);
  const stop = new AbortController();
  const done = new AbortController();
  const interrupt = () => stop.abort(new Error('interrupted'));
  for (const signal of SIGNALS) process.once(signal, interrupt);
  const filling = hasDaemon ? new Promise<never>(() => undefined) : startHere(work, wanted, stop.signal, done.signal);
  const watching = watchGaps({
    ...{ store, clock: parts.clock, isOurs: wanted.isOurs, before: wanted.gaps, signal: stop.signal },
    progress: (total) => createProgress({ what: 'backfill', unit: 'slots', total, io, clock: parts.clock }),
    isWorkedOn: () => !hasDaemon || isDaemonAtIt(),
  });
  try {
    const { end, left } = await Promise.race([watching, filling]);
    tell(work, wish, wanted, end, left, hasDaemon);
    return end === 'filled' ? EXIT.ok : EXIT.temporary;
  } finally {
    for (const signal of SIGNALS) process.off(signal, interrupt);
    done.abort(new Error('done'));
    stop.abort(new Error('done'));
    await Promise.allSettled(hasDaemon ? [watching] : [watching, filling]);
  }
}

const SIGNALS = ['SIGINT', 'SIGTERM'] as const;

/** Never resolves by itself: what there is to know stands in the records. */
async function startHere(
  { assembly, parts, store }: Work,
  { gaps, isOurs }: Wanted,
  stop: AbortSignal,
  done: AbortSignal,
): Promise<never> {
  const ids = new Set(gaps.map(({ chain }) => chain));
  const chains = assembly.chains.filter(({ setup }) => ids.has(setup.id));
  const lost = [...ids].find((id) => !chains.some(({ setup }) => setup.id === id));
  if (lost !== undefined) throw noUpstream(lost);
  const signal = AbortSignal.any([stop, done]);
  await fillHere({ assembly, parts, store, chains, isOurs, signal });
  return await new Promise<never>((_, reject) => {
    if (done.aborted) reject(done.reason);
    else done.addEventListener('abort', () => reject(done.reason), { once: true });
  });
}

/** What is filled is never taken back. Errors: CONFIG_INVALID, CHAIN_UNREACHABLE, FOLLOW_NOT_FINAL. */
async function checkFinal({ assembly }: Work, chain: ChainId, toSlot: number, hasDaemon: boolean): Promise<void> {
  const { source } = assembly.chains.find(({ setup }) => setup.id === chain) ?? {};
  if (source === undefined) {
    // Only the daemon knows where the throw-away chain is.
    if (hasDaemon) return;
    throw noUpstream(chain);
  }
  const { signal } = new AbortController();
  const finalSlot = await source.tip({ commitment: 'finalized', signal }).catch((error: unknown) => {
    const exitCode = EXIT.temporary;
    throw new CodedError('CHAIN_UNREACHABLE', 'no upstream tells its newest final slot', { cause: error, exitCode });
  });
  if (toSlot < finalSlot) return;
  throw new CodedError('FOLLOW_NOT_FINAL', `slot ${toSlot} is not final yet; the newest final slot is ${finalSlot}`, {
    exitCode: EXIT.temporary,
  });
}

const noUpstream = (chain: ChainId) =>
  new CodedError('CONFIG_INVALID', `no upstream is configured for the ${chain} chain`, { exitCode: EXIT.config });

function tell(
  { io }: Work,
  wish: Wish,
  wanted: Wanted,
  end: WatchEnd,
  left: readonly GapRecord[],
  hasDaemon: boolean,
): void {
  const slots = wanted.gaps.reduce((sum, { fromSlot, toSlot }) => sum + toSlot - fromSlot + 1, 0);
  if (wish.json) io.out(JSON.stringify({ end, slots, left: left.map(gapView) }));
  else if (end === 'filled') io.out(slots === 0 ? 'there are no open gaps' : `filled: ${slots} slots`);
  if (end === 'filled') return;
  const words: Readonly<Record<typeof end, string>> = {
    blocked: 'cannot be filled now; the daemon tries again by itself',
    gone: 'the daemon has ended; run the same command again to go on',
    interrupted: hasDaemon
      ? 'the daemon goes on filling; see backfill --list'
      : 'interrupted; run the same command again to go on',
  };
  io.err(words[end]);
  for (const gap of left) io.err(gapLine(gap));
}
