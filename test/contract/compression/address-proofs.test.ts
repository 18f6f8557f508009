import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { poseidon2, poseidon3 } from 'poseidon-lite';
import type { TreeRow } from '../../../plugins/compression/store/tables.ts';
import { decode32, encode32 } from '../../../src/lib/base58.ts';
import type { Store } from '../../../src/ports/store.ts';
import { createProofBed } from '../../helpers/compression-proofs.ts';
import { createCompressionTables, insertRows, keyOf, setHead, treeRow } from '../../helpers/compression-rows.ts';
import { bytesOf, growAddressTree, numberOf, rootOf } from '../../helpers/compression-trees.ts';
import { eachStore } from '../../helpers/store.ts';

interface Proof {
  readonly root: string;
  readonly address: string;
  readonly lowerRangeAddress: string;
  readonly higherRangeAddress: string;
  readonly nextIndex: number;
  readonly proof: readonly string[];
  readonly merkleTree: string;
  readonly rootSeq: number;
  readonly lowElementLeafIndex: number;
}
interface Answer {
  readonly context: { readonly slot: number };
  readonly value: readonly Proof[];
}

const AMT1 = 'amt1Ayt45jfbdw5YSo7iz6WZxUmnZsQTYXy82hVwyC2';
const AMT2 = 'amt2kaJA14v3urZbZvnc5v2np8jqvc4Z8zDep5wbtzx';
const HIGHEST = 2n ** 248n - 1n;
const text = (number: bigint) => encode32(bytesOf(number));
const value = (base58: string) => numberOf(decode32(base58)!);

async function freshStore(engine: { store(t: never): Promise<Store> }, t: unknown): Promise<Store> {
  const store = await engine.store(t as never);
  await createCompressionTables(store);
  await setHead(store, 77);
  return store;
}

/** The element below is in the tree, and its next one is above. */
function assertAbsent(
  proof: Proof,
  address: bigint,
  tree: Pick<TreeRow, 'type' | 'root' | 'height' | 'key' | 'seq'>,
): void {
  const [low, high] = [value(proof.lowerRangeAddress), value(proof.higherRangeAddress)];
  assert.ok(low < address && address < high);
  const leaf = tree.type === 2 ? poseidon3([low, BigInt(proof.nextIndex), high]) : poseidon2([low, high]);
  assert.equal(proof.proof.length, tree.height);
  assert.equal(rootOf(leaf, proof.lowElementLeafIndex, proof.proof), numberOf(tree.root));
  assert.deepEqual(
    [proof.address, proof.root, proof.merkleTree, proof.rootSeq],
    [text(address), encode32(tree.root), encode32(tree.key), tree.seq],
  );
}

