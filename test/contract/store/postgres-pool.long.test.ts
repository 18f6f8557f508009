/** A store keeps to its number of connections, however much is asked of it at once, and serves all who wait in the end. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import pg from 'pg';
import { openPostgresStore } from '../../../src/store/postgres.ts';
import { postgresDatabase } from '../../helpers/store.ts';

for (const poolSize of [2, 5])
  test(`${poolSize} connections for 60 reads and 60 writes at once`, async (t) => {
    const { url } = await postgresDatabase(t);
    const store = await openPostgresStore({ url, poolSize, statementTimeoutMs: 30_000 });
    t.after(() => store.close());
    await store.write(({ db }) => sql`create table t (n bigint)`.execute(db));
    const watcher = new pg.Client({ connectionString: url, application_name: 'watcher' });
    await watcher.connect();
    let most = 0;
    let over = false;
    const watching = (async () => {
      while (!over) {
        const { rows } = await watcher.query(`select count(*)::int as n from pg_stat_activity
          where datname = current_database() and application_name = 'parhelion'`);
        most = Math.max(most, rows[0].n as number);
      }
    })();
    const work = Array.from({ length: 60 }, (_, n) => [
      store.write((tx) => tx.insertMany('t', ['n'], [[n]])),
      sql`select pg_sleep(0.005)`.execute(store.read),
    ]);
    await Promise.all(work.flat());
    over = true;
    await watching;
    await watcher.end();
    assert.deepEqual((await sql`select count(*) as n from t`.execute(store.read)).rows, [{ n: 60 }]);
    assert.ok(most <= poolSize, `${most} connections`);
    assert.ok(most > 0);
  });
