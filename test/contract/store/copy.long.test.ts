/** Copies between all kinds of stores: complete, compared, and able to go on where they were interrupted. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { sql } from 'kysely';
import { copyStore } from '../../../src/cli/commands/store-copy.ts';
import { jobMigrations } from '../../../src/jobs/table.ts';
import type { Migration, MigrationScope, Store } from '../../../src/ports/store.ts';
import { ensureSchema, migrate } from '../../../src/store/migrate.ts';

import { createSfc32 } from '../../helpers/sfc32.ts';
import { eachStore, postgresDatabase, type StoreEngine, sqliteStore } from '../../helpers/store.ts';

const ROWS = 1_300;

const zooMigrations: readonly Migration[] = [
  {
    version: 1,
    name: 'create a zoo',
    breaking: false,
    async up({ db, dialect }) {
      const blob = sql.raw(dialect === 'sqlite' ? 'blob' : 'bytea');
      await sql`create table zoo_owners (id text primary key, n bigint)`.execute(db);
      // Before its parent in any list by name.
      await sql`create table zoo_animals (owner text not null references zoo_owners (id), tag ${blob} not null,
        weight bigint, words text, body ${blob}, primary key (owner, tag))`.execute(db);
      await sql`create table zoo_keyless (hash ${blob} not null unique, maybe text unique, n bigint not null)`.execute(
        db,
      );
      await sql`create table zoo_state (id bigint primary key, seed text not null)`.execute(db);
      await sql`insert into zoo_state values (1, ${dialect})`.execute(db);
      await sql`create table zoo_empty (id bigint primary key)`.execute(db);
    },
  },
];
const scopes: readonly MigrationScope[] = [
  { scope: 'kernel.jobs', migrations: jobMigrations },
  { scope: 'zoo', migrations: zooMigrations },
];
const TEXTS = ['', 'ä', 'Z', 'a', 'B', "o'clock", '日本', '😀', ' lead', '%_\\', '"quoted"', '0', '-1'];

async function fill(store: Store): Promise<void> {
  await migrate(store, scopes);
  const draw = createSfc32(7);
  const bytes = (length: number) => Buffer.from(Array.from({ length }, () => draw.below(256)));
  const text = (index: number) => `${TEXTS[index % TEXTS.length]}${index}`;
  const owners = Array.from({ length: 40 }, (_, index) => [text(index), index % 3 === 0 ? null : index * 1e12]);
  const animals = Array.from({ length: ROWS }, (_, index) => [
    text(index % 40),
    bytes(1 + (index % 40)),
    draw.below(2) === 0 ? null : -(2 ** 53) + 1 + index,
    draw.below(3) === 0 ? null : text(index),
    draw.below(4) === 0 ? null : bytes(draw.below(300)),
  ]);
  const tagged = [...new Map(animals.map((row) => [`${row[0]}:${(row[1] as Buffer).toString('hex')}`, row])).values()];
  await store.write(async (tx) => {
    await tx.insertMany('zoo_owners', ['id', 'n'], owners);
    await tx.insertMany('zoo_animals', ['owner', 'tag', 'weight', 'words', 'body'], tagged);
    await tx.insertMany(
      'zoo_keyless',
      ['hash', 'maybe', 'n'],
      Array.from({ length: ROWS }, (_, index) => [Buffer.from(`${index}`.padStart(8, '0')), null, index]),
    );
    await sql`update zoo_state set seed = 'of the source'`.execute(tx.db);
  });
}

/** Gives its number. */
async function addJob(store: Store, key: string, id?: number): Promise<number> {
  const number = id === undefined ? sql`` : sql`id,`;
  const value = id === undefined ? sql`` : sql`${id},`;
  const { rows } = await store.write(({ db }) =>
    sql<{
      id: number;
    }>`insert into outbox (${number} kind, key, grp, payload, state, lane, attempts, claims, lost, run_at, created_at)
      values (${value} 'k', ${key}, '', '{}', 'pending', 0, 0, 0, 0, 0, 0) returning id`.execute(db),
  );
  return rows[0]?.id ?? -1;
}

interface Told {
  total: number;
  done: number;
}

