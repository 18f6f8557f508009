import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readJsonFixture, skipWithoutFixtures } from '../../../test/helpers/fixtures.ts';
import { decode32, encode32 } from '../../lib/base58.ts';
import type { ChainBlock } from '../../ports/block.ts';
import { assetId } from '../concurrent/tree.ts';
import { decodeBlock } from '../decode/decode-block.ts';
import { enhance } from './enhance.ts';

interface Recorded {
  readonly signature: string;
  readonly slot: number;
  readonly accountKeys: readonly string[];
  readonly instructions: readonly object[];
  readonly innerInstructions: readonly object[];
}

interface Entry {
  readonly type: string;
  readonly treeId: string;
  readonly leafIndex: number;
  readonly seq: number;
  readonly assetId: string;
  readonly newLeafOwner: string | null;
  readonly oldLeafOwner: string | null;
  readonly metadata: { readonly name: string } | null;
}

const HASH = '1'.repeat(32);

function blockOf({ signature, slot, accountKeys, instructions, innerInstructions }: Recorded): ChainBlock {
  const zeros = accountKeys.map(() => 0);
  const header = { numRequiredSignatures: 1, numReadonlySignedAccounts: 0, numReadonlyUnsignedAccounts: 0 };
  return decodeBlock(slot, {
    blockhash: HASH,
    previousBlockhash: HASH,
    parentSlot: slot - 1,
    blockHeight: null,
    blockTime: 0,
    transactions: [
      {
        version: 'legacy',
        transaction: {
          signatures: [signature],
          message: { accountKeys, header, recentBlockhash: HASH, instructions },
        },
        meta: { err: null, fee: 0, logMessages: [], innerInstructions, preBalances: zeros, postBalances: zeros },
      },
    ],
  });
}

test('recorded compressed NFTs: each scenario is the history of one asset', { skip: skipWithoutFixtures }, () => {
  const scenarios = readJsonFixture<Record<string, Recorded[]>>('chain/cnft/bubblegum-open.json');
  const types = new Map<string, number>();
  let transactions = 0;
  for (const [name, recorded] of Object.entries(scenarios)) {
    const entries: Entry[] = [];
    for (const one of recorded) {
      const block = blockOf(one);
      const faults: unknown[] = [];
      const element = enhance(block.transactions[0]!, block, { onFault: (...fault) => faults.push(fault) });
      assert.deepEqual(faults, []);
      transactions += 1;
      const list = ((element['events'] as { compressed?: Entry[] }).compressed ?? []) as Entry[];
      if (list.length > 0) assert.equal(element.source, 'BUBBLEGUM');
      for (const entry of list) types.set(entry.type, (types.get(entry.type) ?? 0) + 1);
      entries.push(...list.filter(({ type }) => type !== 'CREATE_MERKLE_TREE'));
    }
    entries.sort((left, right) => left.seq - right.seq);
    for (const [at, entry] of entries.entries()) {
      // Minted assets have the number of their leaf.
      assert.equal(entry.assetId, encode32(assetId(decode32(entry.treeId)!, BigInt(entry.leafIndex))), name);
      const before = entries[at - 1];
      if (entry.type === 'COMPRESSED_NFT_MINT') {
        assert.equal(entry.oldLeafOwner, null);
        assert.equal(typeof entry.metadata?.name, 'string');
      } else if (before !== undefined && before.newLeafOwner !== null)
        assert.equal(entry.oldLeafOwner, before.newLeafOwner, `${name} ${entry.type}`);
    }
  }
  assert.equal(transactions, 47);
  for (const what of [
    'MINT',
    'TRANSFER',
    'BURN',
    'REDEEM',
    'CANCEL_REDEEM',
    'DELEGATE',
    'UPDATE_METADATA',
    'VERIFY_CREATOR',
    'UNVERIFY_CREATOR',
    'SET_VERIFY_COLLECTION',
  ])
    assert.ok((types.get(`COMPRESSED_NFT_${what}`) ?? 0) > 0, what);
  assert.ok((types.get('CREATE_MERKLE_TREE') ?? 0) > 10);
});
