import { createHash } from 'node:crypto';
import { decode32 } from '../../lib/base58.ts';
import { isOnCurve } from './on-curve.ts';

const BUBBLEGUM = 'BGUMAp9Gq7iTEuizy4pqaxsTyUCBK68MDfK752saRPUY';
const HIGHEST_BUMP = 255;

/** The id of the asset with this number in a tree: an address that Bubblegum derives and that nobody has a key for. */
export function assetId(tree: Uint8Array, nonce: bigint): Uint8Array {
  const number = Buffer.alloc(8);
  number.writeBigUInt64LE(nonce);
  return programAddress([Buffer.from('asset'), tree, number], decode32(BUBBLEGUM) as Uint8Array);
}

function programAddress(seeds: readonly Uint8Array[], program: Uint8Array): Uint8Array {
  for (let bump = HIGHEST_BUMP; bump >= 0; bump -= 1) {
    const hash = createHash('sha256');
    for (const seed of seeds) hash.update(seed);
    const address = hash.update(Uint8Array.of(bump)).update(program).update('ProgramDerivedAddress').digest();
    if (!isOnCurve(address)) return Uint8Array.from(address);
  }
  throw new RangeError('all bumps lead to points of the curve');
}
