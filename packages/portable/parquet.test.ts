import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { parquetReadObjects } from 'hyparquet';
import { encode32 } from '../../src/lib/base58.ts';
import { AMOUNT_FORMS, type AmountForm } from '../../src/lib/parquet-columns.ts';
import type { ChainBlock } from '../../src/ports/block.ts';
import { decodeBlock } from '../../src/solana/decode/decode-block.ts';
import { duckdbMissing, openDuckdb } from '../../test/helpers/duckdb.ts';
import { readFixture, skipWithoutFixtures } from '../../test/helpers/fixtures.ts';
import { blockOf, entryOf, sampleMessage } from '../../test/helpers/rpc-block.ts';
import { PARQUET_TABLES } from './index.ts';
import { createParquetWriter } from './parquet.ts';

async function written(
  t: TestContext,
  blocks: readonly ChainBlock[],
  amounts: AmountForm = 'integer',
): Promise<(table: string) => string> {
  const dir = mkdtempSync(join(tmpdir(), 'parhelion-parquet-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  const path = (table: string) => join(dir, `0-9.${table}.parquet`);
  const files = await Promise.all(PARQUET_TABLES.map((table) => open(path(table), 'w')));
  const writer = await createParquetWriter(files, amounts);
  for (const block of blocks) await writer.add(block);
  await writer.end();
  for (const file of files) await file.close();
  return path;
}

const recorded = (): ChainBlock => {
  const parsed = JSON.parse(readFixture('chain/blocks/mainnet-254170887-even.json').toString()) as { result?: object };
  return decodeBlock(254_170_887, parsed.result ?? parsed);
};

async function rowsOf(path: string): Promise<Record<string, unknown>[]> {
  const bytes = readFileSync(path);
  return await parquetReadObjects({ file: bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length) });
}

test('a recorded block in tables', { skip: skipWithoutFixtures }, async (t) => {
  const block = recorded();
  const path = await written(t, [block]);
  const [header] = await rowsOf(path('blocks'));
  assert.equal(header!['slot'], BigInt(block.slot));
  assert.equal(header!['blockhash'], block.blockhash);
  assert.equal(Number(header!['block_time']), block.blockTime! * 1_000);
  const transactions = await rowsOf(path('transactions'));
  assert.deepEqual(
    transactions.map((row) => row['signature']),
    block.transactions.map(({ signature }) => signature),
  );
  for (const transaction of block.transactions) {
    const row = transactions[transaction.index]!;
    assert.deepEqual(
      row['account_keys'],
      Array.from(transaction.keys, (id) => block.keys.base58(id)),
    );
    assert.deepEqual(row['post_balances'], transaction.postBalances.map(BigInt));
    assert.equal(row['success'], transaction.error === null);
    assert.deepEqual(row['log_messages'] ?? null, transaction.logMessages);
  }
  const instructions = await rowsOf(path('instructions'));
  const inner = block.transactions.flatMap(({ innerInstructions }) =>
    innerInstructions.flatMap((each) => each.instructions),
  );
  const outer = block.transactions.flatMap((transaction) => transaction.instructions);
  assert.equal(instructions.length, inner.length + outer.length);
  assert.equal(
    instructions.filter((row) => row['inner_index'] === null || row['inner_index'] === undefined).length,
    outer.length,
  );
  const balances = await rowsOf(path('token_balances'));
  const accounts = block.transactions.flatMap(({ index, preTokenBalances, postTokenBalances }) => [
    ...new Set([...preTokenBalances, ...postTokenBalances].map(({ accountIndex }) => `${index}:${accountIndex}`)),
  ]);
  assert.equal(balances.length, accounts.length);
});

const LARGEST = 2n ** 64n - 1n;
/** The first that is no signed integer of 64 bits. */
const WIDE = 2n ** 63n;

/** A transaction with a token account that is made, one that is emptied, and the largest amounts. */
function extremes(): ChainBlock {
  const balance = (accountIndex: number, amount: bigint) => ({
    accountIndex,
    mint: encode32(Buffer.alloc(32, 5)),
    owner: encode32(Buffer.alloc(32, 6)),
    uiTokenAmount: { amount: String(amount), decimals: 6 },
  });
  const meta = {
    preTokenBalances: [balance(0, LARGEST)],
    postTokenBalances: [balance(1, 7n)],
    err: { InstructionError: [0, { Custom: 1 }] },
    logMessages: null,
  };
  return decodeBlock(5, { ...blockOf([entryOf({ message: sampleMessage(), meta })], 5), blockTime: null });
}

test('nulls, failures and the largest amounts', async (t) => {
  const path = await written(t, [extremes()]);
  const balances = await rowsOf(path('token_balances'));
  assert.deepEqual(
    balances.map((row) => [row['pre_amount'] ?? null, row['post_amount'] ?? null]),
    [
      [LARGEST, null],
      [null, 7n],
    ],
  );
  const [transaction] = await rowsOf(path('transactions'));
  assert.equal(transaction!['error'], '{"InstructionError":[0,{"Custom":1}]}');
  assert.equal(transaction!['block_time'] ?? null, null);
  const empty = await written(t, []);
  assert.deepEqual(await rowsOf(empty('blocks')), []);
});

test('DuckDB reads the tables', { skip: duckdbMissing() ?? skipWithoutFixtures }, async (t) => {
  const block = recorded();
  const path = await written(t, [extremes(), block]);
  const ask = await openDuckdb();
  const rows = await ask(`
    select b.slot, count(*), count(*) filter (not t.success), sum(t.fee), sum(len(t.account_keys)), max(b.block_time)::text
    from '${path('blocks')}' b join '${path('transactions')}' t using (slot) where b.slot > 5 group by b.slot`);
  const { transactions } = block;
  const sum = (of: (index: number) => number) => transactions.reduce((total, { index }) => total + of(index), 0);
  assert.deepEqual(rows[0]!.map(String), [
    String(block.slot),
    String(transactions.length),
    String(transactions.filter(({ error }) => error !== null).length),
    String(sum((at) => Number(transactions[at]!.fee))),
    String(sum((at) => transactions[at]!.keys.length)),
    new Date(block.blockTime! * 1_000).toISOString().slice(0, 19).replace('T', ' '),
  ]);
  const largest = await ask(`select max(pre_amount) from '${path('token_balances')}' where slot = 5`);
  assert.equal(largest[0]![0], LARGEST);
  const inner = await ask(`select count(*), sum(octet_length(data)) from '${path('instructions')}' where slot > 5`);
  const all = transactions.flatMap((each) => [
    ...each.instructions,
    ...each.innerInstructions.flatMap(({ instructions }) => instructions),
  ]);
  assert.deepEqual(inner[0]!.map(String), [
    String(all.length),
    String(all.reduce((total, { data }) => total + data.length, 0)),
  ]);
});

/** Blocks with the token amounts 0, 5, 2^63 - 1, 2^63, 2^63 + 1 and 2^64 - 1. */
const AMOUNTS = [0n, 5n, WIDE - 1n, WIDE, WIDE + 1n, LARGEST];

function wideBlocks(): readonly ChainBlock[] {
  const mint = encode32(Buffer.alloc(32, 5));
  return AMOUNTS.map((amount, at) => {
    const meta = {
      preTokenBalances: [],
      postTokenBalances: [{ accountIndex: 0, mint, uiTokenAmount: { amount: String(amount), decimals: 0 } }],
    };
    return decodeBlock(at + 1, blockOf([entryOf({ message: sampleMessage(), meta })], at + 1));
  });
}

for (const form of AMOUNT_FORMS)
  test(`DuckDB reads and filters amounts from 2^63 on exactly: ${form}`, {
    skip: duckdbMissing() ?? false,
  }, async (t) => {
    const path = await written(t, wideBlocks(), form);
    const ask = await openDuckdb();
    const table = `'${path('token_balances')}'`;
    const [described] = await ask(`select typeof(post_amount) from ${table}`);
    assert.deepEqual(described, [{ integer: 'UBIGINT', decimal: 'DECIMAL(20,0)', text: 'VARCHAR' }[form]]);
    const amount = form === 'text' ? 'post_amount::decimal(20, 0)' : 'post_amount';
    const found = async (filter: string) =>
      (await ask(`select post_amount::varchar from ${table} where ${filter} order by slot`)).map(([text]) => text);
    assert.deepEqual(await found('true'), AMOUNTS.map(String));
    for (const [at, value] of AMOUNTS.entries()) {
      const literal = form === 'text' ? `'${value}'` : String(value);
      assert.deepEqual(await found(`post_amount = ${literal}`), [String(value)]);
      assert.deepEqual(await found(`${amount} > ${value}`), AMOUNTS.slice(at + 1).map(String));
    }
    const [sum] = await ask(`select sum(${amount})::varchar from ${table}`);
    assert.deepEqual(sum, [String(AMOUNTS.reduce((total, each) => total + each))]);
    const [balances] = await ask(`select typeof(pre_balances), typeof(fee) from '${path('transactions')}'`);
    assert.deepEqual(balances, [`${described![0]}[]`, described![0]]);
  });
