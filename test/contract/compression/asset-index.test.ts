/** What the asset API is told of compressed assets while blocks or trees are missing, compared with a model of all leaves. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Value } from '@sinclair/typebox/value';
import fc from 'fast-check';
import { createTreeHistory, resetTree } from '../../../plugins/compression/chain/repair-cnft.ts';
import { createConcurrentHashing } from '../../../plugins/compression/indexing/cnft.ts';
import { createCompressedAssets } from '../../../plugins/compression/rpc/asset-index.ts';
import { absentNote, type CompressionDb, NOTES, writeNote } from '../../../plugins/compression/store/tables.ts';
import { createHashing } from '../../../plugins/compression/trees/hashing.ts';
import { assetSignatures } from '../../../plugins/das/changes.ts';
import { type DasConfig, dasConfig } from '../../../plugins/das/config.ts';
import { assetsByGroup, IncompleteList, type ListParts, searchAssets } from '../../../plugins/das/lists.ts';
import { readQuestion } from '../../../plugins/das/params.ts';
import { followedTrees } from '../../../plugins/wallet/balances/route.ts';
import { abandonGap, createGapRecords, recordGap } from '../../../src/chain/gaps.ts';
import { followerMigrations } from '../../../src/chain/tables.ts';
import { encode32 } from '../../../src/lib/base58.ts';
import { OWN_WORK } from '../../../src/ports/access.ts';
import type { AssetsFound, CompressedAsset, CompressedAssets } from '../../../src/ports/compressed-assets.ts';
import type { Store } from '../../../src/ports/store.ts';
import { hashLeaf } from '../../../src/solana/concurrent/decode-concurrent.ts';
import { CORE_PROGRAM } from '../../../src/solana/programs.ts';
import { migrate } from '../../../src/store/migrate.ts';
import { createModelTree, type ModelTree, mintOf, treeTransaction } from '../../helpers/bubblegum.ts';
import { type CnftBed, createCnftBed } from '../../helpers/cnft-harness.ts';
import { recordedSource } from '../../helpers/das-recorded.ts';
import { createMemoryLog } from '../../helpers/memory-log.ts';
import { createSfc32 } from '../../helpers/sfc32.ts';
import { eachStore } from '../../helpers/store.ts';

const keyOf = (byte: number): Uint8Array => new Uint8Array(32).fill(byte);
const BURN = Buffer.from('73d222f0e88fb710', 'hex');

interface Action {
  readonly tree: number;
  readonly leaf: number;
  readonly owner: number;
  readonly isBurn: boolean;
}

const actions = fc.array(
  fc.record({
    tree: fc.nat(1),
    leaf: fc.nat(7),
    owner: fc.integer({ min: 20, max: 23 }),
    isBurn: fc.nat(5).map((n) => n === 0),
  }),
  { minLength: 4, maxLength: 30 },
);

interface Block {
  readonly slot: number;
  readonly transactions: readonly object[];
}

/** Owner by id, and which ids are burnt. */
interface Life {
  readonly trees: readonly ModelTree[];
  readonly blocks: readonly Block[];
  readonly present: ReadonlyMap<string, number>;
  readonly burnt: ReadonlySet<string>;
}

/** Trees 220 and 221: made in slot 1, and a change in each later slot. */
function live(list: readonly Action[]): Life {
  const trees = [3, 4].map((height, at) => createModelTree(keyOf(220 + at), height));
  const start = trees.map((tree) => ({ call: 'start' as const, tree: tree.key, told: tree.started() }));
  const blocks: Block[] = [{ slot: 1, transactions: [treeTransaction(1, 1, start)] }];
  const [present, burnt] = [new Map<string, number>(), new Set<string>()];
  list.forEach(({ tree: at, leaf, owner, isBurn }, number) => {
    const [slot, tree] = [2 + number, trees[at]!];
    const { schema, data } = mintOf(tree.key, leaf, owner, `Leaf ${leaf}`);
    const id = encode32(schema.id);
    const burns = isBurn && present.has(id);
    const told = tree.set(leaf, burns ? new Uint8Array(32) : hashLeaf(schema));
    const call = burns
      ? ({ call: 'replace', tree: tree.key, told, data: BURN } as const)
      : ({ call: 'replace', tree: tree.key, told, schema, data } as const);
    blocks.push({ slot, transactions: [treeTransaction(slot, slot, [call])] });
    present.delete(id);
    burnt.delete(id);
    if (burns) burnt.add(id);
    else present.set(id, owner);
  });
  return { trees, blocks, present, burnt };
}

