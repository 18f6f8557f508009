import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import fc from 'fast-check';
import type { Store } from '../../../src/ports/store.ts';
import { accessBed } from '../../../test/helpers/access-harness.ts';
import { eachStore, sqliteStore } from '../../../test/helpers/store.ts';
import { hashApiKey, isKeyForm, keyPrefix, listApiKeys } from '../keys.ts';
import { createBootstrap } from '../services.ts';
import { tables } from '../tables.ts';

const CACHE_MS = 500;

async function setUp(store: Store) {
  let queries = 0;
  const counted: Store = {
    ...store,
    get read() {
      queries++;
      return store.read;
    },
  };
  const bed = await accessBed(counted, { config: { keyCacheSize: 10, keyCacheMs: CACHE_MS } });
  queries = 0;
  return { ...bed, store, queries: () => queries };
}

eachStore('access gate', (engine) => {
  test('a key names its project and plan; unknown ones are refused', async (t) => {
    const { addKey, ask, project } = await setUp(await engine.store(t));
    const { key, id } = await addKey();
    const { budgets, ...caller } = await ask({ header: key });
    assert.deepEqual(caller, { projectId: project.id, keyId: id, plan: 'free', wallet: null });
    assert.deepEqual([budgets?.sockets, budgets?.replays], [50, 1]);
    await assert.rejects(ask({ header: `${key}x` }), { reason: 'bad-key' });
    await assert.rejects(ask({}), { reason: 'no-key' });
  });

  test('the first source that contains a key counts', async (t) => {
    const { addKey, ask } = await setUp(await engine.store(t));
    const good = (await addKey()).key;
    const bad = 'wrong';
    for (const credentials of [
      { query: [good], header: bad, bearer: bad },
      { query: [good, good, ''] },
      { query: [''], header: good, bearer: bad },
      { header: '', bearer: good },
    ]) {
      assert.ok(await ask(credentials));
    }
    for (const credentials of [
      { query: [bad], header: good, bearer: good },
      { query: [good, bad] },
      { query: ['', bad], header: good },
      { header: bad, bearer: good },
    ]) {
      await assert.rejects(ask(credentials), { reason: 'bad-key' });
    }
    await assert.rejects(ask({ query: ['', ''], header: '', bearer: '' }), { reason: 'no-key' });
  });

  test('a revoked key works no longer than it is cached; an expired one ends on time even if cached', async (t) => {
    const { addKey, ask, keys, clock, store } = await setUp(await engine.store(t));
    const revoked = await addKey();
    const expiring = await addKey({ expiresAt: clock.now() + 100 });
    assert.ok(await ask({ header: revoked.key }));
    assert.ok(await ask({ header: expiring.key }));
    assert.equal(await store.write((tx) => keys.revoke(tx, revoked.id)), true);
    await clock.advance(100);
    await assert.rejects(ask({ header: expiring.key }), { reason: 'bad-key' });
    await clock.advance(CACHE_MS + 1);
    await assert.rejects(ask({ header: revoked.key }), { reason: 'bad-key' });
  });

  test('exactly one of several first starts creates the project, and a given key is installed', async (t) => {
    const store = await engine.store(t);
    const { projects, keys } = await accessBed(store);
    await store.write((tx) => tables(tx.db).deleteFrom('projects').execute());
    const bootstrap = createBootstrap({ store, projects, keys, plan: 'unlimited' });
    const made = await Promise.all(Array.from({ length: 4 }, () => bootstrap.ensureFirstProject({ key: 'given.key' })));
    const first = made.filter((one) => one !== null);
    assert.equal(first.length, 1);
    assert.equal(first[0]!.key, 'given.key');
    assert.equal(await bootstrap.ensureFirstProject(), null);
    await assert.rejects(
      store.write((tx) => keys.create(tx, { projectId: first[0]!.projectId, key: 'a b' })),
      { code: 'ACCESS_BAD_KEY', exitCode: 64 },
    );
  });
});

async function onSqlite(t: TestContext) {
  return await setUp(await sqliteStore(t));
}

test('a cached key, valid or not, needs no query; concurrent callers share one', async (t) => {
  const { addKey, ask, queries, clock } = await onSqlite(t);
  const { key } = await addKey();
  await Promise.all(Array.from({ length: 20 }, () => ask({ header: key })));
  assert.equal(queries(), 1);
  for (let n = 0; n < 5; n++) await assert.rejects(ask({ header: 'unknown' }), { reason: 'bad-key' });
  assert.equal(queries(), 2);
  await clock.advance(CACHE_MS + 1);
  await ask({ header: key });
  assert.equal(queries(), 3);
});

test('guesses do not evict known keys', async (t) => {
  const { addKey, ask, queries } = await onSqlite(t);
  const { key } = await addKey();
  await ask({ header: key });
  for (let n = 0; n < 50; n++) await assert.rejects(ask({ header: `guess-${n}` }), { reason: 'bad-key' });
  const before = queries();
  await ask({ header: key });
  assert.equal(queries(), before);
});

test('text that cannot be a key is refused without a query', async (t) => {
  const { ask, queries } = await onSqlite(t);
  await fc.assert(
    fc.asyncProperty(
      fc.string({ minLength: 1 }).filter((text) => !/^[A-Za-z0-9_.-]{1,256}$/.test(text)),
      async (text) => {
        await assert.rejects(ask({ header: text }), { reason: 'bad-key' });
      },
    ),
    { numRuns: 50 },
  );
  assert.equal(queries(), 0);
});

test('the key itself is in no row', async (t) => {
  const { addKey, store } = await onSqlite(t);
  const { key } = await addKey();
  const [row] = await tables(store.read).selectFrom('api_keys').selectAll().execute();
  assert.deepEqual(Buffer.from(row!.hash), hashApiKey(key));
  assert.equal(JSON.stringify({ ...row, hash: Buffer.from(row!.hash).toString('latin1') }).includes(key), false);
  assert.equal('hash' in (await listApiKeys(store))[0]!, false);
});

test('the prefix is at most a quarter of the key and eight characters', () => {
  fc.assert(
    fc.property(fc.stringMatching(/^[a-z0-9]{1,256}$/), (key) => {
      assert.ok(isKeyForm(key));
      const prefix = keyPrefix(key);
      assert.ok(key.startsWith(prefix) && prefix.length <= 8 && prefix.length <= key.length / 4);
    }),
  );
  assert.equal(isKeyForm(''), false);
  assert.equal(isKeyForm('x'.repeat(257)), false);
});
