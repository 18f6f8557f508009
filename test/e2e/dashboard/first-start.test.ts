import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { cliArguments } from '../../helpers/daemon.ts';
import { startUpstream, type TestUpstream } from '../../helpers/upstream.ts';

const READY_MS = 120_000;
const dataDir = mkdtempSync(join(tmpdir(), 'parhelion-first-'));
let upstream: TestUpstream;

before(async () => {
  upstream = await startUpstream();
});
after(async () => {
  await upstream.stop();
  rmSync(dataDir, { recursive: true, force: true });
});

/** As `npm start` does it, without a configuration file. */
async function start(env: Readonly<Record<string, string>> = {}): Promise<{ child: ChildProcess; banner: string }> {
  const place = { PARHELION_HTTP__PORT: '0', PARHELION_ADMIN__PORT: '0', PARHELION_DATA_DIR: dataDir };
  const few = { PARHELION_PLUGINS: '[access, dashboard, proxy]', PARHELION_FOLLOW__ENABLED: 'false' };
  const child = spawn(process.execPath, [...cliArguments, 'serve'], {
    cwd: dataDir,
    env: { PATH: process.env['PATH'], ...place, ...few, SOLANA_RPC_URL: upstream.url, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let banner = '';
  const shown = new Promise<void>((resolve, reject) => {
    const take = (chunk: Buffer) => {
      banner += chunk.toString();
      if (/^ Try:$|keys create/m.test(banner)) resolve();
    };
    child.stdout.on('data', take);
    child.stderr.on('data', take);
    child.once('exit', () => reject(new Error(`it ended: ${banner}`)));
    AbortSignal.timeout(READY_MS).addEventListener('abort', () => reject(new Error(`never ready: ${banner}`)));
  });
  await shown;
  return { child, banner };
}

async function stop(child: ChildProcess): Promise<void> {
  child.kill('SIGTERM');
  await once(child, 'exit');
}

const adminOf = (banner: string) => /^ Admin +(http:\S+) /m.exec(banner)?.[1] ?? '';
const tokenOf = (banner: string) => /^ Operator +(op_\S{32}) /m.exec(banner)?.[1] ?? null;

async function logIn(banner: string, token: string): Promise<number> {
  const body = JSON.stringify({ token });
  return (await fetch(`${adminOf(banner)}/dashboard/api/login`, { method: 'POST', body })).status;
}

test('the first start shows a token for the dashboard, once, and keeps only its hash', async () => {
  const first = await start();
  const token = tokenOf(first.banner);
  assert.ok(token !== null, first.banner);
  assert.ok(first.banner.includes(`${adminOf(first.banner)}/dashboard\n`), 'and says where it is wanted');
  assert.deepEqual([await logIn(first.banner, token), await logIn(first.banner, `${token.slice(0, -1)}!`)], [200, 401]);
  await stop(first.child);
  for (const name of readdirSync(dataDir, { recursive: true, withFileTypes: true }))
    if (name.isFile())
      assert.ok(!readFileSync(join(name.parentPath, name.name)).includes(token), `it stands in ${name.name}`);

  const second = await start();
  assert.equal(tokenOf(second.banner), null);
  assert.equal(await logIn(second.banner, token), 200, 'it goes on');
  await stop(second.child);

  const configured = 'a-token-of-the-configuration';
  const third = await start({ PARHELION_DASHBOARD__OPERATOR_TOKEN: configured });
  assert.deepEqual(
    [await logIn(third.banner, configured), await logIn(third.banner, token)],
    [200, 401],
    'that of the configuration counts alone',
  );
  await stop(third.child);
});
