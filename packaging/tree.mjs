import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmodSync, cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { listFiles, notices, writeFile } from './npm.mjs';

/** Of these packages the daemon loads a part; sources, other platforms and build tools stay behind. */
const PARTS = {
  'better-sqlite3-13': ({ arch }) => ({ keep: ['lib', `prebuilds/linux-${arch}.node`], needs: [] }),
  'better-sqlite3': () => ({ keep: ['lib', 'build/Release/better_sqlite3.node'], needs: ['bindings'] }),
  uplot: () => ({ keep: ['dist/uPlot.esm.js', 'dist/uPlot.min.css'], needs: [] }),
};
const UNUSED =
  /\.(map|md|markdown|[cm]?ts|flow|yml|yaml)$|\/(bin|cli)\.[cm]?js$|\/\.|\/(tests?|__tests__|docs?|examples?|benchmarks?)\//;

/**
 * Lays out the folder that runs from any path: `bin/parhelion`, `lib/node`, `lib/parhelion` (the program), `share` (documents). Returns
 * the packages in it, by their paths in package-lock.json.
 */
export function makeTree({ root, stage, tree, runtime, external, work }) {
  const program = join(tree, 'lib/parhelion');
  for (const name of ['dist', 'config', 'package.json'])
    cpSync(join(stage, name), join(program, name), { recursive: true });
  if (existsSync(join(stage, 'plugins'))) cpSync(join(stage, 'plugins'), join(program, 'plugins'), { recursive: true });

  // Node has zstd from 22.15 on.
  const byVersion = runtime.major >= 22 ? ['better-sqlite3-13'] : ['better-sqlite3', '@hpcc-js/wasm-zstd'];
  const packages = [...external, ...byVersion];
  const copied = copyPackages({ root, to: program, names: packages, optional: engineOf(runtime), runtime, work });
  const takenIn = JSON.parse(readFileSync(join(root, '.cache/taken-in.json'), 'utf8'));
  const shipped = [...new Set([...takenIn, ...copied.keys()])].sort();

  cpSync(runtime.path, join(tree, 'lib/node'), { dereference: true });
  cpSync(join(root, 'packaging/parhelion'), join(tree, 'bin/parhelion'));
  for (const path of listFiles(tree)) chmodSync(path, 0o644);
  for (const name of ['bin/parhelion', 'lib/node']) chmodSync(join(tree, name), 0o755);
  for (const path of listFiles(tree).filter((one) => one.endsWith('.node') || one === join(tree, 'lib/node')))
    strip(path, runtime);

  const documents = join(tree, 'share/doc/parhelion');
  for (const name of ['README.md', 'CHANGELOG.md', 'SECURITY.md', 'LICENSE', 'docs', 'systemd'])
    cpSync(join(stage, name), join(documents, name), { recursive: true });
  for (const path of listFiles(join(documents, 'systemd')).filter((one) => one.endsWith('.service')))
    writeFile(path, unitOf(readFileSync(path, 'utf8'), '/opt/parhelion/bin/parhelion'));
  cpSync(join(stage, 'config/grafana'), join(documents, 'config/grafana'), { recursive: true });
  cpSync(join(stage, 'config/parhelion.yaml'), join(documents, 'config/parhelion.yaml'));
  cpSync(join(root, 'packaging/debian/parhelion.yaml'), join(documents, 'parhelion.yaml'));
  writeFile(
    join(documents, 'THIRD-PARTY-NOTICES.txt'),
    notices(shipped.map((place) => copied.get(place) ?? join(root, place))) + nodeLicence(runtime),
  );
  if (existsSync(join(stage, 'share'))) cpSync(join(stage, 'share'), join(tree, 'share'), { recursive: true });
  return { shipped };
}

/** A unit of a checkout, for a program that is installed as `command`. */
export function unitOf(text, command) {
  return text
    .replaceAll('/usr/bin/node /opt/parhelion/dist/src/cli/main.js', command)
    .replaceAll('WorkingDirectory=/opt/parhelion', 'WorkingDirectory=/var/lib/parhelion');
}

/** The package with the engine of the local chain. */
const engineOf = ({ arch }) => `litesvm-linux-${arch}-gnu`;

