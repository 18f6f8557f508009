import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  type Address,
  appendTransactionMessageInstructions,
  compileTransaction,
  createKeyPairSignerFromPrivateKeyBytes,
  createTransactionMessage,
  getAddressDecoder,
  getBase64EncodedWireTransaction,
  getCompiledTransactionMessageDecoder,
  getSignatureFromTransaction,
  getTransactionCodec,
  type Instruction,
  pipe,
  setTransactionMessageComputeUnitLimit,
  setTransactionMessageFeePayer,
  setTransactionMessageFeePayerSigner,
  setTransactionMessageLifetimeUsingBlockhash,
  signTransactionMessageWithSigners,
  verifySignature,
} from '@solana/kit';
import { Keypair, PublicKey, TransactionInstruction } from '@solana/web3.js';
import fc from 'fast-check';
import { createTxMessage } from 'helius-sdk/transactions/createTxMessage';
import { encode, encode32, encode64 } from '../../../src/lib/base58.ts';
import { codeOf } from '../../../src/lib/coded-error.ts';
import type { NormalTransaction } from '../../../src/ports/block.ts';
import { decodeBlock } from '../../../src/solana/decode/decode-block.ts';
import { scanBlockAnswer } from '../../../src/solana/decode/scan-block.ts';
import { peekWire } from '../../../src/solana/decode/walk-wire.ts';
import { rawTransaction } from '../../../src/solana/raw-transaction.ts';
import { normalForm } from '../../helpers/normal-form.ts';
import { blockOf } from '../../helpers/rpc-block.ts';
import { signVersion1, type Version1Config } from '../../helpers/version-1.ts';

/** Without fee payer and blockhash. Its type says that kit does not make such ones; it does. */
const emptyVersion1 = () => createTransactionMessage({ version: 1 as unknown as 0 });

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');
const filled = (byte: number, length = 32): Uint8Array => new Uint8Array(length).fill(byte);
const key = (byte: number): Address => getAddressDecoder().decode(filled(byte));
const lifetime = { blockhash: key(9) as string as never, lastValidBlockHeight: 1n };

/** An entry of a block with a wire transaction, in an encoding of nodes. */
function entryOf(transaction: unknown, keyCount: number): object {
  const balances = new Array<number>(keyCount).fill(1);
  const meta = { err: null, fee: 5_777, preBalances: balances, postBalances: balances, innerInstructions: [] };
  const empty = { preTokenBalances: [], postTokenBalances: [], loadedAddresses: { writable: [], readonly: [] } };
  return { transaction, version: 1, meta: { ...meta, ...empty, logMessages: [] } };
}

const encoded = (wire: Uint8Array) => entryOf([Buffer.from(wire).toString('base64'), 'base64'], wire[41]!);

/** The transaction in a node's encoding `json`. */
function asJson(wire: Uint8Array): object {
  const { message, signatures } = byKit(wire);
  const config = { computeUnitLimit: null, heapSize: null, loadedAccountsDataSizeLimit: null, priorityFee: null };
  return {
    message: {
      accountKeys: message.keys,
      header: {
        numReadonlySignedAccounts: message.header[1],
        numReadonlyUnsignedAccounts: message.header[2],
        numRequiredSignatures: message.header[0],
      },
      instructions: message.instructions.map(({ program, accounts, data }) => ({
        accounts,
        programIdIndex: program,
        stackHeight: 1,
        data: encode(Buffer.from(data, 'hex')),
      })),
      recentBlockhash: message.blockhash,
      transactionConfig: {
        ...config,
        ...Object.fromEntries(
          Object.entries(message.config).map(([name, value]) => [name, value === null ? null : Number(value)]),
        ),
      },
    },
    signatures: signatures.map((signature) => encode64(Buffer.from(signature, 'hex'))),
  };
}

interface Fields {
  readonly message: {
    readonly header: readonly number[];
    readonly keys: readonly string[];
    readonly blockhash: string;
    readonly config: Readonly<Record<string, number | bigint | null>>;
    readonly instructions: readonly { program: number; accounts: number[]; data: string }[];
  };
  /** hex; zeros when kit has none. */
  readonly signatures: readonly string[];
}

