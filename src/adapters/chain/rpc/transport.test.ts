import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createSfc32 } from '../../../../test/helpers/sfc32.ts';
import { createBudgets } from '../../../budgets.ts';
import { type Caller, GateRefusal } from '../../../plugin/plugin.ts';
import { type Budgets, OWN_WORK } from '../../../ports/access.ts';
import { createCallQueue } from './transport.ts';

const ledger = createBudgets();
const tenantOf = (projectId: string, upstreamCalls: number | null = null) => {
  const caller: Caller = {
    projectId,
    keyId: projectId,
    plan: 'free',
    wallet: null,
    budgets: { upstreamCalls } as Partial<Budgets> as Budgets,
  };
  return ledger.tenantOf(caller, '');
};
const never = new AbortController();

test('a single tenant gets all but the reserve; a newcomer starts at once and gets the next places', async () => {
  const queue = createCallQueue(16);
  const [hog, small] = [tenantOf('hog'), tenantOf('small')];
  const order: string[] = [];
  const enter = (name: string, tenant: typeof hog) => {
    const turn = queue.enter(tenant, never);
    if (turn === null) order.push(name);
    else void turn.then(() => order.push(name));
    return turn;
  };
  for (let i = 0; i < 40; i += 1) enter('hog', hog);
  assert.equal(order.length, 14);
  assert.equal(enter('small', small), null);
  enter('small', small);
  enter('small', small);
  order.length = 0;
  for (let i = 0; i < 3; i += 1) queue.leave(hog);
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(order.slice(0, 2), ['small', 'small']);
});

test('a tenant has as many calls in flight as its plan allows, and some waiting; more are refused', async () => {
  const queue = createCallQueue(64);
  const tenant = tenantOf('limited', 3);
  const turns = Array.from({ length: 3 + 64 }, () => queue.enter(tenant, never));
  assert.equal(turns.filter((turn) => turn === null).length, 3);
  assert.throws(
    () => queue.enter(tenant, never),
    (error) => error instanceof GateRefusal && error.reason === 'budget',
  );
  assert.equal(queue.enter(OWN_WORK, never), null, 'the daemon itself goes on');
  queue.leave(tenant);
  await turns[3];
});

test('an aborted call leaves the queue, and no place is lost', async () => {
  const queue = createCallQueue(1);
  const [a, b] = [tenantOf('a'), tenantOf('b')];
  assert.equal(queue.enter(a, never), null);
  const gone = new AbortController();
  const left = queue.enter(b, gone);
  const stays = queue.enter(b, never);
  gone.abort(new Error('it went'));
  await assert.rejects(left as Promise<void>, /it went/);
  queue.leave(a);
  await stays;
  queue.leave(b);
  assert.equal(queue.enter(a, never), null);
});

test('random load: never more than the room, limits hold, and all remaining calls get their turn', async () => {
  for (let seed = 1; seed <= 60; seed += 1) {
    const { below, float } = createSfc32(seed);
    const room = 1 + below(20);
    const queue = createCallQueue(room);
    const tenants = Array.from({ length: 1 + below(6) }, (_, i) => {
      const limit = float() < 0.5 ? 1 + below(5) : null;
      return { tenant: float() < 0.1 ? OWN_WORK : tenantOf(`${seed} ${i}`, limit), limit, running: 0 };
    });
    let waiting = 0;
    const ended: (() => void)[] = [];
    const start = (one: (typeof tenants)[number]) => {
      one.running += 1;
      assert.ok(tenants.reduce((sum, { running }) => sum + running, 0) <= room);
      if (one.limit !== null && one.tenant !== OWN_WORK) assert.ok(one.running <= one.limit);
      ended.push(() => {
        one.running -= 1;
        queue.leave(one.tenant);
      });
    };
    for (let step = 0; step < 300; step += 1) {
      if (float() < 0.5 && ended.length > 0) ended.splice(below(ended.length), 1)[0]?.();
      else {
        const one = tenants[below(tenants.length)]!;
        const gone = new AbortController();
        try {
          const turn = queue.enter(one.tenant, gone);
          if (turn === null) start(one);
          else {
            waiting += 1;
            turn.then(
              () => {
                waiting -= 1;
                start(one);
              },
              () => {
                waiting -= 1;
              },
            );
            if (float() < 0.2) gone.abort(new Error('gone'));
          }
        } catch (error) {
          assert.ok(error instanceof GateRefusal);
        }
      }
      await null;
    }
    for (let i = 0; i < 2_000 && (waiting > 0 || ended.length > 0); i += 1) {
      ended.shift()?.();
      await null;
    }
    assert.deepEqual([waiting, ended.length], [0, 0], `seed ${seed}`);
  }
});

test('refused tenants take nothing of the share of the others', async () => {
  const queue = createCallQueue(64);
  const hog = tenantOf('hog');
  const gone = new AbortController();
  const waits: Promise<unknown>[] = [];
  const running: (typeof hog)[] = [];
  let refused = 0;
  const enter = (tenant: typeof hog) => {
    try {
      const turn = queue.enter(tenant, gone);
      if (turn === null) running.push(tenant);
      else waits.push(turn.catch(() => undefined));
    } catch (error) {
      assert.ok(error instanceof GateRefusal);
      refused += 1;
    }
  };
  for (let i = 0; i < 1_056; i += 1) enter(hog);
  for (let i = 0; i < 600; i += 1) enter(tenantOf(`stranger ${i}`));
  assert.ok(refused > 300, String(refused));
  gone.abort(new Error('the clients have gone'));
  await Promise.all(waits);
  for (const tenant of running) queue.leave(tenant);
  const [first, second] = [tenantOf('first'), tenantOf('second')];
  const atOnce = (tenant: typeof hog, calls: number) =>
    Array.from({ length: calls }, () => queue.enter(tenant, never)).filter((turn) => turn === null).length;
  assert.deepEqual([atOnce(first, 60), atOnce(second, 10)], [56, 4]);
});
