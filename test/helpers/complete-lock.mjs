/**
 * `npm run lock`: writes package-lock.json of the working directory for every platform. A registry that mirrors only some platforms answers 404 for the binaries of
 * the others; npm then leaves them out of the lock file, and refuses that very file in `npm ci`. The names of such packages say what
 * they are for, and their versions stand in the package that wants them. The hash of each is asked of the registry, or taken from the lock
 * file as it was; one that nobody tells is named at the end, and the exit code is 1.
 */
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';

const OS = new Set(['android', 'darwin', 'freebsd', 'linux', 'openbsd', 'openharmony', 'win32', 'sunos', 'aix']);
const CPU = new Set(['arm', 'arm64', 'ia32', 'loong64', 'mips64el', 'ppc64', 'riscv64', 's390x', 'x64']);
const LIBC = { gnu: 'glibc', gnueabihf: 'glibc', musl: 'musl', musleabihf: 'musl' };

const lock = JSON.parse(readFileSync('package-lock.json', 'utf8'));
/** The committed lock file: `npm install` has just overwritten it. */
const before = JSON.parse(
  spawnSync('git', ['show', 'HEAD:./package-lock.json'], { encoding: 'utf8', maxBuffer: 2 ** 28 }).stdout || '{}',
);
let added = 0;
for (const parent of Object.values(lock.packages)) {
  for (const [name, version] of Object.entries(parent.optionalDependencies ?? {})) {
    const words = name.split(/[-/]/);
    const os = words.find((word) => OS.has(word));
    const cpu = words.find((word) => CPU.has(word));
    if (os === undefined || cpu === undefined || !/^\d+\.\d+\.\d+/.test(version)) continue;
    if (Object.keys(lock.packages).some((path) => path.endsWith(`node_modules/${name}`))) continue;
    const libc = LIBC[words.at(-1)];
    lock.packages[`node_modules/${name}`] = {
      version,
      ...hashOf(name, version),
      cpu: [cpu],
      ...(parent.dev === true ? { dev: true } : {}),
      ...(libc === undefined ? {} : { libc: [libc] }),
      optional: true,
      os: [os],
    };
    added += 1;
  }
}
// What an earlier run could not learn, the registry may know by now.
let found = 0;
for (const [path, one] of Object.entries(lock.packages)) {
  if (path === '' || one.link === true || one.inBundle === true || one.integrity !== undefined) continue;
  const { version, ...rest } = one;
  const hash = hashOf(path.slice(path.lastIndexOf('node_modules/') + 13), version);
  if (hash.integrity !== undefined) found += 1;
  lock.packages[path] = { version, ...hash, ...rest };
}
const sorted = Object.entries(lock.packages).sort(([a], [b]) => (a < b ? -1 : 1));
lock.packages = Object.fromEntries(sorted);
writeFileSync('package-lock.json', `${JSON.stringify(lock, null, 2)}\n`);
console.log(`${added} packages of other platforms added, ${found} hashes`);
const unhashed = Object.entries(lock.packages)
  .filter(([path, one]) => path !== '' && one.link !== true && one.inBundle !== true && one.integrity === undefined)
  .map(([path, { version }]) => `${path.slice(path.lastIndexOf('node_modules/') + 13)}@${version}`);
if (unhashed.length > 0) {
  console.error(`no registry told the hash of ${unhashed.length} packages; complete the file where one has them:`);
  for (const name of unhashed) console.error(`  ${name}`);
  process.exitCode = 1;
}

function hashOf(name, version) {
  const known = before.packages?.[`node_modules/${name}`];
  if (known?.version === version && known.integrity !== undefined) return { integrity: known.integrity };
  const { stdout } = spawnSync('npm', ['view', `${name}@${version}`, 'dist.integrity'], { encoding: 'utf8' });
  const integrity = stdout.trim();
  return integrity.startsWith('sha512-') ? { integrity } : {};
}