/** Names of message parts in kit. */
interface KitMessage {
  readonly header: Readonly<
    Record<'numSignerAccounts' | 'numReadonlySignerAccounts' | 'numReadonlyNonSignerAccounts', number>
  >;
  readonly staticAccounts: readonly string[];
  readonly lifetimeToken: string;
  readonly configMask: number;
  readonly configValues: readonly { readonly value: number | bigint }[];
  readonly instructionHeaders: readonly { readonly programAccountIndex: number }[];
  readonly instructionPayloads: readonly {
    readonly instructionAccountIndices: readonly number[];
    readonly instructionData: Uint8Array;
  }[];
}

/** The fields that @solana/kit decodes. */
function byKit(wire: Uint8Array): Fields {
  const { messageBytes, signatures } = getTransactionCodec().decode(wire);
  const [message, end] = getCompiledTransactionMessageDecoder().read(messageBytes, 0) as unknown as [
    KitMessage,
    number,
  ];
  assert.equal(end, messageBytes.length);
  const { header, configMask } = message;
  const values = [...message.configValues];
  const next = (bit: number) => ((configMask & bit) === 0 ? null : values.shift()!.value);
  return {
    message: {
      header: [header.numSignerAccounts, header.numReadonlySignerAccounts, header.numReadonlyNonSignerAccounts],
      keys: message.staticAccounts,
      blockhash: message.lifetimeToken,
      config: {
        priorityFee: next(1),
        computeUnitLimit: next(4),
        loadedAccountsDataSizeLimit: next(8),
        heapSize: next(16),
      },
      instructions: message.instructionHeaders.map(({ programAccountIndex }, at) => {
        const { instructionAccountIndices, instructionData } = message.instructionPayloads[at]!;
        return {
          program: programAccountIndex,
          accounts: [...instructionAccountIndices],
          data: hex(instructionData),
        };
      }),
    },
    signatures: Object.values(signatures).map((signature) => hex(signature ?? filled(0, 64))),
  };
}

/** The same fields of a transaction that we decoded. */
function byUs(tx: NormalTransaction, text: (id: number) => string): Fields {
  const { numRequiredSignatures, numReadonlySignedAccounts, numReadonlyUnsignedAccounts } = tx.header;
  const { priorityFee, computeUnitLimit, loadedAccountsDataSizeLimit, heapSize } = tx.config!;
  return {
    message: {
      header: [numRequiredSignatures, numReadonlySignedAccounts, numReadonlyUnsignedAccounts],
      keys: [...tx.keys].map(text),
      blockhash: encode32(tx.recentBlockhash),
      config: { priorityFee, computeUnitLimit, loadedAccountsDataSizeLimit, heapSize },
      instructions: tx.instructions.map(({ programIndex, accounts, data }) => ({
        program: programIndex,
        accounts: [...accounts],
        data: hex(data),
      })),
    },
    signatures: tx.signatures.map(hex),
  };
}

function decoded(entry: object): { fields: Fields; form: Record<string, unknown> } {
  const block = decodeBlock(100, blockOf([entry]));
  const tx = block.transactions[0]!;
  return { fields: byUs(tx, (id) => block.keys.base58(id)), form: normalForm(tx, block) };
}

const limits = fc.record(
  {
    priorityFeeLamports: fc.bigInt({ min: 0n, max: 2n ** 53n }),
    computeUnitLimit: fc.nat(0xffff_ffff),
    loadedAccountsDataSizeLimit: fc.nat(0xffff_ffff),
    heapSize: fc.integer({ min: 32, max: 256 }).map((size) => size * 1_024),
  },
  { requiredKeys: [] },
);

const account = fc.record({ byte: fc.integer({ min: 1, max: 60 }), role: fc.integer({ min: 0, max: 3 }) });
const instruction: fc.Arbitrary<Instruction> = fc
  .record({
    program: fc.integer({ min: 100, max: 103 }),
    accounts: fc.array(account, { maxLength: 12 }),
    data: fc.uint8Array({ maxLength: 120 }),
  })
  .map(({ program, accounts, data }) => ({
    programAddress: key(program),
    // At most ten signers in addition to the payer.
    accounts: accounts.map(({ byte, role }) => ({ address: key(byte), role: byte <= 10 ? role : role & 1 })),
    data,
  }));

