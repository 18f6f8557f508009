import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { listFixtures, readFixture, skipWithoutFixtures } from '../../../test/helpers/fixtures.ts';
import { decode32, encode32 } from '../../lib/base58.ts';
import { isCompressedTokenAccount, readTokenAccount } from './accounts.ts';
import { readTreeAccount } from './tree-accounts.ts';

const GROUP = '24rt4RgeyjUCWGS2eF7L7gyNMuz6JWdqYpAvb1KRoHxs';
const skip = skipWithoutFixtures;

function genesisAccount(name: string): Buffer {
  const path = listFixtures('compression/accounts').find((one) => one.includes(name))!;
  const { account } = JSON.parse(gunzipSync(readFixture(path)).toString()) as { account: { data: [string, string] } };
  return Buffer.from(account.data[0], 'base64');
}

test('trees after their creation', { skip }, () => {
  const expected = {
    smt1: {
      type: 1,
      height: 26,
      rootHistoryCapacity: 2400,
      seq: 0n,
      nextIndex: 0n,
      queue: 'nfq1NvQDJ2GEgnS8zt9prAe8rjjpAW1zFkrvZoBR148',
      root: '2DTG1EeYyHnDQR4dXYnBRmmgmZCf4rhE7rJMB8Bhouzo',
    },
    amt1: {
      type: 2,
      height: 26,
      rootHistoryCapacity: 2400,
      seq: 3n,
      nextIndex: 2n,
      queue: 'aq1S9z4reTSQAdgWHGD2zDaS39sjGrAxbR31vxJ2F4F',
      root: '3FrGzyXtjqjnukHDS2M5oyVj8tMVcHSahcHpWBGR5MHY',
    },
    bmt1: {
      type: 3,
      height: 32,
      rootHistoryCapacity: 200,
      seq: 0n,
      nextIndex: 0n,
      queue: 'oq1na8gojfdUhsfCpyjNt6h4JaDWtHf1yQj4koBWfto',
      root: '4C4hXkTeb81GhLj8GBTwDxRxvBy2xZxVFh4YfthKA6XJ',
    },
    amt2: {
      type: 4,
      height: 40,
      rootHistoryCapacity: 200,
      seq: 0n,
      nextIndex: 1n,
      queue: null,
      root: '2uJGx1Up9Px37MGfTLg2kidGcRHP3vfcGm1rtEzQrChy',
    },
  };
  for (const [name, { root, queue, ...facts }] of Object.entries(expected)) {
    const data = genesisAccount(name);
    const tree = readTreeAccount(data)!;
    assert.equal(encode32(tree.owner), GROUP, name);
    assert.equal(tree.queue === null ? null : encode32(tree.queue), queue, name);
    assert.equal(tree.nextTree, null);
    const { owner: _, queue: __, nextTree: ___, rootsOffset, ...numbers } = tree;
    assert.deepEqual(numbers, facts, name);
    assert.equal(encode32(data, rootsOffset + 32 * (Number(tree.seq) % tree.rootHistoryCapacity)), root, name);
  }
});

test('other accounts are not trees', { skip }, () => {
  assert.equal(readTreeAccount(genesisAccount('oq1')), null);
  assert.equal(readTreeAccount(new Uint8Array(703)), null);
  assert.equal(readTreeAccount(new Uint8Array(10_000)), null);
});

const key = (fill: number) => new Uint8Array(32).fill(fill);

function tokenData(options: { delegate?: Uint8Array; state?: number; rest?: readonly number[] }): Uint8Array {
  const amount = Buffer.alloc(8);
  amount.writeBigUInt64LE(2n ** 64n - 1n);
  const delegate = options.delegate === undefined ? [0] : [1, ...options.delegate];
  return Uint8Array.from([...key(1), ...key(2), ...amount, ...delegate, options.state ?? 0, ...(options.rest ?? [])]);
}

test('token accounts, with anything after the known fields', () => {
  const plain = {
    mint: key(1),
    owner: key(2),
    amount: 2n ** 64n - 1n,
    delegate: null,
    state: 'initialized',
    tlv: null,
  };
  assert.deepEqual(readTokenAccount(tokenData({})), plain);
  assert.deepEqual(readTokenAccount(tokenData({ rest: [0] })), plain);
  assert.deepEqual(readTokenAccount(tokenData({ rest: [1] })), plain);
  assert.deepEqual(readTokenAccount(tokenData({ rest: [1, 7, 8] })), { ...plain, tlv: Uint8Array.of(7, 8) });
  assert.deepEqual(readTokenAccount(tokenData({ rest: [9, 9] })), { ...plain, tlv: Uint8Array.of(9, 9) });
  assert.deepEqual(readTokenAccount(tokenData({ delegate: key(3), state: 1 })), {
    ...plain,
    delegate: key(3),
    state: 'frozen',
  });
  const whole = tokenData({ delegate: key(3) });
  for (let length = 0; length < whole.length; length += 1)
    assert.equal(readTokenAccount(whole.subarray(0, length)), null);
  assert.equal(readTokenAccount(tokenData({ state: 2 })), null);
});

test('which accounts hold tokens', () => {
  const program = decode32('cTokenmWW8bLPjZEBAUgYy3zKxQZW6VKi7bqNFEVv3m')!;
  const account = (owner: Uint8Array, discriminator: readonly number[] | null) => ({
    owner,
    lamports: 0n,
    address: null,
    data:
      discriminator === null
        ? null
        : { discriminator: Uint8Array.from(discriminator), bytes: new Uint8Array(0), hash: key(0) },
  });
  for (const discriminator of [
    [2, 0, 0, 0, 0, 0, 0, 0],
    [0, 0, 0, 0, 0, 0, 0, 3],
    [0, 0, 0, 0, 0, 0, 0, 4],
  ]) {
    assert.equal(isCompressedTokenAccount(account(program, discriminator), program), true);
    assert.equal(isCompressedTokenAccount(account(key(5), discriminator), program), false);
  }
  assert.equal(isCompressedTokenAccount(account(program, [1, 0, 0, 0, 0, 0, 0, 0]), program), false);
  assert.equal(isCompressedTokenAccount(account(program, null), program), false);
});
