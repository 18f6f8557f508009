import assert from 'node:assert/strict';
import { test } from 'node:test';
import { addressFor } from '../../../test/helpers/built-transaction.ts';
import { listFixtures, readJsonFixture, skipWithoutFixtures } from '../../../test/helpers/fixtures.ts';
import { encode } from '../../lib/base58.ts';
import { decodeBlock } from '../decode/decode-block.ts';
import { parseInstruction } from '../json-parsed/instruction.ts';
import { createWords } from '../parsers/parser.ts';
import {
  ACCOUNT_COMPRESSION_PROGRAM,
  ED25519_PROGRAM,
  MEMO_PROGRAMS,
  STAKE_PROGRAM,
  SYSTEM_PROGRAM,
  TOKEN_2022_PROGRAM,
  TOKEN_PROGRAM,
  VOTE_PROGRAM,
} from '../programs.ts';
import { nativeInterfaces } from './native.ts';
import { type ParsedInstruction, parseTransaction } from './parse-transaction.ts';

const TOKEN = 'TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA';
const TRANSFER = Buffer.from('0200000040420f0000000000', 'hex');

test('every native program decodes its instructions', () => {
  const known = nativeInterfaces();
  assert.ok(known.size >= 15);
  const account = { pubkey: TOKEN, isSigner: false, isWritable: true };
  for (const [address, program] of known) {
    // Zeros are long enough for every type: each tag that is found compiles and reads its types.
    for (let tag = 0; tag < 256; tag++) {
      for (let second = 0; second < 3; second++) {
        const data = Buffer.alloc(400);
        data[0] = tag;
        if (address.startsWith('Tokenz')) data[1] = second;
        const found = program.decode(data, [account], address);
        if (found === null) continue;
        assert.ok(program.hasInstruction(found.name));
        assert.equal(found.accounts.length, 1);
      }
    }
  }
  const [system, token] = [known.get('11111111111111111111111111111111')!, known.get(TOKEN)!];
  assert.deepEqual(system.decode(TRANSFER, [account, account], ''), {
    name: 'transfer',
    args: { amount: '1000000' },
    accounts: [
      { ...account, name: 'source' },
      { ...account, name: 'destination' },
    ],
  });
  assert.equal(system.decode(TRANSFER.subarray(0, 11), [], ''), null);
  assert.deepEqual(token.decode(Buffer.from([12, 255, 255, 255, 255, 255, 255, 255, 255, 6]), [], ''), {
    name: 'transfer_checked',
    args: { amount: '18446744073709551615', decimals: 6 },
    accounts: [],
  });
  assert.equal(token.errorOf(1)?.name, 'insufficient_funds');
});

test('errors of native programs have a name and what it means', () => {
  const known = nativeInterfaces();
  const words = (address: string, code: number) => {
    const error = known.get(address)?.errorOf(code) ?? null;
    return error === null ? null : `${error.name}: ${error.msg}`;
  };
  assert.equal(words(SYSTEM_PROGRAM, 0), 'account_already_in_use: an account with this address already exists');
  assert.equal(
    words(SYSTEM_PROGRAM, 1),
    'result_with_negative_lamports: insufficient lamports: the account has less SOL than that',
  );
  assert.equal(words(SYSTEM_PROGRAM, 8), 'nonce_unexpected_blockhash_value: the account stores another nonce');
  assert.equal(words(SYSTEM_PROGRAM, 9), null);
  assert.equal(words(TOKEN_PROGRAM, 17), 'account_frozen: the account is frozen');
  assert.equal(words(TOKEN_PROGRAM, 20), null);
  assert.match(words(TOKEN_2022_PROGRAM, 17)!, /^account_frozen: /);
  // Numbers that the sources of the program and its clients name.
  for (const [code, name] of [
    [20, 'extension_type_mismatch'],
    [30, 'transfer_fee_exceeds_maximum'],
    [38, 'non_transferable_needs_immutable_ownership'],
    [44, 'cpi_guard_close_account_blocked'],
    [51, 'invalid_extension_combination'],
    [56, 'harvest_to_mint_disabled'],
    [65, 'illegal_mint_burn_conversion'],
    [67, 'mint_paused'],
  ] as const)
    assert.equal(known.get(TOKEN_2022_PROGRAM)?.errorOf(code)?.name, name);
  assert.match(words(STAKE_PROGRAM, 16)!, /^epoch_rewards_active: /);
  assert.match(words(VOTE_PROGRAM, 18)!, /^active_vote_account_close: /);
  assert.match(words(ED25519_PROGRAM, 2)!, /^invalid_signature: /);
  assert.match(words(ACCOUNT_COMPRESSION_PROGRAM, 6_001)!, /^concurrent_merkle_tree_error: /);
  for (const [address, program] of known) {
    for (let code = 0; code < 6_100; code++) {
      const error = program.errorOf(code);
      if (error === null) continue;
      assert.match(error.name, /^[a-z0-9_]+$/, address);
      assert.match(error.msg ?? '', /^\w+ .*\w$/, `${address} ${error.name}`);
    }
  }
});