const wireByKit = (config: Version1Config, instructions: readonly Instruction[], seed: number): Uint8Array => {
  const message = pipe(
    emptyVersion1(),
    (m) => setTransactionMessageFeePayer(key(99), m),
    (m) => setTransactionMessageLifetimeUsingBlockhash(lifetime, m),
    (m) => appendTransactionMessageInstructions(instructions, m),
    (m) => ({ ...m, config }),
  );
  const { messageBytes, signatures } = compileTransaction(message as never);
  const signed = Object.keys(signatures).map((address, at) => [address, filled(seed + at, 64)]);
  return Uint8Array.from(
    getTransactionCodec().encode({ messageBytes, signatures: Object.fromEntries(signed) } as never),
  );
};

const made = fc
  .record({
    config: limits,
    instructions: fc.array(instruction, { maxLength: 6 }),
    seed: fc.integer({ min: 1, max: 200 }),
  })
  .map(({ config, instructions, seed }) => wireByKit(config as Version1Config, instructions, seed));

test('transactions encoded by kit are decoded to the same fields, in every encoding of a node', () => {
  fc.assert(
    fc.property(made, (wire) => {
      const expected = byKit(wire);
      const base64 = encoded(wire);
      const one = decoded(base64);
      assert.deepEqual(one.fields, expected);
      assert.equal(one.form['version'], 1);
      assert.deepEqual(decoded(entryOf([encode(wire), 'base58'], wire[41]!)).form, one.form);
      assert.deepEqual(decoded(entryOf(asJson(wire), wire[41]!)).form, one.form);
      const answer = Buffer.from(JSON.stringify({ jsonrpc: '2.0', result: blockOf([base64]), id: 1 }));
      const scanned = decodeBlock(100, scanBlockAnswer(answer)!);
      assert.deepEqual(normalForm(scanned.transactions[0]!, scanned), one.form);
      const peek = peekWire(wire);
      assert.deepEqual(
        [peek.signature, peek.signatureCount, peek.version, peek.recentBlockhash, peek.staticKeyCount],
        [one.form['signature'], expected.signatures.length, 1, key(9), expected.message.keys.length],
      );
    }),
    { numRuns: 100 },
  );
});

test('kit decodes accepted transactions to the same fields, however the bytes were damaged', () => {
  const damage = fc.record({
    at: fc.nat(),
    byte: fc.nat(255),
    kind: fc.constantFrom('set', 'set', 'cut', 'grow', 'swap'),
  });
  let accepted = 0;
  fc.assert(
    fc.property(made, fc.array(damage, { minLength: 1, maxLength: 3 }), (good, damages) => {
      let wire = Buffer.from(good);
      for (const { at, byte, kind } of damages) {
        // Half of the damage hits the header, the counts and the config.
        const place = (at % 2 === 0 ? at % 44 : at) % Math.max(1, wire.length);
        if (kind === 'set') wire[place] = byte;
        else if (kind === 'swap') wire.copyWithin(place, (at * 7) % wire.length, ((at * 7) % wire.length) + 32);
        else if (kind === 'cut') wire = wire.subarray(0, wire.length - (byte % wire.length));
        else wire = Buffer.concat([wire, Buffer.alloc(byte & 3)]);
      }
      // Other first bytes are other formats.
      if (wire[0] !== 0x81) return;
      try {
        peekWire(wire);
      } catch (error) {
        assert.equal(codeOf(error), 'CHAIN_BAD_TRANSACTION', String(error));
        assert.notEqual(decodeBlock(100, blockOf([encoded(wire)])).transactions[0]!.fault, null);
        return;
      }
      // kit refuses what breaks a rule of today.
      if (decodeBlock(100, blockOf([encoded(wire)])).transactions[0]!.fault?.kind !== undefined) return;
      accepted += 1;
      assert.deepEqual(decoded(encoded(wire)).fields, byKit(wire));
    }),
    { numRuns: 800 },
  );
  assert.ok(accepted > 80, `only ${accepted} were accepted`);
});

