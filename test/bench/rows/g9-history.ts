/** G9: rows of a whole-chain history through our store, against inserting them row by row as they come. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { createRowReader, type ReadRows } from '../../../plugins/wallet/store/rows.ts';
import { type KeyNumbers, migrations, readKeyNumbers, type WalletDb } from '../../../plugins/wallet/store/tables.ts';
import { createWalletProcessor } from '../../../plugins/wallet/tracking/processor.ts';
import { createSystemRandom } from '../../../src/adapters/clock.ts';
import type { ChainBlock } from '../../../src/ports/block.ts';
import { openSqliteStore } from '../../../src/store/sqlite.ts';
import type { Row, RowResult, RunOptions } from '../row.ts';
import { createHistoryBlocks } from '../samples/history-blocks.ts';

const GOAL = 3;
const FIRST_SLOT = 1_000;
const FINALITY_SLOTS = 32;
/** Blocks after which the mark of final blocks moves. */
const AUDIT_BLOCKS = 8;
const PAGE = 100;

const SIZES: Readonly<Record<RunOptions['size'], { blocks: number; transactions: number; names: number }>> = {
  full: { blocks: 1_667, transactions: 1_500, names: 20 },
  quick: { blocks: 96, transactions: 1_500, names: 20 },
  smoke: { blocks: 40, transactions: 20, names: 5 },
};

interface Side {
  /** Milliseconds of each block, merging included. */
  readonly spentMs: readonly number[];
  readonly rows: number;
  readonly bytes: number;
}

