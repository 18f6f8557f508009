import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { poseidon2, poseidon3 } from 'poseidon-lite';
import type { CompressionDb, TreeRow } from '../../../plugins/compression/store/tables.ts';
import { decode32, encode32 } from '../../../src/lib/base58.ts';
import type { Store } from '../../../src/ports/store.ts';
import { decompressG1, decompressG2, GENERATOR_G2, multipleG1, negativeG1 } from '../../helpers/bn254.ts';
import { createProofBed } from '../../helpers/compression-proofs.ts';
import {
  accountRow,
  createCompressionTables,
  insertRows,
  keyOf,
  setHead,
  treeRow,
} from '../../helpers/compression-rows.ts';
import { bytesOf, growAddressTree, growTree, leafHash, numberOf, rootOf } from '../../helpers/compression-trees.ts';
import { startFakeProver } from '../../helpers/fake-prover.ts';
import { eachStore } from '../../helpers/store.ts';
import { until } from '../../helpers/until.ts';

const FIRST_ADDRESS_TREE = decode32('amt1Ayt45jfbdw5YSo7iz6WZxUmnZsQTYXy82hVwyC2')!;
const text = (number: number) => encode32(leafHash(number));
const address = (number: bigint) => encode32(bytesOf(number));
const big = (hex: string) => BigInt(hex);

interface Trees {
  readonly v1: TreeRow;
  readonly v2: TreeRow;
  readonly address1: TreeRow;
  readonly address2: TreeRow;
}

/** Accounts 0 to 9 in a V1 tree, 100 to 109 in a V2 tree where 105 waits and 106 is spent, and both kinds of address trees. */
async function world(store: Store): Promise<Trees> {
  await createCompressionTables(store);
  await setHead(store, 50);
  const ten = Array.from({ length: 10 }, (_, i) => i);
  await insertRows(store, {
    compression_accounts: [
      ...ten.map((i) => accountRow(leafHash(i), { tree: 1, leaf_index: i })),
      ...ten.map((i) =>
        accountRow(leafHash(100 + i), { tree: 2, leaf_index: i, queued: i === 5 ? 1 : 0, spent: i === 6 ? 1 : 0 }),
      ),
    ],
  });
  const leaves = (first: number) => ten.map((i) => ({ index: i, hash: leafHash(first + i) }));
  return {
    v1: await growTree(store, treeRow(1, { seq: 5_000 }), leaves(0)),
    v2: await growTree(
      store,
      treeRow(2, { type: 3, height: 32, seq: 784, root_capacity: 60, next_tree: keyOf(1, 3) }),
      leaves(100).filter(({ index }) => index !== 5),
    ),
    address1: await growAddressTree(store, treeRow(3, { key: FIRST_ADDRESS_TREE, type: 2, seq: 9 }), [100n, 300n]),
    address2: await growAddressTree(store, treeRow(4, { type: 4, height: 40, seq: 784, root_capacity: 120 }), [7n, 5n]),
  };
}

function chainOf(pairs: readonly (readonly [bigint, bigint])[]): bigint {
  const [first, ...rest] = pairs;
  return rest.reduce((sum, [root, value]) => poseidon3([sum, root, value]), poseidon2([...first!]));
}

