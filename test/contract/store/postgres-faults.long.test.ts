import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { sql } from 'kysely';
import pg from 'pg';
import { codeOf } from '../../../src/lib/coded-error.ts';
import type { Store } from '../../../src/ports/store.ts';
import { openPostgresStore } from '../../../src/store/postgres.ts';
import { type PostgresServer, startPostgresServer } from '../../helpers/postgres-server.ts';

const isCode = (code: string) => (error: unknown) => codeOf(error) === code;
const open = (url: string, more: object = {}) =>
  openPostgresStore({ url, poolSize: 4, statementTimeoutMs: 5_000, ...more });
let server: PostgresServer;

// A server of its own: this suite stops it.
before(async () => {
  server = await startPostgresServer();
});
after(() => server.stop());

async function killBackends(url: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(
    `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'parhelion' and pid <> pg_backend_pid()`,
  );
  await client.end();
}

const one = async (store: Store) => (await sql<{ n: number }>`select 1 as n`.execute(store.read)).rows[0]?.n;

test('lost connections are replaced; what ran on them is reported', async (t) => {
  const store = await open(server.url);
  t.after(() => store.close());
  await store.write(({ db }) => sql`create table t (a bigint)`.execute(db));
  await assert.rejects(
    store.write(async (tx) => {
      await tx.insertMany('t', ['a'], [[1]]);
      await killBackends(server.url);
      await tx.insertMany('t', ['a'], [[2]]);
    }),
    isCode('STORE_UNREACHABLE'),
  );
  await killBackends(server.url);
  let answer: unknown;
  // A connection whose end was not noticed yet may fail once.
  for (let attempt = 0; attempt < 5 && answer !== 1; attempt += 1) answer = await one(store).catch(() => null);
  assert.equal(answer, 1);
  assert.equal(await store.write((tx) => tx.insertMany('t', ['a'], [[3]])), 1);
  assert.deepEqual((await sql`select a from t`.execute(store.read)).rows, [{ a: 3 }]);
});

test('work is run again after a deadlock or serialisation failure', async (t) => {
  const store = await open(server.url);
  t.after(() => store.close());
  await store.write(async ({ db }) => {
    await sql`create table pairs (id bigint primary key, n bigint)`.execute(db);
    await sql`insert into pairs values (1, 0), (2, 0)`.execute(db);
  });
  let runs = 0;
  let arrived = 0;
  const both: (() => void)[] = [];
  const cross = (first: number, second: number) =>
    store.write(async ({ db }) => {
      runs += 1;
      // Otherwise the one that runs again may take its first row before the other has its second, and they meet once more.
      if (runs > 2) await oneIsDone;
      await sql`update pairs set n = n + 1 where id = ${first}`.execute(db);
      arrived += 1;
      if (arrived === 2) for (const go of both) go();
      else if (arrived < 2) await new Promise<void>((resolve) => both.push(resolve));
      await sql`update pairs set n = n + 1 where id = ${second}`.execute(db);
    });
  const writes = [cross(1, 2), cross(2, 1)];
  const oneIsDone = Promise.race(writes);
  await Promise.all(writes);
  assert.equal(runs, 3);
  assert.deepEqual((await sql`select n from pairs order by id`.execute(store.read)).rows, [{ n: 2 }, { n: 2 }]);

  let tries = 0;
  await store.write(async ({ db }) => {
    tries += 1;
    if (tries < 3) await sql`do $$ begin raise exception 'again' using errcode = '40001'; end $$`.execute(db);
  });
  assert.equal(tries, 3);
});

test('a statement that takes too long is given up, and the connection serves again', async (t) => {
  const store = await open(server.url, { statementTimeoutMs: 100 });
  t.after(() => store.close());
  await assert.rejects(sql`select pg_sleep(10)`.execute(store.read), isCode('STORE_BUSY'));
  await assert.rejects(
    store.write(({ db }) => sql`select pg_sleep(10)`.execute(db)),
    isCode('STORE_BUSY'),
  );
  assert.equal(await one(store), 1);
});

test('a bad log-in and a stopped server are unreachable, without the password in the error', async () => {
  const wrong = new URL(server.url);
  wrong.password = 'hunter2';
  await assert.rejects(open(wrong.href), (error: Error) => {
    assert.equal(codeOf(error), 'STORE_UNREACHABLE');
    return !JSON.stringify([error.message, error]).includes('hunter2');
  });
  const store = await open(server.url);
  await server.stop();
  await assert.rejects(one(store), isCode('STORE_UNREACHABLE'));
  await assert.rejects(
    store.write(async () => 1),
    isCode('STORE_UNREACHABLE'),
  );
  await assert.rejects(store.probe(), isCode('STORE_UNREACHABLE'));
  await store.close();
  await assert.rejects(open(server.url), isCode('STORE_UNREACHABLE'));
});
