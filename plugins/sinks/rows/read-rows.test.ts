import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decode32, encode32 } from '../../../src/lib/base58.ts';
import type { ChainBlock } from '../../../src/ports/block.ts';
import type { SinkRow } from '../../../src/ports/sink.ts';
import { hashLeaf } from '../../../src/solana/concurrent/decode-concurrent.ts';
import { decodeBlock } from '../../../src/solana/decode/decode-block.ts';
import { CORE_PROGRAM, METADATA_PROGRAM, SYSTEM_PROGRAM, TOKEN_PROGRAM } from '../../../src/solana/programs.ts';
import { createModelTree, mintOf, treeTransaction } from '../../../test/helpers/bubblegum.ts';
import { readFixture, skipWithoutFixtures } from '../../../test/helpers/fixtures.ts';
import { blockOf, entryOf, sampleMessage } from '../../../test/helpers/rpc-block.ts';
import { rowParts } from '../../../test/helpers/sinks.ts';
import type { RowFilter } from './filter.ts';
import { readRows } from './read-rows.ts';
import { SINK_TABLES } from './tables.ts';

type Rows = Readonly<Record<string, readonly Readonly<Record<string, unknown>>[]>>;

/** Rows by table, as objects. */
function rowsOf(block: ChainBlock, filter: Partial<RowFilter> = {}): Rows {
  const rows: Record<string, SinkRow[]> = Object.fromEntries(SINK_TABLES.map(({ name }) => [name, []]));
  readRows(block, rowParts(filter), (table, row) => void rows[table]!.push(row));
  return Object.fromEntries(
    SINK_TABLES.map(({ name, columns }) => [
      name,
      rows[name]!.map((row) => Object.fromEntries(columns.map((column, at) => [column.name, row[at]]))),
    ]),
  );
}

const recorded = (): ChainBlock => {
  const parsed = JSON.parse(readFixture('chain/blocks/mainnet-254170887-even.json').toString()) as { result?: object };
  return decodeBlock(254_170_887, parsed.result ?? parsed);
};

/** What a value has to be for the kind of its column. */
const FITS: Readonly<Record<string, (value: unknown) => boolean>> = {
  slot: (value) => Number.isSafeInteger(value) && (value as number) >= 0,
  int: (value) => Number.isInteger(value) && (value as number) >= 0 && (value as number) < 2 ** 31,
  u64: (value) => typeof value === 'bigint' && value >= 0n && value < 2n ** 64n,
  text: (value) => typeof value === 'string' && !value.includes('\0'),
  bool: (value) => typeof value === 'boolean',
  time: (value) => Number.isInteger(value),
  bytes: (value) => value instanceof Uint8Array,
  json: (value) => typeof value === 'string' && JSON.parse(value) !== undefined,
  texts: (value) => Array.isArray(value) && value.every((one) => typeof one === 'string'),
};

test('a recorded block: every value fits its column, keys are unique and in order', {
  skip: skipWithoutFixtures,
}, () => {
  const rows = rowsOf(recorded());
  for (const { name, columns, key } of SINK_TABLES) {
    assert.ok(rows[name]!.length > 0, name);
    for (const row of rows[name]!)
      for (const { name: column, kind, isNullable } of columns) {
        const value = row[column];
        assert.ok(value === null ? isNullable : FITS[kind]!(value), `${name}.${column}: ${String(value)}`);
      }
    const keys = rows[name]!.map((row) => key.map((column) => row[column] as number));
    const sorted = keys.toSorted((a, b) => a.map((one, at) => one - b[at]!).find((one) => one !== 0) ?? 0);
    assert.deepEqual(keys, sorted, name);
    assert.equal(new Set(keys.map(String)).size, keys.length, name);
  }
});

