import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readJsonFixture, skipWithoutFixtures } from '../../test/helpers/fixtures.ts';
import { blockOf, entryOf, sampleMessage } from '../../test/helpers/rpc-block.ts';
import { encode32 } from '../lib/base58.ts';
import { decodeBlock, decodeTransaction } from './decode/decode-block.ts';
import { rawTransaction } from './raw-transaction.ts';

const skip = skipWithoutFixtures;

/** Paths of members that are not in alphabetical order. */
function disorder(value: unknown, path = '$'): string[] {
  if (typeof value !== 'object' || value === null) return [];
  const names = Object.keys(value);
  const own = Array.isArray(value) || names.join() === [...names].sort().join() ? [] : [path];
  return [...own, ...Object.entries(value).flatMap(([name, member]) => disorder(member, `${path}.${name}`))];
}

const lookups = [{ table: new Uint8Array(32).fill(4), writable: Uint8Array.of(7), readonly: Uint8Array.of(8, 9) }];
const address = (byte: number): string => encode32(new Uint8Array(32).fill(byte));
const loaded = { writable: [address(5)], readonly: [address(6), address(1)] };

test('the published raw element is rebuilt from its own content, byte for byte', { skip }, () => {
  const [element] = readJsonFixture<[Record<string, unknown>]>('webhooks/nft-sale.raw.json');
  const block = decodeTransaction(element);
  const rebuilt = rawTransaction(block.transactions[0]!, block, { indexWithinBlock: 2557 });
  // The publication predates versions; everything else is equal, including the order of keys.
  const { version, ...rest } = rebuilt;
  assert.equal(version, 'legacy');
  assert.equal(JSON.stringify(rest), JSON.stringify(element));
});

test('recorded blocks give elements with ordered keys and exactly the documented members', { skip }, () => {
  for (const name of ['mainnet-254170887-even', 'solders-getBlock-json']) {
    const answer = readJsonFixture<{ result?: { parentSlot: number }; parentSlot: number }>(
      `chain/blocks/${name}.json`,
    );
    const result = answer.result ?? answer;
    const block = decodeBlock(result.parentSlot + 1, result);
    for (const tx of block.transactions) {
      const element = rawTransaction(tx, block);
      assert.deepEqual(disorder(element), []);
      assert.deepEqual(Object.keys(element), [
        'blockTime',
        'indexWithinBlock',
        'meta',
        'slot',
        'transaction',
        'version',
      ]);
      assert.deepEqual(Object.keys(element['meta'] as object), [
        'err',
        'fee',
        'innerInstructions',
        'loadedAddresses',
        'logMessages',
        'postBalances',
        'postTokenBalances',
        'preBalances',
        'preTokenBalances',
        'rewards',
      ]);
      assert.equal(element['indexWithinBlock'], tx.index);
      const withExtras = rawTransaction(tx, block, { extraKeys: true });
      assert.deepEqual(disorder({ ...withExtras, meta: { ...(withExtras['meta'] as object), status: 0 } }), []);
      assert.ok('status' in (withExtras['meta'] as object));
    }
  }
});

test('a version 0 transaction shows lookups and loaded addresses', () => {
  const entry = entryOf({ message: sampleMessage({ version: 0, lookups }), loaded });
  const block = decodeBlock(100, blockOf([entry]));
  const element = rawTransaction(block.transactions[0]!, block) as {
    meta: { loadedAddresses: unknown };
    transaction: { message: { accountKeys: string[]; addressTableLookups: unknown } };
    version: unknown;
  };
  assert.equal(element.version, 0);
  assert.deepEqual(element.meta.loadedAddresses, { readonly: loaded.readonly, writable: loaded.writable });
  assert.deepEqual(element.transaction.message.accountKeys, [address(1), address(2), address(3)]);
  assert.deepEqual(element.transaction.message.addressTableLookups, [
    { accountKey: address(4), readonlyIndexes: [8, 9], writableIndexes: [7] },
  ]);
});

test('omitted and additional members of the node have their documented form', () => {
  const uiTokenAmount = { uiAmountString: '1', uiAmount: null, decimals: 0, amount: '1' };
  const meta = {
    err: { InstructionError: [0, { Custom: 1 }] },
    innerInstructions: [{ index: 0, instructions: [{ stackHeight: 2, programIdIndex: 1, data: '2', accounts: [0] }] }],
    logMessages: null,
    preTokenBalances: null,
    postTokenBalances: [{ uiTokenAmount, mint: address(3), accountIndex: 1 }],
    rewards: null,
    loadedAddresses: undefined,
    computeUnitsConsumed: 5,
    costUnits: 6,
    returnData: null,
    status: { Ok: null },
  };
  const block = decodeBlock(100, blockOf([entryOf({ message: sampleMessage(), meta })]));
  const plain = rawTransaction(block.transactions[0]!, block)['meta'];
  assert.deepEqual(plain, {
    err: { InstructionError: [0, { Custom: 1 }] },
    fee: 5000,
    innerInstructions: [{ index: 0, instructions: [{ accounts: [0], data: '2', programIdIndex: 1 }] }],
    loadedAddresses: { readonly: [], writable: [] },
    logMessages: [],
    postBalances: [2, 2, 2],
    postTokenBalances: [
      {
        accountIndex: 1,
        mint: address(3),
        uiTokenAmount: { amount: '1', decimals: 0, uiAmount: null, uiAmountString: '1' },
      },
    ],
    preBalances: [1, 1, 1],
    preTokenBalances: [],
    rewards: [],
  });
  const extra = rawTransaction(block.transactions[0]!, block, { extraKeys: true })['meta'] as Record<string, unknown>;
  assert.deepEqual(extra, {
    ...plain,
    computeUnitsConsumed: 5,
    costUnits: 6,
    returnData: null,
    status: { Ok: null },
    innerInstructions: [{ index: 0, instructions: [{ accounts: [0], data: '2', programIdIndex: 1, stackHeight: 2 }] }],
  });
});
