import assert from 'node:assert/strict';
import { test } from 'node:test';
import { VersionedTransaction } from '@solana/web3.js';
import { listFixtures, readFixture, readJsonFixture, skipWithoutFixtures } from '../../../test/helpers/fixtures.ts';
import { normalForm } from '../../../test/helpers/normal-form.ts';
import { encode, encode32, encode64 } from '../../lib/base58.ts';
import type { ChainBlock } from '../../ports/block.ts';
import { rawTransaction } from '../raw-transaction.ts';
import { decodeBlock, decodeTransaction } from './decode-block.ts';
import { decodeResponse } from './response.ts';
import { peekWire } from './walk-wire.ts';

const skip = skipWithoutFixtures;

interface RpcBlock {
  readonly parentSlot: number;
  readonly transactions: readonly { readonly transaction: readonly [string, string] }[];
}

function recordedBlock(name: string): RpcBlock {
  const answer = decodeResponse(readFixture(`chain/blocks/${name}.json`)) as { result?: RpcBlock } & RpcBlock;
  return answer.result ?? answer;
}

function decoded(name: string): ChainBlock {
  const block = recordedBlock(name);
  return decodeBlock(block.parentSlot + 1, block);
}

const BASE64_BLOCKS = ['mainnet-254170887-even', 'devnet-270893658', 'devnet-314167369', 'solders-getBlock-base64'];

test('one block recorded as json and as base64 has one normal form', { skip }, () => {
  const fromBytes = decoded('solders-getBlock-base64');
  const fromJson = decoded('solders-getBlock-json');
  assert.equal(fromBytes.transactions.length, 25);
  assert.deepEqual(
    { ...fromJson, transactions: 0, keys: 0, answer: 0 },
    { ...fromBytes, transactions: 0, keys: 0, answer: 0 },
  );
  assert.equal(fromJson.keys.size, fromBytes.keys.size);
  fromBytes.transactions.forEach((tx, index) => {
    const other = fromJson.transactions[index]!;
    assert.deepEqual(normalForm(other, fromJson), normalForm(tx, fromBytes));
    assert.deepEqual([...other.keys], [...tx.keys]);
    assert.equal(
      JSON.stringify(rawTransaction(other, fromJson)),
      JSON.stringify(rawTransaction(tx, fromBytes)),
      'and one raw element',
    );
  });
});

interface ParsedTransaction {
  readonly transaction: {
    readonly signatures: readonly string[];
    readonly message: {
      readonly accountKeys: readonly {
        readonly pubkey: string;
        readonly signer: boolean;
        readonly writable: boolean;
      }[];
      readonly recentBlockhash: string;
      readonly instructions: readonly {
        readonly programId: string;
        readonly accounts?: string[];
        readonly data?: string;
      }[];
    };
  };
}

test('the same block as jsonParsed agrees in all members that it contains', { skip }, () => {
  const block = decoded('solders-getBlock-base64');
  const parsed = recordedBlock('solders-getBlock-json_parsed') as unknown as { transactions: ParsedTransaction[] };
  let compared = 0;
  parsed.transactions.forEach(({ transaction: { signatures, message } }, index) => {
    const tx = block.transactions[index]!;
    const keys = [...tx.keys].map((id) => block.keys.base58(id));
    assert.deepEqual(
      tx.signatures.map((signature) => encode64(signature)),
      signatures,
    );
    assert.equal(encode32(tx.recentBlockhash), message.recentBlockhash);
    assert.deepEqual(
      keys,
      message.accountKeys.map(({ pubkey }) => pubkey),
    );
    const { numRequiredSignatures, numReadonlySignedAccounts, numReadonlyUnsignedAccounts } = tx.header;
    message.accountKeys.forEach(({ signer, writable }, at) => {
      assert.equal(at < numRequiredSignatures, signer);
      const isReadonly = signer
        ? at >= numRequiredSignatures - numReadonlySignedAccounts
        : at >= tx.staticKeyCount - numReadonlyUnsignedAccounts;
      // Nodes show programs and sysvars as readonly whatever the header says.
      if (writable) assert.equal(isReadonly, false);
    });
    message.instructions.forEach(({ programId, accounts, data }, at) => {
      const instruction = tx.instructions[at]!;
      assert.equal(keys[instruction.programIndex], programId);
      if (accounts === undefined || data === undefined) return;
      compared++;
      assert.deepEqual(
        Array.from(instruction.accounts, (account) => keys[account]),
        accounts,
      );
      assert.equal(encode(instruction.data), data);
    });
  });
  assert.ok(compared > 0);
});

test('transactions as jsonParsed are opaque, because instructions cannot be restored from it', { skip }, () => {
  const { transactions } = decoded('solders-getBlock-json_parsed');
  assert.ok(transactions.some(({ isOpaque }) => isOpaque));
  assert.ok(transactions.every(({ isOpaque, fault }) => isOpaque === (fault !== null)));
});

