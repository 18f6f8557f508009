import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { startChain } from '../../helpers/chain.ts';
import { runCommand, startDaemon, startDaemonProcess } from '../../helpers/daemon.ts';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const home = mkdtempSync(join(tmpdir(), 'parhelion-third-party-'));
after(() => rmSync(home, { recursive: true, force: true }));

/** A folder of someone else, with the packages installed in its node_modules. */
function layOut(): { readonly typescript: string; readonly javascript: string } {
  const modules = join(home, 'node_modules');
  mkdirSync(join(modules, '@types'), { recursive: true });
  symlinkSync(root, join(modules, 'parhelion'));
  symlinkSync(join(root, 'node_modules/@types/node'), join(modules, '@types/node'));
  const typescript = join(modules, 'parhelion-plugin-block-log');
  const javascript = join(modules, 'parhelion-plugin-hello');
  cpSync(join(root, 'test/example-plugins/typescript'), typescript, { recursive: true });
  cpSync(join(root, 'test/example-plugins/javascript'), javascript, { recursive: true });
  return { typescript, javascript };
}
const { typescript, javascript } = layOut();

async function eventually<T>(what: string, ask: () => Promise<T | null>): Promise<T> {
  for (let tries = 0; tries < 300; tries++) {
    const answer = await ask();
    if (answer !== null) return answer;
    await sleep(50);
  }
  return assert.fail(`never: ${what}`);
}

test('the TypeScript example builds against the published types alone', () => {
  const tsc = join(root, 'node_modules/typescript/bin/tsc');
  const { status, stdout } = spawnSync(process.execPath, [tsc], { cwd: typescript, encoding: 'utf8' });
  assert.equal(status, 0, stdout);
});

test('a JavaScript plugin by package name: route, errors, configuration of its own, in a process of its own', async (t) => {
  const daemon = await startDaemonProcess({
    folder: home,
    config: { plugins: ['access', 'parhelion-plugin-hello'], hello: { greeting: 'good morning' } },
  });
  t.after(() => daemon.stop());
  const greet = await fetch(`${daemon.apiUrl}/v0/hello/ada`);
  assert.equal(await greet.text(), 'good morning, ada');
  const nobody = await fetch(`${daemon.apiUrl}/v0/hello/nobody`);
  assert.equal(nobody.status, 404);
  assert.deepEqual(await nobody.json(), { error: 'nobody is not here', code: 404 });
  const document = (await (await fetch(`${daemon.apiUrl}/openapi.json`)).json()) as { paths: object };
  assert.ok(Object.keys(document.paths).includes('/v0/hello/{name}'));
});

test('the configuration of a third-party plugin is checked like that of a built-in one', async () => {
  const file = join(home, 'bad.yaml');
  writeFileSync(
    file,
    JSON.stringify({
      plugins: ['access', { use: './node_modules/parhelion-plugin-hello/index.js' }],
      upstream: { urls: ['http://127.0.0.1:9'] },
      hello: { greting: 'x' },
    }),
  );
  const { code, err } = await runCommand(['check-config', '--config', file], { cwd: home });
  assert.equal(code, 78);
  assert.match(err, /hello\.greting: unknown key, did you mean "greeting"\?/);
});

test('a package beside whoever runs a command is not run', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'parhelion-elsewhere-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, 'parhelion.yaml');
  writeFileSync(
    file,
    JSON.stringify({ plugins: ['parhelion-plugin-hello'], upstream: { urls: ['http://127.0.0.1:9'] } }),
  );
  const { code, err } = await runCommand(['check-config', '--config', file], { cwd: home });
  assert.equal(code, 78);
  assert.match(err, /parhelion-plugin-hello/);
});

for (const [how, use] of [
  ['built, by package name', 'parhelion-plugin-block-log'],
  ['from its source, by path', join(typescript, 'src/index.ts')],
] as const) {
  test(`a TypeScript plugin ${how}: migration, processor, job, route and method on a live chain`, async (t) => {
    const chain = await startChain();
    t.after(() => chain.stop());
    const daemon = await startDaemon({
      folder: home,
      chain,
      config: {
        plugins: ['access', javascript, use],
        'block-log': { minTransactions: 0 },
        follow: { startSlot: 'latest' },
      },
    });
    t.after(() => daemon.stop());
    const lines = await eventually('a block in the log', async () => {
      await chain.seal(1);
      const response = await fetch(`${daemon.apiUrl}/v0/block-log?limit=3&api-key=${daemon.key}`);
      assert.equal(response.status, 200);
      const found = (await response.json()) as { slot: number; blockhash: string; transactions: number }[];
      return found.length >= 3 ? found : null;
    });
    assert.ok(lines[0]!.slot > lines[1]!.slot);

    const call = async (params: unknown) => {
      const response = await fetch(`${daemon.apiUrl}/?api-key=${daemon.key}`, {
        method: 'POST',
        body: JSON.stringify({ jsonrpc: '2.0', id: 'x', method: 'getBlockLog', params }),
      });
      return (await response.json()) as { result?: { blockhash: string; reported: boolean }; error?: { code: number } };
    };
    const { slot, blockhash } = lines[2]!;
    assert.equal((await call({ slot })).result?.blockhash, blockhash);
    assert.equal((await call({ slot: 1 })).error?.code, -32000);
    assert.equal((await call({ slot: 'x' })).error?.code, -32602);
    await eventually('the report of a job', async () =>
      (await call({ slot })).result?.reported === true ? true : null,
    );

    assert.equal((await fetch(`${daemon.apiUrl}/v0/block-log?limit=0&api-key=${daemon.key}`)).status, 400);
    assert.equal((await fetch(`${daemon.apiUrl}/v0/block-log`)).status, 401);
    const metrics = await (await fetch(`${daemon.adminUrl}/metrics`)).text();
    assert.match(metrics, /^parhelion_block_log_reports_total [1-9]/m);
    const ready = (await (await fetch(`${daemon.adminUrl}/readyz`)).json()) as {
      checks: { name: string; ok: boolean }[];
    };
    assert.ok(ready.checks.some(({ name, ok }) => name === 'block-log' && ok));
  });
}
