import assert from 'node:assert/strict';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { fetchSnapshot, serveSnapshots } from '../../../plugins/compression/snapshot/commands.ts';
import { type LoadParts, loadSnapshot } from '../../../plugins/compression/snapshot/load.ts';
import { listSnapshots, saveSnapshot, snapshotSchema } from '../../../plugins/compression/snapshot/save.ts';
import type { CompressionDb, TreeRow } from '../../../plugins/compression/store/tables.ts';
import { createHashing } from '../../../plugins/compression/trees/hashing.ts';
import type { Store } from '../../../src/ports/store.ts';
import { blocksOf, createIndexingBed, loadRecording, readEverything } from '../../helpers/compression.ts';
import { createCompressionTables } from '../../helpers/compression-rows.ts';
import { skipWithoutFixtures } from '../../helpers/fixtures.ts';
import { eachStore } from '../../helpers/store.ts';

const GENESIS = 'GH7ome3EiwEr7tu9JuTh2dpYWBJK3z69Xm1ZE3MEE6JC';
const PROGRAM = 'compr6CUsB5m2jS4Y3831ztGSTnDpnKJTKS95d64XVq';
const hashing = createHashing({ add: () => undefined });

async function folderFor(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'parhelion-snapshots-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

async function index(store: Store, name: string): Promise<void> {
  const recording = loadRecording(name);
  const { expected, trees } = recording;
  const bed = await createIndexingBed(store, { programId: expected.compressionProgramId, trees });
  await bed.applyAll(blocksOf(recording));
}

const save = (store: Store, folder: string, genesisHash = GENESIS) =>
  saveSnapshot(
    {
      store,
      signal: new AbortController().signal,
      blockhash: async () => null,
      header: { genesisHash, programId: PROGRAM, schema: snapshotSchema() },
    },
    folder,
  );

const load = (store: Store, file: string, more: Partial<LoadParts> = {}) =>
  loadSnapshot(
    {
      store,
      hashing,
      programId: PROGRAM,
      schema: snapshotSchema(),
      chain: null,
      replaces: false,
      random: { float: Math.random, bytes: (count) => new Uint8Array(count), uuid: () => '' },
      also: async () => undefined,
      progress: () => undefined,
      ...more,
    },
    file,
  );

const chainWith = (rootOf: (tree: { readonly key: Uint8Array }) => Uint8Array | null, genesisHash = GENESIS) => ({
  genesisHash,
  reader: {
    rootAt: async (tree: { readonly key: Uint8Array }, seq: number) => ({ seq, slot: 1, root: rootOf(tree) }),
  },
});

const treesOf = (store: Store): Promise<TreeRow[]> =>
  (store.read as CompressionDb).selectFrom('compression_trees').selectAll().execute();

eachStore('snapshots', (engine) => {
  const withRecordings = { skip: skipWithoutFixtures };

  for (const name of ['batched_tree_transactions', 'batched_address_transactions', 'lamport_transfers'])
    test(`what is loaded is what was saved: ${name}`, withRecordings, async (t) => {
      const [source, target, folder] = [await engine.store(t), await engine.store(t), await folderFor(t)];
      await index(source, name);
      const saved = await save(source, folder);
      assert.ok(saved !== null);
      await createCompressionTables(target);
      const before = await treesOf(source);
      const roots = new Map(before.map(({ key, root }) => [Buffer.from(key).toString('hex'), root]));
      const rootOf = ({ key }: { readonly key: Uint8Array }) => roots.get(Buffer.from(key).toString('hex')) ?? null;
      const loaded = await load(target, saved.file, { chain: chainWith(rootOf) });
      assert.equal(loaded.rows, saved.rows);
      assert.deepEqual(await readEverything(target), await readEverything(source));
    });

  test('the newest two stay, and nothing half written', withRecordings, async (t) => {
    const [store, folder] = [await engine.store(t), await folderFor(t)];
    const recording = loadRecording('lamport_transfers');
    const bed = await createIndexingBed(store, { trees: recording.trees });
    const slots: number[] = [];
    for (const block of blocksOf(recording)) {
      await bed.apply(block);
      slots.push((await save(store, folder))?.slot ?? 0);
    }
    const kept = [...new Set(slots)].sort((a, b) => b - a).slice(0, 2);
    assert.deepEqual(
      (await listSnapshots(folder)).map(({ slot }) => slot),
      kept,
    );
    assert.deepEqual((await readdir(folder)).sort(), kept.map((slot) => `compression-${slot}.snapshot`).sort());
    const stopped = AbortSignal.abort(new Error('stopped'));
    const parts = { store, blockhash: async () => null, signal: stopped };
    const header = { genesisHash: GENESIS, programId: PROGRAM, schema: 1 };
    await assert.rejects(saveSnapshot({ ...parts, header }, folder), /stopped/);
    assert.equal((await readdir(folder)).length, kept.length);
  });

  test('a damaged, foreign or wrong snapshot is refused, and the store stays as it was', withRecordings, async (t) => {
    const [source, target, folder] = [await engine.store(t), await engine.store(t), await folderFor(t)];
    await index(source, 'batched_tree_transactions');
    const saved = await save(source, folder);
    assert.ok(saved !== null);
    await createCompressionTables(target);
    const empty = await readEverything(target);
    const bytes = await readFile(saved.file);
    const damaged = join(folder, 'damaged');
    const refused = async (code: string, more: Partial<LoadParts> = {}, file = saved.file) => {
      await assert.rejects(load(target, file, more), { code: `COMPRESSION_SNAPSHOT_${code}` });
      assert.deepEqual(await readEverything(target), empty);
    };
    for (const at of [0, 9, 40, Math.floor(bytes.length / 2), bytes.length - 40, bytes.length - 1]) {
      const changed = Buffer.from(bytes);
      changed.writeUInt8((changed[at] ?? 0) ^ 0x10, at);
      await writeFile(damaged, changed);
      await refused('DAMAGED', {}, damaged);
    }
    for (const length of [0, 20, 1_000, bytes.length - 1]) {
      await writeFile(damaged, bytes.subarray(0, length));
      await refused('DAMAGED', {}, damaged);
    }
    await refused('FOREIGN', { programId: '11111111111111111111111111111111' });
    await refused('FOREIGN', { schema: snapshotSchema() + 1 });
    await refused('FOREIGN', { chain: chainWith(() => null, 'another') });
    await refused('WRONG', { chain: chainWith(() => new Uint8Array(32)) });
  });

  test('a tree whose nodes do not lead to its root is refused', withRecordings, async (t) => {
    const [source, target, folder] = [await engine.store(t), await engine.store(t), await folderFor(t)];
    await index(source, 'lamport_transfers');
    const root = Buffer.alloc(32, 7);
    await source.write((tx) => (tx.db as CompressionDb).updateTable('compression_trees').set({ root }).execute());
    const saved = await save(source, folder);
    assert.ok(saved !== null);
    await createCompressionTables(target);
    const empty = await readEverything(target);
    await assert.rejects(load(target, saved.file), { code: 'COMPRESSION_SNAPSHOT_WRONG' });
    assert.deepEqual(await readEverything(target), empty);
  });

  test('a store in use is replaced only when that is wanted', withRecordings, async (t) => {
    const [source, target, folder] = [await engine.store(t), await engine.store(t), await folderFor(t)];
    await index(source, 'batched_tree_transactions');
    await index(target, 'lamport_transfers');
    const saved = await save(source, folder);
    assert.ok(saved !== null);
    const before = await readEverything(target);
    await assert.rejects(load(target, saved.file), { code: 'COMPRESSION_SNAPSHOT_IN_USE' });
    assert.deepEqual(await readEverything(target), before);
    const heads: (number | null)[] = [];
    await load(target, saved.file, { replaces: true, also: async (_, __, head) => void heads.push(head) });
    assert.deepEqual(await readEverything(target), await readEverything(source));
    assert.equal(heads.length, 1);
    assert.ok((heads[0] ?? 0) > 0);
  });
});

test('snapshots are served by name, and no other files', { skip: skipWithoutFixtures }, async (t) => {
  const folder = await folderFor(t);
  const bytes = Buffer.from('not a real one, but served as it is');
  await writeFile(join(folder, 'compression-7.snapshot'), bytes);
  await writeFile(join(folder, 'compression-5.snapshot'), 'older');
  await writeFile(join(folder, 'secret'), 'secret');
  const server = await serveSnapshots(folder, { host: '127.0.0.1', port: 0 });
  t.after(() => server.close());
  const status = async (path: string) => (await fetch(`${server.url}${path}`)).status;
  assert.deepEqual(await (await fetch(server.url)).json(), [
    { name: 'compression-7.snapshot', slot: 7 },
    { name: 'compression-5.snapshot', slot: 5 },
  ]);
  const fetched = await fetchSnapshot(server.url);
  assert.deepEqual(await readFile(fetched.file), bytes);
  await fetched.remove();
  assert.equal(await status('/compression-5.snapshot'), 200);
  for (const path of ['/secret', '/..%2fsecret', '/../secret', '/compression-6.snapshot'])
    assert.equal(await status(path), 404);
  assert.equal((await fetch(server.url, { method: 'POST' })).status, 405);
  await assert.rejects(fetchSnapshot(`${server.url}/nothing`), { code: 'COMPRESSION_SNAPSHOT_FETCH' });
});
