import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { crc32, deflateRawSync } from 'node:zlib';

/**
 * Makes the packages for programs that call a daemon, from the documents that it serves: one for npm, a wheel for pip, and folders for Go and
 * Rust. `settle` and `tar` are those of the other packages, so that the same commit gives the same bytes.
 */
export function makeSdk({ root, output, version, work, epoch, settle, tar }) {
  const sources = join(work, 'sdk');
  const tsx = join(root, 'node_modules/tsx/dist/cli.mjs');
  const args = [
    tsx,
    '--conditions=parhelion-source',
    'packaging/sdk/write.ts',
    '--output',
    sources,
    '--package-version',
    version,
  ];
  execFileSync(process.execPath, args, { cwd: root, stdio: 'inherit' });
  settle(sources);
  const pack = ['pack', '--silent', '--ignore-scripts', '--pack-destination', output];
  execFileSync('npm', pack, { cwd: join(sources, 'typescript'), stdio: 'ignore' });
  writeFileSync(
    join(output, `parhelion_sdk-${version}-py3-none-any.whl`),
    wheelOf(join(sources, 'python'), version, epoch),
  );
  for (const language of readdirSync(sources).filter((name) => name === 'go' || name === 'rust')) {
    const name = `parhelion-sdk-${language}-${version}`;
    renameSync(join(sources, language), join(work, name));
    tar(join(output, `${name}.tar.gz`), work, name);
  }
}

/** A wheel: the package, what it is, and the hash of each file. */
function wheelOf(folder, version, epoch) {
  const info = `parhelion_sdk-${version}.dist-info`;
  const readme = readFileSync(join(folder, 'README.md'), 'utf8');
  const files = new Map(
    filesBelow(join(folder, 'parhelion_sdk')).map((path) => [relative(folder, path), readFileSync(path)]),
  );
  const metadata = [
    'Metadata-Version: 2.1',
    'Name: parhelion-sdk',
    `Version: ${version}`,
    'Summary: Calls a parhelion daemon: its routes and its methods of JSON-RPC',
    'License: Apache-2.0',
    'Requires-Python: >=3.9',
    'Description-Content-Type: text/markdown',
    '',
    readme,
  ];
  files.set(`${info}/METADATA`, Buffer.from(metadata.join('\n')));
  files.set(
    `${info}/WHEEL`,
    Buffer.from('Wheel-Version: 1.0\nGenerator: parhelion\nRoot-Is-Purelib: true\nTag: py3-none-any\n'),
  );
  files.set(`${info}/LICENSE`, readFileSync(join(folder, 'LICENSE')));
  const hashOf = (bytes) => `sha256=${createHash('sha256').update(bytes).digest('base64url')}`;
  const record = [...files].map(([name, bytes]) => `${name},${hashOf(bytes)},${bytes.length}\n`);
  files.set(`${info}/RECORD`, Buffer.from(`${record.join('')}${info}/RECORD,,\n`));
  return zipOf(files, epoch);
}

const filesBelow = (folder) =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .sort();

/** A zip archive whose files all have one time, in seconds since 1970. */
function zipOf(files, epoch) {
  const when = new Date(epoch * 1_000);
  const date = ((when.getUTCFullYear() - 1980) << 9) | ((when.getUTCMonth() + 1) << 5) | when.getUTCDate();
  const time = (when.getUTCHours() << 11) | (when.getUTCMinutes() << 5) | (when.getUTCSeconds() >> 1);
  const parts = [];
  const directory = [];
  let offset = 0;
  for (const [name, bytes] of files) {
    const path = Buffer.from(name);
    const packed = deflateRawSync(bytes, { level: 9 });
    // Version 2.0, names in UTF-8, deflate.
    const facts = Buffer.alloc(26);
    for (const [at, value] of [20, 0x800, 8, time, date].entries()) facts.writeUInt16LE(value, 2 * at);
    for (const [at, value] of [crc32(bytes), packed.length, bytes.length].entries())
      facts.writeUInt32LE(value, 10 + 4 * at);
    facts.writeUInt16LE(path.length, 22);
    const entry = Buffer.alloc(16);
    // A regular file that everybody may read.
    entry.writeUInt32LE((0o100644 << 16) >>> 0, 6);
    entry.writeUInt32LE(offset, 10);
    const local = Buffer.concat([Buffer.from('PK\x03\x04'), facts, path, packed]);
    // Made by version 2.0 on a Unix.
    directory.push(Buffer.from('PK\x01\x02\x14\x03', 'latin1'), facts, entry.subarray(0, 14), path);
    parts.push(local);
    offset += local.length;
  }
  const listed = Buffer.concat(directory);
  const end = Buffer.alloc(18);
  end.writeUInt16LE(files.size, 4);
  end.writeUInt16LE(files.size, 6);
  end.writeUInt32LE(listed.length, 8);
  end.writeUInt32LE(offset, 12);
  return Buffer.concat([...parts, listed, Buffer.from('PK\x05\x06'), end]);
}
