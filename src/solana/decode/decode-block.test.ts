import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { blockOf, entryOf, sampleMessage } from '../../../test/helpers/rpc-block.ts';
import { encode32 } from '../../lib/base58.ts';
import { decodeBlock, decodeTransaction } from './decode-block.ts';
import { createKeyTable } from './key-table.ts';
import { decodeHeader, decodeResponse } from './response.ts';
import { scanBlockAnswer } from './scan-block.ts';

const good = entryOf({ message: sampleMessage() });
const address = (byte: number): string => encode32(new Uint8Array(32).fill(byte));

test('a block without transactions, time and height is valid', () => {
  const block = decodeBlock(100, { ...blockOf([]), blockTime: null, blockHeight: null, rewards: [], news: 1 });
  assert.deepEqual(
    [block.transactions.length, block.keys.size, block.blockTime, block.blockHeight],
    [0, 0, null, null],
  );
  assert.equal(decodeBlock(0, { ...blockOf([]), parentSlot: 0 }).parentSlot, 0);
});

test('unknown reward types, blocks without votes and transactions without fee and logs are valid', () => {
  const reward = { pubkey: address(1), lamports: -7, postBalance: 1, commission: null };
  const rewards = [
    { ...reward, rewardType: 'VATDebit', commissionBps: 512 },
    { ...reward, rewardType: null },
  ];
  // A fee payer that cannot pay: nothing is run or charged.
  const meta = { err: 'InsufficientFundsForFee', fee: 0, logMessages: null, innerInstructions: null, rewards };
  const noOp = (byte: number) =>
    entryOf({
      message: sampleMessage(),
      meta: { ...meta, postTokenBalances: null },
      signatures: [new Uint8Array(64).fill(byte)],
    });
  const result = { ...blockOf([noOp(1), noOp(2)]), rewards, numRewardPartitions: 3 };
  const body = Buffer.from(JSON.stringify({ jsonrpc: '2.0', result, id: 1 }));
  for (const given of [result, scanBlockAnswer(body)!]) {
    const [one, two] = decodeBlock(100, given).transactions;
    assert.deepEqual([one!.fee, one!.logMessages, one!.innerInstructions, one!.isVote], [0, null, [], false]);
    assert.equal(one!.error, 'InsufficientFundsForFee');
    assert.deepEqual(two!.meta?.['rewards'], rewards);
  }
});

test('inconsistent blocks are refused', () => {
  const bad: [string, unknown][] = [
    ['nothing', null],
    ['text', 'block'],
    ['no blockhash', { ...blockOf([]), blockhash: undefined }],
    ['blockhash is no hash', { ...blockOf([]), blockhash: 'abc' }],
    ['no previousBlockhash', { ...blockOf([]), previousBlockhash: null }],
    ['parent is the slot', { ...blockOf([]), parentSlot: 100 }],
    ['parent above the slot', { ...blockOf([]), parentSlot: 101 }],
    ['no parent', { ...blockOf([]), parentSlot: undefined }],
    ['parent is text', { ...blockOf([]), parentSlot: '99' }],
    ['no transactions', { ...blockOf([]), transactions: undefined }],
    ['transactions is no list', { ...blockOf([]), transactions: {} }],
  ];
  for (const [name, block] of bad) assert.throws(() => decodeBlock(100, block), { code: 'CHAIN_BAD_BLOCK' }, name);
  assert.equal(decodeHeader(100, { ...blockOf([]), transactions: undefined }).slot, 100);
});

test('a duplicate signature makes the block bad, parsed and scanned', () => {
  const withSignature = (byte: number) =>
    entryOf({ message: sampleMessage(), signatures: [new Uint8Array(64).fill(byte)] });
  const block = blockOf([withSignature(1), withSignature(2), withSignature(1)]);
  const scanned = scanBlockAnswer(Buffer.from(JSON.stringify({ jsonrpc: '2.0', result: block, id: 1 })));
  assert.ok(scanned !== null);
  for (const answer of [block, scanned]) assert.throws(() => decodeBlock(100, answer), { code: 'CHAIN_BAD_BLOCK' });
  assert.equal(decodeBlock(100, blockOf([withSignature(1), withSignature(2)])).transactions.length, 2);
});

