import { modulo, PRIME } from '../field.ts';

/** Elements are nine limbs of 29 bits, lowest first, times 2^261: seven bits above the prime spare every subtraction in between. */
export const LIMBS = 9;
export const LIMB_BITS = 29;
const RADIX = 1n << BigInt(LIMBS * LIMB_BITS);

export function limbsOf(value: bigint): number[] {
  return Array.from({ length: LIMBS }, (_, i) =>
    Number((value >> BigInt(i * LIMB_BITS)) & ((1n << BigInt(LIMB_BITS)) - 1n)),
  );
}

/** value * 2^261, the form in which elements are multiplied. */
export function montgomery(value: bigint): bigint {
  return modulo(value * RADIX);
}

export const PRIME_LIMBS = limbsOf(PRIME);
/** -1 / prime modulo 2^29. */
export const NEGATIVE_INVERSE = 0x0fffffff;
/** Turns a plain number into the other form when the two are multiplied. */
export const RADIX_SQUARED = modulo(RADIX * RADIX);
