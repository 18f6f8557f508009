import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createSfc32 } from '../test/helpers/sfc32.ts';
import { answerRoom, createBudgets } from './budgets.ts';
import { type Caller, GateRefusal } from './plugin/plugin.ts';
import type { BudgetName, Budgets } from './ports/access.ts';
import { createMetricsRegistry } from './runtime/metrics.ts';

const caller = (projectId: string, budgets: Partial<Budgets> = {}): Caller => ({
  projectId,
  keyId: `key of ${projectId}`,
  plan: 'free',
  wallet: null,
  budgets: budgets as Budgets,
});
const reason = (work: () => unknown): string => {
  try {
    work();
  } catch (error) {
    if (error instanceof GateRefusal) return error.reason;
    throw error;
  }
  return 'taken';
};

test('a project can hold what its plan allows, and again after it released it', async () => {
  const registry = createMetricsRegistry();
  const ledger = createBudgets({ sockets: 100 }, registry.scope('budget'));
  const tenant = ledger.tenantOf(caller('a', { sockets: 2 }), '192.0.2.1');
  const [first] = [tenant.take('sockets', 1), tenant.take('sockets', 1)];
  assert.equal(
    reason(() => tenant.take('sockets', 1)),
    'budget',
  );
  first.release();
  first.release();
  assert.equal(
    reason(() => tenant.take('sockets', 1)),
    'taken',
  );
  const lease = tenant.take('answerBytes', 10);
  lease.set(7);
  const use = Object.fromEntries(
    (await ledger.useOf('a')).map(({ budget, used, limit, refused }) => [budget, [used, limit, refused]]),
  );
  assert.deepEqual(use['sockets'], [2, 2, 1]);
  assert.deepEqual(use['answerBytes'], [7, null, 0]);
  lease.release();
  lease.set(5);
  assert.equal(lease.amount, 0);
  const text = await registry.text();
  assert.match(text, /^parhelion_budget_used\{budget="sockets"\} 2$/m);
  assert.match(text, /^parhelion_budget_limit\{budget="sockets"\} 100$/m);
  assert.match(text, /^parhelion_budget_refused_total\{budget="sockets"\} 1$/m);
  assert.doesNotMatch(text, /parhelion_budget_limit\{budget="answerBytes"/);
});

test('a full shared limit refuses the largest holders, and admits small ones', () => {
  const ledger = createBudgets({ sockets: 100 });
  const [hog, small] = [ledger.tenantOf(caller('hog'), ''), ledger.tenantOf(caller('small'), '')];
  for (let i = 0; i < 100; i += 1) hog.take('sockets', 1);
  assert.equal(
    reason(() => hog.take('sockets', 1)),
    'room',
  );
  for (let i = 0; i < 10; i += 1)
    assert.equal(
      reason(() => small.take('sockets', 1)),
      'taken',
    );
});

test('callers without a key are counted by address, those of one IPv6 network together', () => {
  const ledger = createBudgets({ requestBytes: 10 });
  const of = (address: string) => ledger.tenantOf(null, address).id;
  assert.equal(of('2001:db8::1'), of('2001:db8:0:0:ffff::2'));
  assert.notEqual(of('2001:db8::1'), of('2001:db8:0:1::1'));
  assert.notEqual(of('192.0.2.1'), of('192.0.2.2'));
  const anonymous = { ...caller('a'), keyId: null };
  assert.notEqual(ledger.tenantOf(anonymous, '192.0.2.1').id, ledger.tenantOf(anonymous, '192.0.2.2').id);
  assert.notEqual(ledger.tenantOf(anonymous, '192.0.2.1').id, of('192.0.2.1'));
});

test('the shared limit of answer bytes depends on the memory of the machine', () => {
  assert.equal(answerRoom(100_000_000), 134_217_728);
  assert.ok(answerRoom(1e15) <= 1_073_741_824);
});

test('any order of takes and releases: sums are right, the limit holds, and a tenant without holdings gets something', async () => {
  const names: BudgetName[] = ['sockets', 'answerBytes'];
  for (let seed = 1; seed <= 50; seed += 1) {
    const { below, float } = createSfc32(seed);
    const ledger = createBudgets({ sockets: 1_000, answerBytes: 1_000 });
    const ids = Array.from({ length: 1 + below(20) }, (_, i) => `p${i}`);
    const held = ids.map((id) => ({
      id,
      tenant: ledger.tenantOf(caller(id), ''),
      leases: [] as [BudgetName, ReturnType<ReturnType<typeof ledger.tenantOf>['take']>][],
    }));
    for (let step = 0; step < 2_000; step += 1) {
      const one = held[below(held.length)]!;
      const name = names[below(2)]!;
      if (float() < 0.3 && one.leases.length > 0) one.leases.splice(below(one.leases.length), 1)[0]![1].release();
      else {
        const amount = 1 + below(10);
        if (reason(() => one.leases.push([name, one.tenant.take(name, amount)])) === 'budget')
          assert.fail('no plan limits it');
      }
    }
    for (const name of names) {
      const sums: number[] = [];
      for (const { id, leases } of held) {
        const sum = leases.reduce((all, [of, lease]) => all + (of === name ? lease.amount : 0), 0);
        assert.equal((await ledger.useOf(id)).find(({ budget }) => budget === name)?.used, sum);
        sums.push(sum);
      }
      assert.ok(sums.reduce((a, b) => a + b, 0) <= 1_250);
      const stranger = ledger.tenantOf(caller('stranger'), '');
      assert.equal(
        reason(() => stranger.take(name, 1)),
        'taken',
        `seed ${seed}`,
      );
    }
  }
});
