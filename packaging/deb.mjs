import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { listFiles, writeFile } from './npm.mjs';
import { unitOf } from './tree.mjs';

const ARCHITECTURES = { x64: 'amd64', arm64: 'arm64' };
/** Which version of libstdc++6 brought which symbols (GLIBCXX_3.4.N). */
const LIBSTDCXX = [
  [30, '12'],
  [29, '11'],
  [28, '9'],
  [26, '9'],
  [25, '8'],
  [0, '7'],
];

/** Lays out the content of the Debian package. `tree` is the relocatable folder. */
export function makeDeb({ root, tree, folder, version, runtime, maintainer, epoch }) {
  const debian = join(root, 'packaging/debian');
  const home = join(folder, 'usr/lib/parhelion');
  const documents = join(folder, 'usr/share/doc/parhelion');
  for (const name of ['bin', 'lib']) cpSync(join(tree, name), join(home, name), { recursive: true });
  mkdirSync(join(folder, 'usr/bin'), { recursive: true });
  symlinkSync('../lib/parhelion/bin/parhelion', join(folder, 'usr/bin/parhelion'));
  cpSync(join(tree, 'share'), join(folder, 'usr/share'), { recursive: true });
  const zsh = join(folder, 'usr/share/zsh/site-functions/_parhelion');
  if (existsSync(zsh)) {
    // Where Debian's zsh looks for what packages bring.
    writeFile(join(folder, 'usr/share/zsh/vendor-completions/_parhelion'), readFileSync(zsh));
    rmSync(join(folder, 'usr/share/zsh/site-functions'), { recursive: true });
  }

  for (const name of readdirSync(join(root, 'systemd')).filter((one) => /\.(service|socket)$/.test(one)))
    writeFile(
      join(folder, 'usr/lib/systemd/system', name),
      unitOf(readFileSync(join(root, 'systemd', name), 'utf8'), '/usr/bin/parhelion'),
    );
  for (const kind of ['sysusers', 'tmpfiles'])
    writeFile(join(folder, `usr/lib/${kind}.d/parhelion.conf`), readFileSync(join(root, `systemd/${kind}.conf`)));
  writeFile(join(folder, 'etc/parhelion/parhelion.yaml'), readFileSync(join(debian, 'parhelion.yaml')));

  rmSync(join(documents, 'systemd'), { recursive: true });
  for (const name of ['LICENSE', 'parhelion.yaml']) rmSync(join(documents, name));
  writeFile(join(documents, 'copyright'), readFileSync(join(debian, 'copyright')));
  const date = new Date(epoch * 1_000).toUTCString().replace('GMT', '+0000');
  const entry = `parhelion (${version}) unstable; urgency=medium\n\n  * Changes: CHANGELOG.md in this folder.\n\n -- ${maintainer}  ${date}\n`;
  writeFile(join(documents, 'changelog'), entry);
  compress(join(documents, 'changelog'), join(documents, 'changelog.gz'));
  const page = join(folder, 'usr/share/man/man1/parhelion.1');
  if (existsSync(page)) compress(page, `${page}.gz`);
  writeFile(join(folder, 'usr/share/lintian/overrides/parhelion'), readFileSync(join(debian, 'lintian-overrides')));

  const architecture = ARCHITECTURES[runtime.arch];
  const files = listFiles(folder);
  const sums = files
    .filter((path) => !path.startsWith(join(folder, 'etc')))
    .map((path) => `${createHash('md5').update(readFileSync(path)).digest('hex')}  ${path.slice(folder.length + 1)}\n`);
  const size = files.reduce((sum, path) => sum + Math.ceil(statSync(path).size / 1024), 0);
  const fill = {
    VERSION: version,
    ARCHITECTURE: architecture,
    SIZE: String(size),
    MAINTAINER: maintainer,
    LIBRARIES: librariesOf(files),
  };
  const control = readFileSync(join(debian, 'control'), 'utf8').replaceAll(/@(\w+)@/g, (_, name) => fill[name]);
  writeFile(join(folder, 'DEBIAN/control'), control);
  writeFile(join(folder, 'DEBIAN/md5sums'), sums.join(''));
  writeFile(join(folder, 'DEBIAN/conffiles'), '/etc/parhelion/parhelion.yaml\n');
  for (const name of ['postinst', 'prerm', 'postrm']) {
    cpSync(join(debian, name), join(folder, 'DEBIAN', name));
    chmodSync(join(folder, 'DEBIAN', name), 0o755);
  }
  return { architecture };
}

/** What the binaries link against, with the versions whose symbols they name. */
function librariesOf(files) {
  const binaries = files
    .filter((path) => path.endsWith('.node') || path.endsWith('/lib/node'))
    .map((path) => readFileSync(path, 'latin1'));
  const newest = (pattern) =>
    binaries
      .flatMap((text) => [...text.matchAll(pattern)].map(([, number]) => number))
      .sort((a, b) => a.localeCompare(b, 'en', { numeric: true }))
      .at(-1);
  const libc = newest(/GLIBC_(2\.\d+)/g) ?? '2.28';
  const cxx = Number(newest(/GLIBCXX_3\.4\.(\d+)/g) ?? 0);
  const atomic = binaries.some((text) => text.includes('\0libatomic.so.1\0')) ? ', libatomic1' : '';
  return `libc6 (>= ${libc}), libstdc++6 (>= ${LIBSTDCXX.find(([least]) => cxx >= least)[1]}), libgcc-s1${atomic}`;
}

function compress(from, to) {
  writeFileSync(to, execFileSync('gzip', ['-n', '-9', '--stdout', from], { maxBuffer: 2 ** 26 }));
  rmSync(from);
}
