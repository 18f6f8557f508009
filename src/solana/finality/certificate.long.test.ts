import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { blockIdOf, createValidators, footerOf } from '../../../test/helpers/finality-signer.ts';
import { CertificateChecker } from './certificate.ts';

test('any flipped bit of the signers or of a signature is refused', () => {
  const stakes = Array.from({ length: 40 }, (_, index) => 1_000n + BigInt(index % 7));
  const validators = createValidators(stakes);
  const map = validators.map(1_064);
  const checker = new CertificateChecker(map);
  const all = [...stakes.keys()];
  const block = { slot: 1_000, blockId: blockIdOf('block'), shredVersion: 1 };
  const drawn = fc.record({
    // At most three of forty are absent: with one signer less it is still 85 % of the stake, so that only the signature can tell.
    absent: fc.uniqueArray(fc.nat(38), { maxLength: 3 }),
    isSlow: fc.boolean(),
    place: fc.nat(10_000),
    ofSigners: fc.boolean(),
  });
  const ranksWithout = (absent: readonly number[]) => all.filter((rank) => !absent.includes(rank));
  fc.assert(
    fc.property(drawn, ({ absent, isSlow, place, ofSigners }) => {
      const ranks = ranksWithout(absent);
      const signed = validators.sign(block, isSlow ? { ranks, finalizers: ranks } : { ranks });
      const member = isSlow && place % 2 === 0 ? 'notarization' : 'final';
      const aggregate = signed[member]!;
      const bytes = ofSigners ? aggregate.signerBitmap : aggregate.signature;
      const changed = Uint8Array.from(bytes);
      const bit = ofSigners ? 24 + (place % stakes.length) : place % (bytes.length * 8);
      changed[bit >> 3]! ^= 1 << (bit & 7);
      const forged = { ...aggregate, ...(ofSigners ? { signerBitmap: changed } : { signature: changed }) };
      const outcome = checker.check(footerOf(1_001, { ...signed, [member]: forged }), 1);
      assert.equal(
        typeof outcome,
        'string',
        JSON.stringify(outcome, (_, value) => String(value)),
      );
    }),
    { numRuns: 60 },
  );
  const whole = checker.check(footerOf(1_001, validators.sign(block, { ranks: all })), 1);
  assert.deepEqual(whole === null || typeof whole === 'string' ? whole : whole.stake, map.totalStake);
});