const payer = await createKeyPairSignerFromPrivateKeyBytes(filled(1));
const second = await createKeyPairSignerFromPrivateKeyBytes(filled(2));
const instructions = [
  {
    programAddress: key(20),
    accounts: [
      { address: payer.address, role: 3, signer: payer },
      { address: key(5), role: 1 },
      { address: second.address, role: 2, signer: second },
    ],
    data: Uint8Array.of(1, 2, 3, 4, 5),
  },
  { programAddress: key(21), accounts: [], data: new Uint8Array(0) },
] as readonly Instruction[];
const [one, two] = [payer.address as string, second.address as string];
const expectedInstructions = [
  { program: 3, accounts: [0, 2, 1], data: '0102030405' },
  { program: 4, accounts: [], data: '' },
];

test('bytes encoded by kit', async () => {
  const message = pipe(
    emptyVersion1(),
    (m) => setTransactionMessageFeePayerSigner(payer, m),
    (m) => setTransactionMessageLifetimeUsingBlockhash(lifetime, m),
    (m) => appendTransactionMessageInstructions(instructions, m),
    (m) => ({
      ...m,
      config: {
        priorityFeeLamports: 2n ** 40n + 7n,
        computeUnitLimit: 123_456,
        loadedAccountsDataSizeLimit: 65_536,
        heapSize: 40_960,
      },
    }),
  );
  const golden = [
    'gQIBAh8AAAAJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQIFiojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1yB',
    'OXcOqH0XX1ajVGbDTH7My42KkbTuN6Jd9g9bj8mzlAUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFFBQUFBQUFBQUFBQU',
    'FBQUFBQUFBQUFBQUFBQUFBQUFBQVFRUVFRUVFRUVFRUVFRUVFRUVFRUVFRUVFRUVFRUVFQcAAAAAAQAAQOIBAAAAAQAAoAAAAwMF',
    'AAQAAAAAAgEBAgMEBfv3UenPy5LQQy8W37p3xJ57wLyXFF7Q92DzkmQipfmVLSdaBdC5e/TJ5DhiwQh8GNi3sVbN55oIc1xfqOUm',
    'iAQSovlj1AwbNKuRkuP97d3Qz8LJToJsVSoS+VwJrwEicUEmyiikOeg6Um/NxeFZjbRhk4cmsFj95ZFLX7r2WccA',
  ].join('');
  assert.equal(getBase64EncodedWireTransaction(await signTransactionMessageWithSigners(message as never)), golden);
  const { fields, form } = decoded(encoded(Buffer.from(golden, 'base64')));
  assert.deepEqual(fields.message, {
    header: [2, 1, 2],
    keys: [one, two, ...[5, 20, 21].map(key)],
    blockhash: key(9),
    config: {
      priorityFee: 2n ** 40n + 7n,
      computeUnitLimit: 123_456,
      loadedAccountsDataSizeLimit: 65_536,
      heapSize: 40_960,
    },
    instructions: expectedInstructions,
  });
  assert.equal(form['signature'], encode64(Buffer.from(golden, 'base64').subarray(-128)));
});

test('bytes encoded by helius-sdk', async () => {
  const message = setTransactionMessageComputeUnitLimit(
    5_000,
    createTxMessage({ version: 1, feePayer: payer, lifetime, instructions }) as never,
  );
  const golden = [
    'gQIBAgwAAAAJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQIFiojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1yB',
    'OXcOqH0XX1ajVGbDTH7My42KkbTuN6Jd9g9bj8mzlAUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFFBQUFBQUFBQUFBQU',
    'FBQUFBQUFBQUFBQUFBQUFBQUFBQVFRUVFRUVFRUVFRUVFRUVFRUVFRUVFRUVFRUVFRUVFYgTAAAAAAAEAwMFAAQAAAAAAgEBAgME',
    'BfPLHrdrRmF52CuV6MOmeCz6ldc4u6f0ZK1eF7m/Mdg6C28aizXiiPaxwciWg+Rfg9ivtWBqNVfuetwre5dHlgS8zeTUAeeqlEJ1',
    '32i8rsw458ZaVUFymcT05JXJDT0xRIEThUIlfTZRPD5Ef4adXkrR2raKnk7H1eRWz+R92R4G',
  ].join('');
  assert.equal(getBase64EncodedWireTransaction(await signTransactionMessageWithSigners(message as never)), golden);
  const { fields } = decoded(encoded(Buffer.from(golden, 'base64')));
  assert.deepEqual(fields.message, {
    header: [2, 1, 2],
    keys: [one, two, ...[5, 20, 21].map(key)],
    blockhash: key(9),
    config: { priorityFee: null, computeUnitLimit: 5_000, loadedAccountsDataSizeLimit: 67_108_864, heapSize: null },
    instructions: expectedInstructions,
  });
});

