import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { findProjectRoot } from '../helpers/project-root.ts';

const folder = `${findProjectRoot()}systemd/`;
const missing = ['systemd-sysusers', 'systemd-tmpfiles'].find((name) => spawnSync(name, ['--version']).status !== 0);
const reason =
  missing !== undefined
    ? `${missing} is not installed`
    : process.getuid?.() === 0
      ? null
      : 'only root gives files away';
if (reason !== null) console.error(`SKIPPED: ${reason}`);

test('the user and the folders of the service are made as the unit wants them', { skip: reason ?? false }, (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'parhelion-root-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  for (const name of ['etc/sysusers.d', 'etc/tmpfiles.d', 'var/lib']) mkdirSync(join(dir, name), { recursive: true });
  // As in "Deploy" of the README.
  copyFileSync(`${folder}sysusers.conf`, join(dir, 'etc/sysusers.d/parhelion.conf'));
  copyFileSync(`${folder}tmpfiles.conf`, join(dir, 'etc/tmpfiles.d/parhelion.conf'));
  const run = (program: string, ...args: string[]) => {
    const { status, stderr } = spawnSync(program, [`--root=${dir}`, ...args], { encoding: 'utf8' });
    assert.equal(status, 0, stderr);
  };
  run('systemd-sysusers', 'parhelion.conf');
  const unit = readFileSync(`${folder}parhelion.service`, 'utf8');
  const user = /^User=(.*)$/m.exec(unit)![1]!;
  const line = readFileSync(join(dir, 'etc/passwd'), 'utf8')
    .split('\n')
    .find((one) => one.startsWith(`${user}:`));
  assert.ok(line !== undefined, 'the unit runs as another user');
  const [, , uid, gid, , home, shell] = line.split(':');
  assert.ok(Number(uid) < 1_000, 'a user of the system');
  assert.equal(home, /^dataDir: (.*)$/m.exec(readFileSync(`${folder}parhelion.yaml`, 'utf8'))![1]);
  assert.match(shell!, /nologin$/);

  run('systemd-tmpfiles', '--create', 'parhelion.conf');
  const state = statSync(join(dir, 'var/lib/parhelion'));
  assert.deepEqual([state.uid, state.gid, state.mode & 0o777], [Number(uid), Number(gid), 0o700]);
  const configuration = statSync(join(dir, 'etc/parhelion'));
  assert.deepEqual([configuration.uid, configuration.gid, configuration.mode & 0o777], [0, Number(gid), 0o750]);
});
