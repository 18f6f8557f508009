import { createHash } from 'node:crypto';
import { decode32, encode32 } from '../../lib/base58.ts';
import { isOnCurve } from './on-curve.ts';

const HIGHEST_BUMP = 255;

/** A key that is written in the code. Throws TypeError when the text is no key. */
export function knownKey(text: string): Uint8Array {
  const key = decode32(text);
  if (key === null) throw new TypeError(`${text} is no key`);
  return key;
}

/** The address that a program derives from seeds, for which nobody has a key, as 32 bytes. Throws RangeError where none exists. */
export function programAddress(seeds: readonly Uint8Array[], program: Uint8Array): Uint8Array {
  for (let bump = HIGHEST_BUMP; bump >= 0; bump -= 1) {
    const hash = createHash('sha256');
    for (const seed of seeds) hash.update(seed);
    const address = hash.update(Uint8Array.of(bump)).update(program).update('ProgramDerivedAddress').digest();
    if (!isOnCurve(address)) return Uint8Array.from(address);
  }
  throw new RangeError('all bumps lead to points of the curve');
}

/** The same with keys in base58: seeds are texts, taken as UTF-8, or bytes. */
export function programAddressText(seeds: readonly (string | Uint8Array)[], program: string): string {
  const bytes = seeds.map((seed) => (typeof seed === 'string' ? Buffer.from(seed) : seed));
  return encode32(programAddress(bytes, knownKey(program)));
}