test('a recorded block: rows say what the node says', { skip: skipWithoutFixtures }, () => {
  const block = recorded();
  const rows = rowsOf(block);
  assert.deepEqual(
    rows['transactions']!.map((row) => [row['signature'], row['fee'], row['success']]),
    block.transactions.map(({ signature, fee, error }) => [signature, BigInt(fee), error === null]),
  );
  const inner = block.transactions.flatMap((tx) => tx.innerInstructions.flatMap(({ instructions }) => instructions));
  const outer = block.transactions.flatMap((tx) => tx.instructions);
  assert.equal(rows['instructions']!.length, inner.length + outer.length);
  assert.equal(rows['instructions']!.filter((row) => row['inner_index'] === null).length, outer.length);
  assert.equal(
    rows['logs']!.length,
    block.transactions.reduce((count, { logMessages }) => count + (logMessages?.length ?? 0), 0),
  );
  const transfer = rows['instructions']!.find(
    (row) => row['program'] === TOKEN_PROGRAM && row['name'] === 'transfer_checked',
  );
  assert.equal(transfer?.['program_name'], 'token');
  for (const tx of block.transactions) {
    // Lamports are neither made nor lost but for the fee.
    const native = rows['balance_changes']!.filter(
      (row) => row['transaction_index'] === tx.index && row['mint'] === null,
    );
    const sum = native.reduce(
      (total, row) => total + (row['post_amount'] as bigint) - (row['pre_amount'] as bigint),
      0n,
    );
    const before = tx.preBalances.reduce<bigint>((total, one) => total + BigInt(one), 0n);
    const after = tx.postBalances.reduce<bigint>((total, one) => total + BigInt(one), 0n);
    assert.equal(sum, after - before, tx.signature);
  }
  assert.ok(rows['transfers']!.every((row) => block.transactions[row['transaction_index'] as number]!.error === null));
});

test('a recorded block: a filter gives exactly the rows that its columns name', { skip: skipWithoutFixtures }, () => {
  const block = recorded();
  const all = rowsOf(block);
  const of = (table: string, holds: (row: Readonly<Record<string, unknown>>) => boolean) => all[table]!.filter(holds);
  const moved = all['transfers']!.find((row) => row['mint'] !== null && row['from_owner'] !== null)!;
  const { mint, from_owner: owner } = moved as { mint: string; from_owner: string };

  const byOwner = rowsOf(block, { owners: [owner] });
  const isOfOwner = (row: Readonly<Record<string, unknown>>) =>
    row['from_owner'] === owner || row['to_owner'] === owner;
  assert.deepEqual(byOwner['transfers'], of('transfers', isOfOwner));
  assert.deepEqual(
    byOwner['balance_changes'],
    of('balance_changes', (row) => (row['owner'] ?? row['account']) === owner),
  );
  const chosen = new Set(
    [...byOwner['transfers']!, ...byOwner['balance_changes']!].map((row) => row['transaction_index']),
  );
  assert.deepEqual(
    byOwner['transactions'],
    of('transactions', (row) => chosen.has(row['transaction_index'])),
  );
  assert.deepEqual(byOwner['blocks'], all['blocks']);

  const byMint = rowsOf(block, { mints: [mint], kinds: ['transfer'] });
  assert.deepEqual(
    byMint['transfers'],
    of('transfers', (row) => row['mint'] === mint && row['kind'] === 'transfer'),
  );
  const native = rowsOf(block, { mints: ['native'] });
  assert.deepEqual(
    native['transfers'],
    of('transfers', (row) => row['mint'] === null),
  );

  const byProgram = rowsOf(block, { programs: [SYSTEM_PROGRAM] });
  assert.deepEqual(
    byProgram['instructions'],
    of('instructions', (row) => row['program'] === SYSTEM_PROGRAM),
  );
  assert.deepEqual(
    byProgram['logs'],
    of('logs', (row) => row['program'] === SYSTEM_PROGRAM),
  );

  const byAddress = rowsOf(block, { addresses: [owner], failed: false });
  assert.deepEqual(
    byAddress['transactions'],
    of('transactions', (row) => {
      const tx = block.transactions[row['transaction_index'] as number]!;
      const owners = [...tx.tokenOwners].map((id) => block.keys.base58(id));
      return tx.error === null && ((row['account_keys'] as string[]).includes(owner) || owners.includes(owner));
    }),
  );
});

test('the largest amounts are exact, and no text or time is one that a target cannot hold', () => {
  const largest = 2n ** 64n - 1n;
  const balance = (owner: number, amount: bigint) => ({
    accountIndex: 1,
    mint: encode32(Buffer.alloc(32, 5)),
    owner: encode32(Buffer.alloc(32, owner)),
    uiTokenAmount: { amount: String(amount), decimals: 6 },
  });
  const meta = {
    preTokenBalances: [balance(6, largest)],
    postTokenBalances: [balance(7, largest - 1n)],
    logMessages: ['Program log: a\0b', 'Program log: \ud800'],
  };
  const entry = entryOf({ message: sampleMessage(), meta });
  const rows = rowsOf(decodeBlock(5, { ...blockOf([entry], 5), blockTime: 253_402_300_800 }));
  const token = rows['balance_changes']!.filter((row) => row['mint'] !== null);
  assert.deepEqual(
    token.map((row) => [row['owner'], row['pre_amount'], row['post_amount']]),
    [
      [encode32(Buffer.alloc(32, 6)), largest, 0n],
      [encode32(Buffer.alloc(32, 7)), 0n, largest - 1n],
    ],
  );
  assert.deepEqual(
    rows['logs']!.map((row) => row['message']),
    ['Program log: a\uFFFDb', 'Program log: \uFFFD'],
  );
  assert.equal(rows['blocks']![0]!['block_time'], null);
});

