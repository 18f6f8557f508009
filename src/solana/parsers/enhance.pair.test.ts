import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readJsonFixture, skipWithoutFixtures } from '../../../test/helpers/fixtures.ts';
import type { HostedElement } from '../../../test/helpers/rebuild-enhanced.ts';
import type { TokenNames } from '../../ports/tokens.ts';
import { decodeBlock } from '../decode/decode-block.ts';
import { enhance } from './enhance.ts';

interface RawElement {
  readonly slot: number;
  readonly blockTime: number;
}

test('the published pair: the raw transaction becomes the enhanced one, member by member', {
  skip: skipWithoutFixtures,
}, () => {
  const [raw] = readJsonFixture<RawElement[]>('webhooks/nft-sale.raw.json');
  const [hosted] = readJsonFixture<HostedElement[]>('webhooks/nft-sale.enhanced.json');
  const hash = '1'.repeat(32);
  const block = decodeBlock(raw!.slot, {
    blockhash: hash,
    previousBlockhash: hash,
    parentSlot: raw!.slot - 1,
    blockHeight: null,
    blockTime: raw!.blockTime,
    transactions: [raw],
  });
  const [nft] = (hosted!.events['nft'] as { nfts: { mint: string }[] }).nfts;
  const name = / sold (.+) to /.exec(hosted!.description)![1]!;
  const names: TokenNames = {
    peek: (mint) => (mint === nft!.mint ? { name, symbol: 'X', tokenStandard: 'NonFungible', decimals: 0 } : null),
  };
  const made = enhance(block.transactions[0]!, block, { names });
  // The publication omits these two.
  const { instructions, transactionError, ...published } = made;
  assert.ok((instructions as unknown[]).length > 0);
  assert.equal(transactionError, null);
  assert.equal(JSON.stringify(published), JSON.stringify(hosted));
});
