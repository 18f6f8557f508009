/** A daemon whose user may start no further process or thread. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chmodSync, chownSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { BOOTSTRAP_KEY, startBuiltDaemon } from '../../helpers/built-daemon.ts';
import { findProjectRoot } from '../../helpers/project-root.ts';
import { startUpstream } from '../../helpers/upstream.ts';

const ROOT = findProjectRoot();
const NOBODY = 65_534;
const ROUNDS = 20;
const isRoot = process.getuid?.() === 0;
/** The system does not limit the processes of root. */
const asUser = isRoot ? ['setpriv', `--reuid=${NOBODY}`, `--regid=${NOBODY}`, '--clear-groups', '--'] : [];

function run(...words: readonly string[]): boolean {
  const [program, ...args] = [...asUser, ...words];
  return spawnSync(program!, args).status === 0;
}

function reasonToSkip(): string | false {
  if (!run('prlimit', '--nproc', '--raw')) return 'prlimit, or setpriv for root, is missing';
  return run('test', '-r', join(ROOT, 'package.json')) ? false : `user ${NOBODY} cannot read ${ROOT}`;
}

test('without room for another process or thread the daemon goes on', { skip: reasonToSkip() }, async (t) => {
  const upstream = await startUpstream();
  upstream.on('getHello', { result: '"hello"' });
  const dataDir = mkdtempSync(join(tmpdir(), 'parhelion-processes-'));
  const configFile = join(dataDir, 'parhelion.yaml');
  const listeners = 'http: { port: 0 }\nadmin: { port: 0 }\n';
  writeFileSync(configFile, `dataDir: ${dataDir}\nupstream: { urls: ["${upstream.url}"] }\n${listeners}`);
  if (isRoot) for (const path of [dataDir, configFile]) chownSync(path, NOBODY, NOBODY);
  chmodSync(dataDir, 0o700);
  const daemon = startBuiltDaemon({ configFile, dataDir, wrapper: asUser });
  t.after(async () => {
    await daemon.kill('SIGKILL');
    await upstream.stop();
    rmSync(dataDir, { recursive: true });
  });
  const { api, admin } = await daemon.ready();
  const { pid } = daemon.child;
  assert.ok(run('prlimit', '--pid', String(pid), '--nproc=1:1'));
  assert.match(readFileSync(`/proc/${pid}/limits`, 'utf8'), /^Max processes +1 +1 /m);
  const call = async (path: string, init: RequestInit = {}) =>
    (await fetch(`${api}${path}?api-key=${BOOTSTRAP_KEY}`, { ...init, signal: AbortSignal.timeout(20_000) })).text();
  for (let round = 0; round < ROUNDS; round += 1) {
    const body = '{"jsonrpc":"2.0","id":1,"method":"getHello"}';
    assert.equal(await call('/', { method: 'POST', body }), '{"jsonrpc":"2.0","result":"hello","id":1}');
    assert.equal(await call('/v0/webhooks'), '[]');
    assert.equal((await fetch(`${admin}/metrics`)).status, 200);
  }
  assert.equal(daemon.child.exitCode, null);
  await daemon.kill('SIGTERM');
  assert.equal(await daemon.ended, 0);
});
