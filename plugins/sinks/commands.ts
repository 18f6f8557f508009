import { EXIT } from '../../src/lib/coded-error.ts';
import { tableLines } from '../../src/lib/table-lines.ts';
import type { CommandValues } from '../../src/plugin/plugin.ts';
import { CodedError, type Command, type CommandIo } from '../../src/plugin/plugin.ts';
import type { Clock, Random } from '../../src/ports/clock.ts';
import { SINK_COMMANDS } from './command-list.ts';
import type { Sink } from './config.ts';
import { usage } from './errors.ts';
import { describeSinks } from './overview.ts';
import { addTask, readStates, readTask, type SinkTaskRow, setPaused, type TaskKind } from './store.ts';
import type { Findings } from './verify.ts';

interface CommandParts {
  /** The configured ones. */
  readonly sinks: readonly Pick<Sink, 'name' | 'chain' | 'tables'>[];
  readonly clock: Clock;
  readonly random: Random;
}

const POLL_MS = 250;

export function sinkCommands(parts: CommandParts): readonly Command[] {
  return [
    { ...SINK_COMMANDS.list, run: (options, io) => list(parts, options, io) },
    { ...SINK_COMMANDS.pause, run: (options, io) => pause(parts, options, io, true) },
    { ...SINK_COMMANDS.resume, run: (options, io) => pause(parts, options, io, false) },
    { ...SINK_COMMANDS.backfill, run: (options, io) => backfill(parts, options, io) },
    { ...SINK_COMMANDS.verify, run: (options, io) => verify(parts, options, io) },
  ];
}

function nameOf({ sinks }: CommandParts, options: CommandValues): string {
  const names = sinks.map(({ name }) => name);
  const name = String(options['sink']);
  if (!names.includes(name))
    throw usage(`there is no sink ${name}; the configuration has ${names.join(', ') || 'none'}`);
  return name;
}

function slotOf(options: CommandValues, key: string, otherwise: number | null): number {
  const text = options[key];
  if (text === undefined && otherwise !== null) return otherwise;
  if (typeof text !== 'string' || !/^\d{1,15}$/.test(text)) throw usage(`--${key} must be a slot`);
  return Number(text);
}

async function list(parts: CommandParts, options: CommandValues, io: CommandIo): Promise<void> {
  const sinks = await describeSinks(io.store.read, parts.sinks);
  if (options['json'] === true) return io.json(sinks);
  if (sinks.length === 0) return io.line('no sink is configured');
  const rows = sinks.map(({ name, state, firstSlot, lastSlot, error }) => [
    name,
    state,
    String(firstSlot ?? '-'),
    String(lastSlot ?? '-'),
    error ?? '',
  ]);
  for (const line of tableLines(['sink', 'state', 'first slot', 'last slot', 'error'], rows)) io.line(line);
  for (const { name, tasks } of sinks)
    for (const { kind, from, to, next } of tasks) io.line(`${name}: ${kind} of ${from} to ${to}, at ${next}`);
  for (const { name, holes } of sinks)
    for (const { table, from, to } of holes)
      io.line(`${name}: hole in ${table}, slots ${from} to ${to}: rows were dropped at sinks.keptBytes`);
}

async function pause(parts: CommandParts, options: CommandValues, io: CommandIo, isPaused: boolean): Promise<void> {
  const name = nameOf(parts, options);
  await setPaused(io.store, name, isPaused, parts.clock.now());
  io.line(`sink ${name} is ${isPaused ? 'paused' : 'written again'}`);
}

async function begin(
  { clock, random }: CommandParts,
  io: CommandIo,
  { sink, kind, first, last }: { sink: string; kind: TaskKind; first: number; last: number },
): Promise<string> {
  if (first > last) throw usage(`slot ${first} is above slot ${last}`);
  const id = random.uuid();
  await addTask(io.store, {
    id,
    sink,
    kind,
    first_slot: first,
    last_slot: last,
    next_slot: first,
    state: 'open',
    detail: null,
    created_at: clock.now(),
  });
  return id;
}

/** Until the daemon has ended it. */
async function waitFor({ clock }: CommandParts, io: CommandIo, id: string): Promise<SinkTaskRow> {
  let task = (await readTask(io.store.read, id))!;
  const { kind: what, first_slot: first, last_slot: last } = task;
  const progress = io.progress?.({ what, unit: 'slots', total: last - first + 1 });
  try {
    while (task.state === 'open') {
      progress?.update(task.next_slot - first);
      await clock.sleep(POLL_MS);
      task = (await readTask(io.store.read, id))!;
    }
    progress?.update(task.next_slot - first);
  } finally {
    progress?.end();
  }
  if (task.state === 'failed') throw usage(`the ${what} of sink ${task.sink} cannot be done: ${task.detail ?? ''}`);
  return task;
}

async function backfill(parts: CommandParts, options: CommandValues, io: CommandIo): Promise<void> {
  const sink = nameOf(parts, options);
  const [first, last] = [slotOf(options, 'from', null), slotOf(options, 'to', null)];
  const state = (await readStates(io.store.read, [sink])).get(sink)!;
  if (state.first !== null && last >= state.first) throw usage(`sink ${sink} has slots from ${state.first} on already`);
  const id = await begin(parts, io, { sink, kind: 'backfill', first, last });
  if (options['wait'] !== false) await waitFor(parts, io, id);
  if (options['json'] === true) return io.json({ id, sink, from: first, to: last });
  io.line(options['wait'] === false ? `backfill ${id} begins` : `sink ${sink} has slots ${first} to ${last}`);
}

async function verify(parts: CommandParts, options: CommandValues, io: CommandIo): Promise<void> {
  const sink = nameOf(parts, options);
  const state = (await readStates(io.store.read, [sink])).get(sink)!;
  const first = slotOf(options, 'from', state.first);
  const last = slotOf(options, 'to', state.last);
  const id = await begin(parts, io, { sink, kind: 'verify', first, last });
  const task = await waitFor(parts, io, id);
  const findings = JSON.parse(task.detail!) as Findings;
  const [view] = await describeSinks(
    io.store.read,
    parts.sinks.filter(({ name }) => name === sink),
  );
  const holes = view!.holes.filter(({ from, to }) => from <= last && to >= first);
  if (options['json'] === true) io.json({ sink, from: first, to: last, ...findings, holes });
  else {
    for (const [table, count] of Object.entries(findings.rows)) io.line(`${table}: ${count} rows`);
    for (const { table, first: from, last: to, ledger, target } of findings.differences)
      io.line(`${table} differs in slots ${from} to ${to}: ${ledger.count} rows expected, ${target.count} found`);
    for (const { table, from, to } of holes)
      io.line(`${table} has a hole in slots ${from} to ${to}: rows were dropped at sinks.keptBytes`);
  }
  if (findings.differenceCount > 0)
    throw new CodedError(
      'SINKS_DIFFERS',
      `sink ${sink} differs from the ledger in ${findings.differenceCount} ranges`,
      {
        exitCode: EXIT.bug,
      },
    );
  if (holes.length > 0)
    throw new CodedError('SINKS_DIFFERS', `sink ${sink} has ${holes.length} holes: rows that it lacks for ever`, {
      exitCode: EXIT.bug,
    });
  if (options['json'] !== true) io.line(`sink ${sink} equals the ledger in slots ${first} to ${last}`);
}
