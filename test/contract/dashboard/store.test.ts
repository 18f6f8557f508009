import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createRecentRequests } from '../../../plugins/dashboard/requests.ts';
import { createSampler, readSeries, withOtherThreads } from '../../../plugins/dashboard/series.ts';
import {
  createAuditLog,
  createOperatorToken,
  createProjectSecrets,
  migrations,
  renewOperatorToken,
} from '../../../plugins/dashboard/store.ts';

import { createSystemRandom } from '../../../src/adapters/clock.ts';
import { createBudgets } from '../../../src/budgets.ts';
import type { Caller } from '../../../src/ports/access.ts';
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

  test('an operation that cannot be recorded is not done', async (t) => {
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
      true,
      false,
      false,
    ]);
    assert.equal(await tokens[0]!.ensure(), null);
    const renewed = await renewOperatorToken(stores[0], clock, random);
    assert.deepEqual(await Promise.all([token, renewed].map((one) => tokens[1]!.isRight(one))), [false, true]);
    await database.destroy();
  });

  test('shares of threads and processes are added up, kept for their time, and survive who wrote them', async (t) => {
    const store = await engine.store(t);
    const { clock } = await open(store);
    const values = { requests: 0, fast: 0, lag: 0 };
    const sample = (name: string, value: number, labels: Record<string, string> = {}) => ({ name, value, labels });
    const metrics = async () => [
      sample('parhelion_http_requests_total', values.requests, { method: 'GET', route: '/v0/webhooks', status: '200' }),
      sample('parhelion_http_request_duration_seconds_bucket', values.fast, { le: '0.01' }),
      sample('parhelion_http_request_duration_seconds_bucket', values.requests, { le: '+Inf' }),
      sample('parhelion_follow_lag_seconds', values.lag),
    ];
    const sampler = (source: string) => createSampler({ store, clock, source, metrics, held: () => new Map() });
    const [one, other] = [sampler('one'), sampler('other')];
    Object.assign(values, { requests: 10, fast: 10, lag: 3 });
    await one();
    await other();
    values.lag = 1;
    await one();
    const read = () => readSeries(store, clock, '1h');
    const [point] = (await read()).points;
    assert.deepEqual([point?.sums, point?.peaks], [{ 'requests.webhooks': 20 }, { 'lag.main': 3 }]);
    assert.ok(point?.latency !== null && (point?.latency.p99 ?? 1) <= 0.01);
    // After a restart the counters begin at 0, and the row of the process before is not overwritten.
    Object.assign(values, { requests: 5, fast: 0 });
    await sampler('one again')();
    assert.equal((await read()).points[0]?.sums['requests.webhooks'], 25);
    for (let hour = 0; hour < 8 * 24; hour += 1) {
      await clock.advance(3_600_000);
      values.requests += 1;
      await one();
    }
    const { points, fromMs, stepMs } = await readSeries(store, clock, '7d');
    assert.ok(points.length >= 7 * 24 && points.length <= 7 * 24 + 1, String(points.length));
    assert.ok(points.every(({ at }) => at >= fromMs - stepMs));
    const { n } = await store.read
      .selectFrom('dashboard_series')
      .select(({ fn }) => fn.countAll<number>().as('n'))
      .executeTakeFirstOrThrow();
    assert.ok(Number(n) < 250, `${n} rows`);
  });

  test('budgets of a project are summed over the threads that serve it, without those that have ended', async (t) => {
    const store = await engine.store(t);
    const { clock } = await open(store);
    const intervalMs = 1_000;
    const caller: Caller = { projectId: 'p', keyId: 'k', plan: 'free', wallet: null };
    const limited = { ...caller, budgets: { streams: 5, sockets: 7 } as Caller['budgets'] & object };
    const [api, indexer, other] = [createBudgets(), createBudgets(), createBudgets()];
    const metrics = async () => [];
    const sampler = (source: string, { held }: typeof api) => createSampler({ store, clock, source, metrics, held });
    const samplers = [sampler('api', api), sampler('indexer', indexer), sampler('other', other)];
    const report = () => Promise.all(samplers.map((sample) => sample()));
    const used = async () => {
      const threads = { store, clock, source: 'api', intervalMs };
      const budgets = await withOtherThreads(threads, 'p', await api.useOf('p'));
      const of = (name: string) => budgets.find(({ budget }) => budget === name);
      return { streams: of('streams'), sockets: of('sockets')?.used, count: budgets.length };
    };
    api.tenantOf(caller, '').take('sockets', 2);
    const stream = indexer.tenantOf(limited, '').take('streams', 3);
    assert.throws(() => indexer.tenantOf(limited, '').take('streams', 3));
    indexer.tenantOf({ ...caller, projectId: 'q' }, '').take('streams', 90);
    indexer.tenantOf(null, '127.0.0.1').take('streams', 80);
    other.tenantOf(caller, '').take('streams', 1);
    other.tenantOf(caller, '').take('sockets', 4);
    await report();
    const { count } = await used();
    assert.equal(count, (await api.useOf('p')).length);
    assert.deepEqual(await used(), {
      streams: { budget: 'streams', used: 4, limit: 5, refused: 1 },
      sockets: 6,
      count,
    });
    stream.release();
    await report();
    assert.equal((await used()).streams?.used, 1);
    // `other` ends without a word.
    samplers.pop();
    for (let n = 0; n < 4; n += 1) {
      await clock.advance(intervalMs);
      await report();
    }
    assert.deepEqual([(await used()).streams?.used, (await used()).sockets], [0, 2]);
    assert.equal((await readSeries(store, clock, '1h')).points.length, 1, 'holdings are no points of the series');
  });

  test('the last use of a key is the latest of all processes', async (t) => {
    const store = await engine.store(t);
    await open(store);
    const config = { requestBodies: true };
    const [one, other] = [createRecentRequests(store, config), createRecentRequests(store, config)];
    const none = { host: undefined, path: '/', query: '', body: null, failure: null };
    const request = { requestId: 'r', projectId: 'p', method: 'GET', route: '/', rpc: null, rpcFailed: 0, status: 200 };
    const use = (keyId: string, at: number) => ({ ...request, keyId, at, durationMs: 1, bytesOut: 1, credits: 1 });
    one.note(use('a', 2_000), none);
    other.note(use('a', 1_000), none);
    other.note(use('b', 5), none);
    await one.flush();
    await other.flush();
    assert.deepEqual(Object.fromEntries(await one.lastUses(['a', 'b', 'c'])), { a: 2_000, b: 5 });
    for (let n = 0; n < 250; n += 1) one.note({ ...use('a', 3_000 + n), requestId: String(n) }, none);
    const list = await one.list('p');
    assert.deepEqual([list.length, list[0]?.requestId, list.at(-1)?.requestId], [200, '249', '50']);
    assert.deepEqual(await one.list('q'), []);
    assert.equal((await one.lastUses(['a'])).get('a'), 3_249, 'before it is written');
  });

  test('contents end with their requests, and make room from the project on that called longest ago', async (t) => {
    const recent = createRecentRequests(await engine.store(t), { requestBodies: true });
    let at = 0;
    const note = (projectId: string, text: string, times = 1) => {
      const request = { projectId, method: 'POST', route: '/', rpc: null, rpcFailed: 0, status: 200, durationMs: 1 };
      for (let n = 0; n < times; n += 1)
        recent.note(
          { ...request, at: ++at, requestId: `${projectId}${n}`, keyId: null, bytesOut: 1, credits: 1 },
          { host: undefined, path: '/', query: '', body: Buffer.from(`${text}${n}`), failure: null },
        );
    };
    const bodyOf = async (projectId: string, n: number) => {
      const kept = await recent.find(projectId, `${projectId}${n}`);
      return kept === null ? 'no request' : kept.content === null ? 'no content' : kept.content.body?.slice(0, 8);
    };
    note('quiet', 'q');
    // Many times the bytes that are kept, of one project.
    note('busy', 'b'.repeat(5_000), 5_000);
    assert.equal(await bodyOf('quiet', 0), 'q0');
    assert.equal(await bodyOf('busy', 4_999), 'bbbbbbbb');
    assert.equal(await bodyOf('busy', 4_799), 'no request');
    // So many projects that not all contents fit.
    for (let n = 0; n < 12; n += 1) note(`other${n}-`, 'o'.repeat(5_000), 200);
    assert.equal(await bodyOf('quiet', 0), 'no content');
    assert.equal(await bodyOf('busy', 4_999), 'no content');
    assert.equal(await bodyOf('other11-', 199), 'oooooooo');
  });
});
