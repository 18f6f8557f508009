/** What a newcomer made with a local chain is there after a restart: key, webhook, projects, dashboard token, and the chain itself. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite, type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { findRunFile } from '../../../src/cli/running-daemon.ts';
import { chainMissing } from '../../helpers/chain.ts';
import { cliArguments, runCommand } from '../../helpers/daemon.ts';

const missing = await chainMissing();
if (missing !== null) console.error(`SKIPPED: ${missing}`);

const ENV = {
  PATH: process.env['PATH'],
  PARHELION_HTTP__PORT: '0',
  PARHELION_ADMIN__PORT: '0',
  PARHELION_UPSTREAM__LOCAL__PORT: '0',
};

async function start(t: TestContext, dataDir: string, env: Readonly<Record<string, string>> = {}) {
  const child = spawn(process.execPath, [...cliArguments, 'serve', '--data-dir', dataDir], {
    cwd: dataDir,
    env: { ...ENV, ...env },
  });
  const gone = once(child, 'exit');
  t.after(() => child.kill('SIGKILL'));
  const output = { text: '' };
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk: Buffer) => (output.text += chunk.toString()));
  const welcomed = () => /API key +\S/.test(output.text) && findRunFile(dataDir)?.pid === child.pid;
  for (let tries = 0; tries < 2_400 && !welcomed() && child.exitCode === null; tries++) await sleep(50);
  return { child, gone, output, run: findRunFile(dataDir) };
}

suite('a restart with the local chain', { skip: missing ?? false }, () => {
  test('keeps all that was made, after a stop and after a kill', async (t) => {
    const dataDir = mkdtempSync(join(tmpdir(), 'parhelion-restart-'));
    t.after(() => rmSync(dataDir, { recursive: true, force: true }));
    let { child, gone, output, run } = await start(t, dataDir);
    assert.ok(run !== null, output.text);
    const key = /API key +(\S+)/.exec(output.text)![1]!;
    const token = /Operator +(\S+)/.exec(output.text)![1]!;
    const rpc = async (method: string, ...params: unknown[]) => {
      const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
      const response = await fetch(`${run!.api}/?api-key=${key}`, { method: 'POST', body });
      assert.equal(response.status, 200, method);
      return ((await response.json()) as { result: never }).result;
    };
    const wallet = '4h25pvcyW2Peha1JHzkkgCK3FgqZEvUcN1XRcMA7A7Rv';
    const made = await fetch(`${run.api}/v0/webhooks?api-key=${key}`, {
      method: 'POST',
      body: JSON.stringify({ webhookURL: 'http://127.0.0.1:9/hook', webhookType: 'raw', accountAddresses: [wallet] }),
    });
    const { webhookID } = (await made.json()) as { webhookID: string };
    const genesis = await rpc('getGenesisHash');
    const signatures = async () =>
      ((await rpc('getSignaturesForAddress', wallet)) as { signature: string }[]).map(({ signature }) => signature);
    for (const signal of ['SIGINT', 'SIGKILL'] as const) {
      const slot = (await rpc('getSlot')) as number;
      const seen = await signatures();
      child.kill(signal);
      await gone;
      // The chain of a killed daemon ends by itself.
      await sleep(signal === 'SIGKILL' ? 2_000 : 0);
      ({ child, gone, output, run } = await start(t, dataDir));
      assert.ok(run !== null, output.text);
      assert.match(output.text, /The chain of your last start goes on/);
      assert.equal(await rpc('getGenesisHash'), genesis);
      assert.ok(((await rpc('getSlot')) as number) >= slot, 'slots go on');
      const now = new Set(await signatures());
      assert.deepEqual(
        seen.filter((signature) => !now.has(signature)),
        [],
        'no transaction is gone',
      );
      const hooks = (await (await fetch(`${run.api}/v0/webhooks?api-key=${key}`)).json()) as { webhookID: string }[];
      assert.deepEqual(
        hooks.map((hook) => hook.webhookID),
        [webhookID],
      );
      const login = await fetch(`${run.admin}/dashboard/api/login`, {
        method: 'POST',
        body: JSON.stringify({ token }),
      });
      assert.ok(login.status < 300, `the operator token still works: ${login.status} ${await login.text()}`);
      await rpc('getSlot');
      for (let tries = 0; tries < 1_200 && !(await fetch(`${run.admin}/readyz`)).ok; tries++) await sleep(50);
      assert.equal((await fetch(`${run.admin}/readyz`)).status, 200, 'the follower goes on');
      assert.doesNotMatch(output.text, /rolled back|"level":(40|50|"warn"|"error")/, 'nothing that looks broken');
    }
    const stopped = once(child, 'exit');
    child.kill('SIGINT');
    await stopped;
    const projects = await runCommand(['projects', 'list', '--json', '--data-dir', dataDir]);
    assert.equal((JSON.parse(projects.out) as unknown[]).length, 1, projects.err);
  });

  test('a second daemon says who has its folder or its port, and which key changes it', async (t) => {
    const dataDir = mkdtempSync(join(tmpdir(), 'parhelion-restart-'));
    const other = mkdtempSync(join(tmpdir(), 'parhelion-restart-'));
    t.after(() => {
      for (const folder of [dataDir, other]) rmSync(folder, { recursive: true, force: true });
    });
    const { run, output } = await start(t, dataDir);
    assert.ok(run !== null, output.text);
    const second = await start(t, dataDir);
    assert.equal((await second.gone)[0], 75);
    assert.match(second.output.text, /DAEMON_RUNNING.*process \d+, http.*--data-dir, http\.port/);
    const api = new URL(run.api!).port;
    const third = await start(t, other, { PARHELION_HTTP__PORT: api });
    assert.equal((await third.gone)[0], 75);
    assert.match(third.output.text, /in use by another parhelion: .*http\.port \(PARHELION_HTTP__PORT\)/);
    const fourth = await start(t, other, { PARHELION_ADMIN__PORT: new URL(run.admin).port });
    assert.equal((await fourth.gone)[0], 75);
    assert.match(fourth.output.text, /in use by another parhelion: .*admin\.port \(PARHELION_ADMIN__PORT\)/);
  });
});
