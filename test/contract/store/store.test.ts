import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import fc from 'fast-check';
import { sql } from 'kysely';
import { codeOf } from '../../../src/lib/coded-error.ts';
import type { SqlValue, Store } from '../../../src/ports/store.ts';
import { Database } from '../../helpers/sqlite.ts';
import { eachStore } from '../../helpers/store.ts';

async function createTable(store: Store): Promise<void> {
  await store.write(async (tx) => {
    await tx.db.schema
      .createTable('things')
      .addColumn('id', 'bigint', (column) => column.primaryKey())
      .addColumn('text', 'text')
      .addColumn('number', 'bigint')
      .addColumn('bytes', tx.dialect === 'postgres' ? 'bytea' : 'blob')
      .execute();
  });
}

const COLUMNS = ['id', 'text', 'number', 'bytes'] as const;
const rowOf = (id: number): SqlValue[] => [id, `text ${id}`, id * 2, Buffer.from([id & 0xff])];
const ids = async (store: Store) =>
  (await store.read.selectFrom('things').select('id').orderBy('id').execute()).map(({ id }) => id as number);
const isCode = (code: string) => (error: unknown) => codeOf(error) === code;

eachStore('store contract', (engine) => {
  test('values come back as they went in', async (t) => {
    const store = await engine.store(t);
    await createTable(store);
    const value = fc.record({
      text: fc.option(fc.string({ unit: 'binary' }).map((text) => text.replaceAll('\0', ''))),
      number: fc.option(fc.maxSafeInteger()),
      bytes: fc.option(fc.uint8Array({ maxLength: 3000 })),
    });
    let id = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(value, { minLength: 1, maxLength: 80 }), async (values) => {
        const first = id;
        await store.write(async (tx) => {
          const rows = values.map(({ text, number, bytes }) => [id++, text, number, bytes]);
          assert.equal(await tx.insertMany('things', COLUMNS, rows), rows.length);
        });
        const rows = await store.read.selectFrom('things').selectAll().where('id', '>=', first).orderBy('id').execute();
        assert.deepEqual(
          rows,
          values.map(({ text, number, bytes }, index) => ({
            id: first + index,
            text,
            number: number === null ? null : number + 0,
            bytes: bytes === null ? null : Buffer.from(bytes),
          })),
        );
        for (const row of rows) assert.ok(row['bytes'] === null || Buffer.isBuffer(row['bytes']));
      }),
      { numRuns: 40 },
    );
  });

  test('counts, sums, booleans and big integers are numbers', async (t) => {
    const store = await engine.store(t);
    await createTable(store);
    await store.write(async (tx) => {
      await tx.insertMany('things', COLUMNS, [
        [1, null, Number.MAX_SAFE_INTEGER - 1, null],
        [2, null, 1n, null],
        [3, null, true, null],
      ]);
      const { rows } = await sql<object>`
        select count(*) as count, sum(number) as sum, max(number) as max, exists (select 1 from things) as some
        from things`.execute(tx.db);
      assert.deepEqual(rows, [
        { count: 3, sum: Number.MAX_SAFE_INTEGER + 1, max: Number.MAX_SAFE_INTEGER - 1, some: 1 },
      ]);
    });
    assert.deepEqual(await store.read.selectFrom('things').select('number').where('id', '=', 3).execute(), [
      { number: 1 },
    ]);
  });

  test('a rejected transaction leaves nothing, and its hooks do not run', async (t) => {
    const store = await engine.store(t);
    await createTable(store);
    const seen: string[] = [];
    const failure = new Error('no');
    await assert.rejects(
      store.write(async (tx) => {
        tx.onCommit(() => seen.push('rolled back'));
        await tx.insertMany('things', COLUMNS, [rowOf(1)]);
        throw failure;
      }),
      failure,
    );
    assert.deepEqual(await ids(store), []);
    const answer = await store.write(async (tx) => {
      tx.onCommit(() => seen.push('first'));
      tx.onCommit(() => seen.push('second'));
      await tx.insertMany('things', COLUMNS, [rowOf(2)]);
      assert.deepEqual(await ids(store), [], 'not visible before the commit');
      return 'answer';
    });
    assert.equal(answer, 'answer');
    assert.deepEqual(seen, ['first', 'second']);
    assert.deepEqual(await ids(store), [2]);
  });

  test('a failed statement spoils its transaction even when the work catches it', async (t) => {
    const store = await engine.store(t);
    await createTable(store);
    await store.write((tx) => tx.insertMany('things', COLUMNS, [rowOf(1)]));
    await assert.rejects(
      store.write(async (tx) => {
        await tx.insertMany('things', COLUMNS, [rowOf(2)]);
        await tx.insertMany('things', COLUMNS, [rowOf(1)]).catch(() => 0);
      }),
      isCode('STORE_CONFLICT'),
    );
    assert.deepEqual(await ids(store), [1]);
    await assert.rejects(
      store.write(async ({ db }) => {
        await sql`create table strict_things (id bigint primary key, text text not null)`.execute(db);
        await sql`insert into strict_things (id) values (1)`.execute(db);
      }),
      isCode('STORE_CONSTRAINT'),
    );
  });

  test('nothing of an insertion is stored when its transaction ends before it', async (t) => {
    const store = await engine.store(t);
    await createTable(store);
    // Several statements: the others are sent after the work has failed.
    const many = Array.from({ length: 3_000 }, (_, index) => rowOf(index));
    let inserting: Promise<unknown> = Promise.resolve();
    const write = store.write(async (tx) => {
      inserting = tx.insertMany('things', COLUMNS, many).catch(() => 0);
      throw new Error('given up');
    });
    await assert.rejects(write, /given up/);
    await inserting;
    assert.deepEqual(await ids(store), []);
  });

  test('insertMany leaves out what exists, counts what it wrote, and takes many rows', async (t) => {
    const store = await engine.store(t);
    await createTable(store);
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 0, max: 5000 }), fc.integer({ min: 0, max: 400 }), async (start, count) => {
        const before = new Set(await ids(store));
        const wanted = Array.from({ length: count }, (_, index) => start + index);
        const written = await store.write((tx) => tx.insertMany('things', COLUMNS, wanted.map(rowOf), 'ignore'));
        assert.equal(written, wanted.filter((id) => !before.has(id)).length);
        assert.deepEqual(
          await ids(store),
          [...new Set([...before, ...wanted])].sort((a, b) => a - b),
        );
      }),
      { numRuns: 30 },
    );
    const many = Array.from({ length: 40_000 }, (_, index) => rowOf(1_000_000 + index));
    assert.equal(await store.write((tx) => tx.insertMany('things', COLUMNS, many)), many.length);
  });

  test('insertMany gives rows that exist their new values, of one or of many, and leaves the other columns', async (t) => {
    const store = await engine.store(t);
    await createTable(store);
    await store.write((tx) => tx.insertMany('things', COLUMNS, [1, 2, 3, 4].map(rowOf)));
    const update = { key: ['id'], set: ['text', 'bytes'] };
    const change = (rows: SqlValue[][]) => store.write((tx) => tx.insertMany('things', COLUMNS, rows, update));
    assert.equal(await change([[4, 'four', 0, null]]), 1);
    // In the second one a value is not of the type of its column, as the engines allow.
    for (const number of [9, '9'])
      assert.equal(
        await change([
          [2, 'two', number, Buffer.from('b')],
          [3, null, number, Buffer.alloc(0)],
          [5, 'five', number, new Uint8Array(2)],
        ]),
        3,
      );
    const { rows } = await sql`select * from things order by id`.execute(store.read);
    assert.deepEqual(rows, [
      { id: 1, text: 'text 1', number: 2, bytes: Buffer.of(1) },
      { id: 2, text: 'two', number: 4, bytes: Buffer.from('b') },
      { id: 3, text: null, number: 6, bytes: Buffer.alloc(0) },
      { id: 4, text: 'four', number: 8, bytes: null },
      { id: 5, text: 'five', number: 9, bytes: Buffer.alloc(2) },
    ]);
  });

  test('concurrent writers of one and of several openings lose no update', async (t) => {
    const database = await engine.database(t);
    const stores = await Promise.all([database.open(), database.open(), database.open()]);
    await createTable(stores[0]!);
    await stores[0]!.write((tx) => tx.insertMany('things', COLUMNS, [[1, null, 0, null]]));
    const increments = Array.from({ length: 60 }, (_, index) =>
      stores[index % 3]!.write(async (tx) => {
        const { number } = await tx.db
          .selectFrom('things')
          .select('number')
          .where('id', '=', 1)
          .$if(tx.dialect === 'postgres', (query) => query.forUpdate())
          .executeTakeFirstOrThrow();
        await new Promise((resolve) => setImmediate(resolve));
        await tx.db
          .updateTable('things')
          .set({ number: (number as number) + 1 })
          .where('id', '=', 1)
          .execute();
      }),
    );
    await Promise.all(increments);
    assert.deepEqual(await stores[1]!.read.selectFrom('things').select('number').execute(), [{ number: 60 }]);
  });

  test('a read transaction sees one snapshot, and readers cannot write', async (t) => {
    const store = await engine.store(t);
    await createTable(store);
    await store.read.transaction().execute(async (snapshot) => {
      assert.deepEqual(await snapshot.selectFrom('things').select('id').execute(), []);
      await store.write((tx) => tx.insertMany('things', COLUMNS, [rowOf(1)]));
      assert.deepEqual(await snapshot.selectFrom('things').select('id').execute(), []);
      assert.deepEqual(await ids(store), [1]);
    });
    await assert.rejects(store.read.insertInto('things').values({ id: 7 }).execute(), isCode('STORE_READ_ONLY'));
  });

  test('the version is another one after every commit, whoever made it, and after nothing else', async (t) => {
    const database = await engine.database(t);
    const [own, other] = [await database.open(), await database.open()];
    await createTable(own);
    if (engine.dialect === 'postgres') {
      assert.equal(own.version(), null);
      return;
    }
    const add = (store: Store, id: number) => store.write((tx) => tx.insertMany('things', COLUMNS, [rowOf(id)]));
    const seen = new Set([own.version()]);
    for (let id = 1; id <= 5; id += 1) {
      const before = own.version();
      await ids(own);
      await assert.rejects(own.write(() => Promise.reject(new Error('no'))));
      assert.equal(own.version(), before);
      await add(id % 2 === 0 ? own : other, id);
      seen.add(own.version());
      assert.equal(seen.size, id + 1);
    }
  });

  test('the version is another one in the next turn after a commit that no store of this thread made', async (t) => {
    const database = await engine.database(t);
    const store = await database.open();
    if (engine.dialect === 'postgres') return;
    await createTable(store);
    const [{ file }] = (await sql<{ file: string }>`pragma database_list`.execute(store.read)).rows as [
      { file: string },
    ];
    const another = new Database(file);
    t.after(() => another.close());
    another.exec('create table another (id integer)');
    const insert = () => another.exec('insert into another values (1)');
    for (let round = 0; round < 20; round += 1) {
      const before = store.version();
      insert();
      await nextTurn();
      assert.notEqual(store.version(), before);
    }
    // Without the end of a turn, as in a long one.
    const before = store.version();
    insert();
    for (const since = performance.now(); performance.now() - since < 2; );
    assert.notEqual(store.version(), before);
  });

  test('streams rows, also when the reader stops early', async (t) => {
    const store = await engine.store(t);
    await createTable(store);
    const rows = Array.from({ length: 1000 }, (_, index) => rowOf(index));
    await store.write((tx) => tx.insertMany('things', COLUMNS, rows));
    const query = store.read.selectFrom('things').select('id').where('id', '>=', 10).orderBy('id');
    const seen: number[] = [];
    for await (const { id } of query.stream(64)) seen.push(id as number);
    assert.deepEqual(
      seen,
      rows.slice(10).map((_, index) => index + 10),
    );
    for (let turn = 0; turn < 20; turn += 1) {
      for await (const { id } of query.stream(10)) if (id === 25) break;
    }
    assert.equal((await ids(store)).length, 1000);
  });

  test('a reference to nothing is refused', async (t) => {
    const store = await engine.store(t);
    await createTable(store);
    await store.write(({ db }) =>
      sql`create table parts (id bigint primary key, thing bigint not null references things (id))`.execute(db),
    );
    const put = (thing: number) => store.write((tx) => tx.insertMany('parts', ['id', 'thing'], [[thing, thing]]));
    await store.write((tx) => tx.insertMany('things', COLUMNS, [rowOf(1)]));
    assert.equal(await put(1), 1);
    await assert.rejects(put(2), isCode('STORE_CONSTRAINT'));
  });

  test('a handle does not work after its transaction', async (t) => {
    const store = await engine.store(t);
    await createTable(store);
    const late = await store.write(async (tx) => tx);
    await assert.rejects(late.db.insertInto('things').values({ id: 1 }).execute(), isCode('STORE_CLOSED'));
    await assert.rejects(late.insertMany('things', ['id'], [[1]]), isCode('STORE_CLOSED'));
    assert.throws(() => late.onCommit(() => {}), isCode('STORE_CLOSED'));
    await assert.rejects(
      store.write((tx) => tx.db.transaction().execute(async () => 1)),
      /running already/,
    );
    assert.deepEqual(await ids(store), []);
  });

  test('probe, close and reopen', async (t) => {
    const database = await engine.database(t);
    const store = await database.open();
    await createTable(store);
    await store.probe();
    await store.probe();
    const slow = store.write(async (tx) => {
      await new Promise((resolve) => setTimeout(resolve, 20));
      return await tx.insertMany('things', COLUMNS, [rowOf(1)]);
    });
    await store.close();
    assert.equal(await slow, 1, 'a running write is waited for');
    await store.close();
    await assert.rejects(
      store.write(async () => 1),
      { code: 'STORE_CLOSED' },
    );
    await assert.rejects(store.read.selectFrom('things').selectAll().execute(), { code: 'STORE_CLOSED' });
    const again = await database.open();
    assert.deepEqual(await ids(again), [1]);
  });

  test('reads that wait for a connection when the store closes are answered', async (t) => {
    const store = await engine.store(t);
    await createTable(store);
    const reads = Array.from({ length: 40 }, () => store.read.selectFrom('things').selectAll().execute());
    const answered = Promise.allSettled(reads);
    await new Promise((resolve) => setImmediate(resolve));
    const closing = store.close();
    for (const read of await answered) if (read.status === 'rejected') assert.equal(read.reason.code, 'STORE_CLOSED');
    await closing;
  });

  test('a schema that changes under open connections', async (t) => {
    const database = await engine.database(t);
    const [one, two] = [await database.open(), await database.open()];
    await createTable(one);
    const all = (store: Store) => store.read.selectFrom('things').selectAll().execute();
    await one.write((tx) => tx.insertMany('things', COLUMNS, [rowOf(1)]));
    assert.equal(Object.keys((await all(one))[0]!).length, 4);
    assert.equal(Object.keys((await all(two))[0]!).length, 4);
    await two.write((tx) => tx.db.schema.alterTable('things').addColumn('more', 'text').execute());
    assert.equal(Object.keys((await all(one))[0]!).length, 5);
    assert.equal(Object.keys((await all(two))[0]!).length, 5);
  });
});
