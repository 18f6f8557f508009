/**
 * `npm run package`: the packages of a release, in `dist-packages/`. README.md next to this file says what is in them and how to use it.
 * The same commit on the same machine gives the same bytes: times are that of the commit, names are sorted, owner is root.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { commitTime, supportedVersion, writeSums } from './common.mjs';
import { makeDeb } from './deb.mjs';
import { stageNpm } from './npm.mjs';
import { makeSdk } from './sdk.mjs';
import { fetchPackage, makeTree } from './tree.mjs';

const root = resolve(import.meta.dirname, '..');
const KINDS = ['npm', 'tarball', 'deb', 'sdk'];
const { values } = parseArgs({
  options: {
    node: { type: 'string' },
    only: { type: 'string', default: KINDS.join(',') },
    output: { type: 'string', default: join(root, 'dist-packages') },
    compression: { type: 'string', default: 'xz' },
    'package-version': { type: 'string' },
    maintainer: { type: 'string', default: 'parhelion contributors <parhelion@localhost>' },
    built: { type: 'boolean', default: false },
  },
});
const kinds = values.only.split(',');
const unknown = kinds.find((kind) => !KINDS.includes(kind));
if (unknown !== undefined) throw new Error(`--only ${unknown}: the kinds are ${KINDS.join(', ')}`);
/** The packages for clients are made from the sources alone. */
const hasProgram = kinds.some((kind) => kind !== 'sdk');
const output = resolve(values.output);
const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
const version = values['package-version'] ?? manifest.version;
const epoch = commitTime(root);
process.umask(0o022);

const work = mkdtempSync(join(tmpdir(), 'parhelion-packages-'));
try {
  if (hasProgram) step(values.built ? 'dist as it is' : 'build');
  if (hasProgram && values.built && !existsSync(join(root, 'dist/types')))
    throw new Error(
      '--built: dist is missing or was built for `npm start`, without what a package has; run `npm run build`',
    );
  if (hasProgram && !values.built) execFileSync(process.execPath, ['build.mjs'], { cwd: root, stdio: 'inherit' });
  rmSync(output, { recursive: true, force: true });
  mkdirSync(output, { recursive: true });
  const stage = join(work, 'package');
  const { external = [] } = hasProgram ? stageNpm({ root, stage, version }) : {};
  if (kinds.includes('npm')) {
    step('npm package');
    settle(stage);
    execFileSync('npm', ['pack', '--silent', '--ignore-scripts', '--pack-destination', output], {
      cwd: stage,
      stdio: 'ignore',
    });
  }
  if (kinds.includes('tarball') || kinds.includes('deb')) {
    const runtime = inspectRuntime(values.node === undefined ? supportedNode() : resolve(values.node));
    const name = `parhelion-${version}-linux-${runtime.arch}`;
    const tree = join(work, name);
    step(`folder with Node ${runtime.version} (${runtime.arch})`);
    const { shipped } = makeTree({ root, stage, tree, runtime, external, work });
    if (kinds.includes('tarball')) {
      step('tarball');
      settle(tree);
      tar(join(output, `${name}.tar.gz`), work, name);
    }
    if (kinds.includes('deb')) {
      step('deb');
      const folder = join(work, 'deb');
      const { maintainer } = values;
      const control = makeDeb({ root, tree, folder, version, runtime, maintainer, epoch });
      settle(folder);
      const file = join(output, `parhelion_${version}_${control.architecture}.deb`);
      const args = ['--root-owner-group', `-Z${values.compression}`, '--build', folder, file];
      execFileSync('dpkg-deb', args, { stdio: 'ignore', env: { ...process.env, SOURCE_DATE_EPOCH: String(epoch) } });
    }
    step('list of materials');
    writeFileSync(join(work, 'shipped.json'), JSON.stringify(shipped));
    const tsx = join(root, 'node_modules/.bin/tsx');
    const sbom = execFileSync(tsx, ['test/helpers/write-sbom.ts', join(work, 'shipped.json')], {
      cwd: root,
      maxBuffer: 2 ** 26,
    });
    writeFileSync(join(output, `parhelion-${version}-linux-${runtime.arch}.cdx.json`), sbom);
  }
  if (kinds.includes('sdk')) {
    step('packages for clients');
    makeSdk({ root, output, version, work, epoch, settle, tar });
  }
  writeFileSync(join(output, 'RELEASE_NOTES.md'), releaseNotes());
  const names = writeSums(output);
  for (const name of names)
    console.log(`${(statSync(join(output, name)).size / 1e6).toFixed(1).padStart(7)} MB  ${join(output, name)}`);
} finally {
  rmSync(work, { recursive: true, force: true });
}

function step(text) {
  console.log(`== ${text}`);
}

/** Gives all files the time of the commit and modes that do not depend on the umask of whoever checked them out. */
function settle(folder) {
  execFileSync('chmod', ['-R', 'u=rwX,go=rX', folder]);
  execFileSync('find', [folder, '-exec', 'touch', '--no-dereference', '--date', `@${epoch}`, '{}', '+']);
}

function tar(file, folder, name) {
  const same = ['--sort=name', '--format=gnu', '--owner=0', '--group=0', '--numeric-owner', `--mtime=@${epoch}`];
  execFileSync('tar', [...same, '--use-compress-program=gzip -n -9', '-cf', file, '-C', folder, name]);
}

/**
 * A Node in long-term support, from npm, whatever Node builds the packages: the one under which the tests run. Its hash is in the lock file
 * for x64.
 */
function supportedNode() {
  const folder = join(root, 'test/helpers/node24');
  const { version, packages } = supportedVersion(root);
  const name = `node-linux-${process.arch}`;
  const installed = join(folder, 'node_modules', name);
  if (existsSync(installed)) return join(installed, 'bin/node');
  return join(
    fetchPackage({ work, name, version, integrity: packages[`node_modules/${name}`]?.integrity }),
    'bin/node',
  );
}

/** Architecture and version of a Node binary, also of one that does not run on this machine. */
function inspectRuntime(path) {
  const bytes = readFileSync(path);
  if (bytes.toString('latin1', 1, 4) !== 'ELF') throw new Error(`--node ${path}: not a binary for Linux`);
  if (bytes.includes('ld-musl-')) throw new Error(`--node ${path}: built for musl; the packages are for glibc`);
  const arch = { 62: 'x64', 183: 'arm64' }[bytes.readUInt16LE(18)];
  if (arch === undefined) throw new Error(`--node ${path}: neither x64 nor arm64`);
  const at = bytes.indexOf('-headers.tar.gz');
  const version = /node-v(\d+\.\d+\.\d+)$/.exec(at < 0 ? '' : bytes.toString('latin1', at - 40, at))?.[1];
  if (version === undefined) throw new Error(`--node ${path}: it does not contain its version`);
  return { path, arch, version, major: Number(version.split('.')[0]) };
}

/** The part of CHANGELOG.md about this version. */
function releaseNotes() {
  const text = readFileSync(join(root, 'CHANGELOG.md'), 'utf8');
  const parts = text.split(/^(?=## )/m).slice(1);
  const part = parts.find((one) => one.startsWith(`## ${version} `) || one.startsWith(`## ${version}\n`)) ?? parts[0];
  return `# parhelion ${version}\n\n${part.replace(/^## .*\n+/, '')}`;
}
