import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { findRunFile } from '../../../src/cli/running-daemon.ts';
import { cliArguments } from '../../helpers/daemon.ts';

/** Makes every load of the engine fail, as in an install without optional packages. */
const refuse = `import Module from 'node:module';
const load = Module._load;
Module._load = function (name, ...rest) {
  if (name.startsWith('litesvm')) throw new Error('undefined symbol: made up for this test');
  return load.call(this, name, ...rest);
};`;
const NODE_OPTIONS = `--import=data:text/javascript,${encodeURIComponent(refuse)}`;

function setUp(t: TestContext) {
  const dir = mkdtempSync(join(tmpdir(), 'parhelion-engine-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  const any = { PARHELION_HTTP__PORT: '0', PARHELION_ADMIN__PORT: '0', PARHELION_UPSTREAM__LOCAL__PORT: '0' };
  const env = { PATH: process.env['PATH'], NODE_OPTIONS, ...any };
  return { dir, env, args: [...cliArguments, 'serve', '--data-dir', dir] };
}

test('a plain start without the engine of the local chain ends with 78 and says both ways out', (t) => {
  const { dir, env, args } = setUp(t);
  const { status, stdout, stderr } = spawnSync(process.execPath, args, {
    cwd: dir,
    env,
    encoding: 'utf8',
    timeout: 120_000,
  });
  assert.equal(status, 78, stderr);
  for (const part of ['LOCAL_ENGINE_MISSING', 'undefined symbol', 'npm install litesvm-', 'SOLANA_RPC_URL'])
    assert.ok(stdout.includes(part), stdout + stderr);
  assert.ok(!stdout.includes('LOCAL CHAIN'), 'no banner of a chain that is not there');
  assert.equal(existsSync(join(dir, 'parhelion.db')), false);
});

test('with a real upstream the engine is not missed', async (t) => {
  const { dir, env, args } = setUp(t);
  const node = createServer((_request, response) =>
    response.setHeader('content-type', 'application/json').end('{"jsonrpc":"2.0","id":1,"result":"Genesis"}'),
  ).listen(0, '127.0.0.1');
  await once(node, 'listening');
  t.after(() => {
    node.close();
    node.closeAllConnections();
  });
  const SOLANA_RPC_URL = `http://127.0.0.1:${(node.address() as AddressInfo).port}`;
  const child = spawn(process.execPath, args, { cwd: dir, env: { ...env, SOLANA_RPC_URL } });
  const gone = once(child, 'exit');
  t.after(() => child.kill('SIGKILL'));
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
  for (let tries = 0; tries < 2_400 && !output.includes(' Try:'); tries++) {
    assert.equal(child.exitCode, null, output);
    await sleep(50);
  }
  assert.ok(!output.includes('LOCAL CHAIN'), output);
  const key = /API key +(\S+)/.exec(output)![1]!;
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'getGenesisHash' });
  const { api } = findRunFile(dir)!;
  const response = await fetch(`${api}/?api-key=${key}`, { method: 'POST', body });
  assert.deepEqual(await response.json(), { jsonrpc: '2.0', id: 1, result: 'Genesis' });
  assert.equal(response.headers.get('x-parhelion-chain'), null);
  child.kill('SIGINT');
  const [code] = await gone;
  assert.equal(code, 0, output);
});
