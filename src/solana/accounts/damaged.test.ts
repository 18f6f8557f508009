import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import fc from 'fast-check';
import { type MetadataFields, writeMetadata } from '../../../test/helpers/write-metadata.ts';
import { encode32 } from '../../lib/base58.ts';
import {
  CORE_PROGRAM,
  INSCRIPTION_PROGRAM,
  METADATA_PROGRAM,
  SYSTEM_PROGRAM,
  TOKEN_2022_PROGRAM,
  TOKEN_PROGRAM,
} from '../programs.ts';
import { decodeCoreAsset, decodeCoreCollection } from './core.ts';
import { decodeInscription } from './inscription.ts';
import { decodeEdition, decodeMetadata, isNft } from './metaplex.ts';
import { decodeMint, decodeTokenAccount, decodeTokenMetadata, readExtensions } from './token.ts';
import { accountExtensionsJson, mintExtensionsJson } from './token-extensions.ts';

const record = <T extends object>(model: { [K in keyof T]: fc.Arbitrary<T[K]> }) =>
  fc.record<T>(model, { noNullPrototype: true });
const key = fc.uint8Array({ minLength: 32, maxLength: 32 }).map((bytes) => encode32(bytes));
const u64 = fc.bigInt({ min: 0n, max: 2n ** 64n - 1n });
/** Trailing zeros are padding, so a text that ends with a zero would not be restored. */
const text = (maxLength: number) =>
  fc.string({ maxLength, unit: 'grapheme' }).map((value) => value.replace(/\0+$/, ''));

const fields: fc.Arbitrary<MetadataFields> = record({
  updateAuthority: key,
  mint: key,
  name: text(20),
  symbol: text(8),
  uri: text(60),
  sellerFeeBasisPoints: fc.integer({ min: 0, max: 65_535 }),
  creators: fc.option(
    fc.array(record({ address: key, verified: fc.boolean(), share: fc.integer({ min: 0, max: 255 }) }), {
      maxLength: 5,
    }),
  ),
  primarySaleHappened: fc.boolean(),
  isMutable: fc.boolean(),
  editionNonce: fc.option(fc.integer({ min: 0, max: 255 })),
  tokenStandard: fc.option(
    fc.constantFrom(
      'NonFungible',
      'FungibleAsset',
      'Fungible',
      'NonFungibleEdition',
      'ProgrammableNonFungible',
      'ProgrammableNonFungibleEdition',
    ),
  ),
  collection: fc.option(record({ key, verified: fc.boolean() })),
  uses: fc.option(record({ method: fc.constantFrom('Burn', 'Multiple', 'Single'), remaining: u64, total: u64 })),
  collectionDetails: fc.option(
    fc.oneof(record({ version: fc.constant(1 as const), size: u64 }), fc.constant({ version: 2 as const, size: 0n })),
  ),
  programmableConfig: fc.option(record({ ruleSet: fc.option(key) })),
});

const account = (data: Uint8Array, owner = METADATA_PROGRAM) => ({ owner, lamports: 1n, data });

test('metadata is read back, padded or not, whatever the free space after it', () => {
  fc.assert(
    fc.property(fields, fc.boolean(), fc.integer({ min: 0, max: 100 }), (given, padded, room) => {
      const { data } = writeMetadata(given, padded);
      const { value } = decodeMetadata(account(Buffer.concat([data, Buffer.alloc(room)])));
      assert.deepEqual(value, given);
    }),
  );
});

test('a cut or a wrong byte in the tail keeps the head, and the parts of the tail before it', () => {
  const damage = record({ at: fc.nat(), cut: fc.boolean() });
  fc.assert(
    fc.property(fields, damage, (given, { at, cut }) => {
      const { data, tailAt, partsAt } = writeMetadata(given, false);
      const [offset, part] = partsAt[at % partsAt.length]!;
      // A presence byte is at most one.
      const bytes = cut
        ? data.subarray(0, offset)
        : Buffer.concat([data.subarray(0, offset), Buffer.of(9), data.subarray(offset + 1)]);
      const { value } = decodeMetadata(account(bytes));
      assert.ok(value !== null && offset >= tailAt);
      const { tokenStandard, collection, uses, collectionDetails, programmableConfig, ...head } = given;
      const none = { tokenStandard: null, collection: null, uses: null };
      const expected =
        part === 'programmableConfig'
          ? { tokenStandard, collection, uses, collectionDetails, programmableConfig: null }
          : part === 'collectionDetails'
            ? { tokenStandard, collection, uses, collectionDetails: null, programmableConfig: null }
            : { ...none, collectionDetails: null, programmableConfig: null };
      assert.deepEqual(value, { ...head, ...expected });
      assert.ok(programmableConfig === given.programmableConfig);
    }),
  );
});

test('a truncated head is malformed', () => {
  fc.assert(
    fc.property(fields, fc.nat(), (given, at) => {
      const { data, tailAt } = writeMetadata(given, false);
      const bytes = data.subarray(0, 1 + (at % (tailAt - 1)));
      assert.deepEqual(decodeMetadata(account(bytes)), { value: null, reason: 'malformed' });
    }),
  );
});

