import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  createAuditLog,
  createOperatorToken,
  createProjectSecrets,
  migrations,
  renewOperatorToken,
} from '../../../plugins/dashboard/store.ts';

import { createSystemRandom } from '../../../src/adapters/random.ts';
import type { Store } from '../../../src/ports/store.ts';
import { migrate } from '../../../src/store/migrate.ts';
import { createManualClock } from '../../helpers/manual-clock.ts';
import { eachStore } from '../../helpers/store.ts';

const DAY_MS = 86_400_000;
const entry = (action: string) => ({ actor: 'operator', address: '127.0.0.1', action, target: 'x'.repeat(900) });

async function open(store: Store) {
  await migrate(store, [{ scope: 'dashboard', migrations }]);
  const clock = createManualClock();
  const random = createSystemRandom();
  return { clock, audit: createAuditLog(store, clock, random), secrets: createProjectSecrets(store, clock, random) };
}

eachStore('what the dashboard keeps', (engine) => {
  test('an action is written down before it is done, with its outcome', async (t) => {
    const store = await engine.store(t);
    const { audit } = await open(store);
    const seen: string[] = [];
    const all = () => audit.list({ limit: 10, before: null });
    await audit.record(entry('one'), async () => {
      seen.push((await all())[0]?.outcome as string);
    });
    await assert.rejects(
      audit.record(entry('two'), () => Promise.reject(new Error('no'))),
      /no/,
    );
    assert.deepEqual(seen, ['started']);
    const rows = await all();
    assert.deepEqual(
      rows.map(({ action, outcome }) => [action, outcome]),
      [
        ['two', 'failed'],
        ['one', 'done'],
      ],
    );
    assert.equal(rows[0]?.target.length, 500);
  });

  test('what cannot be written down is not done', async (t) => {
    const store = await engine.store(t);
    const { audit } = await open(store);
    const broken: Store = { ...store, write: () => Promise.reject(new Error('full')) };
    const log = createAuditLog(broken, createManualClock(), createSystemRandom());
    let isDone = false;
    await assert.rejects(
      log.record(entry('one'), async () => {
        isDone = true;
      }),
      /full/,
    );
    assert.equal(isDone, false);
    assert.deepEqual(await audit.list({ limit: 10, before: null }), []);
  });

  test('pages of entries of one moment, and the end of old ones', async (t) => {
    const { audit, clock } = await open(await engine.store(t));
    for (let at = 0; at < 7; at += 1) await audit.record(entry(`a${at}`), async () => {});
    await clock.advance(2 * DAY_MS);
    await audit.record(entry('late'), async () => {});
    const found: string[] = [];
    let before: { at: number; seq: number } | null = null;
    for (;;) {
      const page = await audit.list({ limit: 3, before });
      if (page.length === 0) break;
      found.push(...page.map(({ action }) => action));
      const last = page.at(-1)!;
      before = { at: last.at, seq: last.seq };
    }
    assert.deepEqual(found, ['late', 'a6', 'a5', 'a4', 'a3', 'a2', 'a1', 'a0']);
    await audit.prune(clock.now() - DAY_MS);
    assert.deepEqual(
      (await audit.list({ limit: 10, before: null })).map(({ action }) => action),
      ['late'],
    );
  });

  test('a secret opens its project alone, until there is a new one', async (t) => {
    const { secrets } = await open(await engine.store(t));
    const first = await secrets.renew('p1');
    assert.deepEqual([await secrets.isRight('p1', first), await secrets.isRight('p2', first)], [true, false]);
    const second = await secrets.renew('p1');
    assert.notEqual(first, second);
    assert.deepEqual([await secrets.isRight('p1', first), await secrets.isRight('p1', second)], [false, true]);
    assert.equal(await secrets.isRight('p1', ''), false);
  });

  test('the operator token is made once, by one of those that start together, until there is a new one', async (t) => {
    const database = await engine.database(t);
    const stores = [await database.open(), await database.open()] as const;
    const { clock } = await open(stores[0]);
    const random = createSystemRandom();
    const tokens = stores.map((store) => createOperatorToken(store, clock, random));
    assert.equal(await tokens[0]!.isRight(''), false, 'there is none');
    const made = (await Promise.all(tokens.map((one) => one.ensure()))).filter((token) => token !== null);
    assert.equal(made.length, 1);
    const [token = ''] = made;
    assert.deepEqual(await Promise.all([token, `${token}x`, ''].map((one) => tokens[1]!.isRight(one))), [
      ...[true, false, false],
    ]);
    assert.equal(await tokens[0]!.ensure(), null);
    const renewed = await renewOperatorToken(stores[0], clock, random);
    assert.deepEqual(await Promise.all([token, renewed].map((one) => tokens[1]!.isRight(one))), [false, true]);
    await database.destroy();
  });
});
