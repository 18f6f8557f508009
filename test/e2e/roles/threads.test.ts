import assert from 'node:assert/strict';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { chainMissing } from '../../helpers/chain.ts';
import { eventually, logLines, metricsOf, readinessOf, sampleOf, startRolesBed } from './bed.ts';

const skip = (await chainMissing()) ?? false;
const ROLES = ['api', 'indexer', 'deliverer'] as const;

test('three roles in three threads: a payment is delivered; metrics, readiness and log show all of them', {
  skip,
}, async (t) => {
  const bed = await startRolesBed(t);
  const daemon = bed.start();
  const { api, admin } = await daemon.ready();
  const [wallet] = bed.payments.addresses as [string];
  assert.equal(await bed.ledger.create(api, [wallet]), 200);
  await eventually('a delivery', () => bed.receiver.received.length > 0, daemon.output);

  await eventually('the place of the follower is known to the API', async () => {
    const [main] = (await readinessOf(admin)).chain;
    return main !== undefined && main.cursorSlot !== null && main.tipSlot !== null && main.finalizedSlot !== null;
  });
  const { ready, checks } = await readinessOf(admin);
  assert.equal(ready, true);
  const names = checks.map(({ name }) => name);
  for (const name of ['role indexer', 'role deliverer', 'probe', 'indexer: probe', 'deliverer: probe'])
    assert.ok(names.includes(name), `${name} in ${names.join()}`);

  const text = await metricsOf(admin);
  assert.ok((sampleOf(text, 'parhelion_follow_blocks_released_total{role="indexer"}') ?? 0) > 0);
  assert.match(text, /^parhelion_http_requests_total\{[^}]*route="\/v0\/webhooks"[^}]*\} 1$/m);
  for (const role of ROLES.slice(1)) assert.equal(sampleOf(text, `parhelion_probe_setting{role="${role}"}`), 1);
  assert.equal(sampleOf(text, 'parhelion_probe_setting'), 1);
  const heads = text.split('\n').filter((line) => line.startsWith('# TYPE '));
  assert.equal(new Set(heads).size, heads.length, 'each metric has one head');
  assert.equal(text.match(/^parhelion_process_cpu_seconds_total/gm)?.length, 1, 'the process has its metrics once');

  await bed.payments.stop();
  await bed.ledger.settle(bed.openStore, 60, daemon.output);
  await daemon.kill('SIGTERM');
  assert.equal(daemon.child.exitCode, 0, daemon.output());
  const roles = new Set(logLines(daemon).map(({ role }) => role));
  assert.deepEqual([...roles].sort(), [...ROLES].sort());
  const store = await bed.openStore();
  t.after(() => store.close());
  assert.ok((await bed.ledger.check(store)) > 0);
});

test('SIGTERM while deliveries run: it ends in order, and another start delivers the rest', { skip }, async (t) => {
  const bed = await startRolesBed(t, { lifecycle: { drainTimeoutMs: 3_000, stopTimeoutMs: 3_000 } });
  const first = bed.start();
  const { api, admin } = await first.ready();
  assert.equal(await bed.ledger.create(api, bed.payments.addresses), 200);
  bed.receiver.setFallback({ kind: 'answer', status: 200, delayMs: 700 });
  await eventually('deliveries', () => bed.receiver.received.length > 5, first.output);
  const before = bed.receiver.received.length;
  first.child.kill('SIGTERM');
  // The admin listener is there until the end: readiness says first that it is over.
  const said = await readinessOf(admin).catch(() => null);
  if (said !== null) assert.equal(said.ready, false);
  assert.equal(await first.ended, 0, first.output());
  assert.ok(bed.receiver.received.length >= before);
  bed.receiver.setFallback({ kind: 'answer', status: 200 });
  const second = bed.start();
  await second.ready();
  await bed.payments.stop();
  await bed.ledger.settle(bed.openStore, 60, second.output);
  await second.kill('SIGTERM');
  const store = await bed.openStore();
  t.after(() => store.close());
  assert.ok((await bed.ledger.check(store)) > 0);
});

