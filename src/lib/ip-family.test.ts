import assert from 'node:assert/strict';
import { isIP } from 'node:net';
import { test } from 'node:test';
import fc from 'fast-check';
import { ipFamily } from './ip-family.ts';

const KNOWN = [
  '',
  '::',
  '::1 ',
  '1::2::3',
  '::ffff:1.2.3.4',
  '::01.2.3.4',
  'fe80::1%eth0',
  '::1%',
  '::%a/b',
  '::1\u0000',
];
const piece = fc.constantFrom(...':.%/- 019afFgz\u0000', '::', '1.2.3.4', '256', '00001', 'ffff', '%eth0');

test('it is the family that Node names, for addresses, near misses and any text', () => {
  for (const text of KNOWN) assert.equal(ipFamily(text), isIP(text), text);
  const pieces = fc.array(piece, { maxLength: 20 }).map((all) => all.join(''));
  fc.assert(
    fc.property(fc.oneof(fc.ipV4(), fc.ipV6(), pieces, fc.string()), (text) => ipFamily(text) === isIP(text)),
    { numRuns: 5_000 },
  );
});
