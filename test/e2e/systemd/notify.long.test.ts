import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Database } from '../../helpers/sqlite.ts';
import { eventually, makeConfig, missingProgram, startDaemonService, startReceiver } from './harness.ts';

const skip = missingProgram('python3', 'systemd-notify') ?? false;
const state = /^(READY|RELOADING|STOPPING)=1$/;

test('a life: READY once it listens, RELOADING and READY around good and refused reloads, STOPPING', {
  skip,
}, async (t) => {
  const config = await makeConfig(t);
  const manager = await startReceiver(t, config.port);
  const service = startDaemonService(t, config, { NOTIFY_SOCKET: manager.path });
  await eventually('READY', () => manager.has('READY=1'), service.output);
  const ready = manager.messages.find(({ lines }) => lines.includes('READY=1'))!;
  assert.equal(ready.connects, true, 'READY was told before the API listened');
  assert.match(ready.lines.join(), /STATUS=.*request/);
  assert.ok(manager.messages.indexOf(ready) > 0 && manager.messages[0]!.lines.includes('STATUS=starting'));

  const reload = async (status: RegExp) => {
    const from = manager.messages.length;
    service.child.kill('SIGHUP');
    await eventually('READY after the reload', () => manager.has('READY=1', from), service.output);
    const [first, second] = manager.messages.slice(from);
    assert.equal(first!.lines[0], 'RELOADING=1');
    assert.match(first!.lines[1]!, /^MONOTONIC_USEC=[1-9]\d*$/);
    assert.equal(second!.lines[0], 'READY=1');
    assert.match(second!.lines[1]!, status);
    return Number(first!.lines[1]!.split('=')[1]);
  };
  const times = [await reload(/^STATUS=(?!.*refused)/)];
  config.write({ htp: {} });
  times.push(await reload(/^STATUS=.*refused: CONFIG_INVALID: .*htp/));
  config.write({ http: { port: config.port, maxInFlight: 9, targetLimitBytes: 9_999 } });
  times.push(await reload(/^STATUS=.*a restart is needed for http\.targetLimitBytes$/));
  assert.equal((await fetch(`http://127.0.0.1:${config.port}/docs`)).status, 200, 'the old configuration serves');
  config.write();
  times.push(await reload(/^STATUS=(?!.*(refused|restart))/));
  assert.deepEqual(
    times,
    times.toSorted((a, b) => a - b),
  );

  service.child.kill('SIGTERM');
  assert.equal(await service.ended, 0);
  await eventually('STOPPING', () => manager.has('STOPPING=1'));
  const states = manager.messages.flatMap(({ lines }) => lines.filter((line) => state.test(line)));
  assert.equal(states[0], 'READY=1');
  assert.equal(states.at(-1), 'STOPPING=1');
  assert.equal(manager.count('STOPPING=1'), 1);
  assert.equal(manager.count('WATCHDOG=1'), 0, 'nobody asked for signs of life');
});

test('a start that fails is never READY; the reason is the last status', { skip }, async (t) => {
  const config = await makeConfig(t);
  const taken = createServer().listen(config.port, '127.0.0.1');
  await once(taken, 'listening');
  t.after(() => taken.close());
  const manager = await startReceiver(t);
  const service = startDaemonService(t, config, { NOTIFY_SOCKET: manager.path });
  assert.equal(await service.ended, 75, service.output());
  await eventually('STOPPING', () => manager.has('STOPPING=1'));
  assert.equal(manager.count('READY=1'), 0);
  assert.ok(manager.has(/^STATUS=stopping: HTTP_PORT_TAKEN: /));
});

test('watchdog: signs of life stop while the store takes no write, and come back with it', { skip }, async (t) => {
  const config = await makeConfig(t, { store: { busyTimeoutMs: 100 } });
  const manager = await startReceiver(t);
  const env = { NOTIFY_SOCKET: manager.path, WATCHDOG_USEC: '1000000' };
  const service = startDaemonService(t, config, env);
  await eventually('two signs of life', () => manager.count('WATCHDOG=1') >= 2, service.output);

  const other = new Database(join(config.dataDir, 'parhelion.db'));
  t.after(() => other.close());
  other.exec('begin immediate');
  await eventually('the probe fails', () => /takes no write: STORE_BUSY/.test(service.output()), service.output);
  const counted = manager.count('WATCHDOG=1');
  await sleep(2_000);
  assert.equal(manager.count('WATCHDOG=1'), counted, 'a sign of life without a store');
  other.exec('rollback');
  await eventually('signs of life again', () => manager.count('WATCHDOG=1') > counted, service.output);
  service.child.kill('SIGTERM');
  assert.equal(await service.ended, 0);
});

test('watchdog: a process with a blocked event loop sends no signal', { skip }, async (t) => {
  const config = await makeConfig(t);
  const manager = await startReceiver(t);
  const service = startDaemonService(t, config, { NOTIFY_SOCKET: manager.path, WATCHDOG_USEC: '1000000' });
  await eventually('a sign of life', () => manager.count('WATCHDOG=1') >= 1, service.output);
  service.child.kill('SIGSTOP');
  // What was on its way may still arrive.
  await sleep(500);
  const counted = manager.count('WATCHDOG=1');
  await sleep(1_500);
  assert.equal(manager.count('WATCHDOG=1'), counted);
  service.child.kill('SIGCONT');
  await eventually('signs of life again', () => manager.count('WATCHDOG=1') > counted, service.output);
});

test('without a service manager or the program to notify it, the daemon runs normally and logs that once', {
  skip,
}, async (t) => {
  const config = await makeConfig(t);
  const lives = [
    { env: { NOTIFY_SOCKET: join(config.dataDir, 'nobody') }, warnings: 1 },
    { env: { NOTIFY_SOCKET: join(config.dataDir, 'nobody'), PATH: config.dataDir }, warnings: 1 },
    { env: { NOTIFY_SOCKET: '' }, warnings: 0 },
  ];
  for (const { env, warnings } of lives) {
    const service = startDaemonService(t, config, { ...env, WATCHDOG_USEC: '400000' });
    const answers = async () => (await fetch(`http://127.0.0.1:${config.port}/docs`).catch(() => null))?.status === 200;
    await eventually('it answers', answers, service.output);
    service.child.kill('SIGHUP');
    await eventually('it reloads', () => service.output().includes('configuration reloaded'), service.output);
    service.child.kill('SIGTERM');
    assert.equal(await service.ended, 0);
    assert.equal(
      service.output().split('the service manager could not be notified').length - 1,
      warnings,
      service.output(),
    );
  }
});
