/**
 * What lists promise, against all assets of random chains: whatever is followed, and however far it was read, a list with `requireFullIndex`
 * has all there is or is refused by name, and no list shows what is not in it.
 */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { keccak_256 } from '@noble/hashes/sha3.js';
import { Value } from '@sinclair/typebox/value';
import { type DasConfig, dasConfig } from '../../../plugins/das/config.ts';
import { createAssetIndex } from '../../../plugins/das/indexing/asset-index.ts';
import { createFillJobs, fillFollowed } from '../../../plugins/das/indexing/fill.ts';
import { type AssetDb, type FollowKind, migrations } from '../../../plugins/das/indexing/tables.ts';
import { FACTS } from '../../../plugins/das/indexing/write.ts';
import {
  assetsByAuthority,
  assetsByCreator,
  assetsByGroup,
  assetsByOwner,
  IncompleteList,
  searchAssets,
} from '../../../plugins/das/lists.ts';
import { readQuestion } from '../../../plugins/das/params.ts';
import { readAssets, readOptionsOf } from '../../../plugins/das/read-assets.ts';
import { createSystemClock } from '../../../src/adapters/clock.ts';
import { decode32, encode32 } from '../../../src/lib/base58.ts';
import { RpcError } from '../../../src/plugin/plugin.ts';
import type { CompressedAsset, CompressedAssets } from '../../../src/ports/compressed-assets.ts';
import type { Store } from '../../../src/ports/store.ts';
import { metadataAddress } from '../../../src/solana/addresses.ts';
import type { Asset } from '../../../src/solana/assets/asset.ts';
import { writeLeafMetadata } from '../../../src/solana/concurrent/leaf-metadata.ts';
import { treeAuthority } from '../../../src/solana/concurrent/tree.ts';
import {
  BUBBLEGUM_PROGRAM,
  CORE_PROGRAM,
  METADATA_PROGRAM,
  TOKEN_2022_PROGRAM,
  TOKEN_PROGRAM,
} from '../../../src/solana/programs.ts';
import { migrate } from '../../../src/store/migrate.ts';
import { type DasScenario, plainAnswer, recordedSource } from '../../helpers/das-recorded.ts';
import { createMemoryLog } from '../../helpers/memory-log.ts';
import { bySeed } from '../../helpers/run-part.ts';
import { createSfc32, type Sfc32 } from '../../helpers/sfc32.ts';
import { eachStore } from '../../helpers/store.ts';
import { writeMetadata } from '../../helpers/write-metadata.ts';
import { pointerValue, tokenMetadataValue, writeMint } from '../../helpers/write-mint.ts';

const bytesOf = (key: string): Uint8Array => decode32(key) as Uint8Array;
const u32 = (value: number) => Buffer.from(Uint32Array.of(value).buffer);
const u64 = (value: number) => Buffer.from(BigUint64Array.of(BigInt(value)).buffer);
const text = (value: string) => Buffer.concat([u32(value.length), Buffer.from(value)]);

interface Leaf extends CompressedAsset {
  readonly isBurnt: boolean;
}

