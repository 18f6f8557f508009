import type { HostContext } from '../../src/plugin/host.ts';
import { CodedError } from '../../src/plugin/plugin.ts';
import type { ChainId } from '../../src/ports/chain.ts';
import { kernelLedger, kernelLedgerHolds, kernelPast } from '../../src/ports/ledger.ts';
import { kernelOwner } from '../../src/ports/processes.ts';
import { type SinkKind, sinkEvents, sinkKinds } from '../../src/ports/sink.ts';
import { createAccountReading } from './account-writes.ts';
import { sinkCommands } from './commands.ts';
import { type Sink, type SinksConfig, withDefaults } from './config.ts';
import { misconfigured } from './errors.ts';
import { createEventReader, createSinkEvents, type EventReader, eventTablesOf } from './events.ts';
import { readInterfaces } from './interfaces.ts';
import { createSinkMeter, type SinkMeter } from './meter.ts';
import { describeSinks } from './overview.ts';
import { sinkRoutes } from './routes.ts';
import { compileFilter } from './rows/filter.ts';
import type { FindProgram } from './rows/read-rows.ts';
import { ALL_TABLES, ROWS_VERSION } from './rows/tables.ts';
import { SinkRunner } from './runner.ts';
import { type BlockSource, createBlockSource } from './source.ts';
import { boundEvents, readEventBytes, readStates } from './store.ts';
import { builtInKinds } from './targets/kinds.ts';

const MS_PER_SECOND = 1_000;
const HOLD_MS = 1_000;
const KEEP_MS = 10_000;

export function provision(ctx: HostContext<SinksConfig>): void {
  const { idlFolder } = ctx.config;
  const targets = ctx.config.targets.map(withDefaults);
  const kinds = new Map(builtInKinds().map((kind) => [kind.kind, kind]));
  ctx.provide(sinkKinds, {
    define(kind: SinkKind) {
      if (kinds.has(kind.kind))
        throw new CodedError('PLUGIN_CONFLICT', `the kind of sinks ${kind.kind} exists already`);
      kinds.set(kind.kind, kind);
    },
  });
  const wanted = new Map(
    chainsOf(targets).map((chain) => [
      chain,
      new Set(targets.filter((target) => target.chain === chain).flatMap(({ tables }) => tables)),
    ]),
  );
  ctx.provide(sinkEvents, createSinkEvents(wanted));
  ctx.checkConfig(() => {
    checkTargets(ctx, kinds);
    readInterfaces(idlFolder);
  });
  for (const command of sinkCommands({ sinks: targets, clock: ctx.clock, random: ctx.random })) ctx.command(command);
  for (const route of sinkRoutes({
    targets,
    store: () => ctx.store,
    clock: ctx.clock,
    async finalSlot(chain) {
      const final = (await ctx.use(kernelPast)?.(chain)?.finalSlot()) ?? -1;
      return final < 0 ? null : final;
    },
  }))
    ctx.http.route(route);
  if (targets.length === 0) return;
  if (ctx.roles.has('indexer')) holdLedger(ctx, targets);
  if (ctx.roles.has('deliverer')) runSinks(ctx, targets, kinds);
}

const chainsOf = (targets: readonly Sink[]): readonly ChainId[] => [...new Set(targets.map(({ chain }) => chain))];

/** Errors: SINKS_CONFIG. */
function checkTargets({ config, core }: HostContext<SinksConfig>, kinds: ReadonlyMap<string, SinkKind>): void {
  const seen = new Set<string>();
  for (const [at, { name, kind, tables = [], filter }] of config.targets.entries()) {
    const path = `sinks.targets.${at}`;
    if (seen.has(name)) throw misconfigured(`two sinks have the name ${name}`, `${path}.name`);
    seen.add(name);
    if (!kinds.has(kind))
      throw misconfigured(
        `no plugin has the kind of sinks ${kind}; there are ${[...kinds.keys()].join(', ')}`,
        `${path}.kind`,
      );
    if (kinds.get(kind)!.takes === 'blocks' && (tables.length > 0 || filter !== undefined))
      throw misconfigured(`sinks of the kind ${kind} take whole blocks: they have neither tables nor a filter`, path);
    if (tables.includes('account_writes') && config.accounts.length === 0)
      throw misconfigured('account_writes needs accounts', 'sinks.accounts');
  }
  const onStdout = config.targets.filter(({ kind }) => kind === 'stdout');
  if (onStdout.length > 1) throw misconfigured('two sinks write to standard output', 'sinks.targets');
  if (onStdout.length > 0 && core.log.output !== 'stderr')
    throw misconfigured('a sink writes to standard output: log.output must be stderr', 'log.output');
  if (seen.size > 0 && core.ledger.retain.hours === 0)
    throw misconfigured('sinks read the ledger: ledger.retain.hours must not be 0', 'ledger.retain.hours');
}

