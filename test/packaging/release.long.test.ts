/** `npm run release`, from packages that are made once: what it lays out is read by the programs that users would read it with. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  appendFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { findProjectRoot } from '../helpers/project-root.ts';

const root = findProjectRoot();
const has = (program: string) => spawnSync('which', [program]).status === 0;
const VERSION = '0.1.0';
const BASE = 'https://downloads.example/parhelion';

function run(program: string, args: readonly string[], options: { cwd?: string; env?: NodeJS.ProcessEnv } = {}) {
  const { status, stdout, stderr, error } = spawnSync(program, args, { encoding: 'utf8', ...options });
  return { status, out: stdout, all: `${stdout}${stderr}${error?.message ?? ''}` };
}

function succeed(
  program: string,
  args: readonly string[],
  options: { cwd?: string; env?: NodeJS.ProcessEnv } = {},
): string {
  const { status, out, all } = run(program, args, options);
  assert.equal(status, 0, `${program} ${args.join(' ')}\n${all}`);
  return out;
}

const release = (...args: readonly string[]) => run(process.execPath, [`${root}packaging/release.mjs`, ...args]);
const hashOf = (path: string) => createHash('sha256').update(readFileSync(path)).digest('hex');

/** Commands of the block of packaging/README.md that has this text. */
function commandsOf(text: string): string {
  const blocks = [...readFileSync(`${root}packaging/README.md`, 'utf8').matchAll(/^```sh[^\n]*\n(.*?)^```$/gms)];
  const [, block] = blocks.find(([, one]) => one!.includes(text)) ?? [];
  assert.ok(block !== undefined, `no block with ${text}`);
  return block;
}

const reason = has('dpkg-deb') ? null : 'not installed: dpkg-deb';
if (reason !== null) console.error(`SKIPPED: ${reason}`);

