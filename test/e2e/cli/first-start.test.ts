import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { findRunFile } from '../../../src/cli/running-daemon.ts';
import { chainMissing } from '../../helpers/chain.ts';
import { cliArguments, runCommand } from '../../helpers/daemon.ts';

const missing =
  (await chainMissing()) ?? (spawnSync('curl', ['--version']).status === 0 ? null : 'curl is not installed');
if (missing !== null) console.error(`SKIPPED: ${missing}`);

test('a first start without any configuration', { skip: missing ?? false }, async (t) => {
  const dataDir = mkdtempSync(join(tmpdir(), 'parhelion-first-'));
  t.after(() => rmSync(dataDir, { recursive: true, force: true }));
  const leftOver = join(dataDir, 'local', 'earlier-chain');
  mkdirSync(leftOver, { recursive: true });
  const env = {
    PATH: process.env['PATH'],
    PARHELION_HTTP__PORT: '0',
    PARHELION_ADMIN__PORT: '0',
    PARHELION_UPSTREAM__LOCAL__PORT: '0',
  };
  const child = spawn(process.execPath, [...cliArguments, 'serve', '--data-dir', dataDir], { cwd: dataDir, env });
  const gone = once(child, 'exit');
  t.after(() => child.kill('SIGKILL'));
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
  for (let tries = 0; tries < 1800 && !/"getSlot"[^\n]*\n[^\n]*\/v0\/webhooks[^\n]*\n/.test(output); tries++) {
    assert.equal(child.exitCode, null, output);
    await sleep(50);
  }

  assert.match(
    output,
    /^={62}\n LOCAL CHAIN {2}- {2}not a public Solana network\n/,
    'the banner comes before anything else',
  );
  assert.equal(existsSync(leftOver), false, 'what has no chain to go with it is gone');
  const run = findRunFile(dataDir)!;
  assert.equal(run.chain, 'local');
  assert.deepEqual(readdirSync(join(dataDir, 'local')).sort(), [run.storeDir.split('/').at(-1), 'chain.json'].sort());

  const answers = output
    .split('\n')
    .filter((line) => line.startsWith('curl '))
    .map((line) => spawnSync('bash', ['-c', `${line} -s`], { encoding: 'utf8' }).stdout);
  assert.equal(answers.length, 3);
  assert.equal(answers[0], 'ok');
  assert.equal(typeof (JSON.parse(answers[1]!) as { result: number }).result, 'number', answers[1]);
  assert.match((JSON.parse(answers[2]!) as { webhookID: string }).webhookID, /^[0-9a-f-]{36}$/, answers[2]);

  const key = /API key +(\S+)/.exec(output)![1]!;
  assert.equal(
    output.split('\n').filter((line) => line.startsWith('{') && line.includes(key)).length,
    0,
    'the key is in the log',
  );
  assert.equal((await fetch(`${run.api}/ping`)).headers.get('x-parhelion-chain'), 'local');

  const scrape = await (await fetch(`${run.admin}/metrics`)).text();
  assert.ok(scrape.length <= 100_000, `a scrape of an idle daemon has ${scrape.length} bytes`);

  // Other commands find the store of the running chain.
  const projects = await runCommand(['projects', 'list', '--json', '--data-dir', dataDir]);
  assert.equal((JSON.parse(projects.out) as unknown[]).length, 1, projects.err);
  const status = await runCommand(['status', '--data-dir', dataDir]);
  assert.match(status.out, /^ {2}chain {6}the local chain \(not a public network\), cursor /m);

  const rpcOf = async (method: string) => {
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: [] });
    const headers = { 'content-type': 'application/json' };
    return (await (await fetch(`${run.localChain!.url}`, { method: 'POST', headers, body })).json()) as {
      result: { block: { slot: number } };
    };
  };
  assert.equal((await rpcOf('getAgGenesisCert')).result.block.slot, 0, 'it is a chain of today');
  for (let tries = 0; tries < 2_400 && !/"event":"chain.consensus"/.test(output); tries++) await sleep(50);
  assert.match(output, /"era":"alpenglow".*"commitment":"finalized"/);
  // The demo pays every three seconds.
  await sleep(4_000);
  assert.doesNotMatch(output, /rolled back|"level":(50|"error")/, 'nothing that looks broken');

  const rpcUrl = /RPC {2}(\S+)/.exec(output)![1]!;
  child.kill('SIGINT');
  const [code] = await gone;
  assert.equal(code, 0, output);
  await assert.rejects(fetch(rpcUrl), 'the chain is gone');
  await assert.rejects(fetch(`${run.api}/ping`), 'the daemon is gone');
  assert.equal((await runCommand(['projects', 'list', '--data-dir', dataDir])).code, 0, 'its store is kept');
});

test('with log.format json, a start with a local chain prints nothing but JSON lines', {
  skip: missing ?? false,
}, async (t) => {
  const dataDir = mkdtempSync(join(tmpdir(), 'parhelion-json-'));
  t.after(() => rmSync(dataDir, { recursive: true, force: true }));
  const env = {
    PATH: process.env['PATH'],
    PARHELION_HTTP__PORT: '0',
    PARHELION_ADMIN__PORT: '0',
    PARHELION_UPSTREAM__LOCAL__PORT: '0',
    PARHELION_LOG__FORMAT: 'json',
  };
  const child = spawn(process.execPath, [...cliArguments, 'serve', '--data-dir', dataDir], { cwd: dataDir, env });
  const gone = once(child, 'close');
  t.after(() => child.kill('SIGKILL'));
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
  for (let tries = 0; tries < 1800 && findRunFile(dataDir) === null; tries++) {
    assert.equal(child.exitCode, null, output);
    await sleep(50);
  }
  child.kill('SIGTERM');
  await gone;
  const lines = output.trim().split('\n');
  for (const line of lines) assert.doesNotThrow(() => JSON.parse(line), line);
  const messages = lines.map((line) => (JSON.parse(line) as { msg: string }).msg);
  assert.ok(messages.includes('a local chain runs'), messages.join('\n'));
});