/**
 * Copies packages with what they need, as package-lock.json places them. Returns their places there, each with the folder it was copied from.
 * What npm has not installed, because it is for another platform or Node, is fetched by npm.
 */
function copyPackages({ root, to, names, optional, runtime, work }) {
  const { packages } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8'));
  const copied = new Map();
  const visit = (name, from) => {
    for (let folder = from; ; folder = folder.slice(0, Math.max(0, folder.lastIndexOf('/node_modules/')))) {
      const place = `${folder === '' ? '' : `${folder}/`}node_modules/${name}`;
      if (packages[place] !== undefined) return copy(name, place);
      if (folder === '')
        throw new Error(`package-lock.json does not contain ${name}, which ${from || 'the program'} needs`);
    }
  };
  const copy = (name, place) => {
    if (copied.has(place)) return;
    const installed = join(root, place);
    const source = existsSync(installed) ? installed : fetchPackage({ work, name, ...packages[place] });
    copied.set(place, source);
    const { keep, needs } = PARTS[name]?.(runtime) ?? { needs: Object.keys(packages[place].dependencies ?? {}) };
    for (const path of keep === undefined ? ownFiles(source) : keep.flatMap((one) => filesAt(join(source, one))))
      cpSync(path, join(to, place, path.slice(source.length + 1)));
    for (const path of listLicences(source)) cpSync(path, join(to, place, basename(path)));
    cpSync(join(source, 'package.json'), join(to, place, 'package.json'));
    for (const need of needs) visit(need, place);
  };
  for (const name of names) visit(name, '');
  try {
    visit(optional, '');
  } catch {
    console.log(`left out: the local chain, because npm does not get ${optional}`);
  }
  return copied;
}

/** A package as a lock file describes it; that it is the same is checked where the file has its hash. */
export function fetchPackage({ work, name, version, integrity }) {
  const folder = mkdtempSync(join(work, 'fetched-'));
  execFileSync('npm', ['pack', '--silent', '--pack-destination', folder, `${name}@${version}`], { stdio: 'ignore' });
  const [file] = readdirSync(folder);
  const [algorithm, digest] = (integrity ?? '-').split('-', 2);
  if (
    digest !== '' &&
    createHash(algorithm)
      .update(readFileSync(join(folder, file)))
      .digest('base64') !== digest
  )
    throw new Error(`${name}@${version} is not what package-lock.json names`);
  execFileSync('tar', ['-xzf', join(folder, file), '-C', folder]);
  return join(folder, 'package');
}

const filesAt = (path) => {
  if (!existsSync(path))
    throw new Error(`${path} is missing: install the packages again with Node of the same major version`);
  return statSync(path).isDirectory() ? listFiles(path) : [path];
};
const ownFiles = (source) =>
  listFiles(source).filter(
    (path) => !path.slice(source.length).includes('/node_modules/') && !UNUSED.test(path.slice(source.length)),
  );
const listLicences = (source) =>
  listFiles(source).filter((path) => dirname(path) === source && /^(licen[cs]e|copying)/i.test(basename(path)));

/** Removes symbols for debuggers. */
function strip(path, { arch }) {
  const own = arch === process.arch;
  const program = own ? 'strip' : { arm64: 'aarch64-linux-gnu-strip', x64: 'x86_64-linux-gnu-strip' }[arch];
  try {
    execFileSync(program, ['--strip-unneeded', path], { stdio: 'ignore' });
  } catch {
    console.log(`not stripped, because ${program} is not installed: ${basename(path)}`);
  }
}

/** Node comes with the licences of what it contains. */
function nodeLicence({ path, version }) {
  const places = [
    join(dirname(path), '../LICENSE'),
    '/usr/share/doc/nodejs/LICENSE',
    '/usr/share/doc/nodejs/copyright',
  ];
  const file = places.find((one) => existsSync(one));
  if (file === undefined)
    throw new Error(`the licence of Node is not next to ${path}: it has to be distributed with the binary`);
  return `\n${'-'.repeat(78)}\nNode.js ${version}\n\n${readFileSync(file, 'utf8')}`;
}
