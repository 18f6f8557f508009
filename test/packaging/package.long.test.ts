import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  appendFileSync,
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { after, before, describe, test } from 'node:test';
import { Keypair, LAMPORTS_PER_SOL } from '@solana/web3.js';
import { chainMissing, startChain } from '../helpers/chain.ts';
import { startDaemon } from '../helpers/daemon.ts';
import { findProjectRoot } from '../helpers/project-root.ts';
import { copyContext } from './build-context.ts';
import { runEveryCommand } from './every-command.ts';

const root = findProjectRoot();
const modules = join(root, 'node_modules');
const missing = await chainMissing();
if (missing !== null) console.error(`SKIPPED: ${missing}`);

interface Manifest {
  readonly bin: { readonly parhelion: string };
  readonly dependencies: Readonly<Record<string, string>>;
  readonly optionalDependencies: Readonly<Record<string, string>>;
  readonly peerDependencies: Readonly<Record<string, string>>;
  readonly scripts?: object;
}
interface Lock {
  readonly packages: Readonly<Record<string, { readonly dependencies?: Readonly<Record<string, string>> }>>;
}

/** The packages that an installation gets, with all that they need; on Node 20 SQLite is installed beside it. */
function installedPackages({ dependencies, optionalDependencies, peerDependencies }: Manifest): string[] {
  const { packages } = JSON.parse(readFileSync(`${root}package-lock.json`, 'utf8')) as Lock;
  const sqlite = Object.keys(peerDependencies).filter((name) => name === 'better-sqlite3');
  const names = new Set([...Object.keys({ ...dependencies, ...optionalDependencies }), ...sqlite]);
  for (const name of names)
    for (const needed of Object.keys(packages[`node_modules/${name}`]?.dependencies ?? {})) names.add(needed);
  return [...names].filter((name) => existsSync(join(modules, name)));
}

/** What `npm install --global --prefix PREFIX` makes of a tarball, without asking a registry or compiling anything again. */
function install(tarball: string, prefix: string): void {
  const home = join(prefix, 'lib/node_modules/parhelion');
  mkdirSync(home, { recursive: true });
  assert.equal(spawnSync('tar', ['-xzf', tarball, '-C', home, '--strip-components', '1']).status, 0);
  const manifest = JSON.parse(readFileSync(join(home, 'package.json'), 'utf8')) as Manifest;
  for (const name of installedPackages(manifest)) {
    const place = join(home, 'node_modules', name);
    mkdirSync(dirname(place), { recursive: true });
    // Copied: a link would let a package find others in the checkout.
    cpSync(join(modules, name), place, { recursive: true });
  }
  mkdirSync(join(prefix, 'bin'));
  chmodSync(join(home, manifest.bin.parhelion), 0o755);
  symlinkSync(join(home, manifest.bin.parhelion), join(prefix, 'bin/parhelion'));
}

