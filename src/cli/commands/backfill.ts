import { setMaxListeners } from 'node:events';
import { join } from 'node:path';
import { createLog } from '../../adapters/log.ts';
import { createFillSchedule } from '../../chain/backfill.ts';
import type { FillOptions } from '../../chain/fill-blocks.ts';
import { filledTo, type GapRecord, gapView, missingSlots, readGap, readGaps } from '../../chain/gap-records.ts';
import { abandonGap, recordManualGap, wantGaps } from '../../chain/gaps.ts';
import { readLedgerFirst } from '../../chain/keep.ts';
import { KEPT } from '../../chain/tables.ts';
import { type AssembledChain, type Assembly, assemble } from '../../daemon/assemble.ts';
import { bindStoreToChain } from '../../daemon/chains.ts';
import { createLifecycle } from '../../daemon/lifecycle.ts';
import type { DaemonParts } from '../../daemon/parts.ts';
import { createRemoteRunner } from '../../daemon/remote.ts';
import { createLedgerReader } from '../../ledger/index.ts';
import { CodedError, EXIT } from '../../lib/coded-error.ts';
import type { BlockProcessor } from '../../plugin/plugin.ts';
import { OWN_WORK } from '../../ports/access.ts';
import type { ChainId } from '../../ports/chain.ts';
import type { Clock } from '../../ports/clock.ts';
import type { LedgerReader } from '../../ports/ledger.ts';
import type { Store } from '../../ports/store.ts';
import { createMutex } from '../../runtime/semaphore.ts';
import { type CliIo, type CommandValues, createProgress, type Progress, type RunCommand } from '../command.ts';
import { chainSetups, composeParts } from '../compose.ts';
import { loadCliConfig } from '../load-config.ts';
import { openExistingStore } from '../offline.ts';
import { readVersion } from '../package-files.ts';
import { findRunFiles } from '../running-daemon.ts';
import { needStoreDir } from '../store-dir.ts';

export const run: RunCommand = async (values, io) => {
  const request = readBackfillRequest(values);
  const config = await loadCliConfig(values, io);
  const dataDir = config.core.dataDir;
  const dir = needStoreDir(config, dataDir);
  const parts = composeParts(config.core, createLog({ level: 'silent', format: 'json' }));
  const assembly = await assemble({
    config,
    parts,
    chains: chainSetups(config.core, null),
    version: readVersion(),
    roles: new Set(['indexer']),
  });
  const store = await openExistingStore(config, assembly, dir);
  try {
    return await answer({ assembly, parts, store, dataDir, io }, request);
  } finally {
    await store.close();
    await parts.bus.close();
  }
};

async function answer(work: BackfillWork, request: BackfillRequest): Promise<number> {
  if (request.kind === 'gaps' || request.kind === 'range') return await runBackfill(work, request);
  const { store, io } = work;
  if (request.kind === 'abandon') {
    if (!(await store.write((tx) => abandonGap(tx, request.id))))
      throw new CodedError('CONFIG_INVALID', `no open gap ${request.id}`, { exitCode: EXIT.usage });
    io.out(request.json ? JSON.stringify({ abandoned: request.id }) : `gap ${request.id} is abandoned`);
    return EXIT.ok;
  }
  const chain = request.chain === null ? {} : { chain: request.chain };
  const gaps = await readGaps(store.read, { ...chain, limit: 1_000 });
  if (request.json) io.out(JSON.stringify(gaps.map(gapView), null, 2));
  else if (gaps.length === 0) io.out('no gaps');
  else for (const gap of gaps) io.out(gapLine(gap));
  return EXIT.ok;
}

export interface BackfillWork {
  readonly assembly: Assembly;
  readonly parts: DaemonParts;
  readonly store: Store;
  readonly dataDir: string;
  readonly io: CliIo;
}

type FillRequest = Extract<BackfillRequest, { kind: 'gaps' | 'range' }>;

/**
 * Fills the requested gaps and shows the progress: in this process, or in the running daemon. Returns the exit code: 75 if something is
 * left, which the same command then resumes.
 */
