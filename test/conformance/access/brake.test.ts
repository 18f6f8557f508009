/** Whoever sends wrong keys slows itself down, and nobody who shares its address. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { readinessFindings } from '../../../src/cli/doctor/store.ts';
import { until } from '../../helpers/until.ts';
import { type AccessDaemon, rpcCall, startAccessDaemon } from './harness.ts';

let bed: AccessDaemon;

before(async () => {
  bed = await startAccessDaemon({ plugins: ['access', 'proxy'], access: { badKeysPerMinute: 20 } });
});
after(() => bed?.stop());

test('right keys are answered while wrong ones come from the same address: known, long idle and never seen', async () => {
  const { key } = await bed.makeKey();
  const unseen = await Promise.all(Array.from({ length: 4 }, () => bed.makeKey()));
  const status = async (one: string) => (await bed.rpc(one, rpcCall('getBalance', 1, ['x']))).status;
  assert.equal(await status(key), 200);
  const over = new AbortController();
  const wrong: number[] = [];
  const attack = async (wrongKey: string) => {
    const body = JSON.stringify(rpcCall('getBalance'));
    const { status } = await bed.request('/', wrongKey, { method: 'POST', body, signal: over.signal });
    wrong.push(status);
  };
  const attackers = Array.from({ length: 20 }, async (_, who) => {
    for (let n = 0; !over.signal.aborted; n += 1)
      await attack(`wrong-${who}-${n}`).then(
        () => sleep(5),
        () => undefined,
      );
  });
  await until(() => wrong.filter((one) => one === 429).length >= 20);
  const right: number[] = [];
  for (const other of unseen) {
    right.push(await status(key), await status(other.key));
    // Longer than a key is remembered.
    await sleep(600);
    right.push(await status(key));
  }
  over.abort();
  await Promise.all(attackers);
  assert.deepEqual(new Set(right), new Set([200]));
  assert.deepEqual(new Set(wrong), new Set([401, 429]));
});

test('a proxy that is not declared is named in readiness and by doctor, and refuses nobody', async () => {
  const readiness = async () => {
    const response = await fetch(`${bed.daemon.adminUrl}/readyz`);
    return ((await response.json()) as { checks: { name: string; detail: string }[] }).checks;
  };
  assert.ok(!(await readiness()).some(({ name }) => name === 'clients'));
  for (let n = 0; n < 120; n += 1)
    await (await bed.request('/ping', undefined, { headers: { 'X-Forwarded-For': `192.0.2.${n}` } })).text();
  const notice = (await readiness()).find(({ name }) => name === 'clients');
  assert.match(notice?.detail ?? '', /all requests come from 127\.0\.0\.1 with X-Forwarded-For/);
  const status = { ready: true, draining: false, chain: [], checks: await readiness() };
  const findings = readinessFindings(1, status as never, { seconds: 1, slots: null });
  assert.ok(
    findings.some(
      ({ check, level, advice }) => check === 'clients' && level === 'warn' && /trustedProxies/.test(advice ?? ''),
    ),
  );
});
