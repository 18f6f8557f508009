import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { chainMissing } from '../helpers/chain.ts';
import { findProjectRoot } from '../helpers/project-root.ts';
import { copyContext } from './build-context.ts';

const root = findProjectRoot();
const modules = join(root, 'node_modules');
const missing = await chainMissing();
if (missing !== null) console.error(`SKIPPED: ${missing}`);

interface Lock {
  readonly packages: Readonly<Record<string, { readonly dev?: boolean; readonly devOptional?: boolean }>>;
}

/** Names of the packages that an installation gets: all but those that only the development needs. */
function productionPackages(): string[] {
  const { packages } = JSON.parse(readFileSync(`${root}package-lock.json`, 'utf8')) as Lock;
  return Object.entries(packages)
    .filter(([path, { dev }]) => /^node_modules\/(@[^/]+\/)?[^/]+$/.test(path) && dev !== true)
    .map(([path]) => path.slice('node_modules/'.length));
}

/** What `npm install --global --prefix PREFIX` makes of a tarball, without asking a registry or compiling anything again. */
function install(tarball: string, prefix: string): void {
  const home = join(prefix, 'lib/node_modules/parhelion');
  mkdirSync(home, { recursive: true });
  assert.equal(spawnSync('tar', ['-xzf', tarball, '-C', home, '--strip-components', '1']).status, 0);
  for (const name of productionPackages()) {
    const place = join(home, 'node_modules', name);
    mkdirSync(dirname(place), { recursive: true });
    symlinkSync(join(modules, name), place);
  }
  const { bin } = JSON.parse(readFileSync(join(home, 'package.json'), 'utf8')) as { bin: { parhelion: string } };
  mkdirSync(join(prefix, 'bin'));
  chmodSync(join(home, bin.parhelion), 0o755);
  symlinkSync(join(home, bin.parhelion), join(prefix, 'bin/parhelion'));
}

describe('the package', () => {
  const dir = mkdtempSync(join(tmpdir(), 'parhelion-package-'));
  let files: string[] = [];
  let tarball = '';

  before(() => {
    const context = join(dir, 'context');
    copyContext(context);
    symlinkSync(modules, join(context, 'node_modules'));
    const packed = spawnSync('npm', ['pack', '--json', '--pack-destination', dir], { cwd: context, encoding: 'utf8' });
    assert.equal(packed.status, 0, packed.stdout + packed.stderr);
    tarball = join(dir, readdirSync(dir).find((name) => name.endsWith('.tgz'))!);
    const listed = spawnSync('tar', ['-tzf', tarball], { encoding: 'utf8', maxBuffer: 1 << 26 });
    files = listed.stdout.split('\n').map((path) => path.replace(/^package\//, ''));
  });
  after(() => rmSync(dir, { recursive: true, force: true }));

  test('holds program, configuration, units and documents, and no tests, data or secrets', () => {
    for (const path of [
      ...['dist/src/cli/main.js', 'dist/plugins/wallet/index.js', 'src/plugin/plugin.ts'],
      ...['plugins/dashboard/pages/index.html', 'config/parhelion.yaml', 'config/plans.yaml'],
      ...['config/grafana/dashboard.json', 'systemd/parhelion.service', 'docs/operators.md', 'LICENSE', 'SECURITY.md'],
    ]) {
      assert.ok(files.includes(path), path);
    }
    const unwanted = files.filter((path) => /^(test|data)\/|(^|\/)\.(git|cache|env)|\.(test\.ts|pem|db)$/.test(path));
    assert.deepEqual(unwanted, []);
  });

  test('installed into an empty place it is configured, serves, delivers and stops', {
    skip: missing ?? false,
  }, async () => {
    const prefix = join(dir, 'prefix');
    install(tarball, prefix);
    const smoke = spawn(process.execPath, [join(root, 'test/packaging/smoke.mjs'), prefix]);
    let output = '';
    for (const stream of [smoke.stdout, smoke.stderr])
      stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
    const [code] = await once(smoke, 'exit');
    assert.equal(code, 0, output);
    assert.match(output, /delivery, wallet and stop are fine/);
  });
});