describe('the package', () => {
  const dir = mkdtempSync(join(tmpdir(), 'parhelion-package-'));
  let files: string[] = [];
  let tarball = '';
  const prefix = join(dir, 'prefix');
  const program = join(prefix, 'bin/parhelion');

  before(() => {
    const context = join(dir, 'context');
    copyContext(context);
    symlinkSync(modules, join(context, 'node_modules'));
    const output = join(dir, 'output');
    const args = ['packaging/run.mjs', '--only', 'npm', '--output', output];
    const packed = spawnSync(process.execPath, args, { cwd: context, encoding: 'utf8' });
    assert.equal(packed.status, 0, packed.stdout + packed.stderr);
    tarball = join(output, readdirSync(output).find((name) => name.endsWith('.tgz'))!);
    const listed = spawnSync('tar', ['-tzf', tarball], { encoding: 'utf8', maxBuffer: 1 << 26 });
    files = listed.stdout.split('\n').map((path) => path.replace(/^package\//, ''));
    install(tarball, prefix);
  });
  after(() => rmSync(dir, { recursive: true, force: true }));

  test('is the same, byte by byte, when it is built again from another folder', () => {
    const context = join(dir, 'context-2');
    copyContext(context);
    symlinkSync(modules, join(context, 'node_modules'));
    const output = join(dir, 'output-2');
    const args = ['packaging/run.mjs', '--only', 'npm', '--output', output];
    const options = { cwd: context, encoding: 'utf8', env: { ...process.env, TZ: 'Asia/Tokyo' } } as const;
    const packed = spawnSync(process.execPath, args, options);
    assert.equal(packed.status, 0, packed.stdout + packed.stderr);
    const sums = (folder: string) => readFileSync(join(folder, 'SHA256SUMS'), 'utf8');
    assert.match(sums(output), /\.tgz$/m);
    assert.equal(sums(output), sums(dirname(tarball)));
  });

  test('holds program, types, configuration, units and documents, and no sources, tests, data or secrets', () => {
    for (const path of [
      'dist/src/cli/main.js',
      'dist/plugins/wallet/index.js',
      'dist/packages/local-chain/child.js',
      'dist/types/plugin/plugin.d.ts',
      'dist/plugins/dashboard/pages/index.html',
      'config/parhelion.yaml',
      'config/plans.yaml',
      'THIRD-PARTY-NOTICES.txt',
      'config/grafana/dashboard.json',
      'systemd/parhelion.service',
      'docs/how-to/operators.md',
      'LICENSE',
      'SECURITY.md',
    ]) {
      assert.ok(files.includes(path), path);
    }
    const unwanted = files.filter((path) =>
      /^(test|data|src|packages)\/|(^|\/)\.(git|cache|env)|(?<!\.d)\.ts$|\.(pem|db)$/.test(path),
    );
    assert.deepEqual(unwanted, []);
  });

  test('needs few packages, none of which is compiled, and runs nothing while it is installed', () => {
    const read = spawnSync('tar', ['-xzOf', tarball, 'package/package.json'], { encoding: 'utf8' });
    const { dependencies, optionalDependencies, peerDependencies, scripts } = JSON.parse(read.stdout) as Manifest;
    assert.equal(scripts, undefined);
    assert.ok(dependencies['better-sqlite3-13'] !== undefined && peerDependencies['better-sqlite3'] !== undefined);
    assert.ok(Object.keys(dependencies).length < 10, String(Object.keys(dependencies)));
    assert.ok(optionalDependencies['litesvm-linux-x64-gnu'] !== undefined);
    const all = [...Object.keys(dependencies), ...Object.keys(optionalDependencies)];
    assert.ok(!all.some((name) => /^(better-sqlite3|litesvm|tsx|@solana\/web3\.js)$/.test(name)), String(all));
  });

  test('a build that was made from what is there is not made again', () => {
    const main = join(dir, 'context/dist/src/cli/main.js');
    const build = (...options: readonly string[]) => {
      const made = spawnSync(process.execPath, ['build.mjs', '--if-changed', ...options], {
        cwd: join(dir, 'context'),
        encoding: 'utf8',
      });
      assert.equal(made.status, 0, made.stderr);
      return statSync(main).mtimeMs;
    };
    const first = build();
    assert.equal(build(), first);
    appendFileSync(join(dir, 'context/src/cli/version.ts'), '\n');
    // The same look at the sources, and of the build what a start needs.
    assert.ok(build('--start') > first, 'a change was not noticed');
  });

  test('has no link to a file that is not in it', () => {
    const home = join(dir, 'links');
    mkdirSync(home);
    assert.equal(spawnSync('tar', ['-xzf', tarball, '-C', home, '--strip-components', '1']).status, 0);
    const pages = files.filter((path) => path.endsWith('.md'));
    const dead = pages.flatMap((page) => {
      const links = [...readFileSync(join(home, page), 'utf8').matchAll(/\]\((?!\w+:)([^)#\s]+)/g)].map(
        ([, path]) => path!,
      );
      return links.filter((path) => !existsSync(join(home, dirname(page), path))).map((path) => `${page}: ${path}`);
    });
    assert.ok(pages.length > 10);
    assert.deepEqual(dead, []);
  });

  test('every command of the installed program does what it says', async () => {
    await runEveryCommand(program, join(dir, 'commands'));
  });

  test('the installed program signs up with a service: it pays on the chain and gets a key', {
    skip: missing ?? false,
  }, async (t) => {
    const chain = await startChain({ slotMs: 100, finalityDepth: 4, time: { kind: 'wall' } });
    t.after(() => chain.stop());
    const [treasury, wallet] = [Keypair.generate(), Keypair.generate()];
    for (const { publicKey } of [treasury, wallet]) await chain.fund(publicKey.toBase58(), LAMPORTS_PER_SOL);
    const service = await startDaemon({
      chain,
      config: {
        plugins: ['access', 'proxy', 'signup'],
        signup: { treasury: treasury.publicKey.toBase58(), lamports: 20_000_000, credits: 777 },
      },
    });
    t.after(() => service.stop());
    const [keypair, output] = [join(dir, 'wallet.json'), join(dir, 'key.json')];
    writeFileSync(keypair, JSON.stringify([...wallet.secretKey]));
    const where = ['--url', service.apiUrl, '--rpc', chain.rpcUrl, '--keypair', keypair, '--output', output];
    const child = spawn(program, ['signup', ...where, '--max', '0.02', '--json'], { cwd: dir });
    const [out, err, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')]);
    assert.equal(code, 0, err);
    const { key } = JSON.parse(out) as { key: string };
    assert.equal((JSON.parse(readFileSync(output, 'utf8')) as { key: string }).key, key);
    const answer = await fetch(service.apiUrl, {
      method: 'POST',
      headers: { 'X-Api-Key': key },
      body: '{"jsonrpc":"2.0","id":1,"method":"getSlot"}',
    });
    assert.equal(answer.status, 200, await answer.text());
    const paid = await chain.connection.getBalance(treasury.publicKey, 'confirmed');
    assert.equal(paid - LAMPORTS_PER_SOL, 20_000_000);
  });

  test('installed into an empty place it is configured, serves, delivers and stops', {
    skip: missing ?? false,
  }, async () => {
    const smoke = spawn(process.execPath, [join(root, 'test/packaging/smoke.mjs'), program]);
    let output = '';
    for (const stream of [smoke.stdout, smoke.stderr])
      stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
    const [code] = await once(smoke, 'exit');
    assert.equal(code, 0, output);
    assert.match(output, /delivery, wallet, stop and a stream with zstd are fine/);
  });
});
