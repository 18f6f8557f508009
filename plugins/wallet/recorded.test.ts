/** Responses of the wallet routes for recorded transactions. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decode32 } from '../../src/lib/base58.ts';
import { plainAmount } from '../../src/solana/accounts/amounts.ts';
import { decodeTransaction } from '../../src/solana/decode/decode-block.ts';
import { listFixtures, readJsonFixture, skipWithoutFixtures } from '../../test/helpers/fixtures.ts';
import { fundingOf } from './funded-by.ts';
import { historyElement } from './history.ts';
import type { LoadedRow } from './tracking/view.ts';
import { transferRows } from './transfers.ts';

interface Recorded {
  readonly signature: string;
  readonly derived: {
    readonly feePayer: string;
    readonly fee: number;
    readonly nativeBalanceChanges: Readonly<Record<string, number>>;
    readonly tokenBalanceChanges: readonly {
      readonly mint: string;
      readonly owner: string;
      readonly decimals: number;
      readonly rawChange: string | number;
    }[];
  };
  readonly getTransaction: { readonly transaction: { readonly message: { readonly accountKeys: readonly unknown[] } } };
}

function* recorded(): Generator<{ readonly file: Recorded; readonly loaded: LoadedRow }> {
  for (const name of listFixtures('chain/transactions')) {
    if (!name.endsWith('.json')) continue;
    const file = readJsonFixture<Recorded>(name);
    // The parsed form lacks the data of instructions.
    if (typeof file.getTransaction?.transaction?.message?.accountKeys?.[0] !== 'string') continue;
    const block = decodeTransaction(file.getTransaction);
    const tx = block.transactions[0]!;
    const { signature } = tx;
    yield { file, loaded: { n: 0, flags: 1, signature, slot: block.slot, time: block.blockTime, tx, block } };
  }
}

const rowsOf = ({ tx, block }: LoadedRow, wallet: string) => transferRows(tx, block, wallet);

test('balance changes match the recordings, for every wallet in them', { skip: skipWithoutFixtures }, () => {
  let wallets = 0;
  for (const { file, loaded } of recorded()) {
    const { nativeBalanceChanges, tokenBalanceChanges, feePayer, fee } = file.derived;
    for (const wallet of new Set([
      ...Object.keys(nativeBalanceChanges),
      ...tokenBalanceChanges.map((one) => one.owner),
    ])) {
      const element = historyElement(loaded, decode32(wallet)!, new Map());
      assert.equal(element.feePayer, feePayer);
      assert.equal(element.fee, fee / 1e9);
      const sums = new Map<string, { raw: bigint; decimals: number }>();
      const add = (mint: string, raw: bigint, decimals: number) =>
        sums.set(mint, { raw: (sums.get(mint)?.raw ?? 0n) + raw, decimals });
      add('SOL', BigInt(nativeBalanceChanges[wallet] ?? 0), 9);
      for (const one of tokenBalanceChanges)
        if (one.owner === wallet) add(one.mint, BigInt(one.rawChange), one.decimals);
      const expected = [...sums]
        .filter(([, { raw }]) => raw !== 0n)
        .map(([mint, { raw, decimals }]) => ({ mint, amount: Number(plainAmount(raw, decimals)), decimals }));
      assert.deepEqual(
        element.balanceChanges.toSorted(byMint),
        expected.toSorted(byMint),
        `${file.signature} ${wallet}`,
      );
      wallets += 1;
    }
  }
  assert.ok(wallets > 100, `${wallets}`);
});

const byMint = (left: { mint: string }, right: { mint: string }) => (left.mint < right.mint ? -1 : 1);

test('a row has a counterpart on the other side', { skip: skipWithoutFixtures }, () => {
  let rows = 0;
  for (const { file, loaded } of recorded()) {
    const { tokenBalanceChanges, nativeBalanceChanges } = file.derived;
    for (const wallet of new Set([
      ...Object.keys(nativeBalanceChanges),
      ...tokenBalanceChanges.map((one) => one.owner),
    ]))
      for (const row of rowsOf(loaded, wallet)) {
        rows += 1;
        assert.ok(row.amount > 0n && row.counterparty !== wallet);
        if (row.counterparty === '') continue;
        const mirrored = rowsOf(loaded, row.counterparty).some(
          (other) => other.counterparty === wallet && other.mint === row.mint && other.direction !== row.direction,
        );
        assert.ok(mirrored, `${file.signature} ${wallet} ${row.counterparty}`);
      }
  }
  assert.ok(rows > 50, `${rows}`);
});

test('a transfer fee: out is the sent amount, in the received one', { skip: skipWithoutFixtures }, () => {
  let seen = 0;
  for (const { file, loaded } of recorded()) {
    const owners = new Set(file.derived.tokenBalanceChanges.map(({ owner }) => owner));
    for (const owner of owners)
      for (const { direction, amount, decimals } of rowsOf(loaded, owner)) {
        if (amount === 384_000_000n) assert.deepEqual([direction, decimals], ['out', 2]);
        if (amount === 368_640_000n) assert.deepEqual([direction, decimals], ['in', 2]);
        if (amount === 384_000_000n || amount === 368_640_000n) seen += 1;
      }
  }
  assert.equal(seen, 2);
});

test('a token transfer that does not name the wallet', { skip: skipWithoutFixtures }, () => {
  const wallet = '7T8ckKtdc5DH7ACS5AnCny7rVXYJPEsaAbdBri1FhPxY';
  const all = [...recorded()];
  const found = all.find(({ file }) => file.signature.startsWith('3bg38hZg'));
  assert.ok(found !== undefined);
  assert.ok(found.loaded.tx.keys.every((id) => found.loaded.block.keys.base58(id) !== wallet));
  const [row, ...others] = rowsOf(found.loaded, wallet);
  assert.deepEqual(others, []);
  assert.equal(row?.direction, 'in');
  assert.equal(row?.amount, 119_656_776n);
  assert.ok(row?.counterparty.startsWith('CBG4RpoL'));
  const paid = all.find(({ file }) => file.signature.startsWith('LLco7QQY'));
  if (paid !== undefined) assert.equal(fundingOf(paid.loaded.tx, paid.loaded.block, wallet)?.amount, 550_686_520n);
});
