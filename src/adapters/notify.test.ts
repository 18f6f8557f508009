import assert from 'node:assert/strict';
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import { createMemoryLog } from '../../test/helpers/memory-log.ts';
import { createNotify, inheritedSockets, noticeLines, systemdNotify, watchdogMs } from './notify.ts';

const PID = 42;
const env = { NOTIFY_SOCKET: '/nowhere' };

test('a status cannot start another assignment, and is limited in length', () => {
  const text = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 2_000 }),
    fc.constantFrom('a\nREADY=1', 'b\r\nMAINPID=1\0x'),
  );
  fc.assert(
    fc.property(text, fc.constantFrom('ready', 'reloading', 'stopping', 'alive', null), (status, state) => {
      const lines = noticeLines({ status, ...(state === null ? {} : { state }) }, 7n);
      assert.equal(lines.filter((line) => line.startsWith('STATUS=')).length, 1);
      assert.equal(lines.length, 1 + (state === null ? 0 : state === 'reloading' ? 2 : 1));
      for (const line of lines) {
        assert.doesNotMatch(line, /\p{Cc}/u);
        assert.ok(Buffer.byteLength(line) <= 2_100);
      }
    }),
  );
});

test('sockets: each is assigned by its name, or the start fails; none is ignored', () => {
  const name = fc.constantFrom('api', 'websocket', 'admin', '', 'unknown', 'parhelion.socket', 'metrics', 'API');
  fc.assert(
    fc.property(fc.array(name, { maxLength: 4 }), (names) => {
      const activation = { LISTEN_PID: String(PID), LISTEN_FDS: String(names.length), LISTEN_FDNAMES: names.join(':') };
      const fronts: string[] = names.map((given) =>
        ['', 'unknown', 'parhelion.socket'].includes(given) ? 'api' : given,
      );
      const isFine = fronts.every(
        (front, i) => ['api', 'websocket', 'admin'].includes(front) && fronts.indexOf(front) === i,
      );
      if (!isFine) {
        assert.throws(() => inheritedSockets(activation, PID), { code: 'NOTIFY_SOCKETS_INVALID', exitCode: 78 });
        return;
      }
      const at = (front: string) => (fronts.includes(front) ? 3 + fronts.indexOf(front) : null);
      const expected = { api: at('api'), websocket: at('websocket'), admin: at('admin') };
      assert.deepEqual(inheritedSockets(activation, PID), expected);
    }),
  );
});

test('sockets: without names the first is the API; those of another process are ignored', () => {
  const none = { api: null, websocket: null, admin: null };
  assert.deepEqual(inheritedSockets({ LISTEN_PID: '42', LISTEN_FDS: '1' }, PID), { ...none, api: 3 });
  assert.deepEqual(inheritedSockets({ LISTEN_PID: '41', LISTEN_FDS: '9', LISTEN_FDNAMES: 'x' }, PID), none);
  assert.deepEqual(inheritedSockets({ LISTEN_FDS: '1' }, PID), none);
  assert.deepEqual(inheritedSockets({}, PID), none);
  for (const count of ['x', '-1', '1.5', '65', '99999'])
    assert.throws(() => inheritedSockets({ LISTEN_PID: '42', LISTEN_FDS: count }, PID), {
      code: 'NOTIFY_SOCKETS_INVALID',
    });
});

test('the watchdog of another process, or a malformed value, is ignored', () => {
  assert.equal(watchdogMs({ WATCHDOG_USEC: '60000000' }, PID), 60_000);
  assert.equal(watchdogMs({ WATCHDOG_USEC: '60000000', WATCHDOG_PID: '42' }, PID), 60_000);
  for (const other of [{}, { WATCHDOG_USEC: '0' }, { WATCHDOG_USEC: '-5' }, { WATCHDOG_USEC: 'x' }])
    assert.equal(watchdogMs(other, PID), null);
  assert.equal(watchdogMs({ WATCHDOG_USEC: '60000000', WATCHDOG_PID: '41' }, PID), null);
  assert.equal(createNotify({ env: { WATCHDOG_USEC: '5000' }, pid: PID, log: createMemoryLog() }).watchdogMs, null);
});

test('without NOTIFY_SOCKET nothing is sent', async () => {
  for (const silent of [{}, { NOTIFY_SOCKET: '' }]) {
    const send = () => assert.fail('sent');
    const notify = createNotify({ env: silent, pid: PID, log: createMemoryLog(), send });
    assert.equal(notify.enabled, false);
    await notify.tell({ state: 'ready', status: 'x' });
  }
});

test('notices are sent one by one and in order, whatever their duration or outcome; one failure is logged', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.tuple(fc.nat(3), fc.boolean()), { minLength: 1, maxLength: 32 }), async (sends) => {
      const log = createMemoryLog();
      const seen: string[] = [];
      let isBusy = false;
      const send = async ([line]: readonly string[]) => {
        assert.equal(isBusy, false, 'two at once');
        isBusy = true;
        const [turns, fails] = sends[seen.push(line!) - 1]!;
        for (let i = 0; i < turns; i++) await null;
        isBusy = false;
        if (fails) throw new Error('refused');
      };
      const notify = createNotify({ env, pid: PID, log, send });
      await Promise.all(sends.map((_, i) => notify.tell({ status: String(i) })));
      assert.deepEqual(
        seen,
        sends.map((_, i) => `STATUS=${i}`),
      );
      assert.equal(log.lines.length, sends.some(([, fails]) => fails) ? 1 : 0);
    }),
  );
});

test('a manager that accepts nothing holds up a bounded number of notices', async () => {
  const log = createMemoryLog();
  let sent = 0;
  const hang = () => {
    sent += 1;
    return new Promise<void>(() => undefined);
  };
  const notify = createNotify({ env, pid: PID, log, send: hang });
  for (let i = 0; i < 32; i++) void notify.tell({ status: 'waits' });
  for (let i = 0; i < 100; i++) await notify.tell({ status: 'dropped at once' });
  assert.equal(sent, 1);
  assert.deepEqual(
    log.lines.map(({ fields }) => fields),
    [{ reason: '32 notices are already waiting' }],
  );
});

test('the program: its arguments and environment, absence, failure and timeout', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'parhelion-notify-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  const install = (script: string) => {
    writeFileSync(join(dir, 'systemd-notify'), `#!/bin/sh\n${script}\n`);
    chmodSync(join(dir, 'systemd-notify'), 0o755);
  };
  const surroundings = { NOTIFY_SOCKET: '/run/n', PATH: dir, SECRET: 'hunter2' };
  const send = systemdNotify(surroundings, 500);
  await assert.rejects(send(['READY=1']), /systemd-notify is not installed/);
  install(`printf '%s\\n' "$@" "$NOTIFY_SOCKET" "secret:$SECRET" > '${dir}/seen'`);
  await send(['READY=1', 'STATUS=a b']);
  assert.equal(readFileSync(join(dir, 'seen'), 'utf8'), '--\nREADY=1\nSTATUS=a b\n/run/n\nsecret:\n');
  install('echo "Connection refused" >&2; exit 1');
  await assert.rejects(send(['READY=1']), /^Error: Connection refused$/);
  install('exec /bin/sleep 60');
  await assert.rejects(send(['READY=1']), /did not end within 500 ms/);
});
