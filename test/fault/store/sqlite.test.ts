import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { assertIntact, endWell } from '../../e2e/crash/kills.ts';
import { chainMissing } from '../../helpers/chain.ts';
import { startWorkBed } from '../../helpers/work-bed.ts';
import { assertSaid, endOf, failingCalls, mountSmallDisk, watch } from './bed.ts';

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
  assertSaid(witness, /STORE_(FULL|IO)/);
  assert.match(daemon.output(), /STORE_(FULL|IO)/);
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
  disk.remount('ro');
  const onReadOnly = bed.start();
  assert.equal(await endOf(onReadOnly, 60), 75, onReadOnly.output());
  assert.match(onReadOnly.output(), /STORE_READ_ONLY/);
  disk.remount('rw');
  await endWell(bed);
});

for (const [name, calls, error, from] of [
  ['an fsync that fails', 'fdatasync,fsync', 'EIO', 60],
  ['a write that finds no room', 'pwrite64', 'ENOSPC', 600],
  ['a write that finds the disk read-only', 'pwrite64', 'EROFS', 600],
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
    assertSaid(witness, /STORE_(FULL|IO|READ_ONLY)/);
    assertIntact(bed, 'afterwards');
    await sleep(100);
    t.diagnostic(`${await endWell(bed)} deliveries; readiness said ${[...witness.reasons].join(' | ')}`);
  });
