import assert from 'node:assert/strict';
import { test } from 'node:test';
import { listFixtures, readJsonFixture, skipWithoutFixtures } from '../../../test/helpers/fixtures.ts';
import type { ChainBlock } from '../../ports/block.ts';
import { decodeBlock } from '../decode/decode-block.ts';
import { nativeChange } from './movement.ts';
import { readMovements } from './read-movements.ts';

function* recordedBlocks(): Generator<ChainBlock> {
  for (const file of listFixtures('chain/blocks')) {
    const read = readJsonFixture<{ result?: object; parentSlot: number }>(file);
    const result = (read.result ?? read) as { parentSlot: number };
    if (!file.includes('json_parsed')) yield decodeBlock(result.parentSlot + 1, result);
  }
}

test('recorded blocks: native changes sum to the fee, and moves of closed sets of accounts to their changes', {
  skip: skipWithoutFixtures,
}, () => {
  let transactions = 0;
  let accounts = 0;
  for (const block of recordedBlocks()) {
    for (const tx of block.transactions) {
      transactions += 1;
      const sum = Array.from(tx.keys, (_, at) => nativeChange(tx, at)).reduce((total, one) => total + one, 0);
      assert.equal(sum, -tx.fee, tx.signature);
      const { moves, tokenChanges } = readMovements(tx, block.keys);
      if (tx.error !== null) assert.equal(moves.length, 0);
      const moved = new Map<number, bigint>();
      const add = (account: number, amount: bigint): unknown => moved.set(account, (moved.get(account) ?? 0n) + amount);
      for (const move of moves) {
        if (move.asset !== 'token') continue;
        if (move.source >= 0) add(move.source, -move.amount);
        if (move.destination >= 0) add(move.destination, move.amount - (move.fee ?? 0n));
      }
      // Wrapping and closing change wrapped SOL without a token instruction.
      for (const { account, mint, change } of tokenChanges) {
        if (block.keys.base58(mint).startsWith('So1111')) continue;
        assert.equal(moved.get(account) ?? 0n, change, `${tx.signature} ${account}`);
        accounts += 1;
      }
    }
  }
  assert.ok(transactions > 400 && accounts > 50, `${transactions} ${accounts}`);
});

interface Trade {
  readonly in: { readonly mint: string; readonly raw: string };
  readonly out: { readonly mint: string; readonly raw: string };
}

test('recorded swaps: both legs of every trade are among the movements', { skip: skipWithoutFixtures }, () => {
  const swaps = readJsonFixture<{ signature: string; trades: Trade[] }[]>(
    'chain/expected/swaps-mainnet-254170887-even.json',
  );
  const [file] = listFixtures('chain/blocks').filter((name) => name.includes('mainnet'));
  const result = readJsonFixture<{ parentSlot: number }>(file!);
  const block = decodeBlock(result.parentSlot + 1, result);
  let legs = 0;
  for (const { signature, trades } of swaps) {
    const tx = block.transactions.find((one) => one.signature === signature)!;
    const { moves, keys } = readMovements(tx, block.keys);
    const seen = moves.flatMap((move) => (move.asset === 'token' ? [`${keys.base58(move.mint)} ${move.amount}`] : []));
    for (const trade of trades)
      for (const { mint, raw } of [trade.in, trade.out]) {
        assert.ok(seen.includes(`${mint} ${raw}`), `${signature} ${mint} ${raw}`);
        legs += 1;
      }
  }
  assert.equal(swaps.length, 17);
  assert.ok(legs >= 48);
});

interface Recorded {
  readonly derived: {
    readonly nativeBalanceChanges: Readonly<Record<string, number>>;
    readonly tokenBalanceChanges: readonly {
      readonly tokenAccount: string;
      readonly mint: string;
      readonly owner: string;
      readonly rawChange: string;
    }[];
  };
  readonly getTransaction: {
    readonly slot: number;
    readonly transaction: { readonly message: { readonly accountKeys: readonly unknown[] } };
  };
}

test('recorded transactions: balance changes match their meta', { skip: skipWithoutFixtures }, () => {
  let compared = 0;
  for (const file of listFixtures('chain/transactions')) {
    const { derived, getTransaction: answer } = readJsonFixture<Recorded>(file);
    if (typeof answer.transaction.message.accountKeys[0] !== 'string') continue;
    const hash = '1'.repeat(32);
    const block = decodeBlock(answer.slot, {
      blockhash: hash,
      previousBlockhash: hash,
      parentSlot: answer.slot - 1,
      blockHeight: null,
      blockTime: null,
      transactions: [answer],
    });
    const tx = block.transactions[0]!;
    const { tokenChanges, keys } = readMovements(tx, block.keys);
    const natives = Array.from(tx.keys, (key, at) => [keys.base58(key), nativeChange(tx, at)] as const);
    const nonZero = (rows: readonly (readonly [string, number])[]) => rows.filter(([, change]) => change !== 0).sort();
    assert.deepEqual(nonZero(natives), nonZero(Object.entries(derived.nativeBalanceChanges)), file);
    const tokens = tokenChanges.map(({ account, mint, owner, change }) =>
      [keys.base58(tx.keys[account]!), keys.base58(mint), keys.base58(owner), change.toString()].join(' '),
    );
    const expected = derived.tokenBalanceChanges
      .filter(({ rawChange }) => rawChange !== '0')
      .map(({ tokenAccount, mint, owner, rawChange }) => [tokenAccount, mint, owner, rawChange].join(' '));
    assert.deepEqual(tokens.sort(), expected.sort(), file);
    compared += 1;
  }
  assert.ok(compared >= 20);
});