test('unusable members of a meta count as absent, and are named', () => {
  const uiTokenAmount = { amount: '1', decimals: 0 };
  const inner = { programIdIndex: 0, accounts: [0], data: '2' };
  const metas: [string, Record<string, unknown>][] = [
    ['err missing', { err: undefined }],
    ['fee missing', { fee: undefined }],
    ['balances missing', { preBalances: null }],
    ['balances too short', { postBalances: [1, 2] }],
    ['token balances no list', { preTokenBalances: {} }],
    ['token balance null', { preTokenBalances: [null] }],
    ['token balance without amount', { preTokenBalances: [{ accountIndex: 0, mint: address(1) }] }],
    ['token balance index', { preTokenBalances: [{ accountIndex: 3, mint: address(1), uiTokenAmount }] }],
    ['token balance mint', { postTokenBalances: [{ accountIndex: 0, mint: 'x', uiTokenAmount }] }],
    ['token balance owner', { postTokenBalances: [{ accountIndex: 0, mint: address(1), owner: 'y', uiTokenAmount }] }],
    ['inner no list', { innerInstructions: 5 }],
    ['inner group of no instruction', { innerInstructions: [{ index: 1, instructions: [inner] }] }],
    ['inner group', { innerInstructions: [null] }],
    ['inner instruction', { innerInstructions: [{ index: 0, instructions: [null] }] }],
    ['inner index', { innerInstructions: [{ index: 0, instructions: [{ ...inner, programIdIndex: 3 }] }] }],
    ['inner account', { innerInstructions: [{ index: 0, instructions: [{ ...inner, accounts: [0, -1] }] }] }],
    ['inner account fraction', { innerInstructions: [{ index: 0, instructions: [{ ...inner, accounts: [0.5] }] }] }],
    ['logs', { logMessages: 'no' }],
    ['loaded without lookups', { loadedAddresses: { writable: [address(1)], readonly: [] } }],
  ];
  for (const [name, meta] of metas) {
    const other = entryOf({ message: sampleMessage(), signatures: [new Uint8Array(64).fill(8)], meta });
    const [plain, tx] = decodeBlock(100, blockOf([good, other])).transactions;
    assert.equal(plain!.fault, null);
    assert.equal(tx!.fault?.kind, 'meta', name);
    assert.deepEqual(tx!.innerInstructions, []);
  }
  const without = decodeBlock(100, blockOf([{ ...good, meta: null }])).transactions[0]!;
  assert.deepEqual([without.fault?.reason, without.meta, without.isOpaque], ['meta is missing', null, false]);
  assert.equal(decodeBlock(100, blockOf([null])).transactions[0]!.isOpaque, true);
});

test('inner instructions whose data is not base58 count as absent', () => {
  const meta = { innerInstructions: [{ index: 0, instructions: [{ programIdIndex: 0, accounts: [], data: '0' }] }] };
  const block = decodeBlock(100, blockOf([entryOf({ message: sampleMessage(), meta })]));
  assert.deepEqual(block.transactions[0]!.innerInstructions, []);
  assert.equal(block.transactions[0]!.fault?.kind, 'meta');
});

test('transactions in an unknown encoding are opaque', () => {
  const wires: unknown[] = [
    undefined,
    null,
    'text',
    7,
    [],
    ['AQ==', 'base64+zstd'],
    [7, 'base64'],
    ['*', 'base64'],
    ['', 'base64'],
    ['0', 'base58'],
    { signatures: [] },
    { signatures: ['1'], message: {} },
    { signatures: [5], message: {} },
    { message: {} },
  ];
  for (const transaction of wires) {
    const [tx] = decodeBlock(100, blockOf([{ ...good, transaction }])).transactions;
    assert.deepEqual([tx!.isOpaque, tx!.fault?.kind], [true, 'message'], JSON.stringify(transaction));
  }
});

test('a transaction in base64 with an invalid or a missing character is opaque', () => {
  const [text] = (good as { transaction: [string, string] }).transaction;
  for (const damaged of [`${text.slice(0, 40)}!${text.slice(41)}`, text.slice(0, -4), ` ${text}`]) {
    const entry = { ...good, transaction: [damaged, 'base64'] };
    assert.equal(decodeBlock(100, blockOf([entry])).transactions[0]!.isOpaque, true);
  }
});

