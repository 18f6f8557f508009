import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import { CodedError } from '../../../src/lib/coded-error.ts';
import type { Migration, Store } from '../../../src/ports/store.ts';
import type { Log } from '../../../src/ports/telemetry.ts';
import { migrate } from '../../../src/store/migrate.ts';
import { eachStore } from '../../helpers/store.ts';

const step = (version: number, options: Partial<Migration> = {}): Migration => ({
  version,
  name: `create t${version}`,
  breaking: false,
  up: async ({ db }) => {
    await sql`create table ${sql.id(`t${version}`)} (a integer)`.execute(db);
  },
  ...options,
});
const failing = step(2, {
  up: async ({ db }) => {
    await sql`create table half (a integer)`.execute(db);
    throw new Error('does not work');
  },
});
const tables = async (store: Store) => (await store.read.introspection.getTables()).map(({ name }) => name).sort();
const refusal = (code: string, text: RegExp, exitCode: number) => (error: unknown) =>
  error instanceof CodedError && error.code === code && text.test(error.message) && error.exitCode === exitCode;

function recordingLog(warnings: unknown[]): Log {
  const quiet = () => {};
  const log: Log = {
    trace: quiet,
    debug: quiet,
    info: quiet,
    warn: (fields) => warnings.push(fields),
    error: quiet,
    fatal: quiet,
    child: () => log,
  };
  return log;
}

eachStore('migrations', (engine) => {
  test('run once, in order; a dry run changes nothing', async (t) => {
    const store = await engine.store(t);
    const scopes = [
      { scope: 'b', migrations: [step(1), step(2, { breaking: true })] },
      { scope: 'a', migrations: [step(1, { name: 'nothing', up: async () => {} })] },
    ];
    const expected = [
      { scope: 'b', version: 1, name: 'create t1', breaking: false },
      { scope: 'b', version: 2, name: 'create t2', breaking: true },
      { scope: 'a', version: 1, name: 'nothing', breaking: false },
    ];
    assert.deepEqual(await migrate(store, scopes, { dryRun: true }), expected);
    assert.deepEqual(await tables(store), []);
    assert.deepEqual(await migrate(store, scopes), expected);
    assert.deepEqual(await tables(store), ['parhelion_migrations', 't1', 't2']);
    assert.deepEqual(await migrate(store, scopes), []);
    assert.deepEqual(await migrate(store, scopes, { dryRun: true }), []);
  });

  test('a failed step leaves nothing, and runs when it is mended', async (t) => {
    const store = await engine.store(t);
    await assert.rejects(
      migrate(store, [{ scope: 'a', migrations: [step(1), failing] }]),
      refusal('STORE_MIGRATION', /a: step 2 "create t2" failed: does not work/, 70),
    );
    assert.deepEqual(await tables(store), ['parhelion_migrations', 't1']);
    const done = await migrate(store, [{ scope: 'a', migrations: [step(1), step(2)] }]);
    assert.deepEqual(
      done.map(({ version }) => version),
      [2],
    );
  });

  test('racing processes do each step once', async (t) => {
    const database = await engine.database(t);
    const stores = await Promise.all(Array.from({ length: 4 }, () => database.open()));
    const scopes = [{ scope: 'a', migrations: [1, 2, 3, 4, 5].map((version) => step(version)) }];
    const done = await Promise.all(stores.map((store) => migrate(store, scopes)));
    assert.deepEqual(
      done
        .flat()
        .map(({ version }) => version)
        .sort(),
      [1, 2, 3, 4, 5],
    );
  });

  test('holes, renames and double scopes are refused', async (t) => {
    const store = await engine.store(t);
    const holes = [{ scope: 'a', migrations: [step(1), step(3)] }];
    await assert.rejects(migrate(store, holes), refusal('STORE_MIGRATION', /without holes, but 2 is 3/, 70));
    const twice = ['a', 'b', 'a'].map((scope) => ({ scope, migrations: [] }));
    await assert.rejects(migrate(store, twice), refusal('STORE_MIGRATION', /scope a occurs twice/, 70));
    await migrate(store, [{ scope: 'a', migrations: [step(1)] }]);
    const renamed = [{ scope: 'a', migrations: [step(1, { name: 'other' })] }];
    await assert.rejects(
      migrate(store, renamed),
      refusal('STORE_MIGRATION', /"create t1" in the database, "other" here/, 70),
    );
    await store.write(({ db }) => sql`update parhelion_migrations set version = 2`.execute(db));
    await assert.rejects(
      migrate(store, [{ scope: 'a', migrations: [step(1), step(2)] }]),
      refusal('STORE_MIGRATION', /lacks step 1/, 70),
    );
  });

  test('a newer schema: breaking is refused, other is warned about, an unknown owner is left alone', async (t) => {
    const store = await engine.store(t);
    await migrate(store, [
      { scope: 'a', migrations: [step(1), step(2)] },
      { scope: 'gone', migrations: [step(1, { name: 'x', breaking: true, up: async () => {} })] },
    ]);
    const warnings: unknown[] = [];
    const old = [{ scope: 'a', migrations: [step(1)] }];
    assert.deepEqual(await migrate(store, old, { log: recordingLog(warnings) }), []);
    assert.deepEqual(warnings, [{ scope: 'a', version: 2, name: 'create t2' }]);
    await store.write(({ db }) => sql`update parhelion_migrations set breaking = 1 where version = 2`.execute(db));
    await assert.rejects(migrate(store, old), refusal('STORE_SCHEMA_NEWER', /a has step 2 "create t2"/, 57));
  });
});
