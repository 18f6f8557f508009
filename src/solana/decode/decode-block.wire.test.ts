import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { normalForm } from '../../../test/helpers/normal-form.ts';
import { blockOf, entryOf, sampleMessage, type TestTransaction, wireOf } from '../../../test/helpers/rpc-block.ts';
import { bySeed } from '../../../test/helpers/run-part.ts';
import { compactLength } from '../../../test/helpers/write-message.ts';
import { encode, encode32, encode64 } from '../../lib/base58.ts';
import { codeOf } from '../../lib/coded-error.ts';
import { decodeBlock } from './decode-block.ts';
import { scanBlockAnswer } from './scan-block.ts';
import { peekWire } from './walk-wire.ts';
import { readLength } from './wire-layout.ts';

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');
const key = fc.uint8Array({ minLength: 32, maxLength: 32 });
const VOTE = Buffer.from('0761481d357474bb7c4d7624ebd3bdb3d8355e73d11043fc0da3538000000000', 'hex');

/** Any transaction that the runtime could have accepted, sometimes with long data. */
const transaction: fc.Arbitrary<TestTransaction> = fc
  .record({
    version: fc.constantFrom<'legacy' | 0>('legacy', 0),
    keys: fc.array(key, { minLength: 1, maxLength: 40 }),
    signatures: fc.array(fc.uint8Array({ minLength: 64, maxLength: 64 }), { minLength: 1, maxLength: 3 }),
    lookups: fc.array(
      fc.record({ table: key, writable: fc.uint8Array({ maxLength: 6 }), readonly: fc.uint8Array({ maxLength: 6 }) }),
      { maxLength: 3 },
    ),
    blockhash: key,
    drafts: fc.array(
      fc.record({
        program: fc.nat(255),
        accounts: fc.uint8Array({ maxLength: 150 }),
        data: fc.oneof(
          { weight: 9, arbitrary: fc.uint8Array({ maxLength: 300 }) },
          { weight: 1, arbitrary: fc.constantFrom(16_383, 16_384, 20_000).map((length) => new Uint8Array(length)) },
        ),
      }),
      { maxLength: 5 },
    ),
  })
  .map(({ version, keys, signatures, lookups: drawn, blockhash, drafts }) => {
    const lookups = version === 0 ? drawn : [];
    const load = (part: 'writable' | 'readonly'): string[] =>
      lookups.flatMap((lookup) => Array.from(lookup[part], (at) => encode32(new Uint8Array(32).fill(at + 1))));
    const loaded = { writable: load('writable'), readonly: load('readonly') };
    const count = keys.length + loaded.writable.length + loaded.readonly.length;
    const instructions = drafts.map(({ program, accounts, data }) => ({
      program: program % count,
      accounts: accounts.map((at) => at % count),
      data,
    }));
    const message = { version, header: [1, 0, 0] as const, keys, blockhash, instructions, lookups };
    return { message, loaded, signatures };
  });

bySeed(300, ({ length: numRuns }) => {
  test('written transactions are read back, alone and among others', () => {
    fc.assert(
      fc.property(fc.array(transaction, { minLength: 1, maxLength: 4 }), (written) => {
        const block = decodeBlock(100, blockOf(written.map((one) => entryOf(one))));
        written.forEach(({ message, loaded, signatures }, index) => {
          const tx = block.transactions[index]!;
          assert.equal(tx.index, index);
          assert.equal(tx.version, message.version);
          assert.equal(tx.signature, encode64(signatures![0]!));
          assert.deepEqual(tx.signatures.map(hex), signatures!.map(hex));
          assert.equal(hex(tx.recentBlockhash), hex(message.blockhash));
          const keys = [...message.keys.map((bytes) => encode32(bytes)), ...loaded!.writable, ...loaded!.readonly];
          assert.deepEqual(
            [...tx.keys].map((id) => block.keys.base58(id)),
            keys,
          );
          assert.equal(tx.staticKeyCount, message.keys.length);
          assert.equal(tx.loadedWritableCount, loaded!.writable.length);
          assert.deepEqual(
            tx.instructions.map(({ programIndex, accounts, data }) => [programIndex, hex(accounts), hex(data)]),
            message.instructions.map(({ program, accounts, data }) => [program, hex(accounts), hex(data)]),
          );
          assert.deepEqual(
            tx.addressTableLookups.map(({ tableKey, writableIndexes, readonlyIndexes }) => [
              tableKey < 0 ? 'no id' : hex(block.keys.bytes(tableKey)),
              hex(writableIndexes),
              hex(readonlyIndexes),
            ]),
            message.lookups.map(({ table, writable, readonly }) => [hex(table), hex(writable), hex(readonly)]),
          );
          const peek = peekWire(wireOf(written[index]!));
          assert.deepEqual(
            [peek.signature, peek.signatureCount, peek.version, peek.recentBlockhash, peek.staticKeyCount],
            [tx.signature, signatures!.length, message.version, encode32(message.blockhash), message.keys.length],
          );
          assert.equal(hex(peek.staticKey(0)), hex(message.keys[0]!));
          assert.throws(() => peek.staticKey(message.keys.length), RangeError);
        });
      }),
      { numRuns },
    );
  });
});

