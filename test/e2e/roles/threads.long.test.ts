import assert from 'node:assert/strict';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { chainMissing } from '../../helpers/chain.ts';
import { eventually, logLines, metricsOf, readinessOf, sampleOf, startRolesBed } from './harness.ts';

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
  assert.equal(text.match(/^process_cpu_seconds_total/gm)?.length, 1, 'the process has its metrics once');

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

test('a reload reaches every role: keys that are marked change, the others are named', {
  skip,
}, async (t) => {
  const bed = await startRolesBed(t);
  const daemon = bed.start();
  const { admin } = await daemon.ready();
  const base = JSON.parse(readFileSync(bed.configFile, 'utf8')) as { readonly log: object; readonly probe: object };
  const reload = async (changes: object, says: RegExp) => {
    const from = daemon.output().length;
    writeFileSync(bed.configFile, JSON.stringify({ ...base, ...changes }));
    daemon.child.kill('SIGHUP');
    await eventually(`the log says ${says}`, () => says.test(daemon.output().slice(from)), daemon.output);
  };
  /** Roles whose probe was heard. */
  const talkative = () =>
    new Set(
      logLines(daemon)
        .filter(({ msg }) => msg === 'the probe runs')
        .map(({ role }) => role),
    );
  const debug = { log: { ...base.log, level: 'debug' } };
  await reload({ probe: { ...base.probe, setting: 50, ownSetting: 60 } }, /"keys":\["probe\.setting"\]/);
  const text = await metricsOf(admin);
  for (const labels of ['', '{role="indexer"}', '{role="deliverer"}'])
    assert.deepEqual(
      ['setting', 'own_setting'].map((name) => sampleOf(text, `parhelion_probe_${name}${labels}`)),
      [1, 60],
    );
  assert.equal(talkative().size, 0);
  await reload(debug, /"configuration reloaded"/);
  await eventually('each role logs at the new level', () => talkative().size === ROLES.length, daemon.output);
  await daemon.kill('SIGTERM');
  assert.equal(daemon.child.exitCode, 0);
});
