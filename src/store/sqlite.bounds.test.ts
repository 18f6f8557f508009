import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { createMemoryLog } from '../../test/helpers/memory-log.ts';
import { createBus } from '../adapters/bus/index.ts';
import type { BusLine, Parcel } from '../adapters/bus/postgres-line.ts';
import { createReaderPool, openSqliteStore } from './sqlite.ts';
import type { SqliteConnection } from './sqlite-connection.ts';
import { beat } from './transaction.ts';
import type { WriteLock } from './write-lock.ts';

const WAIT = { timeout: 20_000 };

function openStore(t: TestContext, lock?: WriteLock) {
  const folder = mkdtempSync(join(tmpdir(), 'parhelion-bounds-'));
  const store = openSqliteStore({
    path: join(folder, 'a.db'),
    busyTimeoutMs: 100,
    ...(lock === undefined ? {} : { lock }),
  });
  t.after(async () => {
    await store.close();
    rmSync(folder, { recursive: true });
  });
  return store;
}

test('a probe whose commit is not seen is a broken store', WAIT, async (t) => {
  const [store, stale] = [openStore(t), openStore(t)];
  await stale.probe();
  for (let n = 0; n < 3; n += 1) await store.probe();
  await beat(store.write, store.read);
  await assert.rejects(beat(store.write, stale.read), { code: 'STORE_IO' });
});

test(
  'a writer that does not get the lock of its process does not write; one that fails gives it back',
  WAIT,
  async (t) => {
    let isFree = false;
    const asked: string[] = [];
    const store = openStore(t, {
      acquire: async () => {
        asked.push('acquire');
        return isFree;
      },
      release: () => void asked.push('release'),
    });
    let ran = 0;
    const work = async () => {
      ran += 1;
      if (ran === 1) throw new Error('of its own');
    };
    await assert.rejects(store.write(work), { code: 'STORE_BUSY' });
    assert.equal(ran, 0);
    isFree = true;
    await assert.rejects(store.write(work), /of its own/);
    await store.write(work);
    assert.deepEqual(asked, ['acquire', 'acquire', 'release', 'acquire', 'release']);
  },
);

test('readers are limited; waiting and late ones get an error at close', WAIT, async () => {
  let opened = 0;
  let closed = 0;
  const open = () => {
    opened += 1;
    return {
      close() {
        closed += 1;
      },
    } as unknown as SqliteConnection;
  };
  const pool = createReaderPool(open, 2);
  const [first] = [await pool.acquire(), await pool.acquire()];
  const third = pool.acquire();
  const fourth = pool.acquire();
  assert.equal(opened, 2);
  pool.release(first as SqliteConnection);
  assert.equal(await third, first);
  pool.close();
  await assert.rejects(fourth, { code: 'STORE_CLOSED' });
  await assert.rejects(pool.acquire(), { code: 'STORE_CLOSED' });
  assert.deepEqual([opened, closed], [2, 2]);
});

test('a closed bus delivers nothing, whatever still arrives', WAIT, async () => {
  const fake = () => {
    let take: (parcel: Parcel) => void = () => undefined;
    const sent: Parcel[] = [];
    const line: BusLine = {
      send: (parcel) => void sent.push(parcel),
      onParcel(fn) {
        take = fn;
      },
      async close() {},
    };
    return { line, sent, comes: (parcel: Parcel) => take(parcel) };
  };
  const [one, other] = [fake(), fake()];
  const bus = createBus([one.line, other.line], createMemoryLog());
  one.comes({ topic: 'x', message: 1 });
  assert.deepEqual(other.sent, [{ topic: 'x', message: 1 }]);
  await bus.close();
  one.comes({ topic: 'x', message: 2 });
  assert.equal(other.sent.length, 1);
});