for (const role of ['indexer', 'deliverer', 'api'] as const) {
  test(`a crash in the ${role} ends the daemon with 70 and says why`, { skip }, async (t) => {
    const bed = await startRolesBed(t);
    const daemon = bed.start();
    const { api } = await daemon.ready();
    assert.equal(await bed.ledger.create(api, bed.payments.addresses), 200);
    await eventually('a delivery', () => bed.receiver.received.length > 0, daemon.output);
    const signal = join(bed.signals, `crash-${role}`);
    writeFileSync(signal, '');
    assert.equal(await daemon.ended, 70, daemon.output());
    assert.match(daemon.output(), /the probe crashes on purpose/);
    if (role !== 'api') assert.match(daemon.output(), /ROLE_CRASHED/);
    if (role !== 'indexer') return;
    // The others stopped in order, so that no lease has to run out before the next start delivers the rest.
    rmSync(signal);
    const next = bed.start();
    await next.ready();
    await bed.payments.stop();
    await bed.ledger.settle(bed.openStore, 60, next.output);
    await next.kill('SIGTERM');
    const store = await bed.openStore();
    t.after(() => store.close());
    await bed.ledger.check(store);
  });
}

test('a role that hangs makes the daemon not ready and its metrics absent, and it is counted; SIGTERM still ends it', {
  skip,
}, async (t) => {
  const bed = await startRolesBed(t, { lifecycle: { drainTimeoutMs: 1_000, stopTimeoutMs: 1_000 } });
  const daemon = bed.start();
  const { admin } = await daemon.ready();
  writeFileSync(join(bed.signals, 'hang-indexer'), '');
  await eventually('not ready', async () => {
    const { ready, checks } = await readinessOf(admin);
    const own = checks.find(({ name }) => name === 'role indexer');
    return !ready && own?.ok === false && own.detail === 'does not answer';
  });
  const text = await metricsOf(admin);
  assert.equal(sampleOf(text, 'parhelion_probe_setting{role="indexer"}'), null);
  assert.equal(sampleOf(text, 'parhelion_probe_setting{role="deliverer"}'), 1);
  const again = await metricsOf(admin);
  assert.ok((sampleOf(again, 'parhelion_roles_unanswered_total{role="indexer",command="metrics"}') ?? 0) >= 1);
  await daemon.kill('SIGTERM');
  assert.equal(daemon.child.exitCode, 0, daemon.output());
});

test('a reload that one role refuses changes nothing in any; a good one changes all', { skip }, async (t) => {
  const bed = await startRolesBed(t);
  const daemon = bed.start();
  const { admin } = await daemon.ready();
  const base = JSON.parse(readFileSync(bed.configFile, 'utf8')) as { probe: object };
  const settings = async () => {
    const text = await metricsOf(admin);
    return ['', '{role="indexer"}', '{role="deliverer"}'].map((labels) =>
      sampleOf(text, `parhelion_probe_setting${labels}`),
    );
  };
  const reload = async (probe: object, says: RegExp) => {
    const count = () =>
      daemon
        .output()
        .split('\n')
        .filter((line) => says.test(line)).length;
    const before = count();
    writeFileSync(bed.configFile, JSON.stringify({ ...base, probe: { ...base.probe, ...probe } }));
    daemon.child.kill('SIGHUP');
    await eventually(`the log says ${says}`, () => count() > before, daemon.output);
  };
  assert.deepEqual(await settings(), [1, 1, 1]);
  let setting = 1;
  for (const refusedBy of ROLES) {
    await reload({ setting: 50, refusedBy }, /configuration not reloaded/);
    assert.deepEqual(await settings(), [setting, setting, setting], `refused by ${refusedBy}`);
    setting += 1;
    await reload({ setting }, /"configuration reloaded"/);
    assert.deepEqual(await settings(), [setting, setting, setting]);
  }
  await daemon.kill('SIGTERM');
  assert.equal(daemon.child.exitCode, 0);
});
