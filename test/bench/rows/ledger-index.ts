/** Look-ups in a large ledger, as a thread of the API does them: a transaction by its signature, a page of 100 rows of an address. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createSystemClock } from '../../../src/adapters/clock.ts';
import { createLedgerReader } from '../../../src/ledger/index.ts';
import { encode64 } from '../../../src/lib/base58.ts';
import type { LedgerReader } from '../../../src/ports/ledger.ts';
import { createMemoryLog } from '../../helpers/memory-log.ts';
import { createSfc32 } from '../../helpers/sfc32.ts';
import type { Row, RowResult, RunOptions } from '../row.ts';
import { ADDRESS_KINDS, type AddressKind, type LedgerWorld, plantLedger, slotOf } from '../samples/ledger-world.ts';

/** Rows of the index, up to the last; transactions of a block, of which two thirds are votes. */
const SIZES = {
  full: { curve: [1_000_000, 10_000_000, 100_000_000], transactions: 1_500, rounds: 10, reads: 500 },
  quick: { curve: [100_000, 1_000_000], transactions: 150, rounds: 5, reads: 200 },
  smoke: { curve: [20_000], transactions: 60, rounds: 1, reads: 5 },
} as const;
const PAGE = 100;
const POINT_MS = 5;
const PAGE_MS = 30;

const KINDS = ['point', ...ADDRESS_KINDS] as const;
type Kind = (typeof KINDS)[number];

/** Of each round, ms. */
interface Spent {
  readonly p50: number[];
  readonly p99: number[];
}

type Times = Readonly<Record<Kind, Spent>>;

async function run({ size, seed, say }: RunOptions): Promise<RowResult[]> {
  const { curve, transactions, rounds, reads } = SIZES[size];
  const notes: { readonly points: string[]; readonly pages: string[] } = { points: [], pages: [] };
  let last: { readonly world: LedgerWorld; readonly times: Times } | null = null;
  for (const rows of curve) {
    const dir = mkdtempSync(join(tmpdir(), 'parhelion-bench-index-'));
    try {
      const started = performance.now();
      const world = await plantLedger(dir, { rows, transactions, seed });
      const { blocks, indexBytes } = world;
      const found = `${world.rows} rows of ${blocks} blocks, ${(indexBytes / world.rows).toFixed(1)} bytes each`;
      say(`${found}, written in ${Math.round((performance.now() - started) / 1_000)} s`);
      const ledger = createLedgerReader({
        dir,
        chain: 'main',
        clock: createSystemClock(),
        log: createMemoryLog(),
        damaged: () => assert.fail('a block is damaged'),
      });
      await ledger.refresh();
      const times = await measure(ledger, world, { rounds, reads, seed });
      const shown = (kind: Kind) => `${middle(times[kind].p50).toFixed(2)} / ${middle(times[kind].p99).toFixed(2)} ms`;
      notes.points.push(`${found}: ${shown('point')}`);
      const pages = ADDRESS_KINDS.map((kind) => `${kind} ${shown(kind)}`).join(', ');
      notes.pages.push(`${found}: ${pages}`);
      say(`p50 / p99 of a transaction ${shown('point')}, of a page: ${pages}`);
      last = { world, times };
    } finally {
      rmSync(dir, { recursive: true, force: true });
    }
  }
  const { world, times } = last!;
  const sizes = { rows: world.rows, blocks: world.blocks, transactions, bytes: world.indexBytes };
  const common = { unit: 'ms', baseline: [], ratio: null, sizes, seed } as const;
  const of = { rows: 100_000_000 };
  const verdict = (ms: number, most: number) =>
    world.rows < of.rows * 0.95 ? ('not assessed' as const) : ms < most ? ('met' as const) : ('missed' as const);
  const worst = ADDRESS_KINDS.map((kind) => times[kind].p99).reduce((a, b) => (middle(a) > middle(b) ? a : b));
  return [
    {
      ...common,
      row: 'ledger-index/point',
      name: 'p99 of a transaction by its signature',
      ours: times.point.p99,
      goal: `< ${POINT_MS} ms at ${of.rows} rows`,
      verdict: verdict(middle(times.point.p99), POINT_MS),
      notes: ['find and transaction, p50 / p99; files are in memory of the system', ...notes.points],
    },
    {
      ...common,
      row: 'ledger-index/page',
      name: `p99 of a page of ${PAGE} rows of an address`,
      ours: worst,
      goal: `< ${PAGE_MS} ms at ${of.rows} rows`,
      verdict: verdict(middle(worst), PAGE_MS),
      notes: [
        'with signature, error and memo of each row, from its block; the slowest kind of address',
        'busy: about four rows a block; common: 1,000 rows, 100 blocks a page; rare: eight rows',
        ...notes.pages,
      ],
    },
  ];
}

async function measure(
  ledger: LedgerReader,
  world: LedgerWorld,
  { rounds, reads, seed }: { readonly rounds: number; readonly reads: number; readonly seed: number },
): Promise<Times> {
  const random = createSfc32(seed + 1);
  const point = async () => {
    const [slot, index] = [slotOf(random.below(world.blocks)), random.below(world.transactions)];
    const signature = world.signature(slot, index);
    const place = await ledger.find(signature);
    assert.deepEqual(place, { slot, index });
    assert.equal((await ledger.transaction(place!))!.header.slot, slot);
  };
  const page = async (kind: AddressKind) => {
    const { bytes, count } = world.address(kind, random.below(world.addresses[kind]));
    const order = random.float() < 0.5 ? 'newest' : 'oldest';
    const below = kind === 'busy' ? { slot: slotOf(random.between(1, world.blocks)), index: 0 } : null;
    const asked = { address: bytes, reasons: 'all', order, limit: PAGE } as const;
    const { rows } = (await ledger.addressPage({ ...asked, ...(below === null ? {} : { below }) }))!;
    if (kind !== 'busy') assert.equal(rows.length, Math.min(count, PAGE));
    const one = rows[0];
    if (one !== undefined) assert.equal(one.signature, encode64(world.signature(one.slot, one.index)));
  };
  const works: Readonly<Record<Kind, () => Promise<void>>> = {
    point,
    busy: () => page('busy'),
    common: () => page('common'),
    rare: () => page('rare'),
  };
  const none = (): Spent => ({ p50: [], p99: [] });
  const times: Times = { point: none(), busy: none(), common: none(), rare: none() };
  // The first round warms up.
  for (let round = 0; round <= rounds; round += 1)
    for (const kind of KINDS) {
      const spent: number[] = [];
      for (let read = 0; read < reads; read += 1) {
        const start = performance.now();
        await works[kind]();
        spent.push(performance.now() - start);
      }
      spent.sort((a, b) => a - b);
      if (round === 0) continue;
      times[kind].p50.push(spent[spent.length >> 1]!);
      times[kind].p99.push(spent[Math.floor(spent.length * 0.99)]!);
    }
  return times;
}

const middle = (list: readonly number[]) => [...list].sort((a, b) => a - b)[list.length >> 1]!;

export const row: Row = { id: 'ledger-index', name: 'look-ups in a large ledger', run };