test('owners are distinct and come from both sides', () => {
  const balance = (owner?: string) => ({
    accountIndex: 0,
    mint: address(20),
    ...(owner === undefined ? {} : { owner }),
    uiTokenAmount: { amount: '7', decimals: 2 },
  });
  const meta = {
    preTokenBalances: [balance(address(10)), balance(address(11)), balance(), balance('')],
    postTokenBalances: [balance(address(11)), balance(address(12)), balance(address(1))],
  };
  const block = decodeBlock(100, blockOf([entryOf({ message: sampleMessage(), meta })]));
  const tx = block.transactions[0]!;
  const owners = [10, 11, 12, 1].map(address);
  assert.deepEqual(
    Array.from(tx.tokenOwners, (id) => block.keys.base58(id)),
    owners,
  );
  assert.equal(tx.tokenOwners[3], tx.keys[0], 'a key has one id, whatever it occurs as');
  assert.deepEqual(
    { ...tx.preTokenBalances[2], mintKey: 0 },
    { accountIndex: 0, mintKey: 0, ownerKey: -1, programKey: -1, amount: '7', decimals: 2 },
  );
});

test('getTransaction without a slot is refused', () => {
  for (const answer of [null, undefined, {}, { ...good }, { ...good, slot: '5' }])
    assert.throws(() => decodeTransaction(answer), { code: 'CHAIN_BAD_BLOCK' });
  assert.equal(decodeTransaction({ ...good, slot: 5 }).transactions[0]!.index, 0);
});

test('answers that are not ASCII are read as UTF-8, and no message quotes invalid JSON', () => {
  fc.assert(
    fc.property(fc.anything({ values: [fc.string({ unit: 'grapheme' }), fc.integer()] }), (value) => {
      const text = JSON.stringify({ value });
      assert.deepEqual(decodeResponse(Buffer.from(text)), JSON.parse(text));
    }),
  );
  assert.throws(
    () => decodeResponse(Buffer.from('<html>secret')),
    (error: Error & { code: string }) => {
      return error.code === 'CHAIN_BAD_RESPONSE' && !error.message.includes('secret');
    },
  );
});

test('the key table assigns ids in order of appearance, for bytes and text alike', () => {
  const key = fc.oneof(
    fc.uint8Array({ minLength: 32, maxLength: 32 }),
    fc.nat(30).map((byte) => new Uint8Array(32).fill(byte)),
  );
  fc.assert(
    fc.property(fc.array(fc.tuple(key, fc.boolean()), { maxLength: 300, size: 'max' }), (steps) => {
      const table = createKeyTable(Uint32Array.of(1, 2, 3, 4), 1);
      const model = new Map<string, number>();
      for (const [bytes, asText] of steps) {
        const text = encode32(bytes);
        assert.equal(table.find(bytes), model.get(text) ?? -1);
        if (!model.has(text)) model.set(text, model.size);
        const id = asText ? table.internText(text) : table.intern(new DataView(bytes.buffer, bytes.byteOffset), 0);
        assert.equal(id, model.get(text));
      }
      assert.equal(table.size, model.size);
      for (const [text, id] of model) assert.equal(table.base58(id), text);
      for (const id of [-1, model.size, Number.NaN, 0.5]) assert.throws(() => table.bytes(id), RangeError);
    }),
    { numRuns: 200 },
  );
});

test('20,000 deliberately colliding keys get distinct ids', () => {
  const table = createKeyTable(Uint32Array.of(1, 2, 3, 4), 16);
  const bytes = new Uint8Array(32);
  const view = new DataView(bytes.buffer);
  for (let pass = 0; pass < 2; pass++) {
    for (let number = 0; number < 20_000; number++) {
      // The words of the fast hash stay zero.
      view.setUint32(16, number, true);
      assert.equal(table.intern(view, 0), number);
    }
  }
  assert.equal(table.size, 20_000);
  assert.equal(table.find(bytes.fill(1)), -1);
});
