/** The program from its source, as who changes it runs it: `npx tsx src/cli/main.ts serve`. */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { findRunFile } from '../../../src/cli/running-daemon.ts';
import { chainMissing } from '../../helpers/chain.ts';
import { sourceArguments } from '../../helpers/daemon.ts';

const missing = await chainMissing();
if (missing !== null) console.error(`SKIPPED: ${missing}`);

test('when the local chain dies, the daemon ends with 75', { skip: missing ?? false }, async (t) => {
  const dataDir = mkdtempSync(join(tmpdir(), 'parhelion-first-'));
  t.after(() => rmSync(dataDir, { recursive: true, force: true }));
  const env = {
    PATH: process.env['PATH'],
    PARHELION_HTTP__PORT: '0',
    PARHELION_ADMIN__PORT: '0',
    PARHELION_UPSTREAM__LOCAL__PORT: '0',
    PARHELION_UPSTREAM__LOCAL__DEMO: 'false',
  };
  const child = spawn(process.execPath, [...sourceArguments, 'serve', '--data-dir', dataDir], { cwd: dataDir, env });
  const gone = once(child, 'exit');
  t.after(() => child.kill('SIGKILL'));
  for (let tries = 0; tries < 2_400 && findRunFile(dataDir) === null; tries++) await sleep(50);
  const chain = spawnSync('ps', ['-o', 'pid=,args=', '--ppid', String(child.pid)], { encoding: 'utf8' })
    .stdout.split('\n')
    .find((line) => line.includes('local-chain/child'));
  assert.ok(chain !== undefined, 'the chain is a process of its own');
  process.kill(Number.parseInt(chain, 10), 'SIGKILL');
  const [code] = await gone;
  assert.equal(code, 75);
});
