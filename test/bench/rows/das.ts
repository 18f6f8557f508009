/** The asset API over its index: single assets and lists over HTTP, its size, lists of compressed assets, and mints that are proved at once. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { Value } from '@sinclair/typebox/value';
import { sql } from 'kysely';
import { createCompressedAssets } from '../../../plugins/compression/rpc/asset-index.ts';
import { type DasConfig, dasConfig } from '../../../plugins/das/config.ts';
import { type ListParts, searchAssets } from '../../../plugins/das/lists.ts';
import { readQuestion } from '../../../plugins/das/params.ts';
import { assetOf, leafAsset } from '../../../plugins/das/read-assets.ts';
import { encode32 } from '../../../src/lib/base58.ts';
import type { Store } from '../../../src/ports/store.ts';
import { hashLeaf } from '../../../src/solana/concurrent/decode-concurrent.ts';
import { openStore } from '../../../src/store/index.ts';
import { mintOf, treeTransaction } from '../../helpers/bubblegum.ts';
import { createCnftBed, foldProof } from '../../helpers/cnft-harness.ts';
import { recordedSource } from '../../helpers/das-recorded.ts';
import { createSfc32 } from '../../helpers/sfc32.ts';
import { type BenchServer, createAnswerReader, type LoadRequest, measureServers, startBenchServer } from '../http.ts';
import { ratioOf } from '../paired.ts';
import type { Row, RowResult, RunOptions } from '../row.ts';
import {
  createAssetTables,
  createTree,
  LEAF_COLLECTION,
  LEAF_TREE,
  mintKey,
  ownerKey,
  plantAssets,
  plantLeaves,
} from '../samples/das-world.ts';
import { PROXY_KEY } from '../samples/proxy-answers.ts';
import { siblingModule } from '../sibling.ts';

const SIZES = {
  full: { assets: 1_000_000, owned: 1_000, pairs: 10, pages: 500, leaves: 100_000, mints: 10_000 },
  quick: { assets: 30_000, owned: 1_000, pairs: 3, pages: 300, leaves: 20_000, mints: 1_000 },
  smoke: { assets: 300, owned: 100, pairs: 1, pages: 3, leaves: 300, mints: 5 },
} as const;
const CONNECTIONS = 64;
/** Sizes at which the store is measured, as parts of the last one. */
const CURVE = [0.01, 0.1, 1] as const;
const MAX_BYTES_OF_MANY = 15e9;
const MANY = 10_000_000;

