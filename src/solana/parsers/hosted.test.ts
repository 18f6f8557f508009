import assert from 'node:assert/strict';
import { test } from 'node:test';
import { skipWithoutFixtures } from '../../../test/helpers/fixtures.ts';
import { hostedElements, namesOf } from '../../../test/helpers/hosted-elements.ts';
import { type HostedElement, rebuildBlock } from '../../../test/helpers/rebuild-enhanced.ts';
import { enhance } from './enhance.ts';

/** Answers of early 2023 count the lamports of closed accounts and format numbers differently. */
const OLD_SLOT = 180_000_000;
/** Earlier, a sale that the buyer paid for was also an offer. */
const OLD_SALE_SLOT = 170_000_000;
const LAMPORTS_PER_SOL = 1e9;

function lamportsBefore(element: HostedElement) {
  const unstaked = / unstaked ([\d.]+) SOL from (\w+)\.$/.exec(element.description);
  return (account: string): number =>
    account === unstaked?.[2] ? Math.round(Number(unstaked[1]) * LAMPORTS_PER_SOL) : 0;
}

const sorted = (rows: unknown): string[] => (rows as unknown[]).map((row) => JSON.stringify(inOrder(row))).sort();

function inOrder(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(inOrder);
  const entries = Object.entries(value).sort(([left], [right]) => (left < right ? -1 : 1));
  return Object.fromEntries(entries.map(([name, member]) => [name, inOrder(member)]));
}

for (const element of skipWithoutFixtures === false ? hostedElements() : []) {
  test(`${element.type} ${element.source} ${element.signature.slice(0, 8)} is parsed like the hosted service`, () => {
    const block = rebuildBlock(element, lamportsBefore(element));
    const made = enhance(block.transactions[0]!, block, { names: namesOf(element) });
    const isOld = element.slot < OLD_SLOT;
    assert.deepEqual([made.type, made.source], [element.type, element.source]);
    if (!(isOld && element.type === 'SWAP')) {
      assert.equal(made.description, element.description);
      assert.deepEqual(sorted(made['nativeTransfers']), sorted(element.nativeTransfers));
    }
    assert.deepEqual(sorted(made['tokenTransfers']), sorted(element.tokenTransfers));
    if (element.accountData.length > 0) assert.deepEqual(made['accountData'], inOrder(element.accountData));
    assert.deepEqual(made['instructions'], inOrder(element.instructions));
    for (const name of ['fee', 'feePayer', 'signature', 'slot', 'timestamp'] as const)
      assert.equal(made[name], element[name]);
    assert.deepEqual(events(made['events'], element), events(element.events, element));
  });
}

test('recorded answers of the hosted parser', { skip: skipWithoutFixtures }, () => {
  assert.equal(hostedElements().length, 54);
});

/** Without the members that the recordings leave open. */
function events(given: unknown, { slot, type }: HostedElement): unknown {
  const made = inOrder(structuredClone(given)) as Record<string, Record<string, unknown>>;
  const { nft } = made;
  if (nft !== undefined) {
    nft['nfts'] = sorted(nft['nfts']);
    if (type === 'NFT_SALE' && slot < OLD_SALE_SLOT) delete nft['saleType'];
  }
  return made;
}
