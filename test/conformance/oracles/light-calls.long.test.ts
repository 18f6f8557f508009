/** Instructions of the ZK compression system program, built by its client library, are classified correctly. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  bn,
  createCompressedAccountWithMerkleContextLegacy,
  createMerkleContextLegacy,
  LightSystemProgram,
  type TreeInfo,
} from '@lightprotocol/stateless.js';
import { Keypair } from '@solana/web3.js';
import { enhance } from '../../../src/solana/parsers/enhance.ts';
import { builtElement } from '../../helpers/built-transaction.ts';
import { createStateTrees } from '../../helpers/light/trees.ts';
import { rebuildBlock } from '../../helpers/rebuild-enhanced.ts';

const user = Keypair.generate().publicKey;
const [tree] = createStateTrees().v1 as [TreeInfo];
const held = createCompressedAccountWithMerkleContextLegacy(createMerkleContextLegacy(tree, bn(7), 3), user, bn(900));
const spend = {
  payer: user,
  toAddress: user,
  lamports: 400,
  inputCompressedAccounts: [held],
  recentInputStateRootIndices: [1],
  recentValidityProof: null,
};
const fresh = {
  payer: user,
  newAddress: [...user.toBytes()],
  recentValidityProof: null,
  outputStateTreeInfo: tree,
  newAddressParams: {
    seed: user.toBytes(),
    addressMerkleTreeRootIndex: 1,
    addressMerkleTreePubkey: user,
    addressQueuePubkey: user,
  },
};

function read(program: string, data: Uint8Array) {
  const payer = user.toBase58();
  const block = rebuildBlock(builtElement(payer, [{ program, accounts: [payer], data }]));
  return enhance(block.transactions[0]!, block, { onFault: (...fault) => assert.fail(String(fault)) });
}

for (const [type, make] of [
  ['DEPOSIT', () => LightSystemProgram.compress({ ...spend, outputStateTreeInfo: tree })],
  ['WITHDRAW', () => LightSystemProgram.decompress(spend)],
  ['TRANSFER', () => LightSystemProgram.transfer(spend)],
  ['CREATE', () => LightSystemProgram.createAccount(fresh)],
] as const)
  test(`${type}, and nothing when it is truncated`, async () => {
    const { programId, data } = await make();
    const { type: found, source } = read(programId.toBase58(), data);
    assert.deepEqual([found, source], [type, 'UNKNOWN']);
    for (const left of [8, 40, data.length - 1])
      assert.equal(read(programId.toBase58(), data.subarray(0, left)).type, 'UNKNOWN');
  });
