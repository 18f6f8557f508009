import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { blockIdOf, createValidators, footerOf, footerUpdate } from '../../../test/helpers/finality-signer.ts';
import { encode } from '../../lib/base58.ts';
import { parseExact } from '../../lib/json.ts';
import { ProtobufReader } from '../../lib/protobuf.ts';
import { CertificateChecker, votePayloadOf } from './certificate.ts';
import { type BlockFooter, type FinalCertificate, readFooter, type VotesAggregate } from './footer.ts';
import { faultOfRankMap, type RankMap, readRankMap } from './rank-map.ts';

/** A certificate of five validators, made by one library of BLS12-381 and accepted by another. */
const SLOT = 459_653_000;
const SHRED_VERSION = 50_093;
const BLOCK_ID = blockIdOf('block');
const KEYS = [
  'b5950a4e7bb96b031410fc86d3564037c86523f93a503f525527c4f9b220c4764fc6c906eba1fbdd31ac05c184f162b5',
  'b76fcbdd79499666f5eac60b6ee27bb5dd7141a3640e0e97a8da2e1734ce398bd9a18bf0075605423feeae831e4a733d',
  '8f25d3b675c0b00031dfe6bbabfc86060c5e4b0e386f223e697d9b7bc8f83dbda6df9bed12db7be609bd1331fae241a0',
  'b1bd10a640fe2e18ac5440fb4868783e0d4ac07d207870cbe80d8b4ff59e10f9ba86cacbc67fa80234d94d2489a1d90c',
  'af43f7072026ed885510463dc9bb1822381955fa3a2eb530c4939f2c3f274023ca5a50048f1fd44669bb5d12c34d4da8',
];
const STAKES = [300n, 250n, 200n, 150n, 100n];
const FAST =
  'b811e41083f29e59667112bfc88ed3f0d142868bf362e73f302cea11b15b21d886d39b6038f544b013df4dd21568ee9503b18c350bf9fccb527dbf09d68995f4338e4f33882f20d44e934099323f22bb08b9b71c9ce761bec6b19f6d1b3fff55';
const NOTARIZED =
  'b4d0cb220b9cdd777a1c3915fd08b41757a9eee1788e047575bee8fac0305e1ebbbdb71a7fc22b8b984f462529d02b8b17b5e8f1d4e37ffbe67618240437dc5b9b880ae3f4759335cacfe84c28dd77711846f61a6e788de30da03450dd46797d';
const FINALIZED =
  'b94d10066860df20afaf6a434ebac6fb7b26fa4de9369395af01759f170c4f5d516c9e07675a6bff3a38b291f7e1e9a2141d1bcbeb960858af7b3f33c9d4c139571d4cfa3e6fbb4201d747f3ce1eb3b7ab076ebae9a8e324a0fdbd6d12119c77';

const hex = (text: string) => Uint8Array.from(Buffer.from(text, 'hex'));
const votes = (signature: string, bitmap: string, blockId = BLOCK_ID): VotesAggregate => ({
  signatureKind: 0,
  signature: hex(signature),
  blockId,
  signerBitmap: hex(bitmap),
});
const mapOf = (keys: readonly string[], stakes: readonly bigint[] = STAKES): RankMap => ({
  epoch: 1_064,
  totalStake: stakes.reduce((sum, stake) => sum + stake, 0n),
  validators: keys.map((key, rank) => ({ publicKey: hex(key), stake: stakes[rank]! })),
});
const MAP = mapOf(KEYS);
const fastWith = (bitmap: string, signature = FAST): FinalCertificate => ({
  slot: BigInt(SLOT),
  final: votes(signature, bitmap),
  notarization: null,
});
const slow: FinalCertificate = {
  slot: BigInt(SLOT),
  final: votes(FINALIZED, '0004000b', new Uint8Array(0)),
  notarization: votes(NOTARIZED, '00050013'),
};
function check(certificate: FinalCertificate, { map = MAP, shredVersion = SHRED_VERSION, footerSlot = SLOT + 2 } = {}) {
  const outcome = new CertificateChecker(map).check(footerOf(footerSlot, certificate), shredVersion);
  return typeof outcome === 'string' || outcome === null ? outcome : { rounds: outcome.rounds, stake: outcome.stake };
}

