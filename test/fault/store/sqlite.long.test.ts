import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { assertIntact, endWell } from '../../e2e/crash/kills.ts';
import { chainMissing } from '../../helpers/chain.ts';
import { startWorkBed } from '../../helpers/work-harness.ts';
import { assertSaid, endOf, failingCalls, mountSmallDisk, watch } from './harness.ts';

const skip = (await chainMissing()) ?? false;
const MEGABYTE = 1_048_576;

test('a disk that fills up ends the daemon with 75; with room again nothing is missing', { skip }, async (t) => {
  const disk = mountSmallDisk(t, 32 * MEGABYTE);
  if (disk === null) return;
  const bed = await startWorkBed({ dataDir: disk.path });
  t.after(() => bed.stop());
  const daemon = bed.start();
  const witness = await watch(bed, daemon);
  await bed.receiver.waitFor(5);
  disk.fill(MEGABYTE / 2);
  assert.equal(await endOf(daemon, 120), 75, daemon.output());
  await witness.stop();
  assertSaid(witness, daemon, /STORE_(FULL|IO)/);
  assertIntact(bed, 'on the full disk');
  disk.empty();
  t.diagnostic(`${await endWell(bed)} deliveries; readiness said ${[...witness.reasons].join(' | ')}`);
});

test('a start on a full disk, or on one that cannot be written, ends with 75 and names the reason', {
  skip,
}, async (t) => {
  const disk = mountSmallDisk(t, 16 * MEGABYTE);
  if (disk === null) return;
  const bed = await startWorkBed({ dataDir: disk.path });
  t.after(() => bed.stop());
  disk.fill(0);
  const onFull = bed.start();
  assert.equal(await endOf(onFull, 60), 75, onFull.output());
  assert.match(onFull.output(), /STORE_(FULL|IO)/);
  disk.empty();
  const good = bed.start();
  const { api } = await good.ready();
  assert.equal(await bed.ledger.create(api, [bed.payments.addresses[0] as string]), 200);
  await good.kill('SIGKILL');
  rmSync(join(disk.path, 'run.json'));
  disk.remount('ro');
  const onReadOnly = bed.start();
  assert.equal(await endOf(onReadOnly, 60), 75, onReadOnly.output());
  assert.match(onReadOnly.output(), /STORE_READ_ONLY/);
  disk.remount('rw');
  await endWell(bed);
});

test('a daemon that only answers requests says that the disk is full, refuses what it would have to keep, and heals', {
  skip,
}, async (t) => {
  const disk = mountSmallDisk(t, 16 * MEGABYTE);
  if (disk === null) return;
  const bed = await startWorkBed({ dataDir: disk.path });
  t.after(() => bed.stop());
  const address = bed.payments.addresses[0] as string;
  const whole = bed.start();
  assert.equal(await bed.ledger.create((await whole.ready()).api, [address]), 200);
  await bed.receiver.waitFor(1);
  await whole.kill('SIGTERM');
  const daemon = bed.start({ role: 'api' });
  const { api, admin } = await daemon.ready();
  const readyz = async () => {
    const answer = await fetch(`${admin}/readyz`);
    return { status: answer.status, text: await answer.text() };
  };
  assert.equal(await bed.ledger.create(api, [address]), 200);
  assert.equal((await readyz()).status, 200);
  disk.fill(0);
  let status = 200;
  // The log of the database may have room for a few more.
  for (let turn = 0; turn < 500 && status === 200; turn += 1) status = await bed.ledger.create(api, [address]);
  assert.ok(status >= 500, String(status));
  await sleep(600);
  const full = await readyz();
  assert.deepEqual([full.status, /STORE_(FULL|IO)/.test(full.text)], [503, true], full.text);
  assert.equal((await fetch(`${api}/ping`)).status, 200);
  disk.empty();
  await sleep(600);
  assert.equal((await readyz()).status, 200);
  assert.equal(await bed.ledger.create(api, [address]), 200);
  await daemon.kill('SIGTERM');
  assert.equal(daemon.child.exitCode, 0);
  await endWell(bed);
});

for (const [name, calls, error, from] of [
  ['an fsync that fails', 'fdatasync,fsync', 'EIO', 60],
  ['a write that finds no room', 'pwrite64', 'ENOSPC', 900],
  ['a write that finds the disk read-only', 'pwrite64', 'EROFS', 900],
] as const)
  test(`${name} ends the daemon with 75, and nothing is missing after it`, { skip }, async (t) => {
    const wrapper = failingCalls(t, calls, error, from);
    if (wrapper === null) return;
    const bed = await startWorkBed();
    t.after(() => bed.stop());
    const daemon = bed.start({ wrapper });
    const witness = await watch(bed, daemon);
    assert.equal(await endOf(daemon, 150), 75, daemon.output());
    await witness.stop();
    assertSaid(witness, daemon, /STORE_(FULL|IO|READ_ONLY)/);
    assertIntact(bed, 'afterwards');
    await sleep(100);
    t.diagnostic(`${await endWell(bed)} deliveries; readiness said ${[...witness.reasons].join(' | ')}`);
  });