eachStore('validity proofs', (engine) => {
  test('request to the prover, and answer to the client', async (t) => {
    const store = await engine.store(t);
    const { v1, address1 } = await world(store);
    const prover = await startFakeProver(t);
    const bed = createProofBed(store, {
      config: { proverUrl: `${prover.url}/base/?k=v`, proverApiKey: 'prover-secret' },
    });
    t.after(() => bed.stop());
    const { context, value } = await bed.call<{ context: object; value: Record<string, never> }>('getValidityProof', {
      hashes: [text(3), text(7), text(3)],
      newAddresses: [address(200n)],
    });
    assert.deepEqual(context, { slot: 50 });
    const { compressedProof, ...lists } = value as unknown as { compressedProof: Record<string, number[]> };
    assert.deepEqual(lists, {
      roots: [v1, v1, v1, address1].map(({ root }) => encode32(root)),
      rootIndices: [5_000 % 2_400, 5_000 % 2_400, 5_000 % 2_400, 9],
      leafIndices: [3, 7, 3, 2],
      leaves: [text(3), text(7), text(3), address(200n)],
      merkleTrees: [v1, v1, v1, address1].map(({ key }) => encode32(key)),
    });
    assert.deepEqual(decompressG1(compressedProof['a']!), negativeG1(multipleG1(3)));
    assert.deepEqual(decompressG2(compressedProof['b']!), GENERATOR_G2);
    assert.deepEqual(decompressG1(compressedProof['c']!), multipleG1(4));

    const [{ path, headers, body }] = prover.requests as [(typeof prover.requests)[0]];
    assert.deepEqual([path, headers.authorization], ['POST /base/prove?k=v', 'Bearer prover-secret']);
    assert.deepEqual(Object.keys(body).sort(), [
      'addressTreeHeight',
      'circuitType',
      'inputCompressedAccounts',
      'newAddresses',
      'stateTreeHeight',
    ]);
    assert.deepEqual([body.circuitType, body.stateTreeHeight, body.addressTreeHeight], ['combined', 26, 26]);
    assert.equal(body.inputCompressedAccounts.length, 2);
    for (const [i, number] of [3, 7].entries()) {
      const { root, pathIndex, pathElements, leaf } = body.inputCompressedAccounts[i];
      assert.deepEqual([pathIndex, big(leaf), big(root)], [number, numberOf(leafHash(number)), numberOf(v1.root)]);
      const proof = pathElements.map((element: string) => encode32(bytesOf(big(element))));
      assert.equal(rootOf(big(leaf), pathIndex, proof), numberOf(v1.root));
    }
    const [fresh] = body.newAddresses;
    const { value: asked, leafLowerRangeValue, leafHigherRangeValue, nextIndex, pathIndex, pathElements } = fresh;
    assert.deepEqual([asked, leafLowerRangeValue, leafHigherRangeValue].map(big), [200n, 100n, 300n]);
    assert.deepEqual([pathIndex, nextIndex], [2, 3]);
    const low = poseidon3([100n, 3n, 300n]);
    const proof = pathElements.map((element: string) => encode32(bytesOf(big(element))));
    assert.equal(rootOf(low, pathIndex, proof), numberOf(address1.root));
    for (const hash of [fresh.value, fresh.root, ...pathElements]) assert.match(hash, /^0x[0-9a-f]{64}$/);
  });

  test('V2 trees: one public input, the capacity of each tree, trees of each entry', async (t) => {
    const store = await engine.store(t);
    const { v1, v2, address2 } = await world(store);
    const prover = await startFakeProver(t);
    const bed = createProofBed(store, { config: { proverUrl: prover.url } });
    t.after(() => bed.stop());
    const { value } = await bed.call<{ value: Record<string, unknown> }>('getValidityProofV2', {
      hashes: [text(101), text(105), text(102), text(101)],
      newAddressesWithTrees: [
        { address: address(6n), tree: encode32(address2.key) },
        { address: address(8n), tree: encode32(address2.key) },
      ],
    });
    const context = (tree: TreeRow, nextTreeContext: object | null) => ({
      treeType: tree.type,
      tree: encode32(tree.key),
      queue: encode32(tree.queue!),
      cpiContext: null,
      nextTreeContext,
    });
    const next = { treeType: 2, tree: encode32(keyOf(1, 3)), queue: encode32(keyOf(2, 3)), cpiContext: null };
    // The tree that comes next is not known: there is no tree with that key.
    const merkleContext = context(v2, { ...next, treeType: 3, queue: '1'.repeat(32) });
    const entry = (number: number) => ({
      hash: text(number),
      root: encode32(v2.root),
      rootIndex: { rootIndex: 784 % 60, proveByIndex: false },
      leafIndex: number - 100,
      merkleContext,
    });
    assert.deepEqual(value['accounts'], [
      entry(101),
      { ...entry(105), root: '1'.repeat(32), rootIndex: { rootIndex: 0, proveByIndex: true } },
      entry(102),
      entry(101),
    ]);
    assert.deepEqual(
      value['addresses'],
      [6n, 8n].map((number) => ({
        address: address(number),
        root: encode32(address2.root),
        rootIndex: 784 % 120,
        merkleContext: context(address2, null),
      })),
    );
    assert.ok(value['compressedProof'] !== null);
    const { body } = prover.requests[0]!;
    assert.deepEqual([body.circuitType, body.stateTreeHeight, body.addressTreeHeight], ['combined', 32, 40]);
    const inclusion = chainOf([101, 102].map((number) => [numberOf(v2.root), numberOf(leafHash(number))]));
    const absence = chainOf([6n, 8n].map((number) => [numberOf(address2.root), number]));
    assert.equal(big(body.publicInputHash), poseidon2([inclusion, absence]));
    // One kind alone.
    await bed.call('getValidityProofV2', { hashes: [text(101), text(102)] });
    assert.deepEqual(Object.keys(prover.requests[1]!.body).sort(), [
      'circuitType',
      'inputCompressedAccounts',
      'publicInputHash',
      'stateTreeHeight',
    ]);
    assert.equal(big(prover.requests[1]!.body.publicInputHash), inclusion);
    await bed.call('getValidityProof', {
      newAddressesWithTrees: [6n, 8n].map((number) => ({ address: address(number), tree: encode32(address2.key) })),
    });
    assert.equal(prover.requests[2]!.body.circuitType, 'non-inclusion');
    assert.equal(big(prover.requests[2]!.body.publicInputHash), absence);
    assert.equal(v1.height, 26);
  });

  test('accounts that are proved by index, and empty requests, need no prover', async (t) => {
    const store = await engine.store(t);
    const { v2 } = await world(store);
    const bed = createProofBed(store);
    const { value } = await bed.call<{ value: { compressedProof: null; accounts: { root: string }[] } }>(
      'getValidityProofV2',
      { hashes: [text(105)] },
    );
    assert.deepEqual([value.compressedProof, value.accounts.length], [null, 1]);
    for (const params of [{}, { hashes: [], newAddressesWithTrees: null }])
      assert.deepEqual((await bed.call<{ value: object }>('getValidityProofV2', params)).value, {
        compressedProof: null,
        accounts: [],
        addresses: [],
      });
    const none =
      '-32002 no prover is configured (set compression.proverUrl); Merkle proofs are available through getMultipleCompressedAccountProofs';
    assert.equal(await bed.refusal('getValidityProofV2', { hashes: [text(105), text(101)] }), none);
    assert.equal(await bed.refusal('getValidityProof', { hashes: [text(1)] }), none);
    // Nothing is said of a tree in doubt, not even that an account waits.
    await store.write(async (tx) => {
      await (tx.db as CompressionDb)
        .updateTable('compression_trees')
        .set({ status: 'gap' })
        .where('id', '=', v2.id)
        .execute();
    });
    assert.match(
      await bed.refusal('getValidityProofV2', { hashes: [text(105)] }),
      /^-32603 Merkle tree .* is missing updates/,
    );
  });

  test('requests that cannot be proved', async (t) => {
    const store = await engine.store(t);
    const { address2 } = await world(store);
    const prover = await startFakeProver(t);
    const bed = createProofBed(store, { config: { proverUrl: prover.url } });
    t.after(() => bed.stop());
    const tree = encode32(address2.key);
    const one = { address: address(6n), tree };
    const first = { address: address(200n), tree: encode32(FIRST_ADDRESS_TREE) };
    const hashes = (count: number) => Array.from({ length: count }, (_, i) => text(i));
    const missing = (...numbers: number[]) =>
      `-32602 Not all requested account hashes exist or are available (might be spent). Missing: ${numbers.map(text).join(', ')}`;
    for (const [name, params, refusal] of [
      ['', {}, '-32602 No hashes or new addresses provided for proof generation'],
      ['', { hashes: [], newAddresses: [] }, '-32602 No hashes or new addresses provided for proof generation'],
      [
        '',
        { newAddresses: [], newAddressesWithTrees: [] },
        '-32602 Cannot provide both newAddresses and newAddressesWithTree',
      ],
      ['', { hashes: [text(1), text(101)] }, '-32602 All state trees for account proofs must have the same height'],
      [
        '',
        { newAddressesWithTrees: [one, first] },
        '-32602 All address trees for new address proofs must have the same height',
      ],
      ['', { hashes: hashes(5) }, '-32602 No proving circuit for 5 accounts; use 1, 2, 3, 4 or 8'],
      ['V2', { hashes: hashes(7) }, '-32602 No proving circuit for 7 accounts; use 1, 2, 3, 4 or 8'],
      [
        '',
        { hashes: [text(999)] },
        '-32000 Record Not Found: Leaf nodes not found for hashes. Got 0 hashes. Expected 1.',
      ],
      ['V2', { hashes: [text(999), text(101), text(106), text(999)] }, missing(999, 106)],
      [
        'V2',
        { newAddressesWithTrees: [{ ...one, address: address(5n) }] },
        `-32602 Address ${address(5n)} already exists`,
      ],
      ['V2', { newAddresses: [address(5n)] }, "-32602 unknown field 'newAddresses'"],
      ['V2', { newAddressesWithTrees: [one, { tree }] }, "-32602 field 'newAddressesWithTrees[1].address' is required"],
      ['', { hashes: Array(1_001).fill(text(1)) }, '-32602 Too many hashes requested 1001. Maximum allowed: 1000'],
    ] as const)
      assert.equal(await bed.refusal(`getValidityProof${name}`, params), refusal);
    await store.write(async (tx) => {
      const db = tx.db as CompressionDb;
      await db.updateTable('compression_trees').set({ root_capacity: null }).where('id', '=', address2.id).execute();
    });
    const unknown = `-32002 root history capacity of tree ${tree} is not known yet`;
    assert.equal(await bed.refusal('getValidityProofV2', { newAddressesWithTrees: [one] }), unknown);
    assert.equal(await bed.refusal('getValidityProof', { newAddressesWithTrees: [one] }), unknown);
    assert.equal(prover.requests.length, 0);
  });

  test('a prover that refuses, fails, hangs or returns garbage; its key is never revealed', async (t) => {
    const store = await engine.store(t);
    await world(store);
    const prover = await startFakeProver(t);
    const config = { proverUrl: `${prover.url}/?token=hidden-token`, proverApiKey: 'hidden-key', proverTimeoutMs: 400 };
    const bed = createProofBed(store, { config });
    t.after(() => bed.stop());
    const seen: string[] = [];
    const ask = async () => {
      const refusal = await bed.refusal('getValidityProof', { hashes: [text(1)] });
      seen.push(refusal);
      return refusal;
    };
    for (const [status, answer, refusal] of [
      [400, 'hidden-key', '-32603 the prover refused the request (400)'],
      [404, '{}', '-32603 the prover refused the request (404)'],
      [500, 'hidden-key', '-32002 the prover failed (500)'],
      [503, '', '-32002 the prover failed (503)'],
      [302, '', '-32603 the answer of the prover is no proof'],
      [200, 'hidden-key', '-32603 the answer of the prover is no proof'],
      [200, '{"ar":["0x1","0x3"]}', '-32603 the answer of the prover is no proof'],
      [200, ' '.repeat(100_000), '-32603 the answer of the prover is no proof'],
    ] as const) {
      prover.answer(status, answer);
      assert.equal(await ask(), refusal);
    }
    prover.hold();
    assert.equal(await ask(), '-32003 the prover did not answer in time');
    prover.release();
    prover.cut();
    assert.equal(await ask(), '-32002 the prover cannot be reached');
    await prover.close();
    assert.equal(await ask(), '-32002 the prover cannot be reached');
    assert.doesNotMatch(JSON.stringify([seen, bed.log.lines]), /hidden/);
    assert.equal(bed.log.lines.filter(({ level }) => level === 'warn').length, seen.length);
  });

  test('a few proofs at once; the others wait, and all come', async (t) => {
    const store = await engine.store(t);
    await world(store);
    const prover = await startFakeProver(t);
    const bed = createProofBed(store, { config: { proverUrl: prover.url, proverConcurrency: 2 } });
    t.after(() => bed.stop());
    prover.hold();
    const all = Promise.all(
      Array.from({ length: 7 }, (_, i) =>
        bed.call<{ value: { leaves: string[] } }>('getValidityProof', { hashes: [text(i)] }),
      ),
    );
    await until(() => prover.requests.length >= 2);
    // The others had the time to come, were they let.
    await sleep(100);
    assert.equal(prover.requests.length, 2);
    prover.release();
    assert.deepEqual(
      (await all).map(({ value }) => value.leaves),
      Array.from({ length: 7 }, (_, i) => [text(i)]),
    );
    assert.equal(prover.most(), 2);
  });
});