/** All accounts and leaves of a chain, few enough that most keys have some of each kind. */
function createWorld(random: Sfc32) {
  const key = () => encode32(random.fill(new Uint8Array(32)));
  const keys = (count: number) => Array.from({ length: count }, key);
  const pick = <T>(list: readonly T[]): T => list[random.below(list.length)] as T;
  const isOne = (of: number) => random.below(of) === 0;
  const [people, families, groups, trees] = [keys(3), keys(2), keys(2), keys(2)];
  const accounts: DasScenario['accounts'][number][] = [];
  const set = (pubkey: string, owner: string, data: Buffer) =>
    accounts.push({ pubkey, slot: 1, owner, lamports: 1, dataBase64: data.toString('base64') });
  const owners = new Map<string, string>();
  const sizes = new Map(groups.map((group) => [group, 0]));
  const count = (group: string) => sizes.set(group, (sizes.get(group) as number) + 1);
  const creators = () => people.filter(() => isOne(3)).map((address) => ({ address, verified: isOne(2), share: 50 }));

  function mintOne(): void {
    const [mint, owner, isNft, program] = [key(), pick(people), !isOne(4), pick([TOKEN_PROGRAM, TOKEN_2022_PROGRAM])];
    const update = { updateAuthority: pick(people), mint, name: 'N', symbol: 'S', uri: '' };
    const isEmbedded = program === TOKEN_2022_PROGRAM && isOne(2);
    const extensions = [
      { type: 18, value: pointerValue(update.updateAuthority, mint) },
      { type: 19, value: tokenMetadataValue(update) },
    ];
    const supply = { supply: isNft ? 1n : 1_000n, decimals: isNft ? 0 : 3 };
    set(mint, program, writeMint({ ...supply, ...(isEmbedded ? { extensions } : {}) }));
    const held = Buffer.alloc(165);
    held.set([...bytesOf(mint), ...bytesOf(owner), ...u64(isNft ? 1 : 1_000)]);
    held[108] = 1;
    set(key(), program, held);
    owners.set(mint, owner);
    if (isEmbedded || isOne(5)) return;
    const group = pick([null, ...families, ...groups]);
    const fields = {
      ...update,
      sellerFeeBasisPoints: 0,
      primarySaleHappened: false,
      isMutable: true,
      creators: creators(),
      editionNonce: null,
      tokenStandard: isNft ? ('NonFungible' as const) : ('Fungible' as const),
      uses: null,
      // The program verifies no collection of another program.
      collection: group === null ? null : { key: group, verified: families.includes(group) && !isOne(3) },
      collectionDetails: null,
      programmableConfig: null,
    };
    set(metadataAddress(mint), METADATA_PROGRAM, writeMetadata(fields, isOne(2)).data);
  }
  function coreOne(): void {
    const [id, owner, by] = [key(), pick(people), random.below(3)];
    const to = by === 2 ? pick(groups) : pick(people);
    if (by === 2) count(to);
    const base = Buffer.concat([
      Buffer.of(1),
      bytesOf(owner),
      Buffer.of(by),
      by === 0 ? Buffer.of() : bytesOf(to),
      text('A'),
      text(''),
      Buffer.of(0),
    ]);
    const made = creators().map(({ address }) => Buffer.concat([bytesOf(address), Buffer.of(50)]));
    const royalties = Buffer.concat([Buffer.of(0, 1, 0), u32(made.length), ...made, Buffer.of(0)]);
    const at = base.length + 9;
    const registry = Buffer.concat([Buffer.of(4), u32(1), Buffer.of(0, 2), u64(at), u32(0)]);
    const plugins = [Buffer.of(3), u64(at + royalties.length), royalties, registry];
    set(id, CORE_PROGRAM, Buffer.concat([base, ...(made.length === 0 ? [] : plugins)]));
    owners.set(id, owner);
  }
  function leafOne(leafIndex: number): Leaf {
    const version = isOne(2) ? 1 : 2;
    const [tree, owner, isBurnt] = [pick(trees), bytesOf(pick(people)), isOne(5)];
    // Anybody can put a leaf of the first version that only claims to be in a collection into a tree; the second has those of Core.
    const group = pick(version === 2 ? [null, ...groups] : [null, ...families, ...groups]);
    const verified = version === 2 || (group !== null && families.includes(group) && !isOne(3));
    if (version === 2 && group !== null && !isBurnt) count(group);
    const made = creators().map((one) => ({ ...one, address: bytesOf(one.address) }));
    const metadata = writeLeafMetadata({
      version,
      name: 'L',
      symbol: '',
      uri: '',
      sellerFeeBasisPoints: 0,
      primarySaleHappened: false,
      isMutable: true,
      editionNonce: null,
      tokenStandard: 0,
      uses: null,
      tokenProgram: 0,
      creators: made,
      collection: group === null ? null : { verified, key: bytesOf(group) },
    });
    const hashed = made.flatMap((one) => [one.address, Buffer.of(Number(one.verified), one.share)]);
    const collectionHash = keccak_256(group === null ? new Uint8Array(32) : bytesOf(group));
    return {
      id: bytesOf(key()),
      tree: bytesOf(tree),
      leafIndex,
      leaf: bytesOf(tree),
      seq: 1,
      slot: 1,
      state: isBurnt ? 'burnt' : 'present',
      isBurnt,
      version,
      owner,
      delegate: owner,
      metadata,
      dataHash: keccak_256(Buffer.concat([keccak_256(metadata), Buffer.of(0, 0)])),
      creatorHash: keccak_256(Buffer.concat(hashed)),
      more: version === 1 ? null : { collectionHash, assetDataHash: keccak_256(new Uint8Array(0)), flags: 0 },
    };
  }

  for (let made = random.below(7); made > 0; made -= 1) mintOne();
  for (let made = random.below(6); made > 0; made -= 1) coreOne();
  const leaves = Array.from({ length: random.below(9) }, (_, at) => leafOne(at));
  for (const [group, size] of sizes)
    set(
      group,
      CORE_PROGRAM,
      Buffer.concat([Buffer.of(5), bytesOf(pick(people)), text('G'), text(''), u32(size), u32(size)]),
    );
  const authorities = trees.map((tree) => encode32(treeAuthority(bytesOf(tree))));
  for (const authority of authorities) set(authority, BUBBLEGUM_PROGRAM, Buffer.alloc(96));
  const source = recordedSource({ name: '', accounts, transactions: [], requests: [] });
  const ids = [...owners.keys(), ...groups];
  return { people, families, groups, trees, authorities, owners, leaves, ids, source };
}

