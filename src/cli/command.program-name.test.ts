import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { typedProgramName } from './command.ts';

const dir = mkdtempSync(join(tmpdir(), 'parhelion-program-'));
after(() => rmSync(dir, { recursive: true, force: true }));

function program(...path: string[]): string {
  const file = join(dir, ...path);
  mkdirSync(join(file, '..'), { recursive: true });
  writeFileSync(file, '');
  chmodSync(file, 0o755);
  return file;
}

const packaged = program('usr/lib/parhelion/bin/parhelion');
mkdirSync(join(dir, 'usr/bin'));
symlinkSync('../lib/parhelion/bin/parhelion', join(dir, 'usr/bin/parhelion'));
const main = program('usr/lib/parhelion/lib/parhelion/dist/src/cli/main.js');
const PATH = `/nowhere:${join(dir, 'usr/bin')}`;
const started = (path: string) => ({ PATH, PARHELION_STARTED_AS: path });

test('an installed program has its name where a shell finds it, else its path', () => {
  const link = join(dir, 'usr/bin/parhelion');
  assert.equal(typedProgramName({ entry: main, cwd: '/', env: started(link) }), 'parhelion');
  assert.equal(typedProgramName({ entry: main, cwd: '/', env: started(packaged) }), 'parhelion');
  assert.equal(typedProgramName({ entry: link, cwd: '/', env: { PATH } }), 'parhelion', 'a link of npm');
  const elsewhere = program('opt/parhelion/bin/parhelion');
  assert.equal(
    typedProgramName({ entry: main, cwd: '/', env: started(elsewhere) }),
    elsewhere,
    'another one is found first',
  );
  assert.equal(typedProgramName({ entry: main, cwd: '/', env: { ...started(packaged), PATH: '/nowhere' } }), packaged);
});

test('a checkout is called through npx in its folder, else by its file', () => {
  const built = program('checkout/dist/src/cli/main.js');
  const cwd = join(dir, 'checkout');
  assert.equal(typedProgramName({ entry: built, cwd, env: { PATH } }), 'npx parhelion');
  assert.equal(typedProgramName({ entry: built, cwd: '/', env: { PATH } }), `node ${built}`);
  const source = join(cwd, 'src/cli/main.ts');
  assert.equal(typedProgramName({ entry: source, cwd, env: { PATH } }), 'npx tsx src/cli/main.ts');
  const bin = join(cwd, 'node_modules/.bin/parhelion');
  assert.equal(typedProgramName({ entry: bin, cwd, env: { PATH } }), 'npx parhelion');
});
