/** The page Sinks: a sink that is written, paused and resumed by its button, and the reason of one that cannot be written. */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { startDashboard } from '../../conformance/dashboard/harness.ts';
import { chainMissing, startChain } from '../../helpers/chain.ts';
import { axeFaults, chromiumMissing, startChromium } from '../../helpers/chromium.ts';
import { runCommand } from '../../helpers/daemon.ts';
import { until } from '../../helpers/until.ts';
import { goTo, logIn, openPage } from './visit.ts';

const skip = chromiumMissing() ?? (await chainMissing()) ?? false;

test('a sink is paused and resumed, and one that fails says why', { skip }, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'parhelion-sinks-'));
  mkdirSync(join(folder, 'files'));
  const chain = await startChain({ slotMs: 400, time: { kind: 'wall' }, consensus: 'alpenglow' });
  const quick = { batchSlots: 4, batchSeconds: 0 };
  const config = {
    plugins: ['access', 'dashboard', 'proxy', 'sinks'],
    ledger: { retain: { hours: 1 } },
    sinks: {
      targets: [
        { name: 'files', kind: 'ndjson', target: join(folder, 'files'), ...quick },
        { name: 'tables', kind: 'postgres', target: 'postgres://writer:secret-word@127.0.0.1:9/none', ...quick },
      ],
    },
  };
  const bed = await startDashboard(config, chain);
  const browser = await startChromium();
  t.after(async () => {
    await browser.close();
    await bed.stop();
    await chain.stop();
    rmSync(folder, { recursive: true, force: true });
  });
  const sinks = async () => {
    const { sinks: list } = (await (await fetch(`${bed.daemon.adminUrl}/v0/admin/sinks`)).json()) as {
      sinks: readonly { name: string; state: string; lastSlot: number | null; lagSlots: number | null }[];
    };
    return Object.fromEntries(list.map((sink) => [sink.name, sink]));
  };
  await until(async () => ((await sinks())['files']?.lastSlot ?? -1) > 0, 'the sink has a slot');
  await until(async () => (await sinks())['tables']?.state === 'failing', 'the other one fails');
  const { page, faults } = await openPage(browser, bed);
  await logIn(page);
  await goTo(page, 'Sinks');
  const [files, tables] = [page.getByRole('row', { name: /^files/ }), page.getByRole('row', { name: /^tables/ })];
  await files.getByText('running').waitFor();
  await tables.getByText('failing').waitFor();
  await tables.getByText(/PostgreSQL does not answer/).waitFor();
  assert.deepEqual(await axeFaults(page), []);

  await files.getByRole('button', { name: 'Pause' }).click();
  await files.getByText('paused').waitFor();
  // What was in flight ends.
  let last = -1;
  await until(async () => {
    const now = (await sinks())['files']!.lastSlot!;
    const isStill = now === last;
    last = now;
    return isStill && (await sinks())['files']!.lagSlots! > 4;
  }, 'the sink stands still and falls behind');
  await files.getByRole('button', { name: 'Resume' }).click();
  await files.getByText('running').waitFor();
  await until(async () => (await sinks())['files']!.lastSlot! > last, 'the sink goes on');

  // What a sink is asked for while its target cannot be reached waits, and is shown.
  const task = ['sinks', 'backfill', '--sink', 'tables', '--from', '1', '--to', '8', '--no-wait'];
  const { code, err } = await runCommand([...task, '--config', bed.daemon.configFile]);
  assert.equal(code, 0, err);
  await page.getByRole('progressbar', { name: 'Done of 1 to 8' }).waitFor();
  assert.deepEqual(await axeFaults(page), []);
  assert.ok(!((await page.locator('main').textContent()) ?? '').includes('secret-word'));
  await goTo(page, 'Audit log');
  await page.getByText('Paused a sink').waitFor();
  const missing = await fetch(`${bed.daemon.adminUrl}/v0/admin/sinks/none/pause`, { method: 'POST' });
  assert.equal(missing.status, 404);
  assert.deepEqual(faults, []);
});
