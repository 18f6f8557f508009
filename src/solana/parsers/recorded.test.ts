import assert from 'node:assert/strict';
import { test } from 'node:test';
import { listFixtures, readJsonFixture, skipWithoutFixtures } from '../../../test/helpers/fixtures.ts';
import { type ParsedAnswer, plainTransaction } from '../../../test/helpers/plain-transaction.ts';
import type { HostedTransfer } from '../../../test/helpers/rebuild-enhanced.ts';
import { decodeBlock } from '../decode/decode-block.ts';
import { type EnhancedTransaction, enhance } from './enhance.ts';

interface LedgerEvent {
  readonly asset: string;
  readonly amount: string;
  readonly location_label: string;
  readonly event_subtype: string;
}

interface Recorded {
  readonly signature: string;
  readonly dexParser: { readonly trades?: readonly unknown[] } | null;
  readonly rotki: { readonly events: readonly LedgerEvent[] } | null;
  readonly getTransaction: ParsedAnswer;
}

const HASH = '1'.repeat(32);

function* recorded(): Generator<{ readonly recording: Recorded; readonly element: EnhancedTransaction }> {
  for (const file of listFixtures('chain/transactions')) {
    const recording = readJsonFixture<Recorded>(file);
    const answer = recording.getTransaction;
    const isParsed = typeof answer.transaction.message.accountKeys[0] === 'object';
    const block = decodeBlock(answer.slot, {
      blockhash: HASH,
      previousBlockhash: HASH,
      parentSlot: answer.slot - 1,
      blockHeight: null,
      blockTime: answer.blockTime,
      transactions: [isParsed ? plainTransaction(answer) : answer],
    });
    const onFault = (...fault: unknown[]) => assert.fail(String(fault));
    yield { recording, element: enhance(block.transactions[0]!, block, { onFault }) };
  }
}

test('recorded transactions: transfers that other services list for a wallet are included', {
  skip: skipWithoutFixtures,
}, () => {
  let transactions = 0;
  let events = 0;
  for (const { recording, element } of recorded()) {
    transactions += 1;
    const rows = element['accountData'] as readonly { nativeBalanceChange: number }[];
    const sum = rows.reduce((total, { nativeBalanceChange }) => total + nativeBalanceChange, 0);
    assert.equal(sum, -Number(element['fee']));
    const transfers = element['tokenTransfers'] as readonly HostedTransfer[];
    for (const { asset, amount, location_label: wallet } of recording.rotki?.events ?? []) {
      const [, mint] = /^solana\/(?:token|nft):(\w+)$/.exec(asset) ?? [];
      if (mint === undefined) continue;
      const found = transfers.some(
        (row) =>
          row.mint === mint &&
          row.tokenAmount === Number(amount) &&
          (row.fromUserAccount === wallet || row.toUserAccount === wallet),
      );
      assert.ok(found, `${recording.signature}: ${amount} of ${mint} for ${wallet}`);
      events += 1;
    }
  }
  assert.equal(transactions, 36);
  assert.ok(events >= 15, String(events));
});

test('recorded swaps: legs and fee match those of other services', { skip: skipWithoutFixtures }, () => {
  interface Leg {
    readonly mint: string;
    readonly rawTokenAmount: { readonly tokenAmount: string; readonly decimals: number };
  }
  let swaps = 0;
  for (const { recording, element } of recorded()) {
    const { swap } = element['events'] as { swap?: Record<'tokenInputs' | 'tokenOutputs' | 'tokenFees', Leg[]> };
    if (swap === undefined || recording.rotki === null) continue;
    swaps += 1;
    for (const [subtype, legs] of [
      ['SPEND', swap.tokenInputs],
      ['RECEIVE', swap.tokenOutputs],
      ['FEE', swap.tokenFees],
    ] as const) {
      for (const { mint, rawTokenAmount } of legs) {
        const amount = Number(rawTokenAmount.tokenAmount) / 10 ** rawTokenAmount.decimals;
        const booked = recording.rotki.events.some(
          (event) =>
            event.event_subtype === subtype &&
            assetOf(mint).some((asset) => event.asset.endsWith(asset)) &&
            Math.abs(Number(event.amount) - amount) < 1e-9,
        );
        assert.ok(booked, `${recording.signature}: ${subtype} ${amount} of ${mint}`);
      }
    }
  }
  assert.ok(swaps >= 4, String(swaps));
});

test('swaps that another parser found in recorded transactions are swaps, and no others', {
  skip: skipWithoutFixtures,
}, () => {
  const slot = 254_170_887;
  const block = decodeBlock(slot, readJsonFixture(`chain/blocks/mainnet-${slot}-even.json`));
  const listed = readJsonFixture<{ signature: string }[]>(`chain/expected/swaps-mainnet-${slot}-even.json`);
  const expected = new Set(listed.map(({ signature }) => signature));
  const found = block.transactions
    .filter((tx) => tx.error === null && enhance(tx, block).type === 'SWAP')
    .map(({ signature }) => signature);
  assert.ok(found.every((signature) => expected.has(signature)));
  // The others end with the token that they started with, or another account pays for them.
  assert.ok(found.length >= 12, `${found.length} of ${expected.size}`);
  for (const { recording, element } of recorded())
    assert.equal(element.type === 'SWAP', (recording.dexParser?.trades?.length ?? 0) > 0, recording.signature);
});

/** Wrapped SOL has its own word there. */
const assetOf = (mint: string): readonly string[] => (mint.startsWith('So1111') ? [mint, '$A_WSOL'] : [mint]);