describe('the certificate of a block', () => {
  test('the bytes of votes are those that validators sign', () => {
    const bytesOf = (kind: number, blockId: Uint8Array | null) =>
      Buffer.from(votePayloadOf(kind, BigInt(SLOT), blockId, SHRED_VERSION)).toString('hex');
    assert.equal(
      bytesOf(1, BLOCK_ID),
      '0188bf651b00000000496aca80e4d8f29fb8e8cd816c3afb48d3f103970b3a2ee1600c08ca67326deeadc3',
    );
    assert.equal(bytesOf(2, null), '0288bf651b00000000adc3');
  });

  test('one round by 80 % of the stake, or two by 60 %, make a block final', () => {
    assert.deepEqual(check(fastWith('0004000f')), { rounds: 'fast', stake: 900n });
    assert.deepEqual(check(slow), { rounds: 'slow', stake: 650n });
    // Bits beyond the number of positions are ignored.
    assert.deepEqual(check(fastWith('000400ff')), { rounds: 'fast', stake: 900n });
    const outcome = new CertificateChecker(MAP).check(footerOf(SLOT + 1, fastWith('0004000f')), SHRED_VERSION);
    assert.deepEqual(outcome, { slot: SLOT, blockId: BLOCK_ID, rounds: 'fast', stake: 900n, totalStake: 1_000n });
    assert.equal(new CertificateChecker(MAP).check(footerOf(SLOT, null), SHRED_VERSION), null);
  });

  test('a certificate that differs in anything is refused', () => {
    const cases: [string, string | object | null, string][] = [
      ['a bit more', check(fastWith('0005001f')), 'verify'],
      ['a bit less', check(fastWith('0004000d')), 'stake'],
      ['too little stake for one round', check({ ...slow, final: slow.notarization!, notarization: null }), 'stake'],
      ['another shred version', check(fastWith('0004000f'), { shredVersion: 50_094 }), 'verify'],
      ['another slot', check({ ...fastWith('0004000f'), slot: BigInt(SLOT + 1) }, { footerSlot: SLOT + 3 }), 'verify'],
      ['a slot that is not below the footer', check(fastWith('0004000f'), { footerSlot: SLOT }), 'slot'],
      ['an unknown base of the bitmap', check(fastWith('0204000f')), 'bitmap'],
      ['base 3 of the bitmap', check(fastWith('0104000f')), 'bitmap'],
      ['more positions than validators', check(fastWith('0006000f')), 'bitmap'],
      ['a byte too many in the bitmap', check(fastWith('0004000f00')), 'bitmap'],
      ['a bitmap without positions', check(fastWith('00')), 'bitmap'],
      ['no signer', check(fastWith('000000')), 'stake'],
      ['a signature of 95 bytes', check(fastWith('0004000f', FAST.slice(0, -2))), 'signature'],
      ['bytes that are no point', check(fastWith('0004000f', 'ff'.repeat(96))), 'signature'],
      ['the identity', check(fastWith('0004000f', `c0${'00'.repeat(95)}`)), 'verify'],
      [
        'another kind of signature',
        check({ ...fastWith('0004000f'), final: { ...votes(FAST, '0004000f'), signatureKind: 1 } }),
        'signature',
      ],
      [
        'a block id of 31 bytes',
        check({ ...fastWith('0004000f'), final: votes(FAST, '0004000f', BLOCK_ID.slice(1)) }),
        'block-id',
      ],
      [
        'another block id',
        check({ ...fastWith('0004000f'), final: votes(FAST, '0004000f', blockIdOf('other')) }),
        'verify',
      ],
      ['a block id in votes on a slot', check({ ...slow, final: votes(FINALIZED, '0004000b') }), 'block-id'],
      ['rounds exchanged', check({ ...slow, final: { ...slow.notarization!, blockId: new Uint8Array(0) } }), 'verify'],
      [
        'keys 0 and 4 exchanged',
        check(fastWith('0004000f'), { map: mapOf([KEYS[4]!, KEYS[1]!, KEYS[2]!, KEYS[3]!, KEYS[0]!]) }),
        'verify',
      ],
      [
        'a key that is no point',
        check(fastWith('0004000f'), { map: mapOf(['ff'.repeat(48), ...KEYS.slice(1)]) }),
        'key',
      ],
      [
        'a key that is the identity',
        check(fastWith('0004000f'), { map: mapOf([`c0${'00'.repeat(47)}`, ...KEYS.slice(1)]) }),
        'key',
      ],
    ];
    for (const [name, outcome, expected] of cases) assert.equal(outcome, expected, name);
  });

  test('exactly 80 % is enough, and one lamport less is not', () => {
    const enough = createValidators([400n, 400n, 200n]);
    const less = createValidators([400n, 399n, 200n]);
    const block = { slot: 7, blockId: BLOCK_ID, shredVersion: 2 };
    const outcomes = [enough, less].map((validators) =>
      new CertificateChecker(validators.map(0)).check(footerOf(8, validators.sign(block, { ranks: [0, 1] })), 2),
    );
    assert.equal((outcomes[0] as { stake: bigint }).stake, 800n);
    assert.equal(outcomes[1], 'stake');
  });
});