test('changes of assets: leaves of trees, Core, and mints of one unit, with who owns them then', () => {
  const key = (fill: number) => encode32(Buffer.alloc(32, fill));
  const [payer, asset, group, buyer, mint, account, from] = [1, 2, 3, 4, 5, 6, 7].map(key) as string[];
  const program = (name: string) => Buffer.from(decode32(name)!);
  const keys = [payer, asset, group, buyer, mint, account, from].map((one) => program(one!));
  const message = sampleMessage({
    keys: [...keys, program(CORE_PROGRAM), program(TOKEN_PROGRAM), program(METADATA_PROGRAM)],
    instructions: [
      { program: 7, accounts: Uint8Array.of(1, 2, 0, 0, 3), data: Buffer.of(14, 0) },
      // A collection has none above it.
      { program: 7, accounts: Uint8Array.of(2, 0, 0), data: Buffer.of(16) },
      { program: 8, accounts: Uint8Array.of(6, 5, 0), data: Buffer.of(3, 1, 0, 0, 0, 0, 0, 0, 0) },
      { program: 9, accounts: Uint8Array.of(5, 0, 4), data: Buffer.of(42) },
      // An instruction that nobody knows yet.
      { program: 7, accounts: Uint8Array.of(1, 7), data: Buffer.of(200) },
    ],
  });
  const balance = (accountIndex: number, owner: string, amount: string) => ({
    accountIndex,
    mint,
    owner,
    programId: TOKEN_PROGRAM,
    uiTokenAmount: { amount, decimals: 0 },
  });
  const meta = {
    preTokenBalances: [balance(5, buyer!, '0'), balance(6, payer!, '1')],
    postTokenBalances: [balance(5, buyer!, '1'), balance(6, payer!, '0')],
  };
  const block = decodeBlock(5, blockOf([entryOf({ message, meta })], 5));
  const changes = (filter: Partial<RowFilter> = {}) =>
    rowsOf(block, filter)['asset_changes']!.map((row) => [
      row['standard'],
      row['operation'],
      row['asset'],
      row['owner'],
      row['collection'],
      row['metadata'],
    ]);
  assert.deepEqual(changes(), [
    ['core', 'TransferV1', asset, buyer, group, null],
    ['core', 'UpdateCollectionV1', group, null, null, null],
    ['token', 'transfer', mint, buyer, null, null],
    ['metadata', 'Create', mint, null, null, account],
    ['core', '', asset, null, null, null],
  ]);
  assert.deepEqual(
    changes({ mints: [asset!] }).map((row) => row[1]),
    ['TransferV1', ''],
  );
  assert.deepEqual(
    changes({ owners: [buyer!] }).map((row) => row[1]),
    ['TransferV1', 'transfer'],
  );
  const failed = decodeBlock(5, blockOf([entryOf({ message, meta: { ...meta, err: 'AccountInUse' } })], 5));
  assert.deepEqual(rowsOf(failed)['asset_changes'], []);
});

test('changes of assets: a leaf that is written, and one that is emptied', () => {
  const tree = createModelTree(new Uint8Array(32).fill(9), 3);
  const { schema, data } = mintOf(tree.key, 0, 4, 'a');
  const minted = { call: 'append', tree: tree.key, told: tree.set(0, hashLeaf(schema)), schema, data } as const;
  const burnt = { call: 'replace', tree: tree.key, told: tree.set(0, new Uint8Array(32)) } as const;
  const block = decodeBlock(8, blockOf([treeTransaction(8, 1, [minted]), treeTransaction(8, 2, [burnt])], 8));
  assert.deepEqual(
    rowsOf(block)['asset_changes']!.map((row) =>
      ['standard', 'operation', 'asset', 'owner', 'tree', 'leaf_index', 'seq'].map((name) => row[name]),
    ),
    [
      ['bubblegum', 'MintV2', encode32(schema.id), encode32(schema.owner), encode32(tree.key), 0, 1n],
      ['bubblegum', '', encode32(schema.id), null, encode32(tree.key), 0, 2n],
    ],
  );
});
