import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { removeRunFile, writeRunFile } from '../../../src/cli/running-daemon.ts';
import { ROLES } from '../../../src/ports/daemon-view.ts';
import { runCommand } from '../../helpers/daemon.ts';
import { lightMissing } from '../../helpers/light/missing.ts';
import { makeTreesBed, proofsOf, untilTree } from './trees-harness.ts';

interface Verified {
  readonly trees: readonly {
    readonly tree: string;
    readonly seq: number;
    readonly leaves: number;
    readonly chain: string;
    readonly faults: readonly string[];
  }[];
}

test('a daemon continues from the snapshot of another one, and commands report the state of the trees', {
  skip: await lightMissing(),
}, async (t) => {
  const bed = await makeTreesBed(t);
  const folder = mkdtempSync(join(tmpdir(), 'parhelion-snapshots-'));
  const dataDir = mkdtempSync(join(tmpdir(), 'parhelion-second-'));
  t.after(() => {
    for (const path of [folder, dataDir]) rmSync(path, { recursive: true, force: true });
  });
  const first = await bed.start({ config: { compression: { startSlot: 1_000, snapshotDir: folder } } });
  await bed.compress(3, bed.v1);
  await bed.compress(2, bed.v2);
  await untilTree(bed, first, bed.v1, ({ state, rootSeq }) => state === 'ok' && rootSeq === 3);

  const verified = await runCommand(['compression', 'verify', '--json', '--config', first.configFile]);
  assert.equal(verified.code, 0, verified.err);
  const { trees } = JSON.parse(verified.out) as Verified;
  const smt1 = trees.find(({ tree }) => tree === bed.v1.tree.toBase58());
  assert.deepEqual([smt1?.seq, smt1?.leaves, smt1?.chain], [3, 3, 'same']);
  assert.ok(trees.every(({ faults, chain }) => faults.length === 0 && chain === 'same'));

  const saved = await runCommand(['compression', 'snapshot', 'save', '--json', '--config', first.configFile]);
  assert.equal(saved.code, 0, saved.err);
  await bed.compress(1, bed.v1);
  await untilTree(bed, first, bed.v1, ({ rootSeq }) => rootSeq === 4);
  await first.stop();
  const names = readdirSync(folder).sort();
  assert.equal(names.length, 2, 'one that was asked for, and one of the end');
  await bed.compress(2, bed.v1);

  // Only its store is wanted for now.
  const idle = await bed.start({ dataDir, config: { follow: { enabled: false } } });
  await idle.stop();
  const { slot } = JSON.parse(saved.out) as { slot: number };
  const file = join(folder, `compression-${slot}.snapshot`);
  const loaded = await runCommand([
    'compression',
    'snapshot',
    'load',
    '--file',
    file,
    '--json',
    '--config',
    idle.configFile,
  ]);
  assert.equal(loaded.code, 0, loaded.err);
  const told = JSON.parse(loaded.out) as { slot: number; rootsFound: number };
  assert.deepEqual([told.slot, told.rootsFound], [slot, trees.length]);

  const second = await bed.start({ dataDir });
  const after = await untilTree(bed, second, bed.v1, ({ state, rootSeq }) => state === 'ok' && rootSeq === 6);
  const proofs = await proofsOf(bed, second);
  assert.equal(proofs.length, 6);
  assert.ok(proofs.every(({ root }) => root === after.root));
  const again = await runCommand(['compression', 'snapshot', 'load', '--file', file, '--config', second.configFile]);
  assert.equal(again.code, 64);
  assert.match(again.err, /--replace/);
  const place = { api: null, websocket: null, admin: '', chain: 'rpc', storeDir: dataDir } as const;
  writeRunFile(dataDir, { ...place, pid: process.pid, roles: ROLES });
  const beside = await runCommand(['compression', 'snapshot', 'load', '--file', file, '--config', second.configFile]);
  removeRunFile(dataDir, process.pid);
  assert.equal(beside.code, 75);
  assert.match(beside.err, /DAEMON_RUNNING/);
});