const sample = wireByKit(
  { priorityFeeLamports: 1n, computeUnitLimit: 2, loadedAccountsDataSizeLimit: 3, heapSize: 65_536 },
  [{ programAddress: key(20), accounts: [{ address: key(5), role: 1 }], data: filled(1, 4) }],
  1,
);
/** Changes the bytes, or returns others. */
type Change = (wire: Buffer) => Buffer | undefined;
/** Three keys; 8 + 4 + 4 bytes of config before the heap size. */
const [HEAP, HEADERS, PAYLOAD] = [42 + 96 + 16, 42 + 96 + 20, 42 + 96 + 24];
const changed = (change: Change): Buffer => {
  const wire = Buffer.from(sample);
  return change(wire) ?? wire;
};
const heap =
  (bytes: number) =>
  (wire: Buffer): undefined =>
    void wire.writeUInt32LE(bytes, HEAP);
const set =
  (at: number, byte: number) =>
  (wire: Buffer): undefined =>
    void wire.writeUInt8(byte, at);

const malformed: readonly (readonly [RegExp, Change])[] = [
  [/bytes follow the signatures/, (wire) => Buffer.concat([wire, Buffer.of(0)])],
  [/signatures are cut off/, (wire) => wire.subarray(0, -1)],
  [/header is cut off/, (wire) => wire.subarray(0, 41)],
  [/keys are cut off/, (wire) => wire.subarray(0, 100)],
  [/config values are cut off/, (wire) => wire.subarray(0, HEAP + 3)],
  [/instructions are cut off/, (wire) => wire.subarray(0, HEADERS + 3)],
  [/instructions are cut off/, set(HEADERS + 3, 1)],
  [/index points behind the keys/, set(HEADERS, 3)],
  [/index points behind the keys/, set(PAYLOAD, 3)],
  [/unknown transaction version 2/, set(0, 0x82)],
  [/version 0 message before its signatures/, set(0, 0x80)],
  [/version 1 message behind its signatures/, (wire) => Buffer.concat([Buffer.of(1), filled(7, 64), wire])],
];

test('a transaction that breaks the layout is opaque, with the rule as the reason', () => {
  peekWire(sample);
  for (const [reason, change] of malformed) {
    const wire = changed(change);
    assert.throws(() => peekWire(wire), { code: 'CHAIN_BAD_TRANSACTION', message: reason });
    const [tx, other] = decodeBlock(100, blockOf([encoded(wire), encoded(sample)])).transactions;
    assert.match(tx!.fault!.reason, reason);
    assert.deepEqual([tx!.isOpaque, other!.fault], [true, null]);
  }
});

/** What nodes of today refuse, and a reader can find all parts of. */
const unusual: readonly (readonly [string, RegExp, Change])[] = [
  ['message', /the fee payer is read-only/, set(2, 1)],
  ['message', /counts more keys than there are/, set(3, 3)],
  ['message', /fee payer is called/, set(HEADERS, 0)],
];

test('a transaction that breaks another rule is read, and the rule is named', () => {
  for (const [kind, reason, change] of unusual) {
    const [tx] = decodeBlock(100, blockOf([encoded(changed(change))])).transactions;
    assert.equal(tx!.isOpaque, false);
    assert.equal(tx!.fault?.kind, kind);
    assert.match(tx!.fault!.reason, reason);
  }
});

test('limits of the runtime are none of the reader', () => {
  for (const bytes of [0, 31 * 1_024, 33_000, 32 * 1_024, 257 * 1_024, 2 ** 32 - 1]) {
    const [tx] = decodeBlock(100, blockOf([encoded(changed(heap(bytes)))])).transactions;
    assert.deepEqual([tx!.fault, tx!.config?.heapSize], [null, bytes]);
  }
  const twice = changed((wire) => void wire.copy(wire, 42 + 64, 42, 42 + 32));
  assert.equal(decodeBlock(100, blockOf([encoded(twice)])).transactions[0]!.fault, null);
});