/** Runs a decode and returns its coded error, or its result; any other error fails the test. */
function outcome(work: () => unknown): unknown {
  try {
    return work();
  } catch (error) {
    assert.match(codeOf(error) ?? String(error), /^CHAIN_BAD_(TRANSACTION|BLOCK)$/);
    return codeOf(error);
  }
}

bySeed(3_000, ({ length: numRuns }) => {
  test('damaged wires give a coded error or a transaction, and never affect adjacent ones', () => {
    const damage = fc.record({
      at: fc.nat(),
      byte: fc.nat(255),
      cut: fc.nat(),
      kind: fc.constantFrom('set', 'cut', 'grow'),
    });
    const good = { message: sampleMessage() };
    fc.assert(
      fc.property(transaction, fc.array(damage, { minLength: 1, maxLength: 3 }), (one, damages) => {
        let wire: Buffer = wireOf(one);
        for (const { at, byte, cut, kind } of damages) {
          if (kind === 'set' && wire.length > 0) wire[at % wire.length] = byte;
          else if (kind === 'cut') wire = Buffer.from(wire.subarray(0, cut % (wire.length + 1)));
          else if (kind === 'grow') wire = Buffer.concat([wire, Buffer.of(byte)]);
        }
        const damaged = entryOf(one, wire);
        const read = (entries: unknown[]) =>
          outcome(() => {
            const block = decodeBlock(100, blockOf(entries));
            return normalForm(block.transactions[0]!, block);
          });
        const alone = read([damaged]);
        assert.deepEqual(read([damaged, entryOf(good)]), alone);
        outcome(() => peekWire(wire));
      }),
      { numRuns },
    );
  });
});

test('every proper prefix of a wire is refused', () => {
  const lookups = [{ table: new Uint8Array(32).fill(4), writable: Uint8Array.of(1), readonly: Uint8Array.of(2, 3) }];
  const wire = wireOf({ message: sampleMessage({ version: 0, lookups }) });
  peekWire(wire);
  for (let length = 0; length < wire.length; length++) {
    assert.throws(() => peekWire(wire.subarray(0, length)), { code: 'CHAIN_BAD_TRANSACTION' });
  }
});

test('a transaction of an unknown version is opaque as bytes, with the reason', () => {
  for (const version of [1, 2, 127]) {
    const one = { message: sampleMessage({ version }) };
    const other = entryOf({ message: sampleMessage(), signatures: [new Uint8Array(64).fill(8)] });
    const { transactions } = decodeBlock(100, blockOf([other, entryOf(one)]));
    assert.deepEqual(
      transactions.map(({ fault }) => fault),
      [
        null,
        {
          kind: version === 1 ? 'message' : 'version',
          reason: `a version ${version} message behind its signatures`,
        },
      ],
    );
    assert.equal(transactions[1]!.isOpaque, true);
  }
  for (const version of [2, 127]) {
    const wire = Buffer.concat([Buffer.of(0x80 | version), wireOf({ message: sampleMessage() })]);
    assert.throws(() => peekWire(wire), {
      code: 'CHAIN_BAD_TRANSACTION',
      facts: { index: 0, reason: `unknown transaction version ${version}` },
    });
  }
});

test('a message version that is unknown as bytes is decoded from JSON', () => {
  const message = sampleMessage();
  const entry = {
    ...entryOf({ message }),
    version: 2,
    transaction: {
      signatures: [encode64(new Uint8Array(64).fill(5))],
      message: {
        header: { numRequiredSignatures: 1, numReadonlySignedAccounts: 0, numReadonlyUnsignedAccounts: 1 },
        accountKeys: message.keys.map((bytes) => encode32(bytes)),
        recentBlockhash: encode32(message.blockhash),
        instructions: message.instructions.map(({ program, accounts, data }) => ({
          programIdIndex: program,
          accounts: [...accounts],
          data: encode(data),
        })),
        somethingNew: { a: 1 },
      },
    },
  };
  const tx = decodeBlock(100, blockOf([entry])).transactions[0]!;
  assert.equal(tx.version, 2);
  assert.equal(tx.config, null);
  assert.equal(tx.signature, encode64(new Uint8Array(64).fill(5)));
  assert.equal(hex(tx.instructions[0]!.data), '01020304');
});