describe('the ranks of an epoch', () => {
  const textOf = (
    change: (validators: Record<string, unknown>[]) => unknown[] = (same) => same,
    total: unknown = 1_000,
  ) =>
    parseExact(
      JSON.stringify({
        epoch: 1_064,
        totalStake: total,
        validators: change(
          KEYS.map((key, rank) => ({ rank, stake: Number(STAKES[rank]), blsPubkeyCompressed: encode(hex(key)) })),
        ),
      }),
    );

  test('the answer of a node is read, with stakes above 2^53', () => {
    assert.deepEqual(readRankMap(textOf(), 1_064), MAP);
    const large = createValidators([2n ** 54n + 1n, 2n ** 53n + 1n]);
    const read = readRankMap(parseExact(large.mapText(3)), 3);
    assert.deepEqual(read, large.map(3));
    assert.equal((read as RankMap).totalStake, 27_021_597_764_222_978n);
  });

  test('a map out of order, with a doubled key, a wrong sum or of another epoch is refused', () => {
    const swap = ([a, b, ...rest]: Record<string, unknown>[]) => [{ ...b, rank: 0 }, { ...a, rank: 1 }, ...rest];
    const cases: [string, unknown, string][] = [
      ['order of stakes', readRankMap(textOf(swap), 1_064), 'order'],
      [
        'order of keys with equal stakes',
        faultOfRankMap(mapOf([KEYS[0]!, KEYS[1]!, KEYS[2]!], [300n, 250n, 250n])),
        'order',
      ],
      [
        'doubled key',
        readRankMap(
          textOf((all) => [...all.slice(0, 4), { ...all[4], blsPubkeyCompressed: all[0]!['blsPubkeyCompressed'] }]),
          1_064,
        ),
        'doubled-key',
      ],
      ['sum', readRankMap(textOf(undefined, 1_001), 1_064), 'sum'],
      ['epoch', readRankMap(textOf(), 1_065), 'epoch'],
      [
        'ranks',
        readRankMap(
          textOf((all) => all.slice(1)),
          1_064,
        ),
        'ranks',
      ],
      [
        'no stake',
        readRankMap(
          textOf((all) => [...all.slice(0, 4), { ...all[4], stake: 0 }]),
          1_064,
        ),
        'malformed',
      ],
      [
        'short key',
        readRankMap(
          textOf((all) => [{ ...all[0], blsPubkeyCompressed: 'abc' }]),
          1_064,
        ),
        'malformed',
      ],
      ['nothing', readRankMap(null, 1_064), 'malformed'],
      [
        'no validators',
        readRankMap(
          textOf(() => []),
          1_064,
        ),
        'malformed',
      ],
    ];
    for (const [name, outcome, expected] of cases) assert.equal(outcome, expected, name);
  });
});

test('a footer is read from the bytes of an update', () => {
  const written: BlockFooter = footerOf(SLOT + 2, slow);
  const reader = new ProtobufReader(footerUpdate(written));
  let read: BlockFooter | null = null;
  for (let field = reader.next(); field !== 0; field = reader.next())
    if (field === 12) read = readFooter(reader.view());
    else reader.skip();
  assert.deepEqual(read, written);
});
