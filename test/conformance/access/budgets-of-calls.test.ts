/** Calls that an upstream answers slowly, as many as a project can make: another project's calls are answered meanwhile. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { startUpstream, type TestUpstream } from '../../helpers/upstream.ts';
import { type AccessDaemon, rpcCall, startAccessDaemon } from './harness.ts';

const LIMIT = { timeout: 120_000 };
const ROOM = 8;
let bed: AccessDaemon;
let upstream: TestUpstream;
let release = () => {};
let slow = 0;
before(async () => {
  upstream = await startUpstream();
  upstream.on('getBalance', { result: '7' });
  upstream.on('getSlow', async () => {
    slow += 1;
    await new Promise<void>((resolve) => {
      const before = release;
      release = () => {
        before();
        resolve();
      };
    });
    slow -= 1;
    return { result: '"slow"' };
  });
  bed = await startAccessDaemon({
    upstream: { urls: [{ url: upstream.url, maxConcurrent: ROOM }], healthIntervalMs: 3_600_000 },
  });
});
after(async () => {
  release();
  await bed?.stop();
  await upstream?.stop();
});

async function until(what: string, done: () => boolean): Promise<void> {
  for (let i = 0; i < 500; i += 1) {
    if (done()) return;
    await sleep(20);
  }
  assert.fail(`waited in vain: ${what}`);
}

/** Answers what waits at the upstream until all of the work is done. */
async function finish(work: Promise<unknown>): Promise<void> {
  let isDone = false;
  void work.then(() => {
    isDone = true;
  });
  await until('the work is done', () => {
    const answer = release;
    release = () => {};
    answer();
    return isDone;
  });
}

const balance = async (key: string) =>
  ((await (await bed.rpc(key, rpcCall('getBalance', 1, ['x']))).json()) as { result?: number }).result;

test(
  'slow calls of a project without a limit leave places to others; who is served is not who came first',
  LIMIT,
  async () => {
    const [attacker, victim] = [await bed.makeKey(), await bed.makeKey()];
    const calls = Array.from({ length: 4 * ROOM }, (_, i) => bed.rpc(attacker.key, rpcCall('getSlow', i)));
    await until('the upstream is busy', () => slow === ROOM - 1);
    // All of them are slower than this test waits, and none is answered before these are.
    for (let i = 0; i < 5; i += 1) assert.equal(await balance(victim.key), 7);
    assert.equal(slow, ROOM - 1);
    await finish(Promise.all(calls));
    for (const call of calls) assert.equal((await call).status, 200);
  },
);

test(
  'a project has as many calls in flight as its plan allows; more wait, and too many are refused',
  LIMIT,
  async () => {
    const attacker = await bed.makeKey({ override: { budgets: { upstreamCalls: 2 } } });
    const calls = Array.from({ length: 2 + 64 + 10 }, (_, i) => bed.rpc(attacker.key, rpcCall('getSlow', i)));
    const statuses: number[] = [];
    for (const call of calls) void call.then(({ status }) => statuses.push(status));
    await until('too many are refused', () => statuses.length === 10);
    assert.deepEqual([...new Set(statuses)], [429]);
    assert.equal(slow, 2);
    const text = await (await fetch(`${bed.daemon.adminUrl}/metrics`)).text();
    assert.match(text, /^parhelion_budget_used\{budget="upstreamCalls"\} 2$/m);
    assert.match(text, /^parhelion_budget_refused_total\{budget="upstreamCalls"\} 10$/m);
    await finish(Promise.all(calls));
    assert.equal(statuses.filter((status) => status === 200).length, 66);
  },
);

test('the calls of other plugins count for the project too', LIMIT, async () => {
  const attacker = await bed.makeKey({ override: { budgets: { upstreamCalls: 1 } } });
  const other = await bed.makeKey();
  upstream.on('getTransaction', async () => {
    slow += 1;
    await new Promise<void>((resolve) => {
      release = resolve;
    });
    slow -= 1;
    return { result: 'null' };
  });
  const body = JSON.stringify({
    transactions: Array.from({ length: 20 }, (_, i) => `${'1'.repeat(63)}${'23456789ABCDEFGHJKLM'[i]}`),
  });
  const asked = bed.request('/v0/transactions', attacker.key, { method: 'POST', body });
  await until('one is asked for', () => slow > 0);
  await sleep(200);
  assert.equal(slow, 1);
  assert.equal(await balance(other.key), 7);
  await finish(asked);
  assert.ok((await asked).status < 500);
});