type World = ReturnType<typeof createWorld>;

const HOW_TREES = ['none', 'named', 'all', 'whole'] as const;

/** An index of these leaves that keeps the contract of the port: `trees` are named, or those whose past is known where all are followed. */
function leavesIndex({ leaves }: World, how: (typeof HOW_TREES)[number], trees: ReadonlySet<string>, lacks: boolean) {
  if (how === 'none') return undefined;
  const isKnown = (tree: Uint8Array) => how === 'whole' || trees.has(encode32(tree));
  const index: Pick<CompressedAssets, 'list'> = {
    async list(by, { most, isDescending = false, above = null, below = null, isBurnt = false, bytes = [] }) {
      const ofTree = by !== 'all' && 'tree' in by;
      if (ofTree && !isKnown(by.tree)) return how === 'named' ? null : { withheld: 'the tree lacks changes' };
      if (how === 'named' && lacks) return { withheld: 'a tree lacks changes' };
      const assets = leaves
        .filter((leaf) => isKnown(leaf.tree) && leaf.isBurnt === isBurnt)
        .filter(
          (leaf) => by === 'all' || Buffer.compare(ofTree ? leaf.tree : leaf.owner, ofTree ? by.tree : by.owner) === 0,
        )
        .filter(({ id }) => above === null || Buffer.compare(id, above) > 0)
        .filter(({ id }) => below === null || Buffer.compare(id, below) < 0)
        .filter(({ metadata }) => bytes.every((one) => Buffer.from(metadata).includes(Buffer.from(one))))
        .sort((a, b) => (isDescending ? -1 : 1) * Buffer.compare(a.id, b.id));
      const isComplete = ofTree || how === 'whole';
      return { slot: 1, assets: assets.slice(0, most), followsAll: how !== 'named', isComplete };
    },
  };
  return index as CompressedAssets;
}

const STATES = ['absent', 'absent', 'filling', 'ready', 'ready'] as const;

