import assert from 'node:assert/strict';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { crc32 } from 'node:zlib';
import { decode32 } from '../../../src/lib/base58.ts';
import { nodeOffset } from '../../../src/solana/merkle/path.ts';
import { lightMissing } from '../../helpers/light/missing.ts';
import { Database } from '../../helpers/sqlite.ts';
import { chainRoot, makeTreesBed, proofsOf, treeState, untilTree } from './trees-harness.ts';

const SMT1 = Buffer.from(decode32('smt1NamzXdq4AMqS2fS2F1i5KTYPZRhoHgWx38d8WsT') ?? []);

suite('trees', { skip: await lightMissing() }, () => {
  test('a daemon that comes late fetches what its trees lack by their transactions, and nothing is proved before', async (t) => {
    const bed = await makeTreesBed(t);
    await bed.compress(7, bed.v1);
    await bed.compress(5, bed.v2);
    const daemon = await bed.start();
    await bed.compress(1, bed.v1);
    const gap = await untilTree(bed, daemon, bed.v1, ({ state }) => state !== 'unverified');
    assert.equal(gap.state, 'gap');
    const ready = await fetch(`${daemon.adminUrl}/readyz`);
    assert.equal(ready.status, 503);
    assert.match(await ready.text(), /proofs are withheld of smt1/);
    // What is read again for it is on the page of trees as a bar; the blocks come slowly, so that it is seen.
    bed.chain.faults.set([
      { action: 'latency', ms: 300, match: { method: 'getTransaction' } },
      { action: 'latency', ms: 300, match: { method: 'getBlock' } },
    ]);
    const { reading } = await untilTree(bed, daemon, bed.v1, (seen) => seen.reading !== null || seen.state === 'ok');
    assert.ok(reading !== null && reading.toSlot > reading.fromSlot, JSON.stringify(reading));
    assert.ok(['open', 'filling'].includes(reading.status), reading.status);
    bed.chain.faults.clear();
    const state = await untilTree(bed, daemon, bed.v1, (seen) => seen.state === 'ok');
    assert.equal(state.reading, null);
    assert.equal(state.rootSeq, 8);
    const proofs = await proofsOf(bed, daemon);
    assert.equal(proofs.length, 8);
    assert.ok(proofs.every(({ root, rootSeq }) => root === state.root && rootSeq === 8));
  });

  test('missing history without a new update is noticed by the account of the tree', async (t) => {
    const bed = await makeTreesBed(t);
    await bed.compress(3, bed.v1);
    const daemon = await bed.start();
    const state = await untilTree(bed, daemon, bed.v1, (seen) => seen.state === 'ok' && seen.rootSeq === 3);
    assert.equal(state.size, 3);
  });

  test('with `latest`, the past of a tree is fetched only on request', async (t) => {
    const bed = await makeTreesBed(t);
    await bed.compress(3, bed.v1);
    const daemon = await bed.start({ config: { compression: { startSlot: 'latest' } } });
    await untilTree(bed, daemon, bed.v1, ({ state }) => state === 'gap');
    await bed.chain.seal(20);
    assert.equal((await treeState(daemon, bed.v1)).state, 'gap');
  });

  for (const kind of ['a flipped byte', 'a wrong node with a right check'] as const)
    test(`${kind} in a stored page: proofs are refused until the tree is rebuilt`, async (t) => {
      const bed = await makeTreesBed(t);
      const daemon = await bed.start({ config: { compression: { startSlot: 1_000, pageCacheBytes: 1 } } });
      await bed.compress(4, bed.v1);
      const before = await untilTree(bed, daemon, bed.v1, ({ state, rootSeq }) => state === 'ok' && rootSeq === 4);
      damage(join(daemon.dataDir, 'parhelion.db'), kind === 'a flipped byte' ? 'byte' : 'node');
      if (kind === 'a flipped byte') await assert.rejects(proofsOf(bed, daemon), /has diverged .* \(page\)/);
      else await bed.compress(1, bed.v1);
      const root = await chainRoot(bed);
      const after = await untilTree(bed, daemon, bed.v1, (seen) => seen.state === 'ok' && seen.root === root);
      if (kind === 'a flipped byte') assert.equal(after.root, before.root);
      const proofs = await proofsOf(bed, daemon);
      assert.ok(proofs.length >= 4);
      assert.ok(proofs.every(({ root }) => root === after.root));
    });
});

/** Changes the lowest page of the first tree behind the daemon's back. */
function damage(path: string, what: 'byte' | 'node'): void {
  const database = new Database(path);
  try {
    const row = database
      .prepare(`SELECT p.id, p.bytes FROM compression_pages p JOIN compression_trees t ON t.id = p.id / ${2 ** 37}
        WHERE t.key = ? ORDER BY p.id LIMIT 1`)
      .get(SMT1) as { id: number; bytes: Buffer };
    const bytes = Buffer.from(row.bytes);
    // Above the first four leaves: the path of the fifth goes through it.
    const at = nodeOffset(2, 0) + 5;
    bytes.writeUInt8((bytes[at] ?? 0) ^ 1, at);
    if (what === 'node') bytes.writeUInt32BE(crc32(bytes.subarray(0, bytes.length - 4)), bytes.length - 4);
    database.prepare('UPDATE compression_pages SET bytes = ? WHERE id = ?').run(bytes, row.id);
  } finally {
    database.close();
  }
}
