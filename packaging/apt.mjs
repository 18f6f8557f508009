import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { sha256 } from './common.mjs';
import { writeFile } from './npm.mjs';

const POOL = 'pool/main/p/parhelion';

/** Lays out a repository that apt reads: the packages in `pool`, lists of them in `dists`. What signs it is made from `Release`. */
export function makeAptRepository({ folder, debs, suite, epoch }) {
  const entries = new Map();
  for (const path of debs) {
    const control = execFileSync('dpkg-deb', ['--field', path], { encoding: 'utf8' }).trimEnd();
    const [name, version, architecture] = ['Package', 'Version', 'Architecture'].map((field) =>
      fieldOf(control, field),
    );
    // A colon of an epoch is not in names of files.
    const place = `${POOL}/${name}_${version.replace(/^\d+:/, '')}_${architecture}.deb`;
    const hash = sha256(path);
    if ((entries.get(place)?.hash ?? hash) !== hash)
      throw new Error(
        `${name} ${version} for ${architecture} is there twice, with different content: give it another version`,
      );
    mkdirSync(dirname(join(folder, place)), { recursive: true });
    copyFileSync(path, join(folder, place));
    const text = `${control}\nFilename: ${place}\nSize: ${statSync(path).size}\nSHA256: ${hash}\n`;
    entries.set(place, { architecture, hash, text });
  }
  const sorted = [...entries].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, entry]) => entry);
  const architectures = [...new Set(sorted.map(({ architecture }) => architecture))].sort();
  const dist = join(folder, 'dists', suite);
  const lists = architectures.flatMap((one) => {
    const list = join(dist, 'main', `binary-${one}`, 'Packages');
    const own = sorted.filter(({ architecture }) => architecture === one);
    writeFile(list, own.map(({ text }) => text).join('\n'));
    writeFile(`${list}.gz`, execFileSync('gzip', ['-n', '-9', '--stdout', list], { maxBuffer: 2 ** 26 }));
    return [list, `${list}.gz`];
  });
  const hashes = lists.map((path) => ` ${sha256(path)} ${statSync(path).size} ${path.slice(dist.length + 1)}\n`);
  const fields = {
    Origin: 'parhelion',
    Label: 'parhelion',
    Suite: suite,
    Codename: suite,
    Date: new Date(epoch * 1_000).toUTCString().replace('GMT', 'UTC'),
    Architectures: architectures.join(' '),
    Components: 'main',
    Description: 'parhelion, self-hosted data service for Solana',
  };
  const head = Object.entries(fields).map(([name, value]) => `${name}: ${value}\n`);
  writeFile(join(dist, 'Release'), `${head.join('')}SHA256:\n${hashes.join('')}`);
}

function fieldOf(control, name) {
  const value = new RegExp(`^${name}: (.+)$`, 'm').exec(control)?.[1];
  if (value === undefined) throw new Error(`a Debian package has no ${name}`);
  return value;
}