/** An index in which some of what could be followed is, and some of that was not read yet. */
async function followSome(store: Store, { people, families, groups, source }: World, random: Sfc32) {
  const parts = { store, clock: createSystemClock(), log: createMemoryLog(), isFinal: true, source: () => source };
  const jobs = createFillJobs(parts, { requeue: async () => 0 }, async () => 0);
  await jobs.follow({});
  for (const table of ['das_accounts', 'das_assets', 'das_rows', 'das_followed'] as const)
    await store.write(async ({ db }) => void (await (db as AssetDb).deleteFrom(table).execute()));
  const named: [FollowKind, readonly string[]][] = [
    ['program', [METADATA_PROGRAM, CORE_PROGRAM, TOKEN_2022_PROGRAM]],
    ['collection', [...families, ...groups]],
    ['creator', people],
    ['authority', people],
    ['owner', people],
  ];
  const drawn = named.flatMap(([kind, keys]) =>
    keys.map((key) => ({ kind, key, state: STATES[random.below(STATES.length)] })),
  );
  const followed = drawn.filter(({ state }) => state !== 'absent');
  const keysOf = (kind: FollowKind) => followed.filter((one) => one.kind === kind).map(({ key }) => key);
  await jobs.follow(Object.fromEntries(named.map(([kind]) => [kind, keysOf(kind)])));
  await store.write(async ({ db }) => void (await (db as AssetDb).updateTable('das_state').set({ slot: 9 }).execute()));
  for (const { kind, key, state } of followed)
    if (state === 'ready') assert.equal(await fillFollowed(parts, { kind, key }, new AbortController().signal), 'done');
  return createAssetIndex(store, 1_000_000);
}

/** Everything there is, as an asset of its own shows it. */
async function readTruth({ ids, leaves, source }: World): Promise<readonly Asset[]> {
  const compressed: Pick<CompressedAssets, 'find'> = {
    find: async (wanted) => {
      const found = leaves.filter(({ id }) => wanted.some((one) => Buffer.compare(id, one) === 0));
      return { slot: 1, lacking: null, assets: new Map(found.map((leaf) => [encode32(leaf.id), leaf])) };
    },
  };
  const parts = { source, index: null, documents: undefined, prices: undefined, documentWaitMs: 0, group: '' };
  const all = [...ids, ...leaves.map(({ id }) => encode32(id))];
  const { assets } = await readAssets(all, { ...parts, compressed: compressed as CompressedAssets }, FACTS);
  assert.equal(assets.size, all.length);
  return [...assets.values()].map((one) => plainAnswer(one) as Asset);
}

const isToken = ({ interface: kind }: Asset) => kind === 'FungibleToken' || kind === 'FungibleAsset';
const isLeaf = ({ compression }: Asset) => compression.compressed;
const KINDS: Readonly<Record<string, (asset: Asset) => boolean>> = {
  nonFungible: (one) => !isToken(one),
  all: () => true,
  fungible: isToken,
  regularNft: (one) => !isToken(one) && !isLeaf(one),
  compressedNft: isLeaf,
};

/** What lists are of: the member that says it, the method of its own, and whether an asset is in it; `isSearch`: asked of `searchAssets`. */
interface Of {
  readonly base: keyof typeof ONE_OF;
  readonly members: object;
  readonly list: typeof searchAssets | null;
  readonly named?: object;
  readonly holds: (asset: Asset, isSearch: boolean) => boolean;
  /** A Core collection, which counts its verified assets. */
  readonly isCore?: boolean;
}

