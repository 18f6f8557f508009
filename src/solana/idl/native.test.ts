import assert from 'node:assert/strict';
import { test } from 'node:test';
import { listFixtures, readJsonFixture, skipWithoutFixtures } from '../../../test/helpers/fixtures.ts';
import { decodeBlock } from '../decode/decode-block.ts';
import { parseInstruction } from '../json-parsed/instruction.ts';
import { createWords } from '../parsers/parser.ts';
import { MEMO_PROGRAMS } from '../programs.ts';
import { nativeInterfaces } from './native.ts';
import { type ParsedInstruction, parseTransaction } from './parse-transaction.ts';

const TOKEN = 'TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA';

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
  const transfer = Buffer.from('0200000040420f0000000000', 'hex');
  assert.deepEqual(system.decode(transfer, [account, account], ''), {
    name: 'transfer',
    args: { amount: '1000000' },
    accounts: [
      { ...account, name: 'source' },
      { ...account, name: 'destination' },
    ],
  });
  assert.equal(system.decode(transfer.subarray(0, 11), [], ''), null);
  assert.deepEqual(token.decode(Buffer.from([12, 255, 255, 255, 255, 255, 255, 255, 255, 6]), [], ''), {
    name: 'transfer_checked',
    args: { amount: '18446744073709551615', decimals: 6 },
    accounts: [],
  });
  assert.equal(token.errorOf(1)?.name, 'insufficient_funds');
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
