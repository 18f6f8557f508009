/**
 * The packages for clients as a release has them: made twice to the same bytes, unpacked as their pages say, and used against a daemon by the
 * programs of test/clients. Python and Go have to be on the machine for their parts; the one for Rust needs its registry: `npm run clients`.
 */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { SYSTEM_PROGRAM } from '../../src/solana/programs.ts';
import { EXAMPLES } from '../../src/solana/schemas.ts';
import { chainMissing, startChain, type TestChain } from '../helpers/chain.ts';
import { type DaemonInProcess, startDaemon } from '../helpers/daemon.ts';
import { findProjectRoot } from '../helpers/project-root.ts';

const root = findProjectRoot();
const missing = await chainMissing();
const VERSION = '0.9.7';
const LAMPORTS = 9_007_199_254_740_993n;
const FLOWS = /^ok routes\nok methods\nok errors\nok limits\n$/;
/** What the programs of the page show. */
const FIRST = /^slot \d+\n(lamports \d+\n)?rows \d+\nhttp 404 webhook not found\n$/;
const FILES = [
  'RELEASE_NOTES.md',
  'SHA256SUMS',
  `parhelion-sdk-${VERSION}.tgz`,
  `parhelion-sdk-go-${VERSION}.tar.gz`,
  `parhelion-sdk-rust-${VERSION}.tar.gz`,
  `parhelion_sdk-${VERSION}-py3-none-any.whl`,
];

/** Why a part is skipped, or false. It is also said. */
function absent(program: string): string | false {
  if (spawnSync('sh', ['-c', `command -v ${program}`]).status === 0) return false;
  const reason = `${program} is not installed: its SDK is not run`;
  console.error(`SKIPPED: ${reason}`);
  return reason;
}

function run(command: string, args: readonly string[], cwd: string, env: NodeJS.ProcessEnv = {}): string {
  const made = spawnSync(command, args, { cwd, encoding: 'utf8', env: { ...process.env, ...env } });
  assert.equal(made.status, 0, `${command} ${args.join(' ')}: ${made.stdout}${made.stderr}`);
  return made.stdout;
}

function makePackages(output: string): void {
  const args = ['packaging/run.mjs', '--only', 'sdk', '--package-version', VERSION, '--output', output];
  run(process.execPath, args, root, { SOURCE_DATE_EPOCH: '1790000000' });
}

describe('the packages for clients', { skip: missing ?? false }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'parhelion-sdk-'));
  const made = join(folder, 'made');
  let chain: TestChain;
  let daemon: DaemonInProcess;

  before(async () => {
    makePackages(made);
    chain = await startChain({ slotMs: 0 });
    await chain.setAccount(EXAMPLES.address, { owner: SYSTEM_PROGRAM, lamports: LAMPORTS, data: new Uint8Array() });
    daemon = await startDaemon({ chain: { rpcUrl: chain.rpcUrl, wsUrl: chain.wsUrl } });
  });
  after(async () => {
    await daemon?.stop();
    await chain?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  /** Runs a program of test/clients beside the daemon, which lives in this process. Each of its flows has to say that it is well. */
  async function flows(command: string, args: readonly string[], cwd: string, expected = FLOWS) {
    const env = {
      ...process.env,
      PARHELION_BASE: daemon.apiUrl,
      PARHELION_KEY: daemon.key,
      PARHELION_ACCOUNT: EXAMPLES.address,
      PYTHONIOENCODING: 'utf-8',
    };
    const child = spawn(command, args, { cwd, env });
    let text = '';
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (text += chunk.toString()));
    const [code] = (await once(child, 'close')) as [number | null];
    assert.match(text, expected);
    assert.equal(code, 0);
  }

  test('are the same bytes when they are made again', () => {
    assert.deepEqual(readdirSync(made).sort(), FILES.toSorted());
    const again = join(folder, 'again');
    makePackages(again);
    const sums = (place: string) => readFileSync(join(place, 'SHA256SUMS'), 'utf8');
    assert.equal(sums(again), sums(made));
  });

  test('npm installs that for TypeScript, and a program calls the daemon with it', async () => {
    const place = mkdtempSync(join(folder, 'npm-'));
    writeFileSync(join(place, 'package.json'), '{"type":"module"}');
    run('npm', ['install', '--offline', '--no-audit', '--no-fund', join(made, `parhelion-sdk-${VERSION}.tgz`)], place);
    cpSync(join(root, 'test/clients/sdk-typescript/first.mjs'), join(place, 'first.mjs'));
    await flows(process.execPath, ['first.mjs'], place, FIRST);
  });

  test('Python reads the wheel, and its flows pass', { skip: absent('python3') }, async () => {
    const wheel = join(made, `parhelion_sdk-${VERSION}-py3-none-any.whl`);
    assert.match(run('python3', ['-m', 'zipfile', '-t', wheel], folder), /Done testing/);
    const place = mkdtempSync(join(folder, 'python-'));
    // Unpacked as pip does, with hashes that are right.
    run('python3', ['-c', UNPACK, wheel, place], folder);
    run('python3', ['-W', 'error', '-m', 'compileall', '-q', place], folder);
    cpSync(join(root, 'test/clients/sdk-python'), place, { recursive: true });
    await flows('python3', ['flows.py'], place);
    await flows('python3', ['first.py'], place, FIRST);
  });

  test('Go builds that for Go, and its flows pass', { skip: absent('go') }, async () => {
    const place = mkdtempSync(join(folder, 'go-'));
    cpSync(join(root, 'test/clients/sdk-go'), place, { recursive: true });
    run('tar', ['-xzf', join(made, `parhelion-sdk-go-${VERSION}.tar.gz`)], place);
    run('go', ['mod', 'edit', `-replace=parhelion/sdk=./parhelion-sdk-go-${VERSION}`], place);
    // Nothing from a registry.
    const env = { GOFLAGS: '-mod=mod', GOPROXY: 'off', GOTOOLCHAIN: 'local' };
    run('go', ['vet', './...', 'parhelion/sdk'], place, env);
    run('go', ['build', '-o', 'bin/', './...'], place, env);
    await flows('bin/flows', [], place);
    await flows('bin/first', [], place, FIRST);
  });
});

const UNPACK = `
import base64, csv, hashlib, io, sys, zipfile
wheel = zipfile.ZipFile(sys.argv[1])
names = wheel.namelist()
record = next(name for name in names if name.endswith("RECORD"))
rows = list(csv.reader(io.StringIO(wheel.read(record).decode())))
assert sorted(row[0] for row in rows) == sorted(names), names
for name, digest, size in rows:
    content = wheel.read(name)
    if name != record:
        assert digest == "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode(), name
        assert int(size) == len(content), name
wheel.extractall(sys.argv[2])
`;