test('all recorded blocks agree with web3.js', { skip }, () => {
  for (const name of BASE64_BLOCKS) {
    const block = decoded(name);
    recordedBlock(name).transactions.forEach(({ transaction: [text] }, index) => {
      const wire = Buffer.from(text, 'base64');
      const { message, signatures } = VersionedTransaction.deserialize(wire);
      const tx = block.transactions[index]!;
      const peek = peekWire(wire);
      assert.deepEqual(
        tx.signatures.map((signature) => [...signature]),
        signatures.map((signature) => [...signature]),
      );
      assert.equal(tx.version, message.version);
      assert.deepEqual(tx.header, message.header);
      assert.equal(encode32(tx.recentBlockhash), message.recentBlockhash);
      const keys = Array.from(tx.keys.subarray(0, tx.staticKeyCount), (id) => block.keys.base58(id));
      assert.deepEqual(
        keys,
        message.staticAccountKeys.map((key) => key.toBase58()),
      );
      const instructions = message.compiledInstructions.map((one) => ({
        programIndex: one.programIdIndex,
        accounts: [...one.accountKeyIndexes],
        data: Buffer.from(one.data).toString('hex'),
      }));
      const plain = [tx.instructions, peek.instructions].map((list) =>
        list.map(({ programIndex, accounts, data }) => ({
          programIndex,
          accounts: [...accounts],
          data: Buffer.from(data).toString('hex'),
        })),
      );
      assert.deepEqual(plain, [instructions, instructions]);
      assert.deepEqual(
        tx.addressTableLookups.map((lookup) => ({
          accountKey: block.keys.base58(lookup.tableKey),
          writableIndexes: [...lookup.writableIndexes],
          readonlyIndexes: [...lookup.readonlyIndexes],
        })),
        message.addressTableLookups.map((lookup) => ({ ...lookup, accountKey: lookup.accountKey.toBase58() })),
      );
      assert.equal(peek.signature, tx.signature);
      assert.equal(peek.recentBlockhash, message.recentBlockhash);
    });
  }
});

test('the recorded mainnet block has its published header and content', { skip }, () => {
  const { transactions, keys, answer: _, ...header } = decoded('mainnet-254170887-even');
  assert.deepEqual(header, {
    slot: 254170887,
    parentSlot: 254170886,
    blockhash: '5GG5pzTbH6KgZM54M9XWfBNmBupQuZXdQxoZRRQXHcpM',
    previousBlockhash: '9BMHTdybcGah8PWtCzu8tVFDBXmiEHZZDf3FaZ651Nf',
    blockHeight: 234724352,
    blockTime: 1710441678,
  });
  assert.equal(transactions.length, 301);
  assert.equal(transactions.filter((tx) => tx.isVote).length, 75);
  const distinct = new Set(Array.from({ length: keys.size }, (_, id) => keys.base58(id)));
  assert.equal(distinct.size, keys.size);
  for (let id = 0; id < keys.size; id++) assert.equal(keys.find(keys.bytes(id).slice()), id);
  assert.equal(keys.find(new Uint8Array(32).fill(0xee)), -1);
});

test('every part of every recorded transaction can be read', { skip }, () => {
  let count = 0;
  for (const name of [...BASE64_BLOCKS, 'solders-getBlock-json']) {
    const block = decoded(name);
    for (const tx of block.transactions) {
      normalForm(tx, block);
      assert.equal(tx.preBalances.length, tx.keys.length);
      assert.ok(tx.tokenOwners.every((id) => id < block.keys.size));
      count++;
    }
  }
  assert.equal(count, 301 + 57 + 18 + 25 + 25);
});

test('recorded getTransaction answers decode, and those with instructions parsed by the node are opaque', {
  skip,
}, () => {
  let decodedCount = 0;
  for (const name of listFixtures('chain/transactions')) {
    const { getTransaction } = readJsonFixture<{ getTransaction: { slot: number; blockTime: number } }>(name);
    const isParsed = JSON.stringify(getTransaction).includes('"parsed"');
    if (isParsed) {
      const { isOpaque, fault } = decodeTransaction(getTransaction).transactions[0]!;
      assert.ok(isOpaque || fault !== null);
      continue;
    }
    const block = decodeTransaction(getTransaction);
    const tx = block.transactions[0]!;
    assert.equal(`chain/transactions/${tx.signature}.json`, name);
    assert.deepEqual([block.slot, block.blockTime], [getTransaction.slot, getTransaction.blockTime]);
    normalForm(tx, block);
    decodedCount++;
  }
  assert.ok(decodedCount >= 20, `${decodedCount}`);
});
