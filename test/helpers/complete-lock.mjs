/**
 * `npm run lock`: writes package-lock.json for every platform. A registry that mirrors only some platforms answers 404 for the binaries of
 * the others; npm then leaves them out of the lock file, and refuses that very file in `npm ci`. The names of such packages say what
 * they are for, and their versions stand in the package that wants them.
 */
import { readFileSync, writeFileSync } from 'node:fs';

const OS = new Set(['android', 'darwin', 'freebsd', 'linux', 'openbsd', 'openharmony', 'win32', 'sunos', 'aix']);
const CPU = new Set(['arm', 'arm64', 'ia32', 'loong64', 'mips64el', 'ppc64', 'riscv64', 's390x', 'x64']);
const LIBC = { gnu: 'glibc', gnueabihf: 'glibc', musl: 'musl', musleabihf: 'musl' };

const lock = JSON.parse(readFileSync('package-lock.json', 'utf8'));
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
      cpu: [cpu],
      ...(parent.dev === true ? { dev: true } : {}),
      ...(libc === undefined ? {} : { libc: [libc] }),
      optional: true,
      os: [os],
    };
    added += 1;
  }
}
const sorted = Object.entries(lock.packages).sort(([a], [b]) => (a < b ? -1 : 1));
lock.packages = Object.fromEntries(sorted);
writeFileSync('package-lock.json', `${JSON.stringify(lock, null, 2)}\n`);
console.log(`${added} packages of other platforms added`);