test('as JSON, values that do not fit make a transaction opaque, and a fee beyond 2^53 that was rounded is the largest', () => {
  const json = asJson(sample) as { message: { transactionConfig: object } };
  const withConfig = (config: object) =>
    entryOf({ ...json, message: { ...json.message, transactionConfig: config } }, 3);
  for (const config of [
    { computeUnitLimit: 2 ** 32 },
    { heapSize: -1 },
    { priorityFee: 1.5 },
    { priorityFee: '7' },
    { priorityFee: 2 ** 65 },
    { loadedAccountsDataSizeLimit: {} },
  ])
    assert.equal(decodeBlock(100, blockOf([withConfig(config)])).transactions[0]!.isOpaque, true);
  const fee = (config: object) => (decoded(withConfig(config)).form['config'] as { priorityFee: bigint }).priorityFee;
  // JSON.parse makes a number of 18446744073709551615.
  assert.equal(fee({ priorityFee: Number('18446744073709551615') }), 2n ** 64n - 1n);
  assert.equal(fee({ priorityFee: null }), null);
  assert.equal(fee({}), null);
});

test('the raw element contains the config and no lookups', () => {
  const block = decodeBlock(100, blockOf([encoded(sample)]));
  const { transaction, version } = rawTransaction(block.transactions[0]!, block) as {
    transaction: { message: Record<string, unknown> };
    version: number;
  };
  assert.equal(version, 1);
  assert.equal(transaction.message['addressTableLookups'], null);
  assert.deepEqual(transaction.message['transactionConfig'], {
    computeUnitLimit: 2,
    heapSize: 65_536,
    loadedAccountsDataSizeLimit: 3,
    priorityFee: 1,
  });
});

test('certificates that the tests sign are read and verified by kit', async () => {
  const signer = Keypair.fromSeed(filled(3));
  const keyOf = (byte: number) => new PublicKey(filled(byte));
  const accounts = [
    { pubkey: keyOf(40), isSigner: false, isWritable: false },
    { pubkey: keyOf(41), isSigner: false, isWritable: true },
    { pubkey: signer.publicKey, isSigner: true, isWritable: false },
  ];
  const config = { priorityFeeLamports: 2n ** 40n + 7n, heapSize: 40_960 };
  const { wire, signature } = await signVersion1(
    signer,
    keyOf(9).toBase58(),
    [
      new TransactionInstruction({ programId: keyOf(50), keys: accounts, data: Buffer.from([1, 2, 3]) }),
      new TransactionInstruction({ programId: keyOf(51), keys: [], data: Buffer.alloc(0) }),
    ],
    config,
  );
  const { message, signatures } = byKit(wire);
  assert.deepEqual(message.header, [1, 0, 3]);
  assert.deepEqual(
    message.keys,
    [signer.publicKey, ...[41, 40, 50, 51].map(keyOf)].map((one) => one.toBase58()),
  );
  assert.equal(message.blockhash, keyOf(9).toBase58());
  assert.deepEqual(message.config, {
    priorityFee: config.priorityFeeLamports,
    heapSize: config.heapSize,
    computeUnitLimit: null,
    loadedAccountsDataSizeLimit: null,
  });
  assert.deepEqual(message.instructions, [
    { program: 3, accounts: [2, 1, 0], data: '010203' },
    { program: 4, accounts: [], data: '' },
  ]);
  assert.equal(encode64(Buffer.from(signatures[0] as string, 'hex')), signature);
  assert.equal(getSignatureFromTransaction(getTransactionCodec().decode(wire) as never), signature);
  const own = await createKeyPairSignerFromPrivateKeyBytes(filled(3));
  const { messageBytes } = getTransactionCodec().decode(wire);
  // Copies: kit 6.10.0 takes the whole buffer below a view that begins at its start, as one of Node's pool may.
  const ok = await verifySignature(
    own.keyPair.publicKey,
    Uint8Array.from(Buffer.from(signatures[0] as string, 'hex')) as never,
    Uint8Array.from(messageBytes) as never,
  );
  assert.ok(ok);
});
