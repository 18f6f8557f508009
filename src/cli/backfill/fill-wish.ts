import { createFillSchedule } from '../../chain/backfill.ts';
import type { FillOptions } from '../../chain/fill-blocks.ts';
import { type GapRecord, gapView, missingSlots, readGaps } from '../../chain/gaps.ts';
import type { AssembledChain, Assembly } from '../../daemon/assemble.ts';
import { bindStoreToChain } from '../../daemon/chains.ts';
import { createLifecycle } from '../../daemon/lifecycle.ts';
import type { DaemonParts } from '../../daemon/parts.ts';
import { createRemoteRunner } from '../../daemon/remote.ts';
import { CodedError } from '../../lib/coded-error.ts';
import type { ChainId } from '../../ports/chain.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Store } from '../../ports/store.ts';
import { EXIT } from '../../runtime/errors.ts';
import { createSemaphore } from '../../runtime/semaphore.ts';
import { type CliIo, createProgress, type Progress } from '../io.ts';
import { findRunFiles } from '../run-file.ts';
import { type BackfillRequest, gapLine, recordWish, type Wanted } from './request.ts';

export interface Work {
  readonly assembly: Assembly;
  readonly parts: DaemonParts;
  readonly store: Store;
  readonly dataDir: string;
  readonly io: CliIo;
}

type Wish = Extract<BackfillRequest, { kind: 'gaps' | 'range' }>;

/**
 * Fills the requested gaps and shows the progress: in this process, or in the running daemon. Returns the exit code: 75 if something is
 * left, which the same command then resumes.
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

/** Never resolves by itself: the state is in the gap records. */
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

/** Filled blocks are never rolled back, so the range must be final. Errors: CONFIG_INVALID, CHAIN_UNREACHABLE, FOLLOW_NOT_FINAL. */
async function checkFinal({ assembly }: Work, chain: ChainId, toSlot: number, hasDaemon: boolean): Promise<void> {
  const { source } = assembly.chains.find(({ setup }) => setup.id === chain) ?? {};
  if (source === undefined) {
    // Only the daemon knows the address of the local chain.
    if (hasDaemon) return;
    throw noUpstream(chain);
  }
  const { signal } = new AbortController();
  const finalSlot = await source.tip({ commitment: 'finalized', signal }).catch((error: unknown) => {
    const exitCode = EXIT.temporary;
    throw new CodedError('CHAIN_UNREACHABLE', 'no upstream reports its newest final slot', { cause: error, exitCode });
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
  else if (end === 'filled') io.out(slots === 0 ? 'no open gaps' : `filled: ${slots} slots`);
  if (end === 'filled') return;
  const words: Readonly<Record<typeof end, string>> = {
    blocked: 'cannot be filled now; the daemon tries again',
    gone: 'the daemon has ended; run the same command again to continue',
    interrupted: hasDaemon
      ? 'the daemon continues; see backfill --list'
      : 'interrupted; run the same command again to continue',
  };
  io.err(words[end]);
  for (const gap of left) io.err(gapLine(gap));
}

interface FillHereOptions {
  readonly assembly: Assembly;
  readonly parts: DaemonParts;
  readonly store: Store;
  readonly chains: readonly AssembledChain[];
  readonly isOurs: (gap: GapRecord) => boolean;
  readonly signal: AbortSignal;
}

const PAUSE_MS = 500;

/**
 * Fills gaps in this process, like a daemon without other work, until the signal aborts. Concurrent fillers, including a daemon, are
 * detected at each block. Errors: STORE_WRONG_CHAIN, PLUGIN_START_*, CHAIN_*, those of the store.
 */
async function fillHere(options: FillHereOptions): Promise<void> {
  const { assembly, parts, store, chains, signal } = options;
  const { core } = assembly.config;
  assembly.outbox.set(createRemoteRunner(parts));
  const lifecycle = createLifecycle({ plugins: assembly.plugins, ...parts, ...core.lifecycle });
  try {
    await Promise.all(chains.map(({ pool }) => pool.start()));
    for (const { reader, setup } of chains) {
      const genesisHash = await reader.call<string>('getGenesisHash', [], { signal });
      await bindStoreToChain(store, setup.id, genesisHash);
    }
    await lifecycle.start();
    await Promise.all(chains.map((chain) => fillChain(options, chain)));
  } finally {
    await lifecycle.stop();
    await Promise.all(assembly.chains.map(({ pool }) => pool.stop()));
  }
}

async function fillChain(options: FillHereOptions, chain: AssembledChain): Promise<void> {
  const { signal, parts } = options;
  const schedule = createFillSchedule(fillOptions(options, chain), options.isOurs);
  while (!signal.aborted) {
    try {
      if (!(await schedule.pass())) await parts.clock.sleep(PAUSE_MS, signal);
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }
}

function fillOptions(
  { assembly, parts, store, signal }: FillHereOptions,
  { setup, source }: AssembledChain,
): FillOptions {
  const { follow } = assembly.config.core;
  const { clock, random, log } = parts;
  return {
    ...{ chain: setup.id, source, store, follow, clock, random, log, signal },
    processors: assembly.merged.processors.filter(({ chains }) => chains.includes(setup.id)),
    exclusive: createSemaphore({ concurrency: 1 }).run,
    concurrency: follow.catchUpConcurrency,
    hindrance: () => (source.isLimited?.() === true ? 'an upstream limits calls' : null),
    finalSlot: async () => await source.tip({ commitment: 'finalized', signal }),
    filled: () => undefined,
  };
}

type WatchEnd =
  | 'filled'
  /** The remaining gaps were tried and are blocked until something external changes. */
  | 'blocked'
  /** No process works on the gaps any more. */
  | 'gone'
  | 'interrupted';

interface WatchOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly isOurs: (gap: GapRecord) => boolean;
  /** The gaps at the time of the request. */
  readonly before: readonly GapRecord[];
  readonly progress: (total: number) => Progress;
  readonly isWorkedOn: () => boolean;
  readonly signal: AbortSignal;
}

const LOOK_MS = 500;

/** Shows the progress from the gap records, whichever process fills them. */
async function watchGaps(options: WatchOptions): Promise<{ readonly end: WatchEnd; readonly left: GapRecord[] }> {
  const { store, clock, signal, before } = options;
  const total = before.reduce((sum, gap) => sum + missingSlots(gap), 0);
  const progress = options.progress(total);
  const triedBefore = new Map(before.map(({ id, triedAt }) => [id, triedAt]));
  const isBlocked = (gap: GapRecord) =>
    gap.trouble !== null && gap.triedAt !== null && gap.triedAt !== (triedBefore.get(gap.id) ?? null);
  try {
    for (;;) {
      // Check before reading the records: a process that ends after its last commit has finished.
      const isWorkedOn = options.isWorkedOn();
      const left = (await readGaps(store.read, { isOpen: true, limit: 1_000 })).filter(options.isOurs).reverse();
      const missing = left.reduce((sum, gap) => sum + missingSlots(gap), 0);
      progress.update(Math.max(0, total - missing), left.find(({ trouble }) => trouble !== null)?.trouble ?? null);
      if (left.length === 0) return { end: 'filled', left };
      if (signal.aborted) return { end: 'interrupted', left };
      if (left.every(isBlocked)) return { end: 'blocked', left };
      if (!isWorkedOn) return { end: 'gone', left };
      await clock.sleep(LOOK_MS, signal).catch(() => undefined);
    }
  } finally {
    progress.end();
  }
}