function options(source: Store, target: Store, told: Told = { total: 0, done: 0 }) {
  const progress = {
    begin: (total: number) => {
      told.total = total;
      told.done = 0;
    },
    rows: (count: number) => {
      told.done += count;
    },
  };
  return { source, target, scopes, sourceName: 'one', progress };
}

/** A store whose writes fail from the nth on. */
function dying(store: Store, writes: number): Store {
  let left = writes;
  return {
    dialect: store.dialect,
    read: store.read,
    version: store.version,
    probe: store.probe,
    close: store.close,
    write: async (work) => {
      left -= 1;
      if (left < 0) throw new Error('killed');
      return await store.write(work);
    },
  };
}

const TABLES = ['zoo_owners', 'zoo_animals', 'zoo_keyless', 'zoo_state', 'zoo_empty'];

async function contents(store: Store): Promise<Record<string, readonly string[]>> {
  const all: Record<string, readonly string[]> = {};
  for (const table of TABLES) {
    const { rows } = await sql<Record<string, unknown>>`select * from ${sql.table(table)}`.execute(store.read);
    all[table] = rows.map((row) => JSON.stringify(Object.entries(row).sort())).sort();
  }
  return all;
}

async function targets(t: TestContext): Promise<readonly Store[]> {
  return [await sqliteStore(t), await (await postgresDatabase(t)).open()];
}

eachStore('store copy', (engine: StoreEngine) => {
  test('every row arrives, whatever the target; numbers that the target gives out go on behind those copied', async (t) => {
    const source = await engine.store(t);
    await fill(source);
    await addJob(source, 'x', 5_000);
    for (const target of await targets(t)) {
      const told = { total: 0, done: 0 };
      const tables = await copyStore(options(source, target, told));
      assert.deepEqual(await contents(target), await contents(source));
      assert.equal(tables.find(({ name }) => name === 'zoo_keyless')?.rows, ROWS);
      assert.equal(told.done, told.total);
      await ensureSchema(target, scopes, 'manual');
      assert.equal(await addJob(target, 'y'), 5_001);
    }
  });

  test('interrupted at every write, the same copy goes on; nobody else may use the target meanwhile', async (t) => {
    const source = await engine.store(t);
    await fill(source);
    for (const target of await targets(t)) {
      let lives = 0;
      for (let isOver = false; !isOver; lives += 1) {
        assert.ok(lives < 200, 'it does not get on');
        try {
          await copyStore(options(source, dying(target, 2 + (lives % 5))));
          isOver = true;
        } catch (error) {
          assert.match(String(error), /killed/);
          await assert.rejects(ensureSchema(target, scopes, 'auto'), { code: 'STORE_COPY', exitCode: 78 });
        }
      }
      assert.ok(lives > 3);
      assert.deepEqual(await contents(target), await contents(source));
      await ensureSchema(target, scopes, 'auto');
    }
  });

  test('a source that changes meanwhile is found out; a target that is in use or of another copy is refused', async (t) => {
    const source = await engine.store(t);
    await fill(source);
    const [target] = (await targets(t)) as [Store];
    await assert.rejects(copyStore(options(source, dying(target, 12))), /killed/);
    await source.write(({ db }) => sql`update zoo_owners set n = 5 where id = 'ä1'`.execute(db));
    await assert.rejects(copyStore(options(source, target)), { code: 'STORE_COPY', message: /zoo_owners differs/ });
    await assert.rejects(copyStore({ ...options(source, target), sourceName: 'two' }), {
      code: 'STORE_COPY',
      message: /another database/,
    });
    const used = await sqliteStore(t);
    await fill(used);
    await assert.rejects(copyStore(options(source, used)), { code: 'STORE_COPY', message: /not empty/ });
  });

  test('rows that the target cannot hold are refused before anything is written', async (t) => {
    const source = await engine.store(t);
    await fill(source);
    const [target] = (await targets(t)) as [Store];
    await source.write(({ db }) => sql`create table stranger (id bigint primary key)`.execute(db));
    await assert.rejects(copyStore(options(source, target)), { code: 'STORE_COPY', message: /stranger/ });
    const old = await sqliteStore(t);
    await migrate(old, scopes.slice(0, 1));
    await assert.rejects(copyStore(options(old, await sqliteStore(t))), {
      code: 'STORE_COPY',
      message: /older schema/,
    });
  });
});
