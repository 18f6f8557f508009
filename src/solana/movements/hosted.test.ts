import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readJsonFixture, skipWithoutFixtures } from '../../../test/helpers/fixtures.ts';
import { type HostedElement, rebuildBlock } from '../../../test/helpers/rebuild-enhanced.ts';
import { readMovements } from './read-movements.ts';

const elements = (): HostedElement[] =>
  readJsonFixture<{ enhanced: HostedElement }[]>('chain/helius-enhanced/enhanced-open.json').map(
    ({ enhanced }) => enhanced,
  );

const sorted = (rows: readonly unknown[]): string[] => rows.map((row) => JSON.stringify(row)).sort();

test('hosted answers: movements match their transfers', { skip: skipWithoutFixtures }, () => {
  let compared = 0;
  for (const element of elements()) {
    const block = rebuildBlock(element);
    const tx = block.transactions[0]!;
    const { moves, keys } = readMovements(tx, block.keys);
    const account = (at: number): string => (at < 0 ? '' : keys.base58(tx.keys[at]!));
    const tokens = moves.flatMap((move) =>
      move.asset === 'token'
        ? [
            {
              from: account(move.source),
              to: account(move.destination),
              fromUser: move.source < 0 ? '' : keys.base58(move.sourceOwner),
              toUser: keys.base58(move.destinationOwner),
              mint: keys.base58(move.mint),
              amount: Number(move.amount) / 10 ** (move.decimals ?? 0),
            },
          ]
        : [],
    );
    const hostedTokens = element.tokenTransfers.map((row) => ({
      from: row.fromTokenAccount,
      to: row.toTokenAccount,
      fromUser: row.fromUserAccount,
      toUser: row.toUserAccount,
      mint: row.mint,
      amount: row.tokenAmount,
    }));
    assert.deepEqual(sorted(tokens), sorted(hostedTokens), element.signature);
    const natives = moves.flatMap((move) =>
      move.asset === 'native' ? [{ amount: Number(move.amount), from: account(move.from), to: account(move.to) }] : [],
    );
    const hosted = element.nativeTransfers.map((row) => ({
      amount: row.amount,
      from: row.fromUserAccount,
      to: row.toUserAccount,
    }));
    // Staking omits the creation of the stake account; old answers show closed accounts without their rent.
    if (element.type === 'STAKE_SOL') assert.deepEqual(hosted, []);
    else if (element.type === 'SWAP' && element.slot < 180_000_000) continue;
    else assert.deepEqual(sorted(natives), sorted(hosted), element.signature);
    compared += 1;
  }
  assert.ok(compared >= 50);
});