async function play(bed: CnftBed, blocks: readonly Block[]): Promise<void> {
  for (const { slot, transactions } of blocks) await bed.apply(slot, transactions);
}

async function clear(store: Store): Promise<void> {
  await store.write(async (tx) => {
    for (const table of ['trees', 'pages', 'assets', 'metadata', 'changes', 'pending', 'head'] as const)
      await (tx.db as CompressionDb).deleteFrom(`compression_${table}`).execute();
  });
}

/** Everything that is shown is what the model has. Returns how much was withheld. */
async function check(index: CompressedAssets, { present, burnt, trees }: Life): Promise<number> {
  let withheld = 0;
  const ids = [...present.keys(), ...burnt];
  const { assets, lacking } = await index.find(ids.map((id) => idBytes(id)));
  for (const id of ids) {
    const asset = assets.get(id);
    if (asset === undefined) assert.ok(lacking !== null, `${id} is unknown, and nothing says that it may exist`);
    if (asset === undefined || 'withheld' in asset) {
      withheld += 1;
      continue;
    }
    assert.equal(asset.state, burnt.has(id) ? 'burnt' : 'present');
    if (present.has(id)) assert.equal(asset.owner[0], present.get(id));
  }
  for (const owner of [20, 21, 22, 23]) {
    const found = await index.list({ owner: keyOf(owner) }, { most: 100 });
    if (found === null || 'withheld' in found) withheld += 1;
    else
      assert.deepEqual(
        idsOf(found.assets),
        sorted(present, (held) => held === owner),
      );
  }
  for (const tree of trees) {
    const found = await index.list({ tree: tree.key }, { most: 100, isDescending: true });
    if (found === null || 'withheld' in found) withheld += 1;
    else assert.equal(found.isComplete, true);
  }
  return withheld;
}

const known = new Map<string, Uint8Array>();
for (const tree of [220, 221])
  for (let leaf = 0; leaf < 16; leaf++) {
    const { id } = mintOf(keyOf(tree), leaf, 1, '').schema;
    known.set(encode32(id), id);
  }
const idBytes = (id: string): Uint8Array => known.get(id)!;
const idsOf = (assets: readonly object[]): string[] =>
  assets.map((asset) => ('withheld' in asset ? String(asset.withheld) : encode32((asset as CompressedAsset).id)));
const sorted = (present: ReadonlyMap<string, number>, isWanted: (owner: number) => boolean): string[] =>
  [...present]
    .filter(([, owner]) => isWanted(owner))
    .map(([id]) => id)
    .sort((a, b) => Buffer.compare(idBytes(a), idBytes(b)));

const NAMED = [keyOf(220), keyOf(221)];