describe('a release', { skip: reason ?? false }, () => {
  const dir = mkdtempSync(join(tmpdir(), 'parhelion-repository-'));
  // _apt, a user of its own, reads there.
  const [packages, earlier, output] = ['packages', 'earlier', 'release'].map((name) => join(dir, name)) as [
    string,
    string,
    string,
  ];
  const deb = `parhelion_${VERSION}_amd64.deb`;

  before(() => {
    succeed('chmod', ['0755', dir]);
    const fast = ['--built', '--compression', 'none'];
    // Of an earlier release the apt repository alone is kept.
    for (const [folder, version, kinds] of [
      [packages, VERSION, 'npm,deb,sdk'],
      [earlier, '0.0.9', 'deb'],
    ] as const)
      succeed(process.execPath, [
        `${root}packaging/run.mjs`,
        ...fast,
        '--only',
        kinds,
        '--package-version',
        version,
        '--output',
        folder,
      ]);
    const made = release(
      '--packages',
      packages,
      '--keep',
      earlier,
      '--base-url',
      `${BASE}/vVERSION/`,
      '--output',
      output,
    );
    assert.equal(made.status, 0, made.all);
    assert.doesNotMatch(made.all, /placeholder/);
  });
  after(() => rmSync(dir, { recursive: true, force: true }));

  test('has every artefact, and hashes of all that sha256sum accepts', () => {
    const files = readdirSync(output, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map(({ parentPath, name }) => join(parentPath, name).slice(output.length + 1));
    const lists = 'apt/dists/stable/main/binary-amd64/Packages';
    const pool = 'apt/pool/main/p/parhelion';
    assert.deepEqual(
      files.sort(),
      [
        'SHA256SUMS',
        'apt/dists/stable/Release',
        lists,
        `${lists}.gz`,
        `${pool}/parhelion_0.0.9_amd64.deb`,
        `${pool}/${deb}`,
        'homebrew/Formula/parhelion.rb',
        'packages/RELEASE_NOTES.md',
        'packages/SHA256SUMS',
        `packages/parhelion-${VERSION}-linux-x64.cdx.json`,
        `packages/parhelion-${VERSION}.tgz`,
        `packages/parhelion-sdk-${VERSION}.tgz`,
        `packages/parhelion-sdk-go-${VERSION}.tar.gz`,
        `packages/parhelion-sdk-rust-${VERSION}.tar.gz`,
        `packages/parhelion_sdk-${VERSION}-py3-none-any.whl`,
        `packages/${deb}`,
      ].sort(),
    );
    for (const folder of [output, join(output, 'packages')]) {
      const checked = succeed('sha256sum', ['--check', '--strict', 'SHA256SUMS'], { cwd: folder });
      const names = readFileSync(join(folder, 'SHA256SUMS'), 'utf8').trim().split('\n');
      assert.equal(
        checked
          .trim()
          .split('\n')
          .filter((line) => line.endsWith(': OK')).length,
        names.length,
      );
    }
    assert.match(
      readFileSync(join(output, 'packages/RELEASE_NOTES.md'), 'utf8'),
      /^# parhelion 0\.1\.0\n\nThe first release/,
    );
  });

  test('is the same, byte by byte, when it is made again', () => {
    const again = join(dir, 'again');
    const made = release(
      '--packages',
      packages,
      '--keep',
      join(output, 'apt'),
      '--base-url',
      `${BASE}/vVERSION`,
      '--output',
      again,
    );
    assert.equal(made.status, 0, made.all);
    const sums = (folder: string) => readFileSync(join(folder, 'SHA256SUMS'), 'utf8');
    assert.equal(sums(again), sums(output));
  });

  /** apt-get with lists, sources and state of its own. */
  function aptIn(name: string, source: string) {
    const state = join(dir, name);
    for (const folder of ['lists/partial', 'cache/archives/partial', 'parts', 'downloads'])
      mkdirSync(join(state, folder), { recursive: true });
    writeFileSync(join(state, 'status'), '');
    writeFileSync(join(state, 'sources.list'), `${source}\n`);
    const settings = {
      'Dir::State::Lists': 'lists',
      'Dir::State::status': 'status',
      'Dir::Cache': 'cache',
      'Dir::Etc::SourceList': 'sources.list',
      'Dir::Etc::SourceParts': 'parts',
      'Dir::Etc::PreferencesParts': 'parts',
      'Dir::Etc::Preferences': 'preferences',
    };
    const options = [
      ...Object.entries(settings).map(([key, path]) => `${key}=${join(state, path)}`),
      'APT::Architecture=amd64',
      'APT::Architectures::=amd64',
      'APT::Sandbox::User=root',
      'Acquire::Languages=none',
    ].flatMap((option) => ['-o', option]);
    const env = { ...process.env, LC_ALL: 'C' };
    return (program: 'apt-get' | 'apt-cache', ...args: string[]) =>
      run(program, [...options, ...args], { cwd: join(state, 'downloads'), env });
  }

  const noApt = ['apt-get', 'apt-cache'].every(has) ? false : 'not installed: apt';
  if (noApt !== false) console.error(`SKIPPED: ${noApt}`);

  test('apt finds the versions in the repository, and downloads the same file', { skip: noApt }, () => {
    const apt = aptIn('trusted', `deb [trusted=yes] file:${output}/apt stable main`);
    const updated = apt('apt-get', 'update');
    assert.equal(updated.status, 0, updated.all);
    assert.doesNotMatch(updated.all, /^[WE]:/m);
    const { out } = apt('apt-cache', 'policy', 'parhelion');
    assert.match(out, new RegExp(`Candidate: ${VERSION}$`, 'm'));
    assert.match(out, /^ {5}0\.0\.9 /m, 'the earlier version is gone');
    const got = apt('apt-get', 'download', 'parhelion');
    assert.equal(got.status, 0, got.all);
    assert.equal(hashOf(join(dir, 'trusted/downloads', deb)), hashOf(join(packages, deb)));
  });

  test('apt notices a package that was changed', { skip: noApt }, () => {
    const copy = join(dir, 'changed');
    cpSync(join(output, 'apt'), copy, { recursive: true });
    appendFileSync(join(copy, 'pool/main/p/parhelion', deb), 'x');
    const apt = aptIn('suspicious', `deb [trusted=yes] copy:${copy} stable main`);
    assert.equal(apt('apt-get', 'update').status, 0);
    const { status, all } = apt('apt-get', 'download', 'parhelion');
    assert.notEqual(status, 0);
    assert.match(all, /Hash Sum mismatch|unexpected size/i);
  });

  const noKeys = noApt || (has('gpg') && has('gpgv') ? false : 'not installed: gpg');
  if (noKeys !== false && noKeys !== noApt) console.error(`SKIPPED: ${noKeys}`);

  test('signed as the page says, apt trusts it by its key, and not without', { skip: noKeys }, (t) => {
    const env = { ...process.env, GNUPGHOME: join(dir, 'keys') };
    mkdirSync(env.GNUPGHOME, { mode: 0o700 });
    t.after(() => run('gpgconf', ['--kill', 'all'], { env }));
    const make = ['--batch', '--quiet', '--pinentry-mode', 'loopback', '--passphrase', ''];
    succeed('gpg', [...make, '--quick-generate-key', 'releases@parhelion.example', 'ed25519', 'sign', '0'], { env });
    const copy = join(dir, 'signed');
    cpSync(output, join(copy, 'dist-release'), { recursive: true });
    succeed('sh', ['-ec', commandsOf('--clearsign').replaceAll('KEY', 'releases@parhelion.example')], {
      cwd: copy,
      env,
    });
    const key = join(copy, 'dist-release/apt/parhelion.gpg');
    assert.ok(existsSync(key));
    const update = (name: string, by: string) => {
      const apt = aptIn(name, `deb [signed-by=${by}] file:${copy}/dist-release/apt stable main`);
      return { ...apt('apt-get', 'update'), policy: apt('apt-cache', 'policy', 'parhelion').out };
    };
    const good = update('by-key', key);
    assert.equal(good.status, 0, good.all);
    assert.match(good.policy, new RegExp(`Candidate: ${VERSION}$`, 'm'));
    // Another change to what was signed.
    writeFileSync(
      join(copy, 'dist-release/apt/dists/stable/InRelease'),
      readFileSync(join(copy, 'dist-release/apt/dists/stable/InRelease'), 'utf8').replace(
        'Suite: stable',
        'Suite: other',
      ),
    );
    rmSync(join(copy, 'dist-release/apt/dists/stable/Release.gpg'));
    const bad = update('forged', key);
    assert.match(bad.all, /^[WE]:.*signature/im);
    assert.doesNotMatch(bad.policy, new RegExp(`Candidate: ${VERSION}$`, 'm'));
  });

  test('the formula installs the npm package of this release', () => {
    const file = join(output, 'homebrew/Formula/parhelion.rb');
    const formula = readFileSync(file, 'utf8');
    assert.match(formula, /^class Parhelion < Formula$/m);
    const member = (name: string) => new RegExp(`^  ${name} "(.*)"$`, 'm').exec(formula)?.[1];
    const tarball = `parhelion-${VERSION}.tgz`;
    assert.equal(member('url'), `${BASE}/v${VERSION}/${tarball}`);
    assert.equal(member('homepage'), new URL(BASE).origin);
    assert.equal(member('sha256'), hashOf(join(output, 'packages', tarball)));
    assert.equal(member('license'), 'Apache-2.0');
    assert.equal(member('depends_on'), 'node@24');
    assert.ok(member('desc')!.length <= 80 && !/^(a|an|the) |\.$/i.test(member('desc')!));
    assert.match(formula, /system "npm", "install", \*std_npm_args/);
    assert.match(formula, /^ {2}test do\n.*assert_match version\.to_s, shell_output.*^ {2}end$/ms);
    const ends = formula.match(/^ *(class|def|test do)|^ *end$/gm) ?? [];
    assert.equal(ends.filter((line) => line.trim() === 'end').length * 2, ends.length);
  });

  test('the formula is Ruby that Homebrew can read', { skip: has('ruby') ? false : 'not installed: ruby' }, () => {
    const file = join(output, 'homebrew/Formula/parhelion.rb');
    succeed('ruby', ['-c', file]);
    // As much of Homebrew as the head of the formula needs.
    const stub = `class Formula
      %w[desc homepage url sha256 license depends_on].each { |name| define_singleton_method(name) { |value| puts "#{name}=#{value}" } }
      def self.test; end
    end
    load ARGV[0]`;
    assert.match(succeed('ruby', ['-e', stub, file]), /^url=.*\.tgz\nsha256=[0-9a-f]{64}\n/m);
  });

  test('says what it cannot make, and refuses what it cannot trust', () => {
    const only = join(dir, 'only');
    succeed(process.execPath, [`${root}packaging/run.mjs`, '--built', '--only', 'npm', '--output', only]);
    const made = release('--packages', only, '--output', join(dir, 'without'));
    assert.equal(made.status, 0, made.all);
    assert.match(made.all, /no apt repository: it needs the Debian package/);
    assert.match(made.all, /its address is a placeholder/);
    const [tarball] = readdirSync(only).filter((name) => name.endsWith('.tgz'));
    appendFileSync(join(only, tarball!), 'x');
    const refusals: readonly (readonly [RegExp, ...string[]])[] = [
      [/is not what its SHA256SUMS says/, '--packages', only],
      [/it has no SHA256SUMS/, '--packages', dir],
      [/--base-url ftp:.*not an address/, '--packages', packages, '--base-url', 'ftp://downloads.example'],
      [/--suite/, '--packages', packages, '--suite', 'a/b'],
      [/--keep .*: no such folder/, '--packages', packages, '--keep', join(dir, 'nowhere')],
    ];
    for (const [why, ...args] of refusals) {
      const { status, all } = release(...args, '--output', join(dir, 'refused'));
      assert.notEqual(status, 0, args.join(' '));
      assert.match(all, why);
    }
    // Another content under a name that was published already.
    const other = join(dir, 'other');
    mkdirSync(other);
    const tree = join(dir, 'tree');
    succeed('dpkg-deb', ['--raw-extract', join(packages, deb), tree]);
    appendFileSync(join(tree, 'usr/share/doc/parhelion/README.md'), 'x');
    succeed('dpkg-deb', ['-Znone', '--build', tree, join(other, deb)]);
    const { status, all } = release('--packages', packages, '--keep', other, '--output', join(dir, 'refused'));
    assert.notEqual(status, 0);
    assert.match(all, /is there twice, with different content/);
  });
});