test('a transaction whose system program fails says why, alone and within another program', () => {
  const known = nativeInterfaces();
  const parts = { find: (program: string) => known.get(program) ?? null, words: createWords(null) };
  const failing = (programId: string, logMessages: readonly string[] | null, inner: readonly object[] = []) => {
    const accountKeys = [...new Set([addressFor('payer'), addressFor('receiver'), programId, SYSTEM_PROGRAM])];
    const block = decodeBlock(10, {
      blockhash: addressFor('hash'),
      previousBlockhash: addressFor('parent'),
      parentSlot: 9,
      blockHeight: 10,
      blockTime: 1_700_000_000,
      transactions: [
        {
          transaction: {
            signatures: [encode(Buffer.alloc(64, 7))],
            message: {
              accountKeys,
              header: {
                numRequiredSignatures: 1,
                numReadonlySignedAccounts: 0,
                numReadonlyUnsignedAccounts: accountKeys.length - 2,
              },
              instructions: [{ programIdIndex: 2, accounts: [0, 1], data: encode(TRANSFER) }],
              recentBlockhash: addressFor('recent'),
            },
          },
          meta: {
            err: { InstructionError: [0, { Custom: 1 }] },
            fee: 5_000,
            preBalances: [10_000, 0, 1, 1].slice(0, accountKeys.length),
            postBalances: [5_000, 0, 1, 1].slice(0, accountKeys.length),
            innerInstructions: [{ index: 0, instructions: inner }],
            logMessages,
            preTokenBalances: [],
            postTokenBalances: [],
            loadedAddresses: { writable: [], readonly: [] },
            computeUnitsConsumed: 150,
          },
        },
      ],
    });
    return parseTransaction(block.transactions[0]!, block, parts).decodedError;
  };
  const expected = {
    instructionIndex: 0,
    programId: SYSTEM_PROGRAM,
    programName: 'system',
    code: 1,
    name: 'result_with_negative_lamports',
    msg: 'insufficient lamports: the account has less SOL than that',
  };
  assert.deepEqual(failing(SYSTEM_PROGRAM, null), expected);
  const caller = addressFor('a program without an interface');
  const inner = [{ programIdIndex: 3, accounts: [0, 1], data: encode(TRANSFER), stackHeight: 2 }];
  const logs = [
    `Program ${caller} invoke [1]`,
    `Program ${SYSTEM_PROGRAM} invoke [2]`,
    'Transfer: insufficient lamports 5000, need 1000000',
    `Program ${SYSTEM_PROGRAM} failed: custom program error: 0x1`,
    `Program ${caller} failed: custom program error: 0x1`,
  ];
  assert.deepEqual(failing(caller, logs, inner), expected);
});

test('a memo to any memo program is decoded', () => {
  for (const address of MEMO_PROGRAMS) {
    const found = nativeInterfaces().get(address)?.decode(Buffer.from('hi'), [], address);
    assert.deepEqual([found?.name, found?.args], ['add_memo', { memo: 'hi' }], address);
  }
});

/** Where nodes say another word than the interfaces of the programs. */
const words = (name: string) => name.replaceAll(/[_-]/g, '').toLowerCase();

test('recorded instructions of native programs are what nodes call them', { skip: skipWithoutFixtures }, () => {
  const known = nativeInterfaces();
  const seen = new Map<string, number>();
  for (const file of listFixtures('chain/blocks').filter((name) => /(mainnet|devnet)-\d+(-\w+)?\.json$/.test(name))) {
    const answer = readJsonFixture<{ result?: { parentSlot: number } } & { parentSlot: number }>(file);
    const result = answer.result ?? answer;
    const block = decodeBlock(result.parentSlot + 1, result);
    for (const tx of block.transactions) {
      const keys = Array.from(tx.keys, (id) => block.keys.base58(id));
      const parts = { find: (program: string) => known.get(program) ?? null, words: createWords(null) };
      for (const one of parseTransaction(tx, block, parts).instructions) {
        if (!known.has(one.programId)) continue;
        const { parsed } = parseInstruction(instructionOf(one, keys), keys, null) as { parsed?: { type?: string } };
        // What a node parses is decoded, under a name of which the node's is the beginning or the other way round.
        if (parsed?.type === undefined) continue;
        assert.notEqual(one.decoded, null, `${file} ${one.programId} ${parsed.type}`);
        const [ours, theirs] = [words(one.instructionName!), words(parsed.type)];
        assert.ok(
          ours.startsWith(theirs) || theirs.startsWith(ours) || OTHER_WORDS.has(`${theirs} ${ours}`),
          `${theirs} ${ours}`,
        );
        seen.set(one.programId, (seen.get(one.programId) ?? 0) + 1);
      }
    }
  }
  assert.ok((seen.get(TOKEN) ?? 0) > 100 && seen.size >= 4, JSON.stringify([...seen]));
});

const OTHER_WORDS = new Set([
  'createidempotent createassociatedtokenidempotent',
  'create createassociatedtoken',
  'recovernested recovernestedassociatedtoken',
  'advancenonce advancenonceaccount',
  'withdrawfromnonce withdrawnonceaccount',
  'updatevotestate updatevotestate',
  'compactupdatevotestate compactupdatevotestate',
]);

function instructionOf(one: ParsedInstruction, keys: readonly string[]) {
  return {
    programIdIndex: keys.indexOf(one.programId),
    accounts: one.rawAccounts.map((key) => keys.indexOf(key)),
    data: one.rawData,
  };
}
