/** A database server that falls silent, conflicts for ever, or is kept waiting: nothing of it lasts for ever. */
import assert from 'node:assert/strict';
import { createServer, type Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { sql } from 'kysely';
import type { CodedError } from '../../../src/lib/coded-error.ts';
import { openPostgresStore, postgresError } from '../../../src/store/postgres.ts';

import { startFaultProxy } from '../../helpers/fault-proxy.ts';
import { postgresDatabase } from '../../helpers/store.ts';

const WAIT = { timeout: 120_000 };
/** What the client's own patience adds to the time of a statement, and a bit. */
const PATIENCE_MS = 8_000;

async function openStore(t: TestContext, url: string) {
  const store = await openPostgresStore({ url, poolSize: 2, statementTimeoutMs: 300 });
  t.after(() => store.close());
  return store;
}

test('a server whose answers vanish is given up, and its connection is not used again', WAIT, async (t) => {
  const { url } = await postgresDatabase(t);
  const { port } = new URL(url);
  const proxy = await startFaultProxy(Number(port));
  t.after(() => proxy.close());
  const store = await openStore(t, url.replace(`:${port}/`, `:${proxy.port}/`));
  await store.write(({ db }) => sql`create table t (a bigint)`.execute(db));
  await assert.rejects(
    store.write(async ({ db }) => {
      proxy.set({ down: { blackhole: true } });
      await sql`insert into t values (1)`.execute(db);
    }),
    { code: 'STORE_UNREACHABLE' },
  );
  proxy.clear();
  // The old connection is still open; what it would say belongs to questions that were given up.
  assert.equal(await store.write((tx) => tx.insertMany('t', ['a'], [[2]])), 1);
  assert.deepEqual((await sql`select a from t`.execute(store.read)).rows, [{ a: 2 }]);
});

test('a transaction that conflicts every time is given up', WAIT, async (t) => {
  const { url } = await postgresDatabase(t);
  const store = await openStore(t, url);
  let runs = 0;
  await assert.rejects(
    store.write(async ({ db }) => {
      runs += 1;
      if (runs > 50) throw new Error('without end');
      await sql`do $$ begin raise exception 'again' using errcode = '40001'; end $$`.execute(db);
    }),
    { code: 'STORE_BUSY' },
  );
  assert.ok(runs > 1 && runs <= 10, `${runs} runs`);
});

test('a transaction that its process forgets does not hold its locks for ever', WAIT, async (t) => {
  const { url } = await postgresDatabase(t);
  const store = await openStore(t, url);
  await store.write(({ db }) => sql`create table t (a bigint)`.execute(db));
  await assert.rejects(
    store.write(async ({ db }) => {
      await sql`insert into t values (1)`.execute(db);
      await new Promise((resolve) => setTimeout(resolve, 3_000));
      await sql`insert into t values (2)`.execute(db);
    }),
    { code: 'STORE_UNREACHABLE' },
  );
  assert.equal(await store.write((tx) => tx.insertMany('t', ['a'], [[3]])), 1);
  assert.deepEqual((await sql`select a from t`.execute(store.read)).rows, [{ a: 3 }]);
});

test('the error of a transaction that the server ended is temporary, not a bug', () => {
  const said = Object.assign(new Error('terminating connection due to idle-in-transaction timeout'), { code: '25P03' });
  const { code, exitCode, retryable } = postgresError(said) as CodedError;
  assert.deepEqual([code, exitCode, retryable], ['STORE_UNREACHABLE', 75, true]);
});

test('a store that closes finishes what it has begun, and begins nothing more', WAIT, async (t) => {
  const { url } = await postgresDatabase(t);
  const store = await openStore(t, url);
  await store.write(({ db }) => sql`create table t (a bigint)`.execute(db));
  const writing = store.write(async (tx) => {
    await new Promise((resolve) => setTimeout(resolve, 100));
    return await tx.insertMany('t', ['a'], [[1]]);
  });
  const closing = store.close();
  await assert.rejects(
    store.write(async () => 1),
    { code: 'STORE_CLOSED' },
  );
  assert.equal(await writing, 1);
  await closing;
});

test('something that takes connections and says nothing is no server', WAIT, async (t) => {
  const sockets = new Set<Socket>();
  const silent = createServer((socket) => void sockets.add(socket.on('error', () => undefined)));
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    silent.close();
  });
  const { port } = silent.address() as { port: number };
  const opening = openPostgresStore({
    url: `postgres://u:p@127.0.0.1:${port}/x`,
    poolSize: 2,
    statementTimeoutMs: 300,
  });
  const late = new Promise((resolve) => setTimeout(resolve, 4 * PATIENCE_MS, 'late').unref());
  assert.notEqual(await Promise.race([opening.catch(() => 'refused'), late]), 'late');
  await assert.rejects(opening, { code: 'STORE_UNREACHABLE' });
});