async function run(options: RunOptions): Promise<RowResult[]> {
  const { assets, owned } = SIZES[options.size];
  const folder = mkdtempSync(join(tmpdir(), 'parhelion-das-'));
  try {
    const bytes = await inStore(folder, (store) => plant(store, options));
    const module = siblingModule(import.meta.url, '../samples/das-server.ts');
    const daemon = await startBenchServer(module, [folder, String(assets / owned)]);
    try {
      const read = [await single(daemon, options), ...(await pages(daemon, options))];
      return [...read, bytes, ...(await compressed(options))];
    } finally {
      daemon.stop();
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function inStore<T>(folder: string, work: (store: Store) => Promise<T>): Promise<T> {
  const store = await openStore(
    { url: 'sqlite:', poolSize: 4, busyTimeoutMs: 5_000, statementTimeoutMs: 60_000 },
    folder,
  );
  try {
    return await work(store);
  } finally {
    await store.close();
  }
}

/** Pages of the database, without its log. */
async function sizeOf({ read }: Store): Promise<number> {
  const text = sql<{
    bytes: number;
  }>`select page_count * page_size as bytes from pragma_page_count(), pragma_page_size()`;
  return (await text.execute(read)).rows[0]!.bytes;
}

async function plant(store: Store, { size, seed, say }: RunOptions): Promise<RowResult> {
  const { assets, owned } = SIZES[size];
  await createAssetTables(store);
  const [curve, started]: [number[], number] = [[], performance.now()];
  for (let at = 0, done = 0; at < CURVE.length; at += 1) {
    const to = Math.round(assets * CURVE[at]!);
    await plantAssets(store, done, to, owned);
    done = to;
    curve.push((await sizeOf(store)) / to);
    say(
      `${to} assets, ${Math.round(curve.at(-1)!)} bytes each, after ${Math.round((performance.now() - started) / 1_000)} s`,
    );
  }
  const seconds = (performance.now() - started) / 1_000;
  return {
    row: 'das/bytes',
    name: 'index of assets: bytes per asset',
    unit: 'bytes',
    ours: [curve.at(-1)!],
    baseline: [],
    ratio: null,
    goal: `${MANY / 1e6} million assets in <= ${MAX_BYTES_OF_MANY / 1e9} GB`,
    seed,
    sizes: { assets },
    verdict: curve.at(-1)! * MANY <= MAX_BYTES_OF_MANY ? 'met' : 'missed',
    notes: [
      `at ${CURVE.map((part) => Math.round(assets * part)).join(', ')} assets: ${curve.map(Math.round).join(', ')} bytes each; at 10 million by the last figure ${((curve.at(-1)! * MANY) / 1e9).toFixed(1)} GB`,
      `mint, padded metadata, edition and token account of each; ${Math.round(assets / seconds)} assets/s written, their accounts made and their addresses derived`,
    ],
  };
}

const requestOf = (method: string, params: object): LoadRequest => ({
  method: 'POST',
  path: `/?api-key=${PROXY_KEY}`,
  headers: { 'Content-Type': 'application/json' },
  body: JSON.stringify({ jsonrpc: '2.0', id: 'bench', method, params }),
});

const answerOf = async ({ url }: BenchServer, { path, body }: LoadRequest): Promise<string> =>
  await (await fetch(url + path, { method: 'POST', body: body! })).text();

async function single(daemon: BenchServer, { size, seed }: RunOptions): Promise<RowResult> {
  const { assets, pairs } = SIZES[size];
  const random = createSfc32(seed);
  const bodies = Array.from(
    { length: Math.min(assets, 20_000) },
    () => requestOf('getAsset', { id: mintKey(random.below(assets)) }).body!,
  );
  const request = { ...requestOf('getAsset', { id: mintKey(7) }), bodies };
  const text = await answerOf(daemon, request);
  const { result } = JSON.parse(text);
  assert.deepEqual([result?.content?.metadata?.name, result?.ownership?.owner], ['Picture #7', ownerKey(0)], text);
  const bare = await startBenchServer(siblingModule(import.meta.url, '../samples/proof-server.ts'), ['bare', text]);
  try {
    const options = { pairs, seconds: size === 'smoke' ? 0.25 : 1, connections: CONNECTIONS };
    const measured = await measureServers({ server: daemon, request }, { server: bare, request }, options);
    const { cpuNote, latencyNote, ...samples } = measured;
    const ratio = ratioOf(samples.ours, samples.baseline);
    return {
      row: 'das/asset',
      name: 'getAsset from the index',
      unit: 'requests/s',
      ...samples,
      ratio,
      seed,
      goal: '>= 0.6x a bare node:http server',
      verdict: ratio.median >= 0.6 ? 'met' : 'missed',
      sizes: { assets, distinct: bodies.length, answerBytes: text.length, connections: CONNECTIONS },
      notes: [cpuNote, latencyNote, 'without documents outside the chain'],
    };
  } finally {
    bare.stop();
  }
}

/** Owners whose pages are asked for again and again: few enough that all of them are kept. */
const KNOWN_OWNERS = 10;

/** One page after the other: the goal is about a page, not about many clients. */
async function pages(daemon: BenchServer, { size, seed }: RunOptions): Promise<RowResult[]> {
  const { assets, owned, pages: count } = SIZES[size];
  const owners = assets / owned;
  const first = createSfc32(seed + 1).below(owners);
  const reader = createAnswerReader(daemon);
  let answerBytes = 0;
  async function ask(number: number, coding: 'identity' | 'gzip'): Promise<number> {
    const ownerAddress = ownerKey((first + number) % owners);
    const request = requestOf('getAssetsByOwner', { ownerAddress, limit: 1_000 });
    const headers = { ...request.headers, 'Accept-Encoding': coding };
    const { ms, head, body } = await reader.ask({ ...request, headers });
    if (number % 50 === 0) {
      const text = (/content-encoding: gzip/i.test(head) ? gunzipSync(body) : body).toString();
      answerBytes = text.length;
      assert.equal(JSON.parse(text).result?.items.length, owned, text.slice(0, 300));
    }
    return ms;
  }
  const inTurn = async (most: number, of: number, coding: 'identity' | 'gzip') => {
    const times: number[] = [];
    for (let page = 0; page < most; page += 1) times.push(await ask(page % of, coding));
    return times.sort((a, b) => a - b);
  };
  const at = (times: readonly number[], part: number) =>
    times[Math.min(times.length - 1, Math.floor(times.length * part))]!;
  const spread = (times: readonly number[]) =>
    `p50 ${at(times, 0.5).toFixed(1)} ms, p99 ${at(times, 0.99).toFixed(1)} ms`;
  const cold = await inTurn(Math.min(count, owners), owners, 'identity');
  const known = Math.min(KNOWN_OWNERS, owners);
  await inTurn(2 * known, known, 'identity');
  const warm = await inTurn(count, known, 'identity');
  const packed = await inTurn(count, known, 'gzip');
  reader.close();
  const rowOf = (row: string, what: string, times: readonly number[], notes: readonly string[]): RowResult => ({
    row,
    name: `getAssetsByOwner: ${owned} assets on a page ${what}`,
    unit: 'ms, p99',
    ours: [at(times, 0.99)],
    baseline: [],
    ratio: null,
    goal: 'p99 < 10 ms',
    verdict: at(times, 0.99) < 10 ? 'met' : 'missed',
    seed,
    sizes: { assets, owned, pages: times.length, answerBytes },
    notes: [
      `${spread(times)}, ${answerBytes} bytes, one after the other, read into memory of the client that is used again`,
      ...notes,
    ],
  });
  return [
    rowOf('das/owner', 'that nobody asked for before', cold, ['with the first pages of the process']),
    rowOf('das/owner-kept', 'that was asked for before', warm, [`as gzip: ${spread(packed)}`]),
  ];
}

async function compressed(options: RunOptions): Promise<RowResult[]> {
  const results: RowResult[] = [];
  for (const measure of [leaves, mints]) {
    const folder = mkdtempSync(join(tmpdir(), 'parhelion-das-'));
    try {
      results.push(await inStore(folder, (store) => measure(store, options)));
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  }
  return results;
}

/** A collection among the leaves of a tree, against hashing the metadata of all leaves and then looking at it. */
async function leaves(store: Store, { size, seed, say }: RunOptions): Promise<RowResult> {
  const { leaves: count, pairs } = SIZES[size];
  say(`a tree of ${count} leaves`);
  await plantLeaves(store, count);
  const index = createCompressedAssets({ store, trees: 'all', missingTo: async () => null });
  const facts = { dialect: 'hosted', showFungible: true, showUnverifiedCollections: false } as const;
  const parts: ListParts = {
    source: recordedSource({ name: '', accounts: [], transactions: [], requests: [] }),
    compressed: index,
    documents: undefined,
    prices: undefined,
    documentWaitMs: 0,
    group: '',
    index: null,
    config: Value.Default(dasConfig, {}) as DasConfig,
    options: { ...facts, showCollectionMetadata: false },
  };
  const group = encode32(LEAF_COLLECTION);
  const params = { tree: encode32(LEAF_TREE), grouping: ['collection', group], limit: 1_000 };
  const ours = async () => {
    const { items } = (await searchAssets(readQuestion(params, 'hosted'), parts)) as { items: { id: string }[] };
    return items.map(({ id }) => id);
  };
  const baseline = async () => {
    const found = await index.list({ tree: LEAF_TREE }, { most: count });
    assert.ok(found !== null && 'assets' in found);
    const fitting = found.assets.flatMap((asset) => {
      const leaf = 'withheld' in asset ? null : leafAsset(asset, 1);
      const shown = leaf === null ? null : assetOf(leaf, null, 1, facts);
      return shown?.grouping.some(({ group_value }) => group_value === group) ? shown.id : [];
    });
    return fitting.slice(0, 1_000);
  };
  assert.deepEqual(await ours(), await baseline());
  assert.equal((await ours()).length, Math.min(1_000, Math.ceil(count / 100)));
  const samples = { ours: [] as number[], baseline: [] as number[] };
  for (let pair = 0; pair < pairs; pair += 1)
    for (const who of ['ours', 'baseline'] as const) {
      const started = performance.now();
      await { ours, baseline }[who]();
      samples[who].push(performance.now() - started);
    }
  return {
    row: 'das/collection',
    name: 'a collection among compressed assets',
    unit: 'ms',
    ...samples,
    seed,
    ratio: ratioOf(samples.baseline, samples.ours),
    goal: 'a report: times faster than hashing all leaves',
    verdict: 'not assessed',
    sizes: { leaves: count },
    notes: ['each hundredth leaf is in the collection'],
  };
}

/** A block for each mint, and its proof as soon as the block is committed. */
async function mints(store: Store, { size, seed, say }: RunOptions): Promise<RowResult> {
  const { mints: count } = SIZES[size];
  say(`${count} mints in a row`);
  const tree = createTree(LEAF_TREE, 14);
  const bed = await createCnftBed(store, [encode32(LEAF_TREE)]);
  await bed.apply(1, [treeTransaction(1, 1, [{ call: 'start', tree: LEAF_TREE, told: tree.started() }])]);
  const [times, started]: [number[], number] = [[], performance.now()];
  for (let leaf = 0; leaf < count; leaf += 1) {
    const { schema, data } = mintOf(LEAF_TREE, leaf, leaf % 250, `Picture #${leaf}`);
    const told = tree.set(leaf, hashLeaf(schema));
    await bed.apply(2 + leaf, [
      treeTransaction(2 + leaf, 2 + leaf, [{ call: 'replace', tree: LEAF_TREE, told, schema, data }]),
    ]);
    const asked = performance.now();
    const proof = await bed.call('getAssetProof', { id: encode32(schema.id) });
    times.push(performance.now() - asked);
    assert.equal(proof.leaf, encode32(hashLeaf(schema)));
    assert.equal(foldProof(proof), proof.root);
    assert.equal(proof.root, encode32(tree.root()));
  }
  const seconds = (performance.now() - started) / 1_000;
  times.sort((a, b) => a - b);
  return {
    row: 'das/mints',
    name: 'compressed mints in a row, each proved at once',
    unit: 'proofs',
    ours: [times.length],
    baseline: [],
    ratio: null,
    goal: 'a valid proof of each of 10,000',
    seed,
    sizes: { mints: count },
    verdict: count >= 10_000 ? 'met' : 'not assessed',
    notes: [
      `each block committed, then its mint proved and the proof folded to the root: ${Math.round(count / seconds)}/s; proof p99 ${times[Math.floor(times.length * 0.99)]!.toFixed(2)} ms`,
    ],
  };
}

export const row: Row = { id: 'das', name: 'assets', isLong: true, run };