async function run({ size, seed, say }: RunOptions): Promise<RowResult[]> {
  const sizes = SIZES[size];
  const folder = mkdtempSync(join(tmpdir(), 'parhelion-history-'));
  try {
    say(`G9: ${(sizes.blocks * sizes.transactions * sizes.names).toLocaleString('en')} rows, ours`);
    const { side, numbers, pages } = await ours(folder, sizes, seed);
    say('G9: the same rows one by one');
    const theirs = rowByRow(folder, sizes, seed, numbers);
    assert.equal(side.rows, theirs.rows);
    const ratios = quarters(sizes.blocks).map(
      ([from, to]) => sum(theirs.spentMs.slice(from, to)) / sum(side.spentMs.slice(from, to)),
    );
    const whole = sum(theirs.spentMs) / sum(side.spentMs);
    return [
      {
        row: 'G9',
        name: 'history rows',
        unit: 'rows/s',
        ours: [perSecond(side)],
        baseline: [perSecond(theirs)],
        ratio: { median: whole, min: Math.min(...ratios), max: Math.max(...ratios) },
        goal: `>= ${GOAL}x`,
        verdict: size === 'full' ? (whole >= GOAL ? 'met' : 'missed') : 'not assessed',
        sizes,
        seed,
        notes: [
          `last quarter against first: ours ${steadiness(side).toFixed(2)}, row by row ${steadiness(theirs).toFixed(2)}`,
          `bytes per row: ours ${(side.bytes / side.rows).toFixed(0)}, row by row ${(theirs.bytes / theirs.rows).toFixed(0)}`,
          `newest ${PAGE} rows of a busy address: ${pages.toFixed(2)} ms at p99`,
          'SQLite, WAL, synchronous=FULL, one transaction per block; numbers of addresses given to both sides alike',
        ],
      },
    ];
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function ours(folder: string, { blocks, transactions, names }: (typeof SIZES)['full'], seed: number) {
  const path = join(folder, 'ours.db');
  const store = openSqliteStore({ path, busyTimeoutMs: 5_000 });
  await store.write(async (tx) => {
    for (const migration of migrations) await migration.up(tx);
  });
  let rows = 0;
  const matched = (count: number): void => {
    rows += count;
  };
  const processor = createWalletProcessor({ random: createSystemRandom(), isFull: true, matched, merged: () => {} });
  const block = createHistoryBlocks({ seed, transactions, names });
  const spentMs: number[] = [];
  let probe: ChainBlock | null = null;
  for (let at = 0; at < blocks; at += 1) {
    const next = block(FIRST_SLOT + at);
    probe ??= next;
    const startedMs = performance.now();
    await store.write((tx) => processor.apply(tx, next, 'main'));
    const finalSlot = next.slot - FINALITY_SLOTS;
    if (at % AUDIT_BLOCKS === 0) await store.write(async (tx) => processor.finalized?.(tx, finalSlot, 'main'));
    spentMs.push(performance.now() - startedMs);
  }
  const db = store.read as WalletDb;
  const numbers = await readKeyNumbers(db);
  const pages = await pageP99(createRowReader(store), numbers, probe as ChainBlock);
  await store.close();
  return { side: { spentMs, rows, bytes: statSync(path).size }, numbers, pages };
}

/** Half of the names of a block are busy addresses. */
async function pageP99(readRows: ReadRows, numbers: KeyNumbers, { keys }: ChainBlock): Promise<number> {
  const spent: number[] = [];
  for (let id = 0; id < Math.min(200, keys.size); id += 1) {
    const startedMs = performance.now();
    const range = { above: -1, below: Number.MAX_SAFE_INTEGER, mask: 15, limit: PAGE, order: 'desc' as const };
    const rows = await readRows(numbers.at(keys.words, id * 8), range);
    assert.ok(rows.length > 0);
    spent.push(performance.now() - startedMs);
  }
  return spent.sort((a, b) => a - b)[Math.floor(spent.length * 0.99)] as number;
}

function rowByRow(folder: string, sizes: (typeof SIZES)['full'], seed: number, numbers: KeyNumbers): Side {
  const path = join(folder, 'theirs.db');
  const db = new Database(path);
  db.pragma('journal_mode = WAL');
  db.pragma('synchronous = FULL');
  db.exec(`CREATE TABLE h (a INTEGER NOT NULL, n INTEGER NOT NULL, flags INTEGER NOT NULL, PRIMARY KEY (a, n)) WITHOUT ROWID;
    CREATE TABLE t (n INTEGER PRIMARY KEY, tag INTEGER NOT NULL, signature BLOB NOT NULL);
    CREATE INDEX t_by_tag ON t (tag);
    CREATE TABLE s (slot INTEGER PRIMARY KEY, time INTEGER NOT NULL);
    CREATE INDEX s_by_time ON s (time, slot);`);
  const row = db.prepare('INSERT OR IGNORE INTO h VALUES (?, ?, 1)');
  const transaction = db.prepare('INSERT OR IGNORE INTO t VALUES (?, ?, ?)');
  const time = db.prepare('INSERT OR IGNORE INTO s VALUES (?, ?)');
  let rows = 0;
  const write = db.transaction(({ slot, blockTime, transactions, keys }: ChainBlock) => {
    time.run(slot, blockTime);
    for (const { index, signatures, keys: ids } of transactions) {
      const n = slot * 65_536 + index;
      const signature = Buffer.from(signatures[0] as Uint8Array);
      transaction.run(n, signature.readUIntBE(0, 6), signature);
      for (const id of ids) row.run(numbers.at(keys.words, id * 8), n);
      rows += ids.length;
    }
  });
  const block = createHistoryBlocks({ seed, transactions: sizes.transactions, names: sizes.names });
  const spentMs: number[] = [];
  for (let at = 0; at < sizes.blocks; at += 1) {
    const next = block(FIRST_SLOT + at);
    const startedMs = performance.now();
    write(next);
    spentMs.push(performance.now() - startedMs);
  }
  db.close();
  return { spentMs, rows, bytes: statSync(path).size };
}

const sum = (list: readonly number[]): number => list.reduce((total, one) => total + one, 0);
const perSecond = ({ rows, spentMs }: Side): number => rows / (sum(spentMs) / 1_000);
const quarters = (count: number): [number, number][] =>
  [0, 1, 2, 3].map((quarter) => [Math.floor((count * quarter) / 4), Math.floor((count * (quarter + 1)) / 4)]);

/** Speed of the last quarter over that of the first. */
function steadiness({ spentMs }: Side): number {
  const [first, , , last] = quarters(spentMs.length).map(([from, to]) => sum(spentMs.slice(from, to)));
  return (first as number) / (last as number);
}

export const g9: Row = { id: 'G9', name: 'history rows', isLong: true, run };
