import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Value } from '@sinclair/typebox/value';
import { type CoreConfig, coreConfig } from '../../../src/config/core.ts';
import { EXIT } from '../../../src/lib/coded-error.ts';
import { missingProgram, root } from './harness.ts';

const folder = join(root, 'systemd');
const units = readdirSync(folder).filter((name) => /\.(service|socket)$/.test(name));
const skip = missingProgram('systemd-analyze') ?? false;
const defaults = Value.Default(coreConfig, {}) as CoreConfig;

/** All values of a key of a unit, in order. */
function values(unit: string, key: string): string[] {
  const lines = readFileSync(join(folder, unit), 'utf8').split('\n');
  return lines.filter((line) => line.startsWith(`${key}=`)).map((line) => line.slice(key.length + 1));
}

for (const unit of ['parhelion.service', 'parhelion@.service']) {
  test(`the exposure of ${unit} stays at 1.6 or below`, { skip }, () => {
    const path = join(folder, unit);
    const args = ['security', '--offline=true', '--no-pager'];
    const seen = spawnSync('systemd-analyze', [...args, '--threshold=16', path], { encoding: 'utf8' });
    assert.equal(seen.status, 0, seen.stdout.split('\n').slice(-3).join('\n') + seen.stderr);
    const strict = spawnSync('systemd-analyze', [...args, '--threshold=1', path], { encoding: 'utf8' });
    assert.notEqual(strict.status, 0, 'the threshold is not looked at');
  });
}

test('a role alone runs as the whole daemon does, but for its role, its ports and its files', () => {
  const own = ['Description', 'Conflicts', 'ExecStart', 'Environment', 'EnvironmentFile', 'RuntimeDirectory'];
  const lines = (unit: string) =>
    readFileSync(join(folder, unit), 'utf8')
      .split('\n')
      .filter((line) => line !== '' && !line.startsWith('#') && !own.includes(line.split('=')[0] ?? ''));
  assert.deepEqual(lines('parhelion@.service'), lines('parhelion.service'));
  assert.ok(lines('parhelion.service').length > 40);
  const [start] = values('parhelion@.service', 'ExecStart');
  assert.equal(start, values('parhelion.service', 'ExecStart')[0]?.replace(' serve ', ' serve --role %i '));
  // What one of them removes when it stops must not be another's.
  assert.deepEqual(values('parhelion@.service', 'RuntimeDirectory'), ['parhelion-%i']);
  assert.ok(values('parhelion@.service', 'Environment').includes('PARHELION_ADMIN__PORT=0'), 'the ports collide');
});

test('systemd knows every key and value of the units', { skip }, () => {
  assert.ok(units.length >= 3);
  const paths = units.map((name) => join(folder, name.replace('@.', '@indexer.')));
  const seen = spawnSync('systemd-analyze', ['verify', '--man=no', ...paths], { encoding: 'utf8' });
  // The programs that the units name are installed elsewhere.
  const lines = seen.stderr.split('\n').filter((line) => line.includes(folder) && !line.includes('is not executable'));
  assert.deepEqual(lines, []);
});

test('the service fits the daemon: exit codes, time-outs, notices', () => {
  const [stop] = values('parhelion.service', 'TimeoutStopSec');
  const { drainTimeoutMs, stopTimeoutMs } = defaults.lifecycle;
  assert.ok(Number(stop) * 1_000 > drainTimeoutMs + stopTimeoutMs, 'a drain may take longer than the manager waits');
  assert.deepEqual(values('parhelion.service', 'RestartForceExitStatus'), [String(EXIT.temporary)]);
  const never = values('parhelion.service', 'RestartPreventExitStatus').join(' ').split(' ').map(Number);
  assert.deepEqual(never, [EXIT.schemaNewer, EXIT.usage, EXIT.config]);
  assert.deepEqual(values('parhelion.service', 'Type'), ['notify']);
  // The notices come from a child of the main process.
  assert.deepEqual(values('parhelion.service', 'NotifyAccess'), ['all']);
  assert.deepEqual(values('parhelion.service', 'MemoryDenyWriteExecute'), [], 'Node dies with it');
});

test('the sockets are those of the default configuration, under the names that the daemon knows', () => {
  const { host, port } = defaults.http;
  const sockets = units.filter((name) => name.endsWith('.socket'));
  const found = sockets.map((name) =>
    [...values(name, 'FileDescriptorName'), ...values(name, 'ListenStream')].join(' '),
  );
  assert.deepEqual(found.sort(), [`api ${host}:${port}`, `websocket ${host}:${port + 1}`]);
  for (const name of sockets) assert.deepEqual(values(name, 'Service'), ['parhelion.service']);
});