eachStore('proofs of new addresses', (engine) => {
  test('every proof holds: its element is the one below, and in the tree', async (t) => {
    const store = await freshStore(engine, t);
    const bed = createProofBed(store);
    const number = fc.oneof(fc.bigInt(1n, 40n), fc.bigInt(1n, HIGHEST - 1n), fc.bigInt(HIGHEST - 20n, HIGHEST - 1n));
    const scenario = fc.record({
      type: fc.constantFrom(2, 4),
      taken: fc.uniqueArray(number, { maxLength: 12 }),
      asked: fc.array(number, { minLength: 1, maxLength: 6 }),
    });
    let id = 10;
    await fc.assert(
      fc.asyncProperty(scenario, async ({ type, taken, asked }) => {
        id += 1;
        const tree = await growAddressTree(store, treeRow(id, { type, height: type === 2 ? 26 : 40, seq: id }), taken);
        const free = asked.filter((one) => !taken.includes(one));
        const request = (list: readonly bigint[]) =>
          list.map((one) => ({ address: text(one), tree: encode32(tree.key) }));
        if (free.length > 0) {
          const answer = await bed.text('getMultipleNewAddressProofsV2', request(free));
          assert.equal(answer, JSON.stringify(JSON.parse(answer)));
          const { context, value: proofs } = JSON.parse(answer) as Answer;
          assert.deepEqual([context.slot, proofs.length], [77, free.length]);
          assertAbsent(proofs[0]!, free[0]!, tree);
          for (const [i, proof] of proofs.entries()) {
            assert.equal(proof.address, text(free[i]!));
            assert.deepEqual(proof, proofs[free.indexOf(free[i]!)]);
          }
        }
        const first = asked.find((one) => taken.includes(one));
        if (first !== undefined)
          assert.equal(
            await bed.refusal('getMultipleNewAddressProofsV2', request(asked)),
            `-32602 Address ${text(first)} already exists`,
          );
      }),
      { numRuns: 14 },
    );
  });

  test('more addresses than one statement takes, in their order', async (t) => {
    const store = await freshStore(engine, t);
    const taken = Array.from({ length: 150 }, (_, i) => BigInt(i * 10 + 10));
    const tree = await growAddressTree(store, treeRow(3, { key: decode32(AMT1)!, type: 2, seq: 5 }), taken);
    const bed = createProofBed(store);
    const asked = Array.from({ length: 200 }, (_, i) => BigInt(((i * 7) % 200) * 8 + 1));
    const { value: proofs } = await bed.call<Answer>('getMultipleNewAddressProofs', asked.map(text));
    for (const [i, proof] of proofs.entries()) {
      assert.equal(proof.address, text(asked[i]!));
      assert.equal(value(proof.lowerRangeAddress), asked[i]! < 1_510n ? asked[i]! - (asked[i]! % 10n) : 1_500n);
    }
    assertAbsent(proofs[17]!, asked[17]!, tree);
  });

  test('trees that no block has named yet are as every one of their kind at its start', async (t) => {
    const store = await freshStore(engine, t);
    const bed = createProofBed(store);
    const address = text(5n);
    const { value: first } = await bed.call<Answer>('getMultipleNewAddressProofs', [address]);
    const expected = {
      address,
      lowerRangeAddress: '1'.repeat(32),
      higherRangeAddress: text(HIGHEST),
      lowElementLeafIndex: 0,
    };
    const { proof, root, ...rest } = first[0]!;
    assert.deepEqual(rest, { ...expected, nextIndex: 1, merkleTree: AMT1, rootSeq: 3 });
    const v1 = { type: 2, root: decode32(root)!, height: 26, key: decode32(AMT1)!, seq: 3 };
    assert.match(root, /^3FrGzy/);
    assertAbsent(first[0]!, 5n, v1);
    assert.equal(proof.length, 26);
    const { value: second } = await bed.call<Answer>('getMultipleNewAddressProofsV2', [{ address, tree: AMT2 }]);
    const { proof: path, ...more } = second[0]!;
    assert.deepEqual(more, {
      ...expected,
      nextIndex: 0,
      merkleTree: AMT2,
      rootSeq: 0,
      root: '2uJGx1Up9Px37MGfTLg2kidGcRHP3vfcGm1rtEzQrChy',
    });
    assert.equal(path.length, 40);
    assertAbsent(second[0]!, 5n, { type: 4, root: decode32(more.root)!, height: 40, key: decode32(AMT2)!, seq: 0 });
  });

  test('requests that cannot be proved', async (t) => {
    const store = await freshStore(engine, t);
    const tree = await growAddressTree(store, treeRow(3, { type: 4, height: 40 }), [50n]);
    await growAddressTree(store, treeRow(5, { type: 2, status: 'diverged', reason: 'root', seq: 4 }), [50n]);
    await insertRows(store, {
      compression_trees: [treeRow(4)],
      compression_address_queue: [{ tree: 3, queue_index: 2, address: bytesOf(60n) }],
    });
    const bed = createProofBed(store);
    const key = encode32(tree.key);
    const one = (number: bigint, at = key) => ({ address: text(number), tree: at });
    const many = 'getMultipleNewAddressProofsV2';
    const range = (number: bigint) => `-32602 Address ${text(number)} is out of the range of address trees`;
    for (const [name, params, refusal] of [
      [many, [one(7n), one(60n)], `-32602 Address ${text(60n)} already exists`],
      [many, [one(7n), one(50n)], `-32602 Address ${text(50n)} already exists`],
      [many, [one(0n)], range(0n)],
      [many, [one(HIGHEST)], range(HIGHEST)],
      [many, [one(2n ** 248n)], range(2n ** 248n)],
      [many, [one(7n, encode32(keyOf(99)))], '-32000 Record Not Found: Tree not found'],
      [many, [one(7n, encode32(treeRow(4).key))], `-32602 Tree ${encode32(treeRow(4).key)} is not an address tree`],
      [
        many,
        [one(7n, encode32(treeRow(5).key))],
        `-32603 Merkle tree ${encode32(treeRow(5).key)} has diverged from the chain at sequence 4 (root); its proofs are withheld`,
      ],
      [many, [], '-32602 No addresses provided'],
      [many, Array(1_001).fill(one(7n)), '-32602 Too many addresses requested 1001. Maximum allowed: 1000'],
      [many, [{ address: text(7n) }], "-32602 field 'addresses[0].tree' is required"],
      [many, [{ ...one(7n), more: 1 }], "-32602 unknown field 'addresses[0].more'"],
      [
        'getMultipleNewAddressProofs',
        [text(7n), 'no'],
        "-32602 field 'addresses[1]' must be a base58 string of 32 bytes",
      ],
    ] as const)
      assert.equal(await bed.refusal(name, params), refusal);
  });
});