function listsOf(world: World, isClaimShown: boolean): readonly Of[] {
  const { people, families, groups, trees, authorities, owners } = world;
  const madeBy =
    (key: string, isVerified: boolean): Of['holds'] =>
    ({ creators }) =>
      creators.some(({ address, verified }) => address === key && (!isVerified || verified));
  const owner = (key: string): Of => ({
    base: 'owner',
    members: { ownerAddress: key },
    list: assetsByOwner,
    holds: (one) => (isLeaf(one) ? one.ownership.owner : owners.get(one.id)) === key,
  });
  const creator = (key: string): readonly Of[] => [
    { base: 'creator', members: { creatorAddress: key }, list: assetsByCreator, holds: madeBy(key, false) },
    {
      base: 'creator',
      members: { creatorAddress: key, creatorVerified: true },
      list: assetsByCreator,
      named: { creatorAddress: key, onlyVerified: true },
      holds: madeBy(key, true),
    },
  ];
  const authority = (key: string): Of => ({
    base: 'authority',
    members: { authorityAddress: key },
    list: assetsByAuthority,
    holds: (one) => one.authorities.some(({ address }) => address === key),
  });
  const group = (key: string): Of => ({
    base: 'group',
    members: { grouping: ['collection', key] },
    list: assetsByGroup,
    named: { groupKey: 'collection', groupValue: key },
    isCore: groups.includes(key),
    // A search finds by verified collections only.
    holds: ({ grouping }, isSearch) =>
      grouping.some((one) => one.group_value === key && (one.verified === true || (isClaimShown && !isSearch))),
  });
  const tree = (key: string): Of => ({
    base: 'tree',
    members: { tree: key },
    list: null,
    holds: (one) => one.compression.tree === key,
  });
  return [
    ...people.flatMap((key) => [owner(key), ...creator(key), authority(key)]),
    ...authorities.map(authority),
    ...[...families, ...groups].map(group),
    ...trees.map(tree),
    { base: 'compressed', members: { compressed: true }, list: null, holds: isLeaf },
  ];
}

interface Asked {
  readonly base: keyof typeof ONE_OF | 'any';
  readonly run: typeof searchAssets;
  readonly params: object;
  readonly holds: (asset: Asset) => boolean;
  /** Those that are in the list also without `requireFullIndex`. */
  readonly promised: (asset: Asset) => boolean;
}

function* questions(world: World, isClaimShown: boolean): Generator<Asked> {
  for (const { base, members, list, named = members, holds, isCore = false } of listsOf(world, isClaimShown))
    for (const [tokenType, isOfKind] of Object.entries(KINDS)) {
      const isPromised = (one: Asset) =>
        base === 'tree' || (isCore && one.grouping.some(({ verified }) => verified === true));
      if (list !== null)
        yield {
          base,
          run: list,
          params: { ...named, tokenType },
          holds: (one) => !one.burnt && holds(one, false) && isOfKind(one),
          promised: (one) => isPromised(one) && tokenType !== 'compressedNft',
        };
      for (const compressed of base === 'compressed' ? [true] : [undefined, true, false])
        for (const burnt of [true, false])
          yield {
            base,
            run: searchAssets,
            params: { ...members, tokenType, burnt },
            ...(compressed === undefined ? {} : { params: { ...members, tokenType, burnt, compressed } }),
            holds: (one) =>
              one.burnt === burnt && isLeaf(one) === (compressed ?? isLeaf(one)) && holds(one, true) && isOfKind(one),
            promised: (one) =>
              isPromised(one) && (base === 'tree' || !(burnt || compressed === true || tokenType === 'compressedNft')),
          };
    }
}

const ANY_QUESTIONS = 8;

/** Two or three lists as one, by members of different names. */
function* anyQuestions(world: World, isClaimShown: boolean, random: Sfc32): Generator<Asked> {
  const all = listsOf(world, isClaimShown).filter(({ members }) => Object.keys(members).length === 1);
  const pick = <T>(list: readonly T[]): T => list[random.below(list.length)] as T;
  for (let asked = 0; asked < ANY_QUESTIONS; asked += 1) {
    const some = new Map(Array.from({ length: 3 }, () => pick(all)).map((one) => [one.base, one]));
    if (some.size === 1) continue;
    const lists = [...some.values()];
    const [tokenType, isOfKind] = pick(Object.entries(KINDS));
    const isPromised = ({ base, holds, isCore = false }: Of, one: Asset) =>
      (base === 'tree' && holds(one, true)) || (isCore && tokenType !== 'compressedNft' && holds(one, true));
    yield {
      base: 'any',
      run: searchAssets,
      params: { ...Object.assign({}, ...lists.map(({ members }) => members)), tokenType, conditionType: 'any' },
      holds: (one) => !one.burnt && isOfKind(one) && lists.some(({ holds }) => holds(one, true)),
      promised: (one) => lists.some((list) => isPromised(list, one)),
    };
  }
}