test('a vote has one or two signatures, a legacy message and exactly one instruction, of the Vote program', () => {
  const one = { program: 1, accounts: Uint8Array.of(0), data: new Uint8Array(4) };
  const lists = [[], [one], [one, one], [{ ...one, program: 2 }], [one, { ...one, program: 2 }]];
  for (const version of ['legacy', 0, 1] as const)
    for (const signers of [1, 2, 3, 12])
      for (const instructions of lists) {
        const keys = [new Uint8Array(32).fill(1), VOTE, new Uint8Array(32).fill(2)];
        const header = [signers, 0, 0] as const;
        for (let signer = 1; signer < signers; signer++) keys.push(new Uint8Array(32).fill(10 + signer));
        const signatures = Array.from({ length: signers }, (_, at) => new Uint8Array(64).fill(at + 1));
        const message = sampleMessage({ version: version === 1 ? 0 : version, header, keys, instructions });
        const transaction = { message, signatures };
        const json = {
          ...entryOf(transaction),
          version,
          transaction: {
            signatures: signatures.map((bytes) => encode64(bytes)),
            message: {
              header: {
                numRequiredSignatures: signers,
                numReadonlySignedAccounts: 0,
                numReadonlyUnsignedAccounts: 0,
              },
              accountKeys: keys.map((bytes) => encode32(bytes)),
              recentBlockhash: encode32(message.blockhash),
              instructions: instructions.map(({ program, accounts, data }) => ({
                programIdIndex: program,
                accounts: [...accounts],
                data: encode(data),
              })),
              ...(version === 1 ? { transactionConfig: {} } : {}),
            },
          },
        };
        const expected = version === 'legacy' && signers < 3 && instructions.length === 1 && instructions[0] === one;
        const forms: [string, unknown][] = [['json', blockOf([json])]];
        if (version !== 1) {
          const block = blockOf([entryOf(transaction)]);
          const answer = Buffer.from(JSON.stringify({ jsonrpc: '2.0', result: block, id: 1 }));
          forms.push(['bytes', block], ['scanned', scanBlockAnswer(answer)!]);
        }
        for (const [form, block] of forms) {
          const { isVote } = decodeBlock(100, block as Parameters<typeof decodeBlock>[1]).transactions[0]!;
          assert.equal(isVote, expected, `${form}, version ${version}, ${signers} signatures, ${instructions.length}`);
        }
      }
});

test('a transaction with an index beyond static and loaded keys is opaque', () => {
  const lookups = [{ table: new Uint8Array(32).fill(4), writable: Uint8Array.of(1), readonly: Uint8Array.of(2) }];
  const loaded = { writable: [encode32(new Uint8Array(32).fill(5))], readonly: [encode32(new Uint8Array(32).fill(6))] };
  const messageWith = (index: number) =>
    sampleMessage({ version: 0, lookups, instructions: [{ program: 0, accounts: Uint8Array.of(index), data: VOTE }] });
  decodeBlock(100, blockOf([entryOf({ message: messageWith(4), loaded })]));
  const [tx] = decodeBlock(100, blockOf([entryOf({ message: messageWith(5), loaded })])).transactions;
  assert.deepEqual(tx!.fault, { kind: 'message', reason: 'an index points behind the keys' });
  assert.equal(tx!.isOpaque, true);
});

test('compact lengths: every value is read back; truncated, padded and too large ones are refused', () => {
  for (let value = 0; value <= 65_535; value++) {
    const bytes = compactLength(value);
    const reader = { bytes, at: 0, end: bytes.length };
    assert.equal(readLength(reader), value);
    assert.equal(reader.at, bytes.length);
    for (let end = 0; end < bytes.length; end++) assert.equal(readLength({ bytes, at: 0, end }), -1);
  }
  for (const bytes of [
    [0x80, 0],
    [0xff, 0x80, 0],
    [0xff, 0xff, 4],
    [0x80, 0x80, 0x80],
  ]) {
    assert.equal(readLength({ bytes: Uint8Array.from(bytes), at: 0, end: bytes.length }), -1);
  }
});
