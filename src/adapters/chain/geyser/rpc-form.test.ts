import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseExact } from '../../../lib/json.ts';
import { rpcFormOf, type StreamBlock } from './rpc-form.ts';

test('a block of the stream has its rewards as a node prints them', () => {
  const reward = { pubkey: 'abc', lamports: '-800000000', postBalance: '9007199254740993', commission: '' };
  const block: StreamBlock = {
    slot: '7',
    blockhash: 'b',
    parentSlot: '6',
    parentBlockhash: 'a',
    executedTransactionCount: '0',
    transactions: [],
    rewards: {
      rewards: [
        { ...reward, rewardType: 6 },
        { ...reward, rewardType: 0, commission: '7', commissionBps: '712' },
        { ...reward, rewardType: 8 },
      ],
      numPartitions: { numPartitions: '3' },
    },
  };
  const printed = { pubkey: 'abc', lamports: -800_000_000, postBalance: 9_007_199_254_740_993n };
  const formOf = (given: StreamBlock) =>
    parseExact(rpcFormOf(given, () => null)!.toString()) as Record<string, unknown>;
  const form = formOf(block);
  assert.deepEqual(form['rewards'], [
    { ...printed, rewardType: 'VATDebit', commission: null },
    { ...printed, rewardType: null, commission: 7, commissionBps: 712 },
    { ...printed, rewardType: '8', commission: null },
  ]);
  assert.equal(form['numRewardPartitions'], 3);
  assert.ok(!('rewards' in formOf({ ...block, rewards: undefined })));
});
