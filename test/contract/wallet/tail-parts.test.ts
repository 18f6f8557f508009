/** Rows of blocks in all parts of the addresses are read, merged and reverted alike. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  createRowReader,
  mergeTail,
  packTail,
  type TailRow,
  writeTailRows,
} from '../../../plugins/wallet/store/rows.ts';
import { migrations, positionOf } from '../../../plugins/wallet/store/tables.ts';
import { forgetSlot } from '../../../plugins/wallet/store/transactions.ts';
import type { Store } from '../../../src/ports/store.ts';
import { migrate } from '../../../src/store/migrate.ts';
import { createSfc32 } from '../../helpers/sfc32.ts';
import { eachStore } from '../../helpers/store.ts';

const FIRST_SLOT = 300_000_000;
const BLOCKS = 40;
const MERGED = FIRST_SLOT + 9;
/** In the first and the last part of all numbers, at their borders, and in between. */
const ADDRESSES = [0, 1, 2 ** 42 - 1, 2 ** 42, 5 * 2 ** 42 + 77, 63 * 2 ** 42, 2 ** 48 - 1];
const EVERYTHING = { above: -1, below: Number.MAX_SAFE_INTEGER, mask: 15, limit: 10_000 } as const;

function someRows(): ReadonlyMap<number, readonly TailRow[]> {
  const random = createSfc32(7);
  const blocks = new Map<number, readonly TailRow[]>();
  for (let at = 0; at < BLOCKS; at += 1) {
    const slot = FIRST_SLOT + at;
    const rows = ADDRESSES.flatMap((a) =>
      [0, 1, 65_535]
        .filter(() => random.float() < 0.5)
        .map((place) => ({ a, n: positionOf(slot, place), flags: 1 + random.below(15) })),
    );
    if (rows.length > 0) blocks.set(slot, rows);
  }
  return blocks;
}

async function checkAnswers(store: Store, rows: readonly TailRow[]): Promise<void> {
  const readRows = createRowReader(store);
  const shown = ({ n, flags }: TailRow) => ({ n, flags });
  for (const address of ADDRESSES) {
    const mine = rows.filter(({ a }) => a === address).toSorted((left, right) => left.n - right.n);
    assert.ok(mine.length > 10);
    assert.deepEqual(await readRows(address, { ...EVERYTHING, order: 'asc' }), mine.map(shown));
    const edge = mine[5] as TailRow;
    assert.deepEqual(
      await readRows(address, { ...EVERYTHING, mask: 5, below: edge.n, limit: 3, order: 'desc' }),
      mine
        .filter(({ n, flags }) => n < edge.n && (flags & 5) !== 0)
        .toReversed()
        .slice(0, 3)
        .map(shown),
    );
  }
  assert.deepEqual(await readRows(12_345, { ...EVERYTHING, order: 'asc' }), []);
}

eachStore('rows of blocks that are not final', (engine) => {
  test('every address has its rows before and after they are merged, and forks find them', async (t) => {
    const store = await engine.store(t);
    await migrate(store, [{ scope: 'wallet', migrations }]);
    const blocks = someRows();
    await store.write(async (tx) => {
      const tail = [...blocks].filter(([slot]) => slot > MERGED);
      await tx.insertMany(
        'wallet_tail',
        ['part', 'slot', 'rows'],
        tail.flatMap(([slot, rows]) => packTail(slot, rows).map((one) => [one.part, slot, one.rows])),
      );
      await writeTailRows(
        tx,
        [...blocks].filter(([slot]) => slot <= MERGED).flatMap(([, rows]) => rows),
      );
    });

    const rows = [...blocks.values()].flat();
    await checkAnswers(store, rows);
    const lost = FIRST_SLOT + BLOCKS - 1;
    await store.write((tx) => forgetSlot(tx, lost));
    const left = rows.filter(({ n }) => n < positionOf(lost, 0));
    await checkAnswers(store, left);
    const merged = await store.write((tx) => mergeTail(tx, lost, 1));
    assert.equal(merged, left.filter(({ n }) => n >= positionOf(MERGED + 1, 0)).length);
    await checkAnswers(store, left);
  });
});
