import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decode32, encode, encode32, encode64 } from '../../../src/lib/base58.ts';
import { createMethodBed } from '../../helpers/compression-methods.ts';
import {
  createCompressionTables,
  insertRows,
  keyOf,
  setHead,
  signatureOf,
  treeRow,
} from '../../helpers/compression-rows.ts';
import { sqliteStore } from '../../helpers/store.ts';

const KEY = encode32(keyOf(10));
const many = new Array<string>(1_001).fill(KEY);
const cursorOf = (bytes: number) => encode(Buffer.alloc(bytes, 1));
const filter = (offset: number, bytes: string) => ({ memcmp: { offset, bytes } });

/** Every method that is not named here refuses what it does not know, in the same words. */
const REFUSALS: readonly (readonly [names: readonly string[], params: unknown, details: string])[] = [
  [
    ['getCompressedAccount', 'getCompressedAccountV2', 'getCompressedBalance', 'getCompressedAccountBalance'],
    {},
    'Either address or hash must be provided',
  ],
  [['getCompressedTokenAccountBalance'], { hash: null }, 'Either address or hash must be provided'],
  [
    ['getMultipleCompressedAccounts', 'getMultipleCompressedAccountsV2'],
    {},
    'Either hashes or addresses must be provided',
  ],
  [
    ['getMultipleCompressedAccounts', 'getMultipleCompressedAccountsV2'],
    { hashes: [KEY], addresses: [KEY] },
    'Cannot provide both hashes and addresses',
  ],
  [['getMultipleCompressedAccounts'], { hashes: [] }, 'No hashes provided'],
  [['getMultipleCompressedAccounts'], { addresses: [] }, 'No addresses provided'],
  [
    ['getMultipleCompressedAccounts', 'getMultipleCompressedAccountsV2'],
    { hashes: many },
    'Too many hashes requested 1001. Maximum allowed: 1000',
  ],
  [
    ['getMultipleCompressedAccounts', 'getMultipleCompressedAccountsV2'],
    { addresses: many },
    'Too many addresses requested 1001. Maximum allowed: 1000',
  ],
  [
    ['getCompressedAccountsByOwner', 'getCompressedAccountsByOwnerV2'],
    { owner: KEY, cursor: cursorOf(31) },
    'Invalid cursor length. Expected 32. Received 31.',
  ],
  [
    ['getCompressedTokenAccountsByOwner', 'getCompressedTokenAccountsByOwnerV2'],
    { owner: KEY, cursor: cursorOf(32) },
    'Invalid cursor length. Expected 64. Received 32.',
  ],
  [
    ['getCompressedTokenAccountsByDelegate', 'getCompressedTokenAccountsByDelegateV2'],
    { delegate: KEY, cursor: cursorOf(32) },
    'Invalid cursor length. Expected 64. Received 32.',
  ],
  [
    ['getCompressedTokenBalancesByOwner', 'getCompressedTokenBalancesByOwnerV2'],
    { owner: KEY, cursor: cursorOf(64) },
    'Invalid cursor length. Expected 32. Received 64.',
  ],
  [
    ['getCompressedMintTokenHolders'],
    { mint: KEY, cursor: cursorOf(41) },
    'Invalid cursor length. Expected 40. Received 41.',
  ],
  [
    ['getCompressionSignaturesForOwner', 'getCompressionSignaturesForTokenOwner'],
    { owner: KEY, cursor: cursorOf(64) },
    'Invalid cursor length. Expected 72. Received 64.',
  ],
  [
    ['getLatestCompressionSignatures', 'getLatestNonVotingSignatures'],
    { cursor: cursorOf(8) },
    'Invalid cursor length. Expected 72. Received 8.',
  ],
  [['getLatestCompressionSignatures'], { cursor: encode(Buffer.alloc(72, 255)) }, 'Invalid cursor'],
  [['getLatestCompressionSignatures'], { limit: 1_001 }, 'limit must be between 1 and 1000'],
  [
    ['getCompressedAccountsByOwner', 'getCompressedAccountsByOwnerV2'],
    { owner: KEY, filters: new Array(6).fill(filter(0, KEY)) },
    'Too many filters. The maximum number of filters allowed is 5',
  ],
  [['getCompressedAccountsByOwner'], { owner: KEY, filters: [null] }, 'Filter instance cannot be null'],
  [
    ['getCompressedAccountsByOwner'],
    { owner: KEY, filters: [filter(0, '0')] },
    "field 'filters[0].memcmp.bytes' must be a base58 string of at most 128 bytes",
  ],
  [
    ['getCompressedAccountsByOwner'],
    { owner: KEY, filters: [filter(0, encode(Buffer.alloc(129, 1)))] },
    "field 'filters[0].memcmp.bytes' must be a base58 string of at most 128 bytes",
  ],
  [['getCompressedAccountsByOwner'], { owner: KEY, filters: [{}] }, "field 'filters[0].memcmp' is required"],
  [
    ['getCompressedAccountsByOwner'],
    { owner: KEY, dataSlice: { offset: -1, length: 1 } },
    "field 'dataSlice.offset' must be an integer between 0 and 2147483646",
  ],
  [['getTransactionWithCompressionInfo'], { signature: KEY }, "field 'signature' must be a base58 string of 64 bytes"],
];

test('every refusal in its exact words', async (t) => {
  const store = await sqliteStore(t);
  await createCompressionTables(store);
  await setHead(store, 5);
  const bed = createMethodBed(store);
  for (const [names, params, details] of REFUSALS)
    for (const name of names) assert.equal(await bed.refusal(name, params), `-32602 ${details}`, name);
  const tolerant = new Set(['getCompressedBalanceByOwner', 'getCompressionSignaturesForAccount']);
  for (const name of bed.names) {
    const refusal = await bed.refusal(name, { surplus: 1 });
    if (tolerant.has(name)) assert.match(refusal, /^-32602 field '\w+' is required$/, name);
    else assert.equal(refusal, "-32602 unknown field 'surplus'", name);
  }
});

test('without an upstream there are no transactions', async (t) => {
  const store = await sqliteStore(t);
  await createCompressionTables(store);
  const bed = createMethodBed(store);
  const refusal = await bed.refusal('getTransactionWithCompressionInfo', { signature: encode64(signatureOf(1)) });
  assert.equal(refusal, '-32002 no Solana upstream is configured');
});

test('a well-known tree that cannot be proved is bad health, a foreign one is not', async (t) => {
  const store = await sqliteStore(t);
  await createCompressionTables(store);
  await setHead(store, 5);
  const bed = createMethodBed(store);
  await insertRows(store, { compression_trees: [treeRow(1, { status: 'diverged' })] });
  assert.equal(await bed.text('getIndexerHealth'), '"ok"');
  assert.equal(await bed.text('getIndexerSlot', []), '5');
  const smt1 = decode32('smt1NamzXdq4AMqS2fS2F1i5KTYPZRhoHgWx38d8WsT')!;
  await insertRows(store, { compression_trees: [treeRow(2, { key: smt1, status: 'gap' })] });
  assert.equal(
    await bed.refusal('getIndexerHealth'),
    '-32002 Merkle tree smt1NamzXdq4AMqS2fS2F1i5KTYPZRhoHgWx38d8WsT is in the state gap',
  );
});
