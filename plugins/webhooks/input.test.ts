import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { encode32 } from '../../src/lib/base58.ts';
import { transactionTypes } from '../../src/solana/transaction-types.ts';
import { createInputRules, parseInput } from './input.ts';

const RAW: ReadonlySet<'raw'> = new Set(['raw']);
const rules = createInputRules(() => null, true, RAW);
const refusal = (body: unknown, own = rules): string => {
  try {
    parseInput(body, own);
  } catch (error) {
    assert.equal((error as { status?: number }).status, 400);
    return (error as Error).message;
  }
  return '';
};
const KEY = encode32(Buffer.alloc(32, 7));

test('the list of types is the published one', () => {
  const names = transactionTypes();
  assert.equal(names.length, 576);
  assert.equal(new Set(names).size, 576);
  assert.equal(names[0], 'ANY');
  for (const name of ['UNKNOWN', 'UNLABELED', 'SWAP', 'COMPRESSED_NFT_MINT', 'addCollateralType']) {
    assert.ok(names.includes(name), name);
  }
});

test('types are accepted in any case and stored in the canonical spelling, without duplicates', () => {
  const { transactionTypes: types } = parseInput(
    { transactionTypes: ['Any', 'swap', 'SWAP', 'ADDCOLLATERALTYPE'] },
    rules,
  );
  assert.deepEqual(types, ['ANY', 'SWAP', 'addCollateralType']);
  assert.equal(refusal({ transactionTypes: ['NOPE'] }), 'invalid transaction type: NOPE');
  assert.equal(
    refusal({ transactionTypes: ['ANY', 'a', 'b', 'c', 'd', 'e', 'f'] }),
    'invalid transaction type: a, b, c, d, e',
  );
  for (const value of ['ANY', { 0: 'ANY' }, [1], null]) {
    assert.match(refusal({ transactionTypes: value }), /^transactionTypes must be/);
  }
});

test('addresses: without duplicates, in order of first appearance, the first invalid one named', () => {
  const other = encode32(Buffer.alloc(32, 9));
  assert.equal(parseInput({ accountAddresses: [KEY, other, KEY] }, rules).addresses?.length, 2);
  assert.equal(
    refusal({ accountAddresses: [KEY, 'nope', 'nope2'] }),
    "accountAddresses[1]: 'nope' is not a valid Solana address",
  );
  for (const bad of [
    '',
    `${KEY}1`,
    KEY.slice(1),
    'O'.repeat(44),
    '1'.repeat(31),
    '1'.repeat(33),
    'z'.repeat(44),
    7,
    null,
  ]) {
    assert.match(refusal({ accountAddresses: [bad] }), /^accountAddresses\[0\]: '.*' is not a valid Solana address$/);
  }
  assert.match(refusal({ accountAddresses: KEY }), /must be an array/);
  assert.ok(refusal({ accountAddresses: ['x'.repeat(10_000)] }).length < 200);
});

test('authHeader: text allowed in a header', () => {
  for (const value of ['', null]) assert.equal(parseInput({ authHeader: value }, rules).authHeader, null);
  for (const value of ['Bearer x', 'é¡ÿ', 'a'.repeat(4_096)]) {
    assert.equal(parseInput({ authHeader: value }, rules).authHeader, value);
  }
  for (const value of ['a\r\nX-Evil: 1', 'a\nb', 'a\0', '\u0100', 'tab\t', { key: 'value' }, 7, ['x'], true]) {
    assert.equal(refusal({ authHeader: value }), 'authHeader must be a string');
  }
  assert.notEqual(refusal({ authHeader: 'a'.repeat(4_097) }), '');
  assert.notEqual(refusal({ authHeader: ' x' }), '');
});

test('types that cannot fire and unknown types are refused', () => {
  assert.equal(parseInput({ webhookType: 'raw' }, rules).type, 'raw');
  assert.equal(parseInput({ webhookType: 'rawDevnet' }, rules).type, 'rawDevnet');
  assert.match(refusal({ webhookType: 'enhanced' }), /^webhookType: enhanced webhooks are not available$/);
  assert.match(refusal({ webhookType: 'discordDevnet' }), /^webhookType: discord webhooks are not available$/);
  assert.match(refusal({ webhookType: 'account' }), /^webhookType: must be one of enhanced, raw, /);
  const mainOnly = createInputRules(() => null, false, RAW);
  assert.equal(refusal({ webhookType: 'rawDevnet' }, mainOnly), 'webhookType: no devnet upstream is configured');
});

test('the other fields', () => {
  assert.equal(refusal({ txnStatus: 'x' }), 'txnStatus: must be one of all, success, failed');
  assert.equal(refusal({ encoding: 'base64' }), 'encoding: must be one of jsonParsed, json');
  assert.equal(refusal({ active: 'true' }), 'active must be a boolean');
  assert.equal(refusal({ webhookURL: 7 }), 'webhookURL must be a string');
  assert.equal(refusal({ webhookURL: `https://x/${'a'.repeat(2_048)}` }), 'webhookURL: at most 2048 characters');
  assert.equal(refusal({ webhookURL: 'https://x/#a' }), 'webhookURL: a fragment is not allowed');
  for (const size of [0, 101, 1.5, '2']) {
    assert.equal(refusal({ batchSize: size }), 'batchSize must be an integer from 1 to 100');
  }
  assert.equal(refusal({ ordered: 'yes' }), 'ordered must be a boolean');
  assert.equal(refusal({ onInactive: 'keep' }), 'onInactive: must be one of drop, hold');
  const given = parseInput({ batchSize: 100, ordered: true, onInactive: 'hold' }, rules);
  assert.deepEqual(given, { batchSize: 100, ordered: true, onInactive: 'hold' });
  for (const body of [null, [], 'x', 7, undefined]) assert.match(refusal(body), /must be a JSON object/);
});

test('any input is accepted or refused with 400', () => {
  const names = [
    'webhookURL',
    'webhookType',
    'transactionTypes',
    'accountAddresses',
    'authHeader',
    'txnStatus',
    'active',
  ];
  fc.assert(
    fc.property(fc.dictionary(fc.constantFrom(...names), fc.jsonValue()), (body) => {
      refusal(
        body,
        createInputRules((url) => (URL.canParse(url) ? null : 'no URL'), false, RAW),
      );
    }),
  );
});
