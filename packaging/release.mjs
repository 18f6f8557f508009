/**
 * `npm run release`: all that a release publishes, in `dist-release/`: the packages, an apt repository and a Homebrew formula. README.md next
 * to this file says how to sign and push them. It needs no network, and the same packages give the same bytes.
 */
import { execFileSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { makeAptRepository } from './apt.mjs';
import { commitTime, sha256, writeSums } from './common.mjs';
import { makeFormula } from './homebrew.mjs';
import { listFiles } from './npm.mjs';

const root = resolve(import.meta.dirname, '..');
/** Options of `npm run package`, which makes the packages if none are given. */
const OF_PACKAGE = {
  node: { type: 'string' },
  only: { type: 'string' },
  compression: { type: 'string' },
  'package-version': { type: 'string' },
  maintainer: { type: 'string' },
  built: { type: 'boolean' },
};
const PLACEHOLDER = 'https://parhelion.example/VERSION';
const { values } = parseArgs({
  options: {
    ...OF_PACKAGE,
    packages: { type: 'string', multiple: true, default: [] },
    keep: { type: 'string' },
    suite: { type: 'string', default: 'stable' },
    'base-url': { type: 'string', default: PLACEHOLDER },
    output: { type: 'string', default: join(root, 'dist-release') },
  },
});
const output = resolve(values.output);
const base = readAddress(values['base-url']);
if (!/^[a-z][a-z0-9-]*$/.test(values.suite)) throw new Error(`--suite ${values.suite}: letters, digits and "-"`);
process.umask(0o022);

const work = mkdtempSync(join(tmpdir(), 'parhelion-release-'));
try {
  const given = values.packages.map((folder) => resolve(folder));
  const folders = given.length > 0 ? given : [makePackages(join(work, 'packages'))];
  // What it keeps may lie in the folder that it empties.
  const kept = values.keep === undefined ? [] : copyAll(debsOf(resolve(values.keep)), join(work, 'kept'));
  rmSync(output, { recursive: true, force: true });
  const packages = join(output, 'packages');
  mkdirSync(packages, { recursive: true });
  for (const folder of folders) takePackages(folder, packages);
  writeSums(packages);

  const debs = debsOf(packages);
  if (debs.length === 0) left('apt repository', 'the Debian package');
  else {
    step('apt repository');
    const [folder, epoch] = [join(output, 'apt'), commitTime(root)];
    makeAptRepository({ folder, debs: [...kept, ...debs], suite: values.suite, epoch });
  }
  const tarball = readdirSync(packages).find((name) => /^parhelion-\d.*\.tgz$/.test(name));
  if (tarball === undefined) left('Homebrew formula', 'the npm package');
  else {
    step('Homebrew formula');
    const version = tarball.slice('parhelion-'.length, -'.tgz'.length);
    const formula = join(output, 'homebrew/Formula/parhelion.rb');
    const address = `${base.replaceAll('VERSION', version)}/${tarball}`;
    makeFormula({ root, file: formula, address, hash: sha256(join(packages, tarball)) });
    if (values['base-url'] === PLACEHOLDER) console.log(`   its address is a placeholder: give --base-url`);
  }
  for (const name of [...writeSums(output), 'SHA256SUMS'])
    console.log(`${(statSync(join(output, name)).size / 1e6).toFixed(1).padStart(7)} MB  ${join(output, name)}`);
  console.log('next: packaging/README.md, "Publish a release"');
} finally {
  rmSync(work, { recursive: true, force: true });
}

function step(text) {
  console.log(`== ${text}`);
}

function left(what, missing) {
  console.log(`== no ${what}: it needs ${missing}`);
}

/** The address of the folder with the packages, without a slash at its end. */
function readAddress(text) {
  const isAddress = URL.canParse(text) && /^https?:$/.test(new URL(text).protocol);
  if (!isAddress || /["#\\\s]/.test(text)) throw new Error(`--base-url ${text}: not an address of the web`);
  return text.replace(/\/+$/, '');
}

function makePackages(folder) {
  const options = Object.keys(OF_PACKAGE).flatMap((name) =>
    values[name] === undefined ? [] : values[name] === true ? [`--${name}`] : [`--${name}`, values[name]],
  );
  const args = [join(root, 'packaging/run.mjs'), ...options, '--output', folder];
  execFileSync(process.execPath, args, { stdio: ['ignore', 'inherit', 'inherit'] });
  return folder;
}

/** Copies what `npm run package` made, after a look at its hashes. Two folders may both have the npm package, but then the same. */
function takePackages(folder, to) {
  const sums = join(folder, 'SHA256SUMS');
  if (!existsSync(sums))
    throw new Error(`--packages ${folder}: it has no SHA256SUMS, so npm run package did not make it`);
  const lines = readFileSync(sums, 'utf8').trim().split('\n');
  for (const [hash, name] of lines.map((line) => line.split('  '))) {
    const [from, place] = [join(folder, name), join(to, name)];
    if (!existsSync(from) || sha256(from) !== hash) throw new Error(`${from} is not what its SHA256SUMS says`);
    if (existsSync(place) && sha256(place) !== hash) throw new Error(`${name}: two folders have different ones`);
    mkdirSync(join(place, '..'), { recursive: true });
    copyFileSync(from, place);
  }
}

function debsOf(folder) {
  if (!existsSync(folder)) throw new Error(`--keep ${folder}: no such folder`);
  return listFiles(folder).filter((path) => path.endsWith('.deb'));
}

function copyAll(paths, to) {
  mkdirSync(to);
  return paths.map((path) => {
    copyFileSync(path, join(to, basename(path)));
    return join(to, basename(path));
  });
}