export async function runBackfill(work: BackfillWork, request: FillRequest): Promise<number> {
  const { store, io, parts, assembly, dataDir } = work;
  const isDaemonAtIt = () =>
    assembly.config.core.follow.enabled && findRunFiles(dataDir).some(({ roles }) => roles.includes('indexer'));
  const hasDaemon = isDaemonAtIt();
  if (request.kind === 'range') await checkFinal(work, request.chain ?? 'main', request.toSlot, hasDaemon);
  const asked = await recordRequest(store, assembly, request, parts.clock);
  const wanted = hasDaemon ? asked : withoutLedger(asked);
  const stop = new AbortController();
  const done = new AbortController();
  const interrupt = () => stop.abort(new Error('interrupted'));
  for (const signal of SIGNALS) process.once(signal, interrupt);
  const filling = hasDaemon ? new Promise<never>(() => undefined) : startHere(work, wanted, stop.signal, done.signal);
  const watching = watchGaps({
    store,
    clock: parts.clock,
    isOurs: wanted.isOurs,
    before: wanted.gaps,
    signal: stop.signal,
    progress: (total) => createProgress({ what: 'backfill', unit: 'slots', total, io, clock: parts.clock }),
    isWorkedOn: () => !hasDaemon || isDaemonAtIt(),
  });
  try {
    const { end, left } = await Promise.race([watching, filling]);
    tell(work, request, wanted, end, left, hasDaemon);
    return end === 'filled' ? EXIT.ok : EXIT.temporary;
  } finally {
    for (const signal of SIGNALS) process.off(signal, interrupt);
    done.abort(new Error('done'));
    stop.abort(new Error('done'));
    await Promise.allSettled(hasDaemon ? [watching] : [watching, filling]);
  }
}

const SIGNALS = ['SIGINT', 'SIGTERM'] as const;

/** What can be done without the daemon: what only its ledger lacks, it reads when it runs. */
function withoutLedger({ gaps, isOurs }: RequestedGaps): RequestedGaps {
  const isLacking = ({ fills }: GapRecord) => fills.some(({ name, isDone }) => !isDone && name !== KEPT.name);
  return { gaps: gaps.filter(isLacking), isOurs: (gap) => isOurs(gap) && isLacking(gap) };
}

/** Never resolves by itself: the state is in the gap records. */
async function startHere(
  { assembly, parts, store }: BackfillWork,
  { gaps, isOurs }: RequestedGaps,
  stop: AbortSignal,
  done: AbortSignal,
): Promise<never> {
  const ids = new Set(gaps.map(({ chain }) => chain));
  const chains = assembly.chains.filter(({ setup }) => ids.has(setup.id));
  const lost = [...ids].find((id) => !chains.some(({ setup }) => setup.id === id));
  if (lost !== undefined) throw noUpstream(lost);
  const signal = AbortSignal.any([stop, done]);
  setMaxListeners(0, signal);
  await fillHere({ assembly, parts, store, chains, isOurs, signal });
  return await new Promise<never>((_, reject) => {
    if (done.aborted) reject(done.reason);
    else done.addEventListener('abort', () => reject(done.reason), { once: true });
  });
}

