/** Recorded transactions of Bubblegum: every change is read, folds to its root and hashes to its asset. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { keccak_256 } from '@noble/hashes/sha3.js';
import { PublicKey } from '@solana/web3.js';
import fc from 'fast-check';
import {
  bubblegumScenarios,
  CALLS,
  createModelTree,
  schemaOf,
  treeTransaction,
} from '../../../test/helpers/bubblegum.ts';
import { skipWithoutFixtures } from '../../../test/helpers/fixtures.ts';
import { encode32 } from '../../lib/base58.ts';
import { equalBytes, LayoutError } from '../../lib/bytes.ts';
import { isOnCurve } from '../addresses.ts';
import { decodeTransaction } from '../decode/decode-block.ts';
import { zeroHashes } from '../merkle/path.ts';
import {
  type ChangeEvent,
  type ConcurrentEvent,
  decodeConcurrent,
  hashLeaf,
  readChangeLog,
  readLeafEvent,
} from './decode-concurrent.ts';
import { assetId, createConcurrentFinder, createKeccakPairs } from './tree.ts';

const skip = skipWithoutFixtures;
const find = createConcurrentFinder();

function read(transaction: object) {
  const block = decodeTransaction(transaction);
  return decodeConcurrent(block.transactions[0]!, block.keys, find(block.keys));
}

const isChange = (event: ConcurrentEvent): event is ChangeEvent => event.kind !== 'close';
const empty = zeroHashes(createKeccakPairs(), 30);

test('recorded: 50 changes of 16 trees, all verified, no fault', { skip }, () => {
  const decoded = bubblegumScenarios().flatMap(({ transactions }) => transactions.map(read));
  assert.deepEqual(
    decoded.flatMap(({ faults }) => faults),
    [],
  );
  const events = decoded.flatMap((one) => one.events).filter(isChange);
  const kinds = (kind: string) => events.filter((event) => event.kind === kind).length;
  assert.deepEqual([kinds('start'), kinds('change'), kinds('prepared')], [14, 36, 0]);
  for (const { kind, root, path, asset, tree, leafIndex } of events) {
    if (kind === 'start') assert.ok(equalBytes(root, empty.subarray(path.length * 32, path.length * 32 + 32)));
    if (asset === null) {
      // Emptied, or the empty leaf of a new tree.
      assert.ok(path[0]!.every((byte) => byte === 0));
      continue;
    }
    assert.ok(equalBytes(hashLeaf(asset), path[0]!));
    assert.ok(equalBytes(assetId(tree, asset.nonce), asset.id));
    assert.equal(asset.nonce, BigInt(leafIndex));
  }
  assert.equal(events.filter(({ asset }) => asset?.version === 2).length, 20);
  assert.equal(new Set(events.map((event) => encode32(event.tree))).size, 16);
});

test('recorded: the first change of a tree folds with empty siblings', { skip }, () => {
  const events = bubblegumScenarios().flatMap(({ transactions }) => transactions.flatMap((one) => read(one).events));
  const firsts = events.filter(isChange).filter(({ seq, kind }) => seq === 1 && kind === 'change');
  assert.equal(firsts.length, 14);
  for (const { path, root, leafIndex } of firsts) {
    assert.equal(leafIndex, 0);
    let node = path[0]!;
    path.forEach((given, level) => {
      assert.ok(equalBytes(given, node));
      node = keccak_256(Buffer.concat([node, empty.subarray(level * 32, level * 32 + 32)]));
    });
    assert.ok(equalBytes(node, root));
  }
});

const tree = new Uint8Array(32).fill(77);

test('an untrusted noop changes nothing', () => {
  const model = createModelTree(tree, 3);
  const other = createModelTree(new Uint8Array(32).fill(78), 3);
  const told = other.set(0, new Uint8Array(32).fill(1));
  // A call without a change, followed by a forged event.
  assert.deepEqual(
    read(treeTransaction(5, 1, [{ call: 'verifyLeaf', tree, told: model.set(2, Buffer.alloc(32, 9)) }])),
    {
      events: [],
      faults: [],
    },
  );
  // A call for one tree, an event about another.
  const foreign = read(treeTransaction(5, 1, [{ call: 'append', tree, told }]));
  assert.deepEqual(foreign.events, []);
  assert.match(foreign.faults[0]!.reason, /another tree/);
  assert.deepEqual(foreign.faults[0]!.tree, tree);
  const silent = read(treeTransaction(5, 1, [{ call: 'replace', tree, told: null }]));
  assert.match(silent.faults[0]!.reason, /no change follows/);
  const closed = read(treeTransaction(5, 1, [{ call: 'close', tree, told: null }]));
  assert.deepEqual(closed.events, [{ kind: 'close', tree }]);
});

test('a schema belongs to a leaf only when it hashes to it', () => {
  const model = createModelTree(tree, 4);
  const schema = schemaOf(Uint8Array.from(assetId(tree, 0n)), 0n, 40, 2);
  const right = read(treeTransaction(9, 1, [{ call: 'append', tree, told: model.set(0, hashLeaf(schema)), schema }]));
  assert.deepEqual((right.events[0] as ChangeEvent).asset, schema);
  const wrong = read(
    treeTransaction(9, 1, [{ call: 'append', tree, told: model.set(1, Buffer.alloc(32, 3)), schema }]),
  );
  assert.equal((wrong.events[0] as ChangeEvent).asset, null);
});

test('discriminators of calls with changes match their Anchor names', () => {
  const named = (name: string) => createHash('sha256').update(`global:${name}`).digest('hex').slice(0, 16);
  assert.deepEqual(
    [CALLS.start, CALLS.prepared, CALLS.append, CALLS.replace, CALLS.close, CALLS.verifyLeaf],
    [
      ...['init_empty_merkle_tree', 'init_prepared_tree_with_root', 'append', 'replace_leaf'].map(named),
      ...['close_empty_tree', 'verify_leaf'].map(named),
    ],
  );
});

test('damaged data is a fault or the same change, and never throws', () => {
  const model = createModelTree(tree, 5);
  const told = Buffer.from(model.set(3, Buffer.alloc(32, 6)));
  const good = read(treeTransaction(1, 1, [{ call: 'append', tree, told }])).events[0] as ChangeEvent;
  fc.assert(
    fc.property(fc.nat(told.length), fc.nat(told.length - 1), fc.integer({ min: 1, max: 255 }), (cut, at, bits) => {
      const short = read(treeTransaction(1, 1, [{ call: 'append', tree, told: told.subarray(0, cut) }]));
      assert.equal(short.events.length, cut === told.length ? 1 : 0);
      assert.equal(short.faults.length, cut === told.length ? 0 : 1);
      const flipped = Buffer.from(told);
      flipped[at]! ^= bits;
      const { events, faults } = read(treeTransaction(1, 1, [{ call: 'append', tree, told: flipped }]));
      assert.equal(events.length + faults.length, 1);
      // Hashes and the sequence number may be anything; the tree code checks them.
      for (const event of events.filter(isChange)) {
        assert.equal(event.leafIndex, good.leafIndex);
        assert.equal(event.height, good.height);
      }
    }),
  );
});

test('random bytes are neither a change nor a schema', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 400 }), (bytes) => {
      for (const parse of [() => readChangeLog(bytes), () => readLeafEvent(Uint8Array.of(1, 1, 1, ...bytes))])
        try {
          parse();
        } catch (error) {
          assert.ok(error instanceof LayoutError);
        }
    }),
  );
});

test('asset ids and points of the curve match web3.js', () => {
  const program = new PublicKey('BGUMAp9Gq7iTEuizy4pqaxsTyUCBK68MDfK752saRPUY');
  fc.assert(
    fc.property(
      fc.uint8Array({ minLength: 32, maxLength: 32 }),
      fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
      (key, nonce) => {
        const number = Buffer.alloc(8);
        number.writeBigUInt64LE(nonce);
        const [address] = PublicKey.findProgramAddressSync([Buffer.from('asset'), key, number], program);
        assert.equal(encode32(assetId(key, nonce)), address.toBase58());
        assert.equal(isOnCurve(key), PublicKey.isOnCurve(key));
      },
    ),
    { numRuns: 300 },
  );
});
