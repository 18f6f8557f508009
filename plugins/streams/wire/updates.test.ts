import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encode32 } from '../../../src/lib/base58.ts';
import { ProtobufReader } from '../../../src/lib/protobuf.ts';
import type { ChainBlock } from '../../../src/ports/block.ts';
import { decodeBlock } from '../../../src/solana/decode/decode-block.ts';
import { scanBlockAnswer } from '../../../src/solana/decode/scan-block.ts';
import { blockOf } from '../../../test/helpers/rpc-block.ts';
import { bankIdOf, createBlockUpdates } from './updates.ts';

const BLOCK = 5;
const BLOCK_META = 7;

/** The bytes of member 3 of a block's update; null: absent. */
function rewardsOf(update: Buffer, kind: number): Buffer | null {
  const outer = new ProtobufReader(update);
  for (let field = outer.next(); field !== 0; field = outer.next()) {
    if (field !== kind) {
      outer.skip();
      continue;
    }
    const inner = outer.message();
    for (let member = inner.next(); member !== 0; member = inner.next())
      if (member === 3) return inner.view();
      else inner.skip();
  }
  return null;
}

function readRewards(bytes: Buffer) {
  const rewards: (string | bigint | number)[][] = [];
  let partitions: bigint | null = null;
  const reader = new ProtobufReader(bytes);
  for (let field = reader.next(); field !== 0; field = reader.next()) {
    const message = reader.message();
    if (field === 2) {
      partitions = message.next() === 1 ? message.uint64() : 0n;
      continue;
    }
    const reward: [string, bigint, bigint, number, string, string] = ['', 0n, 0n, 0, '', ''];
    for (let member = message.next(); member !== 0; member = message.next())
      if (member === 1) reward[0] = message.text();
      else if (member === 2) reward[1] = BigInt.asIntN(64, message.uint64());
      else if (member === 3) reward[2] = message.uint64();
      else if (member === 4) reward[3] = message.int32();
      else if (member === 5) reward[4] = message.text();
      else if (member === 6) reward[5] = message.text();
      else message.skip();
    rewards.push(reward);
  }
  return { rewards, partitions };
}

test('blocks and their metas have the rewards that the node reported, and none where it reported none', () => {
  const pubkey = encode32(new Uint8Array(32).fill(3));
  const reward = (rewardType: string | null, members: string) =>
    `{"pubkey":"${pubkey}",${members},"rewardType":${JSON.stringify(rewardType)}`;
  const text = [
    `${reward('Fee', '"lamports":2500,"postBalance":9007199254740993')},"commission":null}`,
    `${reward('Voting', '"lamports":0,"postBalance":1')},"commission":7,"commissionBps":712}`,
    `${reward('DeactivatedStake', '"lamports":1,"postBalance":2')},"commission":null}`,
    `${reward('VATDebit', '"lamports":-800000000,"postBalance":3')},"commission":null,"commissionBps":0}`,
    `${reward('BlockRevenueSharing', '"lamports":1,"postBalance":2')},"commission":null}`,
    `${reward('Later', '"lamports":1,"postBalance":2')},"commission":null}`,
    `${reward(null, '"lamports":1,"postBalance":2')},"commission":null}`,
  ].join(',');
  const read = (members: string): ChainBlock => {
    const result = JSON.stringify(blockOf([], 7)).replace(/}$/, `${members}}`);
    return decodeBlock(7, scanBlockAnswer(Buffer.from(`{"jsonrpc":"2.0","result":${result},"id":1}`))!);
  };
  const updates = createBlockUpdates(read(`,"rewards":[${text}],"numRewardPartitions":4`), 0);
  const expected = {
    partitions: 4n,
    rewards: [
      [pubkey, 2_500n, 9_007_199_254_740_993n, 1, '', ''],
      [pubkey, 0n, 1n, 4, '7', '712'],
      [pubkey, 1n, 2n, 5, '', ''],
      [pubkey, -800_000_000n, 3n, 6, '', '0'],
      [pubkey, 1n, 2n, 7, '', ''],
      [pubkey, 1n, 2n, 0, '', ''],
      [pubkey, 1n, 2n, 0, '', ''],
    ],
  };
  assert.deepEqual(readRewards(rewardsOf(updates.block(null), BLOCK)!), expected);
  assert.deepEqual(readRewards(rewardsOf(updates.block('none'), BLOCK)!), expected);
  assert.deepEqual(readRewards(rewardsOf(updates.blockMeta(), BLOCK_META)!), expected);
  const empty = createBlockUpdates(read(',"rewards":[]'), 0);
  assert.deepEqual(readRewards(rewardsOf(empty.blockMeta(), BLOCK_META)!), { rewards: [], partitions: null });
  for (const members of ['', ',"rewards":null'])
    assert.equal(rewardsOf(createBlockUpdates(read(members), 0).blockMeta(), BLOCK_META), null);
});

test('a bank id follows from the blockhash, is never 0 and exact in JavaScript', () => {
  assert.equal(bankIdOf(encode32(new Uint8Array(32).fill(1))), bankIdOf(encode32(new Uint8Array(32).fill(1))));
  const ids = Array.from({ length: 256 }, (_, byte) => bankIdOf(encode32(new Uint8Array(32).fill(byte))));
  assert.equal(new Set(ids).size, 256);
  assert.ok(ids.every((id) => Number.isSafeInteger(id) && id > 0));
});