/** Filled blocks are never rolled back, so the range must be final. Errors: CONFIG_INVALID, CHAIN_UNREACHABLE, FOLLOW_NOT_FINAL. */
async function checkFinal(
  { assembly }: BackfillWork,
  chain: ChainId,
  toSlot: number,
  hasDaemon: boolean,
): Promise<void> {
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
  { io }: BackfillWork,
  request: FillRequest,
  wanted: RequestedGaps,
  end: WatchEnd,
  left: readonly GapRecord[],
  hasDaemon: boolean,
): void {
  const slots = wanted.gaps.reduce((sum, { fromSlot, toSlot }) => sum + toSlot - fromSlot + 1, 0);
  if (request.json) io.out(JSON.stringify({ end, slots, left: left.map(gapView) }));
  else if (end === 'filled') io.out(slots === 0 ? 'no open gaps' : `filled: ${slots} slots`);
  if (end === 'filled') return;
  const words: Readonly<Record<typeof end, string>> = {
    blocked: 'cannot be filled now; the daemon tries again',
    gone: 'the daemon has ended; run the same command again to continue',
    interrupted: hasDaemon
      ? 'the daemon continues; see backfill --list'
      : 'interrupted; run the same command again to continue',
  };
  if (request.json) return;
  io.err(`parhelion: FOLLOW_GAPS_LEFT: ${words[end]}`);
  for (const gap of left) {
    io.err(`  ${gapLine(gap)}`);
    if (end === 'blocked') io.err(`    to give it up: ${io.program} backfill --abandon ${gap.id}`);
  }
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
  const lifecycle = createLifecycle({ plugins: assembly.plugins, ...parts, limits: core.lifecycle });
  try {
    await Promise.all(chains.map(({ pool }) => pool.start()));
    for (const { reader, setup } of chains) {
      const genesisHash = await reader.call<string>('getGenesisHash', [], { signal, tenant: OWN_WORK });
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
  const ledger = ledgerOf(options, chain);
  const schedule = createFillSchedule(fillOptions(options, chain, ledger), options.isOurs);
  while (!signal.aborted) {
    try {
      await ledger?.refresh();
      if (!(await schedule.pass())) await parts.clock.sleep(PAUSE_MS, signal);
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }
}

/** Only read: what is filled here is not added to it. */
function ledgerOf({ assembly, parts }: FillHereOptions, { setup: { id } }: AssembledChain): LedgerReader | null {
  const { dataDir, ledger } = assembly.config.core;
  if (ledger.retain.hours === 0) return null;
  return createLedgerReader({
    dir: join(dataDir, 'ledger', id),
    chain: id,
    clock: parts.clock,
    log: parts.log,
    index: ledger.index,
    damaged: () => undefined,
  });
}

function fillOptions(
  { assembly, parts, store, signal }: FillHereOptions,
  { setup, source }: AssembledChain,
  ledger: LedgerReader | null,
): FillOptions {
  const { follow } = assembly.config.core;
  const { clock, random, log } = parts;
  const kept = { ledger: () => ledger, cursor: () => null, log, served: () => undefined };
  return {
    chain: setup.id,
    store,
    follow,
    clock,
    random,
    log,
    signal,
    source: { ...source, ...readLedgerFirst(source, kept) },
    processors: assembly.merged.processors.filter(({ chains }) => chains.includes(setup.id)),
    exclusive: createMutex(),
    concurrency: () => follow.catchUpConcurrency,
    hindrance: () => (source.isLimited?.() === true ? 'an upstream limits calls' : null),
    finalSlot: async () => await source.tip({ commitment: 'finalized', signal }),
    ledger: ledger === null ? 'off' : 'of the daemon',
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

export type BackfillRequest = { readonly chain: ChainId | null; readonly json: boolean } & (
  | { readonly kind: 'list' }
  | { readonly kind: 'abandon'; readonly id: number }
  /** Fill open gaps. */
  | { readonly kind: 'gaps' }
  /** Read a range, possibly again. */
  | {
      readonly kind: 'range';
      readonly fromSlot: number;
      /** Inclusive. */
      readonly toSlot: number;
      readonly processor: string | null;
      /** Only the transactions of the addresses that the processors watch, not whole blocks. */
      readonly byAddress: boolean;
    }
);

/** Errors: CONFIG_INVALID, exit 64. */
export function readBackfillRequest(values: CommandValues): BackfillRequest {
  const common = {
    chain: values['chain'] === 'main' || values['chain'] === 'devnet' ? values['chain'] : null,
    json: values['json'] === true,
  } as const;
  const isRange = values['from'] !== undefined || values['to'] !== undefined;
  const asked = [isRange, values['gaps'] === true, values['list'] === true, values['abandon'] !== undefined];
  if (asked.filter(Boolean).length !== 1) throw usage('give one of: --from S --to S, --gaps, --list, --abandon ID');
  for (const flag of ['processor', 'byAddress'])
    if (values[flag] !== undefined && !isRange) throw usage(`--${dashed(flag)} goes with --from and --to`);
  if (values['list'] === true) return { ...common, kind: 'list' };
  if (values['gaps'] === true) return { ...common, kind: 'gaps' };
  if (!isRange) return { ...common, kind: 'abandon', id: numberOf(values, 'abandon') };
  const fromSlot = numberOf(values, 'from');
  const toSlot = numberOf(values, 'to');
  if (toSlot < fromSlot) throw usage('--to is below --from');
  const processor = values['processor'];
  return {
    ...common,
    kind: 'range',
    fromSlot,
    toSlot,
    processor: typeof processor === 'string' ? processor : null,
    byAddress: values['byAddress'] === true,
  };
}

function numberOf(values: CommandValues, name: string): number {
  const value = values[name];
  if (typeof value !== 'string' || !/^\d{1,15}$/.test(value)) throw usage(`--${name} needs a number`);
  return Number(value);
}

const dashed = (name: string) => name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);

const usage = (message: string) => new CodedError('CONFIG_INVALID', message, { exitCode: EXIT.usage });

export interface RequestedGaps {
  readonly gaps: readonly GapRecord[];
  /** Includes gaps that result from splitting them. */
  readonly isOurs: (gap: GapRecord) => boolean;
}

/** Stores the request, so that the process that fills gaps starts at once. Errors: CONFIG_INVALID, exit 64. */
async function recordRequest(
  store: Store,
  assembly: Assembly,
  request: Extract<BackfillRequest, { kind: 'gaps' | 'range' }>,
  clock: Clock,
): Promise<RequestedGaps> {
  const open = await readGaps(store.read, {
    isOpen: true,
    limit: 1_000,
    ...(request.chain === null ? {} : { chain: request.chain }),
  });
  if (request.kind === 'gaps') {
    const ids = open.map(({ id }) => id);
    await store.write((tx) => wantGaps(tx, ids, clock.now()));
    return { gaps: open, isOurs: ({ chain }) => request.chain === null || chain === request.chain };
  }
  const chain = request.chain ?? 'main';
  const owners = ownersOf(assembly, chain, request.processor);
  const addresses = request.byAddress ? await addressesOf(store, assembly, chain, owners) : null;
  const isSame = (gap: GapRecord) =>
    gap.chain === chain &&
    gap.reason === 'manual' &&
    gap.fromSlot === request.fromSlot &&
    gap.toSlot === request.toSlot &&
    (gap.addresses === null) === (addresses === null) &&
    namesOf(gap.fills) === namesOf(owners);
  const now = clock.now();
  // An interrupted fill of the same range is resumed.
  const known = open.find(isSame);
  const id = await store.write(async (tx) => {
    if (known === undefined) return await recordManualGap(tx, chain, request, owners, now, addresses);
    await wantGaps(tx, [known.id], now);
    return known.id;
  });
  const gap = (await readGap(store.read, id))!;
  return {
    gaps: [gap],
    isOurs: (other) =>
      other.chain === chain &&
      other.reason === 'manual' &&
      other.detectedAt === gap.detectedAt &&
      other.fromSlot >= gap.fromSlot &&
      other.toSlot <= gap.toSlot,
  };
}

function ownersOf(assembly: Assembly, chain: ChainId, name: string | null): readonly BlockProcessor[] {
  const all = assembly.merged.processors.filter(({ chains }) => chains.includes(chain));
  const chosen =
    name === null
      ? all.filter(({ outOfOrder, wantsGaps }) => outOfOrder === true && wantsGaps !== false)
      : all.filter((one) => one.name === name);
  if (chosen.length === 0)
    throw usage(
      name === null
        ? `no processor of the ${chain} chain accepts blocks out of order`
        : `there is no processor ${name} on the ${chain} chain; there are: ${all.map((one) => one.name).join(', ') || 'none'}`,
    );
  const ordered = chosen.find(({ outOfOrder }) => outOfOrder !== true);
  if (ordered !== undefined)
    throw usage(`processor ${ordered.name} accepts blocks only in order: it must be indexed again`);
  return chosen;
}

/** The addresses that the processors watch now. Errors: CONFIG_INVALID, exit 64. */
async function addressesOf(
  store: Store,
  { config }: Assembly,
  chain: ChainId,
  owners: readonly BlockProcessor[],
): Promise<readonly string[]> {
  const most = config.core.follow.gapBackfill.maxAddresses;
  const all = new Set<string>();
  for (const { name, addresses } of owners) {
    if (addresses === undefined)
      throw usage(`processor ${name} does not watch addresses: it accepts only whole blocks`);
    for (const address of await addresses(store.read, chain, most + 1)) all.add(address);
  }
  if (all.size <= most) return [...all];
  throw usage(`more than ${most} addresses are watched (follow.gapBackfill.maxAddresses)`);
}

const namesOf = (owners: readonly { readonly name: string; readonly version: number }[]) =>
  owners
    .map(({ name, version }) => `${name}@${version}`)
    .sort()
    .join();

/** A gap as a line of text. */
export function gapLine(gap: GapRecord): string {
  const names = gap.fills.map(({ name }) => name).join(', ');
  const to = gap.status === 'filling' || gap.status === 'open' ? filledTo(gap) : null;
  return [
    `#${gap.id}  ${gap.chain}  ${gap.fromSlot}-${gap.toSlot}  ${gap.reason}  ${gap.status}`,
    ...(to === null ? [] : [`filled to ${to}`]),
    ...(names === '' ? [] : [`for ${names}`]),
    ...(gap.addresses === null ? [] : [`by ${gap.addresses.length} addresses`]),
    new Date(gap.detectedAt).toISOString(),
    ...(gap.trouble === null ? [] : [`- ${gap.trouble}`]),
  ].join('  ');
}