eachStore('the index of compressed assets', (engine) => {
  const runs = { numRuns: engine.dialect === 'sqlite' ? 25 : 4 };

  test('with missing blocks nothing old is shown, and everything again after they came', async (t) => {
    const store = await engine.store(t);
    const bed = await createCnftBed(store);
    await fc.assert(
      fc.asyncProperty(actions, fc.nat(100), fc.nat(100), fc.boolean(), async (list, one, other, isAll) => {
        await clear(store);
        const life = live(list);
        const [from, to] = [one, other].map((at) => 1 + (at % (life.blocks.length - 1))).sort((a, b) => a - b);
        const missing = life.blocks.slice(from, to! + 1);
        await play(
          bed,
          life.blocks.filter((block) => !missing.includes(block)),
        );
        let missingTo: number | null = missing.at(-1)!.slot;
        const trees = isAll ? ('all' as const) : NAMED;
        const index = createCompressedAssets({ store, trees, missingTo: async () => missingTo });
        // Of all trees, those that are withheld are left out; an id of a tree that no block has named is unknown.
        if (!isAll) await check(index, life);
        else
          for (const [id, owner] of life.present) {
            const asset = (await index.find([idBytes(id)])).assets.get(id);
            if (asset !== undefined && !('withheld' in asset)) assert.equal(asset.owner[0], owner);
            const found = await index.list('all', { most: 100 });
            assert.equal(found !== null && 'isComplete' in found && found.isComplete, false);
          }
        await play(bed, missing);
        missingTo = null;
        assert.equal(await check(index, life), 0);
        const all = await createCompressedAssets({ store, trees: 'all', missingTo: async () => null }).list('all', {
          most: 99,
        });
        // The bed follows all trees; the first block decides whether nothing came before it.
        assert.equal(all !== null && 'isComplete' in all && all.isComplete, true);
      }),
      runs,
    );
  });

  test('a tree that is reset: its ids are withheld and not unknown, and one that nothing confirms goes', async (t) => {
    const store = await engine.store(t);
    const bed = await createCnftBed(store);
    const life = live([0, 1, 2, 1, 3].map((leaf) => ({ tree: 0, leaf, owner: 20 + (leaf % 4), isBurn: leaf === 2 })));
    await play(bed, life.blocks);
    const index = createCompressedAssets({ store, trees: NAMED, missingTo: async () => null });
    assert.equal(await check(index, life), 0);
    const db = store.read as CompressionDb;
    const tree = await db
      .selectFrom('compression_trees')
      .selectAll()
      .where('key', '=', keyOf(220))
      .executeTakeFirstOrThrow();
    const invented = mintOf(keyOf(220), 7, 22, '').schema.id;
    await store.write(async (tx) => {
      const row = await (tx.db as CompressionDb).selectFrom('compression_assets').selectAll().executeTakeFirstOrThrow();
      await (tx.db as CompressionDb)
        .insertInto('compression_assets')
        .values({ ...row, id: invented, leaf_index: 7 })
        .execute();
      await resetTree(tx, createConcurrentHashing(), tree);
    });
    const { assets } = await index.find([...life.present.keys()].map(idBytes));
    assert.equal(assets.size, life.present.size);
    for (const asset of assets.values())
      assert.match('withheld' in asset ? asset.withheld : '', /while they are fetched/);
    const history = historyOf(store, () => ({ slot: 9, state: { height: 3, seq: 5 } }));
    await play(bed, life.blocks);
    const row = await db
      .selectFrom('compression_trees')
      .selectAll()
      .where('id', '=', tree.id)
      .executeTakeFirstOrThrow();
    await history.complete(row);
    assert.equal(await check(index, life), 0);
    assert.equal((await index.find([invented])).assets.size, 0);
  });

  test('a named tree that was not looked up, or has an unreadable leaf, makes lists incomplete; burnt ones have a list', async (t) => {
    const store = await engine.store(t);
    const bed = await createCnftBed(store);
    let missingTo: number | null = null;
    const index = createCompressedAssets({ store, trees: NAMED, missingTo: async () => missingTo });
    const list = (part = {}) => index.list({ owner: keyOf(21) }, { most: 10, ...part });
    const why = (found: object | null) => (found !== null && 'withheld' in found ? String(found.withheld) : 'shown');
    assert.match(why(await list()), /was not read yet/);
    assert.match((await index.find([keyOf(3)])).lacking?.withheld ?? '', /was not read yet/);
    assert.match(why(await index.list({ tree: keyOf(220) }, { most: 1 })), /was not read yet/);
    assert.match(why(await index.changes({ tree: keyOf(220), leafIndex: 1 }, PAGE)), /was not read yet/);
    let now = { slot: 4, state: null as { height: number; seq: number } | null };
    const history = historyOf(store, () => now);
    const { signal } = new AbortController();
    // The chain does not have them at slot 4.
    await history.plant(NAMED, signal);
    assert.equal(why(await list()), 'shown');
    missingTo = 5;
    assert.match(why(await list()), /was not read yet/);
    now = { ...now, slot: 6 };
    await history.plant(NAMED, signal);
    assert.equal(why(await list()), 'shown');
    missingTo = null;
    const life = live([
      { tree: 0, leaf: 1, owner: 21, isBurn: false },
      { tree: 0, leaf: 1, owner: 21, isBurn: true },
      { tree: 1, leaf: 2, owner: 21, isBurn: false },
    ]);
    await play(bed, life.blocks);
    const [burnt, present] = [await list({ isBurnt: true }), await list()];
    assert.deepEqual(idsOf((burnt as AssetsFound).assets), [...life.burnt]);
    assert.deepEqual(idsOf((present as AssetsFound).assets), [...life.present.keys()]);
    // Bubblegum puts a leaf there whose event is not readable.
    const tree = life.trees[1]!;
    const told = tree.set(2, keyOf(9));
    const call = { call: 'replace', tree: tree.key, told, data: Buffer.from('a334c8e78c0345ba', 'hex') } as const;
    await bed.apply(9, [treeTransaction(9, 99, [call])]);
    assert.match(why(await list()), /has a leaf that cannot be read/);
    assert.equal((await index.find([keyOf(3)])).lacking, null, 'it is the leaf of a known id');
    assert.match(why(await index.list({ tree: tree.key }, { most: 9 })), /has a leaf that cannot be read/);
    const all = createCompressedAssets({ store, trees: 'all', missingTo: async () => null });
    const found = await all.list('all', { most: 9 });
    assert.equal(found !== null && 'isComplete' in found && found.isComplete, false);
    await assert.rejects(followedTrees(index).read(encode32(keyOf(21)), OWN_WORK), { code: 'WALLET_ASSETS_WITHHELD' });
  });

  test('a tree below a missing block is looked up on the chain: it is as it was, or lacks changes', async (t) => {
    const store = await engine.store(t);
    const bed = await createCnftBed(store);
    const life = live([{ tree: 0, leaf: 1, owner: 21, isBurn: false }]);
    await play(bed, life.blocks);
    await bed.apply(30, []);
    const index = createCompressedAssets({ store, trees: [keyOf(220)], missingTo: async () => 20 });
    const id = [...life.present.keys()][0]!;
    const isShown = async () => !('withheld' in ((await index.find([idBytes(id)])).assets.get(id) as object));
    const { signal } = new AbortController();
    const look = (slot: number, seq: number) =>
      historyOf(store, () => ({ slot, state: { height: 3, seq } })).verifyIdle(20, signal);
    assert.equal(await isShown(), false);
    // Blocks above the index may have changed it.
    await look(31, 1);
    assert.equal(await isShown(), false);
    await look(25, 1);
    assert.equal(await isShown(), true);
    await store.write(
      async (tx) =>
        void (await (tx.db as CompressionDb).updateTable('compression_trees').set({ verified_slot: 3 }).execute()),
    );
    await look(25, 2);
    assert.equal(await isShown(), false);
    const { status } = await (store.read as CompressionDb)
      .selectFrom('compression_trees')
      .select('status')
      .where('key', '=', keyOf(220))
      .executeTakeFirstOrThrow();
    assert.equal(status, 'gap');
  });

  test('all trees are complete only if they were followed from the first block on', async (t) => {
    const store = await engine.store(t);
    const bed = await createCnftBed(store);
    await bed.apply(2, []);
    const index = createCompressedAssets({ store, trees: 'all', missingTo: async () => null });
    const isComplete = async () => ((await index.list('all', { most: 9 })) as { isComplete: boolean }).isComplete;
    assert.equal(await isComplete(), false);
    await store.write((tx) => writeNote(tx, NOTES.allTreesFrom, '1'));
    assert.equal(await isComplete(), true);
    await store.write((tx) => writeNote(tx, absentNote(keyOf(1)), '1'));
    assert.equal(await isComplete(), true);
  });

  test('ranges that a processor lacks, not those that it reads again', async (t) => {
    const store = await engine.store(t);
    await migrate(store, [{ scope: 'kernel.follower', migrations: followerMigrations }]);
    await store.write(
      async (tx) =>
        void (await (tx.db as never as CompressionDb)
          .insertInto('follow_chains' as never)
          .values({ chain: 'main', floor_slot: 0 } as never)
          .execute()),
    );
    const book = createGapRecords(store, { now: () => 1 });
    const missing = (name = 'compression') => book.missingTo(store.read, 'main', name);
    const owner = { name: 'compression', version: 1 };
    await store.write((tx) =>
      book.request(tx, { chain: 'main', processor: owner, fromSlot: 1, toSlot: 90, addresses: null }),
    );
    assert.equal(await missing(), null);
    for (const [fromSlot, toSlot] of [
      [5, 9],
      [20, 30],
    ] as const)
      await store.write((tx) => recordGap(tx, 'main', { fromSlot, toSlot, reason: 'pruned', below: null }, [owner], 1));
    assert.deepEqual([await missing(), await missing('webhooks')], [30, null]);
    const [newest] = await book.list({ processor: 'compression' });
    await store.write((tx) => abandonGap(tx, newest!.id));
    assert.equal(await missing(), 30, 'its blocks never come');
  });

  test('pages are cut before leaves are hashed: an unfit leaf spoils only its own page', async (t) => {
    const store = await engine.store(t);
    const bed = await createCnftBed(store);
    const life = live(Array.from({ length: 8 }, (_, leaf) => ({ tree: 0, leaf, owner: 21, isBurn: false })));
    await play(bed, life.blocks);
    const ids = sorted(life.present, () => true);
    const parts = listParts(store);
    const changed = (more: object) =>
      assetSignatures(
        readQuestion({ tree: encode32(keyOf(220)), leafIndex: 1, ...more }, 'hosted'),
        parts.compressed!,
        parts.config,
      ) as Promise<{ readonly total: number } | null>;
    assert.equal((await changed({}))?.total, 1);
    // The greatest numbers that a call may have: behind the end of the list, or of the tree.
    for (const more of [
      { page: Number.MAX_SAFE_INTEGER },
      { leafIndex: Number.MAX_SAFE_INTEGER },
      { leafIndex: 2 ** 32 },
    ])
      assert.equal((await changed(more))?.total ?? 0, 0, JSON.stringify(more));
    assert.equal((await changed({ cursor: '9'.repeat(15) }))?.total, 1);
    const ask = async (more: object) => {
      const question = readQuestion({ tree: encode32(keyOf(220)), limit: 3, ...more }, 'hosted');
      return (await searchAssets(question, parts)) as {
        items: { id: string }[];
        cursor?: string;
        last_indexed_slot: number;
      };
    };
    const walk = async (sortDirection: string) => {
      const seen: string[] = [];
      for (let cursor: string | undefined; ; ) {
        const page = await ask({
          sortBy: { sortBy: 'id', sortDirection },
          ...(cursor === undefined ? {} : { cursor }),
        });
        assert.equal(page.last_indexed_slot, 9);
        seen.push(...page.items.map(({ id }) => id));
        cursor = page.cursor;
        if (cursor === undefined) return seen;
      }
    };
    assert.deepEqual(await walk('asc'), ids);
    assert.deepEqual(await walk('desc'), ids.toReversed());
    for (const page of [1, 2, 3, 4])
      assert.deepEqual(
        (await ask({ page })).items.map(({ id }) => id),
        ids.slice(3 * (page - 1), 3 * page),
      );
    const between = await ask({ after: ids[1], before: ids[4] });
    assert.deepEqual(
      between.items.map(({ id }) => id),
      ids.slice(2, 4),
    );
    assert.equal(
      ((await ask({ page: 1, options: { showGrandTotal: true } })) as { grand_total?: number }).grand_total,
      8,
    );
    // Another leaf has other metadata than its hash says.
    await store.write(async (tx) => {
      const db = tx.db as CompressionDb;
      await db
        .insertInto('compression_metadata')
        .values({ hash: keyOf(66), body: keyOf(1) })
        .execute();
      await db
        .updateTable('compression_assets')
        .set({ data_hash: keyOf(66) })
        .where('id', '=', idBytes(ids[7]!))
        .execute();
    });
    assert.equal((await ask({ page: 2 })).items.length, 3);
    await assert.rejects(ask({ page: 3 }), /does not fit its leaf/);
    assert.equal((await ask({ page: 2, royaltyAmount: 250 })).items.length, 3);
    await assert.rejects(ask({ page: 3, royaltyAmount: 250 }), /does not fit its leaf/);
  });

  test('filtered lists are those of all metadata, whatever the pages, and show none that does not fit its leaf', async (t) => {
    const store = await engine.store(t);
    const bed = await createCnftBed(store);
    const random = createSfc32(23);
    // A collection that is also a creator: its bytes alone do not decide.
    const people = [keyOf(101), keyOf(102), keyOf(103)];
    const leaves = Array.from({ length: 60 }, (_, leaf) => {
      const group = [null, keyOf(101), keyOf(104)][random.below(3)]!;
      const creators = people.flatMap((address) =>
        random.below(2) === 0 ? [] : [{ address, verified: random.below(2) === 0, share: 50 }],
      );
      const collection = group === null ? null : { key: group, verified: true };
      return {
        ...mintOf(keyOf(222), leaf, 20 + random.below(2), `Leaf ${leaf}`, { collection, creators }),
        group,
        creators,
      };
    });
    const tree = createModelTree(keyOf(222), 6);
    await bed.apply(1, [treeTransaction(1, 1, [{ call: 'start', tree: tree.key, told: tree.started() }])]);
    for (const [at, { schema, data }] of leaves.entries()) {
      const told = tree.set(at, hashLeaf(schema));
      await bed.apply(2 + at, [
        treeTransaction(2 + at, 2 + at, [{ call: 'replace', tree: tree.key, told, schema, data }]),
      ]);
    }
    const parts = listParts(store);
    const ask = async (more: object) =>
      (await searchAssets(readQuestion({ ...more }, 'hosted'), parts)) as { items: { id: string }[]; cursor?: string };
    const idsWith = (holds: (leaf: (typeof leaves)[number]) => boolean) =>
      leaves
        .filter(holds)
        .map(({ schema }) => schema.id)
        .sort(Buffer.compare)
        .map((id) => encode32(id));
    const isOf = (byte: number) => (leaf: (typeof leaves)[number]) => leaf.group?.[0] === byte;
    const made = (byte: number, verified: readonly boolean[]) => (leaf: (typeof leaves)[number]) =>
      leaf.creators.some((one) => one.address[0] === byte && verified.includes(one.verified));
    const inTree = { tree: encode32(tree.key) };
    const lists: [object, string[]][] = [
      [{ ...inTree, grouping: ['collection', encode32(keyOf(101))] }, idsWith(isOf(101))],
      [{ ...inTree, grouping: ['collection', encode32(keyOf(103))] }, []],
      [
        { compressed: true, collections: [101, 104].map((byte) => encode32(keyOf(byte))) },
        idsWith((one) => one.group !== null),
      ],
      [{ ...inTree, creatorAddress: encode32(keyOf(101)) }, idsWith(made(101, [true, false]))],
      [{ compressed: true, creatorAddress: encode32(keyOf(101)) }, idsWith(made(101, [true, false]))],
      [{ tokenType: 'compressedNft', grouping: ['collection', encode32(keyOf(104))] }, idsWith(isOf(104))],
      [{ compressed: true, tokenType: 'fungible', ownerAddress: encode32(keyOf(21)) }, []],
      [{ compressed: false, tree: encode32(tree.key) }, []],
      [{ ...inTree, creatorAddress: encode32(keyOf(102)), creatorVerified: true }, idsWith(made(102, [true]))],
      [
        {
          ownerAddress: encode32(keyOf(21)),
          grouping: ['collection', encode32(keyOf(104))],
          tokenType: 'compressedNft',
        },
        idsWith((one) => isOf(104)(one) && one.schema.owner[0] === 21),
      ],
      [
        { ...inTree, name: 'Leaf 7', ownerAddress: encode32(leaves[7]!.schema.owner) },
        [encode32(leaves[7]!.schema.id)],
      ],
    ];
    for (const [members, ids] of lists) {
      for (const sortDirection of ['asc', 'desc']) {
        const seen: string[] = [];
        for (let cursor: string | undefined; ; ) {
          const sortBy = { sortBy: 'id', sortDirection };
          const page = await ask({ ...members, limit: 7, sortBy, ...(cursor === undefined ? {} : { cursor }) });
          seen.push(...page.items.map(({ id }) => id));
          cursor = page.cursor;
          if (cursor === undefined) break;
        }
        assert.deepEqual(seen, sortDirection === 'asc' ? ids : ids.toReversed(), JSON.stringify(members));
      }
      const { items } = await ask({ ...members, limit: 4, page: 2 });
      assert.deepEqual(
        items.map(({ id }) => id),
        ids.slice(4, 8),
        JSON.stringify(members),
      );
    }
    // A Core collection that says how many it has: one more than the trees have, and as many.
    const members104 = idsWith(isOf(104));
    const ofCore = async (size: number, compressed = parts.compressed): Promise<readonly string[]> => {
      const u32 = (value: number) => Buffer.from(Uint32Array.of(value).buffer);
      const texts = Buffer.concat([u32(1), Buffer.from('G'), u32(0)]);
      const data = Buffer.concat([Buffer.of(5), keyOf(9), texts, u32(size), u32(size)]);
      const account = { pubkey: encode32(keyOf(104)), slot: 1, owner: CORE_PROGRAM, lamports: 1 };
      const accounts = [{ ...account, dataBase64: data.toString('base64') }];
      const source = { ...recordedSource({ name: '', accounts, transactions: [], requests: [] }), slot: 0 };
      const params = { groupKey: 'collection', groupValue: account.pubkey };
      const list = await assetsByGroup(readQuestion(params, 'hosted'), { ...parts, source, compressed });
      return (list as { items: { id: string }[] }).items.map(({ id }) => id);
    };
    assert.deepEqual(await ofCore(members104.length), members104);
    await assert.rejects(ofCore(members104.length + 1), /of which 0 have an account/);
    // Of a tree that lacks changes an upstream may know more, so that the list is incomplete, and not unavailable.
    const lacking = createCompressedAssets({ store, trees: [keyOf(220)], missingTo: async () => null });
    await assert.rejects(
      ofCore(members104.length, lacking),
      (error: Error) =>
        error instanceof IncompleteList && /of which 0 have an account: .*not read yet/.test(error.message),
    );
    // The metadata of one leaf is replaced by that of another: what the list would show of it is a lie.
    const [members, ids] = lists[0]!;
    const [liar, honest] = [2, 5].map((at) => leaves.find(({ schema }) => encode32(schema.id) === ids[at])!);
    await store.write(async (tx) => {
      const db = tx.db as CompressionDb;
      const of = (leaf: typeof liar) => ['hash', '=', leaf!.schema.dataHash] as const;
      const { body } = await db
        .selectFrom('compression_metadata')
        .select('body')
        .where(...of(honest))
        .executeTakeFirstOrThrow();
      await db
        .updateTable('compression_metadata')
        .set({ body })
        .where(...of(liar))
        .execute();
    });
    await assert.rejects(ask({ ...members, limit: 3 }), /does not fit its leaf/);
    assert.deepEqual(
      (await ask({ ...members, limit: 3, page: 2 })).items.map(({ id }) => id),
      ids.slice(3, 6),
    );
  });
});

/** What a list is read from; all trees are followed. */
function listParts(store: Store): ListParts {
  return {
    source: { ...recordedSource({ name: '', accounts: [], transactions: [], requests: [] }), slot: 0 },
    compressed: createCompressedAssets({ store, trees: 'all', missingTo: async () => null, searchedPerRead: 7 }),
    documents: undefined,
    prices: undefined,
    documentWaitMs: 0,
    group: '',
    config: Value.Default(dasConfig, {}) as DasConfig,
    index: null,
    options: {
      dialect: 'hosted' as const,
      showFungible: false,
      showCollectionMetadata: false,
      showUnverifiedCollections: false,
    },
  };
}

const PAGE = { ascending: false, limit: 10, skip: 0, cursor: null, after: null, before: null } as const;

function historyOf(store: Store, account: () => { slot: number; state: { height: number; seq: number } | null }) {
  return createTreeHistory({
    store,
    hashing: createConcurrentHashing(),
    lightHashing: createHashing({ add: () => undefined }),
    account: () => Promise.resolve(account()),
    log: createMemoryLog(),
  });
}
