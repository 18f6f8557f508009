/** Sinks over a ledger of known blocks, and what their targets have to have. */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { type BatchEvents, OpenBatch } from '../../plugins/sinks/batch.ts';
import { createSinkMeter } from '../../plugins/sinks/meter.ts';
import { compileFilter, type RowFilter } from '../../plugins/sinks/rows/filter.ts';
import { type RowParts, readRows } from '../../plugins/sinks/rows/read-rows.ts';
import { ROWS_VERSION, SINK_TABLES } from '../../plugins/sinks/rows/tables.ts';
import { SinkRunner, type SinkSettings } from '../../plugins/sinks/runner.ts';
import { type BlockSource, createBlockSource } from '../../plugins/sinks/source.ts';
import { migrations } from '../../plugins/sinks/store.ts';
import { sumOf } from '../../plugins/sinks/verify.ts';
import { createSystemClock } from '../../src/adapters/clock.ts';
import type { LedgerReader } from '../../src/ports/ledger.ts';
import type { OpenSink, SinkKind, SinkRow, SinkTarget } from '../../src/ports/sink.ts';
import type { Store } from '../../src/ports/store.ts';
import { createMetricsRegistry } from '../../src/runtime/metrics.ts';
import { nativeInterfaces } from '../../src/solana/idl/native.ts';
import { migrate } from '../../src/store/migrate.ts';
import { createMemoryLog } from './memory-log.ts';
import { sqliteStore } from './store.ts';

const EVERYTHING: RowFilter = {
  addresses: [],
  programs: [],
  owners: [],
  mints: [],
  kinds: [],
  votes: true,
  failed: true,
};

export const rowParts = (filter: Partial<RowFilter> = {}): RowParts => ({
  filter: compileFilter({ ...EVERYTHING, ...filter }),
  tables: new Set(SINK_TABLES.map(({ name }) => name)),
  find: (program) => nativeInterfaces().get(program) ?? null,
});

export const openSink = (target: string, changes: Partial<OpenSink> = {}): OpenSink => ({
  name: 'rows',
  tables: SINK_TABLES,
  version: ROWS_VERSION,
  target,
  options: {},
  ...changes,
});

export const sourceOver = (ledger: LedgerReader): BlockSource =>
  createBlockSource({
    ledger: () => ledger,
    past: () => null,
    chain: () => null,
    maxVersion: 0,
    foundHole: () => undefined,
  });

/** A store with the tables of the plugin. */
export async function sinkStore(t: TestContext): Promise<Store> {
  const store = await sqliteStore(t);
  await migrate(store, [{ scope: 'sinks', migrations }]);
  return store;
}

export interface StartOptions {
  readonly store: Store;
  readonly ledger: LedgerReader;
  readonly kind: SinkKind;
  readonly sink: OpenSink;
  readonly settings?: Partial<SinkSettings>;
  readonly source?: BlockSource;
  readonly events?: BatchEvents | null;
  readonly holder?: string;
  readonly isGone?: (holder: string) => boolean;
}

export function startSink({
  store,
  ledger,
  kind,
  sink,
  settings = {},
  source,
  events = null,
  holder = 'one',
  isGone = () => false,
}: StartOptions) {
  const log = createMemoryLog();
  const registry = createMetricsRegistry();
  const runner = new SinkRunner({
    sink,
    kind,
    settings: { from: 'oldest', batchSlots: 16, batchMs: 0, limitBytes: 1_000_000, ...settings },
    rows: rowParts(),
    source: source ?? sourceOver(ledger),
    events,
    store: () => store,
    clock: createSystemClock(),
    log,
    meter: createSinkMeter(registry.scope('sinks')),
    holder,
    isGone,
    pollMs: 5,
  });
  runner.start();
  const lag = async () =>
    Number(/^parhelion_sinks_lag_slots\{sink="[^"]*"\} (\d+)$/m.exec(await registry.text())?.[1] ?? Number.NaN);
  return { log, lag, stop: () => runner.stop() };
}

/** What a target has to have of these slots. */
async function expectedRows(
  ledger: LedgerReader,
  first: number,
  last: number,
): Promise<ReadonlyMap<string, readonly SinkRow[]>> {
  const rows = new Map<string, SinkRow[]>(SINK_TABLES.map(({ name }) => [name, []]));
  for (let slot = first; slot <= last; slot++) {
    const block = ledger.state(slot) === 'block' ? await ledger.block(slot) : null;
    if (block !== null) readRows(block, rowParts(), (table, row) => void rows.get(table)!.push(row));
  }
  return rows;
}

/** The target has the rows of these slots by count and hash, and no others; every kind of row is there. */
export async function assertRows(target: SinkTarget, ledger: LedgerReader, first: number, last: number): Promise<void> {
  const expected = await expectedRows(ledger, first, last);
  for (const { name } of SINK_TABLES) {
    const found = await target.read!(name, 0, Number.MAX_SAFE_INTEGER);
    assert.deepEqual(sumOf(found), sumOf(expected.get(name)!), name);
  }
}

/** One batch of all slots from `first` to `last`. */
export async function batchOf(ledger: LedgerReader, first: number, last: number) {
  const batch = new OpenBatch('live', null, first);
  const bounds = { slots: last - first + 1, limitBytes: 1e9, takes: 'rows', rows: rowParts(), events: null } as const;
  await batch.read(sourceOver(ledger), last, bounds, new AbortController().signal);
  return batch.close()!;
}
