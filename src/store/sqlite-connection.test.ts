import assert from 'node:assert/strict';
import { test } from 'node:test';
import Database from 'better-sqlite3';
import { createSqliteConnection } from './sqlite-connection.ts';

test('a statement is prepared once, and only so many are kept', async (t) => {
  const db = new Database(':memory:');
  const prepared: string[] = [];
  const prepare = db.prepare.bind(db);
  db.prepare = ((text: string) => {
    prepared.push(text);
    return prepare(text);
  }) as typeof db.prepare;
  const connection = createSqliteConnection(db);
  t.after(() => connection.close());
  const ask = async (n: number) => {
    const { rows } = await connection.query(`select ${n} as n`, []);
    assert.deepEqual(rows, [{ n }]);
  };
  await ask(0);
  await ask(0);
  assert.equal(prepared.length, 1);
  for (let n = 1; n < 2_000; n += 1) await ask(n);
  assert.equal(prepared.length, 2_000);
  await ask(1_999);
  assert.equal(prepared.length, 2_000, 'the newest are kept');
  await ask(0);
  assert.equal(prepared.length, 2_001, 'the oldest are not');
});
