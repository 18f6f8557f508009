import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readJsonFixture, skipWithoutFixtures } from '../../../test/helpers/fixtures.ts';
import { WRAPPED_SOL_MINT } from '../addresses.ts';
import { decodeBlock } from '../decode/decode-block.ts';
import { createWords } from '../parsers/words.ts';
import { nativeInterfaces } from './native.ts';
import { parseTransaction } from './parse-transaction.ts';

test('summaries of a recorded block agree with its balances', { skip: skipWithoutFixtures }, () => {
  const answer = readJsonFixture<{ parentSlot: number }>('chain/blocks/mainnet-254170887-even.json');
  const block = decodeBlock(answer.parentSlot + 1, answer);
  const parts = { find: (program: string) => nativeInterfaces().get(program) ?? null, words: createWords(null) };
  const types = new Map<string, number>();
  let [legs, inner] = [0, 0];
  for (const tx of block.transactions) {
    const parsed = parseTransaction(tx, block, parts);
    const { summary } = parsed;
    if (tx.error !== null) {
      assert.equal(summary, null);
      assert.ok(parsed.instructions.every((one) => one.summary === null));
      continue;
    }
    if (summary === null) continue;
    types.set(summary.type, (types.get(summary.type) ?? 0) + 1);
    assert.notEqual(summary.description, '');
    const data = summary.parsedData;
    // An arbitrage has one mint on both sides.
    if (data === null || data.input_mint === data.output_mint) continue;
    inner += data.inner_swaps.length;
    assert.equal(summary.type, 'swap');
    const [payer] = [block.keys.base58(tx.keys[0]!)];
    const changeOf = (mint: string) => {
      const sum = (list: typeof tx.preTokenBalances) =>
        list
          .filter(
            ({ ownerKey, mintKey }) => block.keys.base58(ownerKey) === payer && block.keys.base58(mintKey) === mint,
          )
          .reduce((total, { amount }) => total + BigInt(amount), 0n);
      return sum(tx.postTokenBalances) - sum(tx.preTokenBalances);
    };
    // Of SOL the payer also pays fees and rents; a token that comes from somebody else's account has another owner.
    for (const [mint, amount] of [
      [data.input_mint, -BigInt(data.in_amount)],
      [data.output_mint, BigInt(data.actual_out_amount)],
    ] as const) {
      if (mint === WRAPPED_SOL_MINT || changeOf(mint) === 0n) continue;
      assert.equal(changeOf(mint), amount, tx.signature);
      legs += 1;
    }
  }
  assert.ok((types.get('swap') ?? 0) > 5 && (types.get('transfer') ?? 0) > 5, JSON.stringify([...types]));
  assert.ok(legs > 5 && inner > 5, `${legs} legs, ${inner} inner swaps`);
});

test('each instruction that moves something says so', { skip: skipWithoutFixtures }, () => {
  const answer = readJsonFixture<{ parentSlot: number }>('chain/blocks/mainnet-254170887-even.json');
  const block = decodeBlock(answer.parentSlot + 1, answer);
  const parts = { find: (program: string) => nativeInterfaces().get(program) ?? null, words: createWords(null) };
  let moved = 0;
  for (const tx of block.transactions.filter(({ error, isVote }) => error === null && !isVote)) {
    for (const one of parseTransaction(tx, block, parts).instructions) {
      if (one.summary === null) continue;
      assert.match(
        `${one.programName} ${one.instructionName}`,
        /^(?:system|token|token_2022) (?:transfer|create_account)/,
      );
      moved += 1;
    }
  }
  assert.ok(moved > 50, `${moved}`);
});
