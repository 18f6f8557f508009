import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decode32 } from '../../lib/base58.ts';
import { createPoseidon } from '../merkle/poseidon.ts';
import { createAccountHasher, hashToField } from './accounts.ts';

const poseidon = createPoseidon();
const hasher = createAccountHasher(poseidon);
const keyWith = (at: number, value: number) => Uint8Array.from({ length: 32 }, (_, i) => (i === at ? value : 0));
const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex');
const decimal = (bytes: Uint8Array) => BigInt(`0x${hex(bytes)}`);

test('keys as field elements', () => {
  assert.equal(
    hex(hashToField(new Uint8Array(32))),
    '00011db134eabccf384fac9a3fae7745def9c02a5687fc08d39ea959eb28a769',
  );
  const trees = {
    smt1NamzXdq4AMqS2fS2F1i5KTYPZRhoHgWx38d8WsT: '00148b8e2d77c22ec70b6389f3a563d66f6837015dc9164c7986d35c68ce0c5d',
    bmt1LryLZUMmF7ZtqESaw7wifBXLfXHQYoE4GAmrahU: '00e57b1749a840818063a27c6bc650f613696685ee1fdc805532ef96b15ee6d8',
  };
  for (const [tree, expected] of Object.entries(trees)) assert.equal(hex(hashToField(decode32(tree)!)), expected);
});

test('an account of both versions', () => {
  const filled = Buffer.alloc(32, 2);
  filled[31] = 0;
  const dataHash = Buffer.alloc(32);
  poseidon.hash(1, filled, 0, dataHash, 0, 1);
  assert.equal(hex(dataHash), '07a5eb23fa63386427ab4998fbbcc9dde1183863f33b0da39540d0f66f768850');
  const account = {
    owner: keyWith(7, 1),
    lamports: 100n,
    address: Buffer.from('0015f50f3d9de0544530be482b132f190e761493288daf21e93a24b349895463', 'hex'),
    data: { discriminator: Buffer.from('0000000000000001', 'hex'), bytes: Buffer.alloc(0), hash: dataHash },
  };
  const tree = keyWith(7, 3);
  assert.equal(
    decimal(hasher.hash(account, tree, 1, 2)),
    15638319165413000277907073391141043184436601830909724248083671155000605125280n,
  );
  assert.equal(
    decimal(hasher.hash(account, tree, 1, 1)),
    1013356013326265771511755497716732750954778459017234305538955943360339051366n,
  );
});

test('absent parts are omitted, and every part affects the hash', () => {
  const tree = keyWith(0, 9);
  const full = {
    owner: keyWith(1, 1),
    lamports: 5n,
    address: keyWith(2, 2),
    data: { discriminator: new Uint8Array(8).fill(3), bytes: new Uint8Array(0), hash: keyWith(3, 4) },
  };
  const variants = [
    full,
    { ...full, owner: keyWith(1, 2) },
    { ...full, lamports: 6n },
    { ...full, lamports: 0n },
    { ...full, address: null },
    { ...full, data: null },
    { ...full, data: { ...full.data, discriminator: new Uint8Array(8).fill(4) } },
    { ...full, data: { ...full.data, hash: keyWith(3, 5) } },
  ];
  const hashes = variants.map((account) => hex(hasher.hash(account, tree, 1, 2)));
  hashes.push(hex(hasher.hash(full, tree, 2, 2)), hex(hasher.hash(full, keyWith(0, 8), 1, 2)));
  assert.equal(new Set(hashes).size, hashes.length);
});

test('a batch of accounts gives the same hashes as single calls; a too large field does not affect the others', () => {
  const account = (lamports: bigint, address: Uint8Array | null) => ({
    owner: keyWith(1, 1),
    lamports,
    address,
    data: null,
  });
  const items = [
    account(5n, null),
    account(0n, keyWith(9, 9)),
    account(7n, keyWith(9, 8)),
    account(6n, null),
    account(0n, new Uint8Array(32).fill(255)),
    account(0n, keyWith(9, 7)),
  ].map((one, i) => ({
    account: one,
    tree: keyWith(0, 9),
    leafIndex: i,
    version: i % 2 === 0 ? (1 as const) : (2 as const),
  }));
  const wanted = items.map(({ account: one, tree, leafIndex, version }, i) =>
    i === 4 ? null : hex(hasher.hash(one, tree, leafIndex, version)),
  );
  assert.deepEqual(
    hasher.hashAll(items).map((hash) => (hash === null ? null : hex(hash))),
    wanted,
  );
});