/** In the thread that writes the ledger. What another thread writes is known from the store; before it is known, everything is kept. */
function holdLedger(ctx: HostContext<SinksConfig>, targets: readonly Sink[]): void {
  const taken = new Map<ChainId, number>();
  const names = targets.map(({ name }) => name);
  ctx.every(HOLD_MS, async () => {
    const states = await readStates(ctx.store.read, names);
    for (const chain of chainsOf(targets)) {
      const slots = targets.flatMap((target) => (target.chain === chain ? [states.get(target.name)?.last ?? -1] : []));
      taken.set(chain, Math.min(...slots));
    }
  });
  for (const chain of chainsOf(targets)) {
    ctx.use(kernelLedgerHolds)?.hold(chain, () => taken.get(chain) ?? -1);
    // A chain is followed where somebody listens. What is released is read from the ledger.
    const nothing = () => undefined;
    ctx.listen({ chain, released: nothing, reverted: nothing, finalized: nothing });
  }
}

function runSinks(ctx: HostContext<SinksConfig>, targets: readonly Sink[], kinds: ReadonlyMap<string, SinkKind>): void {
  const meter = createSinkMeter(ctx.metrics);
  const runners = new Map<string, SinkRunner>();
  const events = new Map(chainsOf(targets).map((chain) => [chain, eventsOf(ctx, chain, meter)]));
  ctx.every(KEEP_MS, (signal) => keepEvents(ctx, { targets, events, meter, signal }));
  // The others go on, and so does the daemon.
  ctx.check('sinks', async () => holesFound(runners), { required: false });
  ctx.onStart(() => {
    const find = readInterfaces(ctx.config.idlFolder);
    const owner = ctx.use(kernelOwner)?.() ?? null;
    const holder = owner?.id ?? ctx.random.uuid();
    for (const target of targets) {
      const runner = createRunner(ctx, {
        target,
        kind: kinds.get(target.kind)!,
        find,
        meter,
        holder,
        isGone: (other) => owner?.isGone(other) ?? false,
        events: events.get(target.chain)!,
      });
      runners.set(target.name, runner);
      runner.start();
    }
  });
  ctx.onStop(async () => {
    await Promise.all(Array.from(runners.values(), (runner) => runner.stop()));
  });
}

/** Which sinks wait for slots that nobody has. */
function holesFound(runners: ReadonlyMap<string, SinkRunner>): { readonly ok: boolean; readonly detail: string } {
  const waiting = [...runners].flatMap(([name, { hole }]) =>
    hole === null ? [] : [`${name} waits for the slots from ${hole} on`],
  );
  if (waiting.length === 0) return { ok: true, detail: 'none waits for slots that nobody has' };
  return { ok: false, detail: `${waiting.join('; ')}: neither the ledger, its archive nor an upstream has them` };
}

interface RunnerParts {
  readonly target: Sink;
  readonly kind: SinkKind;
  readonly find: FindProgram;
  readonly meter: SinkMeter;
  readonly holder: string;
  readonly isGone: (holder: string) => boolean;
  readonly events: EventReader;
}

function eventsOf(ctx: HostContext<SinksConfig>, chain: ChainId, meter: SinkMeter): EventReader {
  const source = sourceOf(ctx, { name: 'account_writes', chain }, meter);
  const accounts = createAccountReading({
    accounts: new Set(ctx.config.accounts),
    source,
    chain: () => ctx.chain(chain),
  });
  return createEventReader({ chain, store: () => ctx.store, accounts });
}