/** How many questions of each kind are asked: collections have the most ways to lack something. */
const ONE_OF = { owner: 16, authority: 8, group: 4, creator: 16, tree: 4, compressed: 1 } as const;

bySeed(60, (seeds) =>
  eachStore('lists of random chains', (engine) => {
    test('a full list is the truth or is refused, and no list has what is not in it', {
      timeout: 300_000,
    }, async (t) => {
      const store = await engine.store(t);
      await migrate(store, [{ scope: 'das', migrations }]);
      const config = { ...(Value.Default(dasConfig, {}) as DasConfig) };
      const answered = new Map<string, number>();
      for (const seed of engine.dialect === 'sqlite' ? seeds : seeds.slice(0, 10)) {
        const random = createSfc32(seed);
        const world = createWorld(random);
        const truth = await readTruth(world);
        const index = await followSome(store, world, random);
        const how = HOW_TREES[random.below(HOW_TREES.length)]!;
        const known = new Set(world.trees.filter(() => random.below(3) > 0));
        const compressed = leavesIndex(world, how, known, random.below(4) === 0);
        const listCore = random.below(5) > 0;
        for (const [isFull, isClaimShown] of [
          [true, true],
          [true, false],
          [false, true],
          [false, false],
        ] as const)
          for (const { base, run, params, holds, promised } of [
            ...questions(world, isClaimShown),
            ...anyQuestions(world, isClaimShown, random),
          ]) {
            const isRare = base !== 'any' && !(isFull && isClaimShown && base === 'group');
            if (isRare && random.below(ONE_OF[base]) > 0) continue;
            const options = { requireFullIndex: isFull, showUnverifiedCollections: isClaimShown };
            const question = readQuestion({ ...params, options }, 'hosted');
            const parts = {
              source: index.source(world.source),
              index,
              compressed,
              documents: undefined,
              prices: undefined,
              documentWaitMs: 0,
              group: '',
              config: { ...config, listCore },
              options: readOptionsOf(question, 'hosted'),
            };
            const shown = await run(question, parts).then(
              (answer) => (answer as { items: readonly Asset[] }).items.map(({ id }) => id),
              (error: unknown) => {
                if (error instanceof IncompleteList || (error instanceof RpcError && error.status === 503)) return null;
                throw error;
              },
            );
            if (shown === null) continue;
            if (base === 'any') {
              const paged: string[] = [];
              for (let cursor: string | undefined; ; ) {
                const page = readQuestion({ ...question.members, limit: 2, cursor: cursor ?? null }, 'hosted');
                const next = (await run(page, parts)) as { readonly items: readonly Asset[]; readonly cursor?: string };
                paged.push(...next.items.map(({ id }) => id));
                cursor = next.cursor;
                if (cursor === undefined) break;
              }
              assert.deepEqual(paged, shown, `seed ${seed}: pages of ${JSON.stringify(question.members)}`);
            }
            const wanted = truth.filter(holds).sort((a, b) => Buffer.compare(bytesOf(a.id), bytesOf(b.id)));
            assert.deepEqual(
              shown,
              wanted.filter((one) => isFull || promised(one) || shown.includes(one.id)).map(({ id }) => id),
              `seed ${seed}: ${JSON.stringify(question.members)}; trees: ${how}`,
            );
            if (wanted.length > 0) answered.set(`${base} ${isFull}`, (answered.get(`${base} ${isFull}`) ?? 0) + 1);
          }
      }
      // Few chains do not have them all.
      if (seeds.length < 10) return;
      for (const base of [...Object.keys(ONE_OF), 'any'])
        for (const isFull of [true, false])
          assert.ok(
            (answered.get(`${base} ${isFull}`) ?? 0) > 0,
            `${base} ${isFull}: ${JSON.stringify([...answered])}`,
          );
    });
  }),
);