test('missing, foreign and other accounts are distinguished', () => {
  const data = Buffer.alloc(679, 4);
  assert.equal(decodeMetadata(account(Buffer.alloc(0))).reason, 'missing');
  assert.equal(decodeMetadata(account(Buffer.alloc(679))).reason, 'missing');
  assert.equal(decodeMetadata({ ...account(data), lamports: 0n }).reason, 'missing');
  assert.equal(decodeMetadata(account(data, SYSTEM_PROGRAM)).reason, 'missing');
  assert.equal(decodeMetadata(account(data, TOKEN_PROGRAM)).reason, 'foreign');
  assert.equal(decodeMetadata(account(Buffer.alloc(679, 6))).reason, 'foreign');
});

test('arbitrary bytes never throw', () => {
  const owner = fc.constantFrom(TOKEN_PROGRAM, TOKEN_2022_PROGRAM, METADATA_PROGRAM, CORE_PROGRAM, SYSTEM_PROGRAM);
  const length = fc.oneof(fc.constantFrom(82, 165, 355, 607, 679), fc.integer({ min: 0, max: 700 }));
  const bytes = fc
    .tuple(
      length,
      fc.constantFrom(0, 1, 2, 3, 4, 5, 6),
      fc.infiniteStream(fc.integer({ min: 0, max: 255 })),
      fc.double({ min: 0, max: 1, noNaN: true }),
    )
    .map(([size, first, stream, density]) => {
      const data = Buffer.alloc(size);
      for (let at = 1; at < size; at += 1) if (stream.next().value! < density * 256) data[at] = stream.next().value!;
      if (size > 0) data[0] = first;
      if (size > 165) data[165] = 1 + (size % 2);
      return data;
    });
  fc.assert(
    fc.property(owner, bytes, (program, data) => {
      const given = account(data, program);
      const decoders = [
        decodeMint,
        decodeTokenAccount,
        decodeMetadata,
        decodeEdition,
        decodeCoreAsset,
        decodeCoreCollection,
      ];
      for (const decode of decoders) {
        const { value, reason } = decode(given);
        assert.equal(value === null, reason !== null);
      }
      for (const { value } of readExtensions(data)) assert.ok(value.length <= data.length);
      decodeTokenMetadata(data);
      mintExtensionsJson(readExtensions(data), true);
      accountExtensionsJson(readExtensions(data));
    }),
    { numRuns: 300 },
  );
});

test('an inscription is read whole, and one that is cut is malformed', () => {
  const text = (length: number, byte: number) =>
    Buffer.concat([Buffer.of(length, 0, 0, 0), Buffer.alloc(length, byte)]);
  fc.assert(
    fc.property(fc.nat(40), fc.boolean(), fc.nat({ max: 300 }), (length, hasHash, cut) => {
      const start = createHash('sha256').update('account:InscriptionV3').digest().subarray(0, 8);
      const hash = hasHash ? [Buffer.of(1), text(length, 0x63)] : [Buffer.of(0)];
      const texts = [text(length, 0x61), text(2, 0x62), ...hash];
      const data = Buffer.concat([start, Buffer.alloc(96, 7), Buffer.alloc(12, 1), ...texts]);
      const { value } = decodeInscription(account(data, INSCRIPTION_PROGRAM));
      assert.deepEqual(
        [value?.contentType, value?.encoding, value?.validationHash],
        ['a'.repeat(length), 'bb', hasHash ? 'c'.repeat(length) : null],
      );
      assert.deepEqual([value?.order, value?.size], [0x0101010101010101n, 0x01010101]);
      const short = data.subarray(0, Math.max(8, data.length - 1 - cut));
      assert.equal(decodeInscription(account(short, INSCRIPTION_PROGRAM)).reason, 'malformed');
      assert.equal(decodeInscription(account(data)).reason, 'foreign');
    }),
  );
});

test('a multisig account is not a token account, and uninitialized accounts are refused', () => {
  const data = Buffer.alloc(355, 1);
  data[165] = 2;
  assert.equal(decodeTokenAccount(account(data, TOKEN_2022_PROGRAM)).value, null);
  assert.equal(decodeTokenAccount(account(Buffer.alloc(165), TOKEN_PROGRAM)).reason, 'foreign');
  assert.equal(decodeMint(account(Buffer.alloc(82), TOKEN_PROGRAM)).reason, 'foreign');
  assert.equal(decodeMint(account(Buffer.alloc(0), TOKEN_PROGRAM)).reason, 'missing');
  // The padding of the shorter base is part of the form.
  const mint = Buffer.alloc(170);
  mint[45] = 1;
  mint[165] = 1;
  assert.notEqual(decodeMint(account(mint, TOKEN_2022_PROGRAM)).value, null);
  mint[100] = 1;
  assert.equal(decodeMint(account(mint, TOKEN_2022_PROGRAM)).value, null);
});

test('a default state is a word, or the number of the account', () => {
  const extensions = [{ type: 6, name: 'DefaultAccountState', value: Buffer.of(2) }] as const;
  assert.deepEqual(mintExtensionsJson(extensions, true), { default_account_state: { state: 'Frozen' } });
  assert.deepEqual(mintExtensionsJson(extensions, false), { default_account_state: { state: 2 } });
});

test('which mints are NFTs', () => {
  const one = { decimals: 0, supply: 1n };
  const many = { decimals: 6, supply: 1n };
  assert.deepEqual(
    [
      isNft(one, null),
      isNft(one, 'FungibleAsset'),
      isNft(many, null),
      isNft(many, 'Fungible'),
      isNft({ decimals: 0, supply: 0n }, 'NonFungible'),
    ],
    [true, false, false, false, true],
  );
});