interface KeepParts {
  readonly targets: readonly Sink[];
  readonly events: ReadonlyMap<ChainId, EventReader>;
  readonly meter: SinkMeter;
  readonly signal: AbortSignal;
}

/**
 * Rows that no block contains are kept while a sink needs them, and as long as the ledger has the blocks of their slots: but never more than
 * `sinks.keptBytes`.
 */
async function keepEvents(ctx: HostContext<SinksConfig>, { targets, events, meter, signal }: KeepParts): Promise<void> {
  const states = await readStates(
    ctx.store.read,
    targets.map(({ name }) => name),
  );
  const readersOf = (chain: string, table: string) =>
    targets.filter((target) => target.chain === chain && target.tables.includes(table));
  const takenTo = ({ chain, name }: { readonly chain: string; readonly name: string }) =>
    Math.min(...readersOf(chain, name).map((sink) => (states.get(sink.name)?.last ?? -1) + 1));
  for (const [chain, reader] of events) {
    const ledger = ctx.use(kernelLedger)?.(chain) ?? null;
    await ledger?.refresh();
    // What is added without a slot would gather beyond the bound while every sink is paused.
    const added = reader.tables.filter(({ name }) => name !== 'account_writes' && readersOf(chain, name).length > 0);
    await reader.fix(added, ledger?.finalSlot ?? -1, signal);
    for (const table of reader.tables) {
      const below = Math.min(ledger?.firstOfRun() ?? -1, takenTo({ chain, name: table.name }));
      if (below > 0) await reader.drop(table, below);
    }
  }
  const { keptBytes } = ctx.config;
  for (const cut of await boundEvents(ctx.store, keptBytes, takenTo)) {
    meter.dropped.with(cut.name).add(cut.rows);
    const sinks = readersOf(cut.chain, cut.name).filter(({ name }) => (states.get(name)?.last ?? -1) < cut.last);
    ctx.log.error(
      { ...cut, sinks: sinks.map(({ name }) => name), keptBytes },
      'rows were dropped that sinks have not taken: sinks.keptBytes is reached',
    );
  }
  meter.kept.set((await readEventBytes(ctx.store.read)) / keptBytes);
  for (const { name, holes } of await describeSinks(ctx.store.read, targets))
    meter.missing.with(name).set(holes.reduce((sum, { from, to }) => sum + to - from + 1, 0));
}

function createRunner(ctx: HostContext<SinksConfig>, parts: RunnerParts): SinkRunner {
  const { target, kind, find, meter, holder, isGone, events } = parts;
  const { name } = target;
  const tables = kind.takes === 'blocks' ? [] : ALL_TABLES.filter((table) => target.tables.includes(table.name));
  const eventTables = eventTablesOf(tables);
  return new SinkRunner({
    kind,
    holder,
    isGone,
    meter,
    sink: { name, tables, version: ROWS_VERSION, target: target.target, options: target.options },
    settings: {
      from: target.from,
      batchSlots: target.batchSlots ?? kind.batch.slots,
      batchMs: (target.batchSeconds ?? kind.batch.seconds) * MS_PER_SECOND,
      limitBytes: target.batchBytes,
    },
    rows: { filter: compileFilter(target.filter), tables: new Set(tables.map((table) => table.name)), find },
    source: sourceOf(ctx, target, meter),
    events: eventTables.length === 0 ? null : { tables: eventTables, reader: events },
    store: () => ctx.store,
    clock: ctx.clock,
    log: ctx.log,
  });
}

function sourceOf(
  ctx: HostContext<SinksConfig>,
  { name, chain }: Pick<Sink, 'name' | 'chain'>,
  meter: SinkMeter,
): BlockSource {
  let hole = -1;
  return createBlockSource({
    ledger: () => ctx.use(kernelLedger)?.(chain) ?? null,
    past: () => ctx.use(kernelPast)?.(chain) ?? null,
    chain: () => ctx.chain(chain),
    maxVersion: ctx.core.follow.maxSupportedTransactionVersion,
    foundHole(from) {
      // One after the other is one hole.
      if (hole < 0 || from > hole + 1_000 || from < hole) {
        meter.holes.with(name).add();
        ctx.log.warn({ sink: name, slot: from }, 'slots are not in the ledger: their blocks are read from upstreams');
      }
      hole = from;
    },
  });
}
