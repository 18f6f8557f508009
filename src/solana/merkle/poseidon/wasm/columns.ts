import type { Code } from './assembler.ts';
import { LIMB_BITS, LIMBS, NEGATIVE_INVERSE, PRIME_LIMBS } from './limbs.ts';

/** Puts the product of two limbs of a term on the stack; false when it is counted elsewhere. */
export type PairProduct = (term: number, left: number, right: number) => boolean;

export interface Sum {
  readonly terms: number;
  readonly product: PairProduct;
  /** Parameter with the address of the result. */
  readonly out: number;
  /** Parameter with the address of an element to be added, or null. */
  readonly constant: number | null;
}

const COLUMNS = 2 * LIMBS - 1;
const MASK = 2 ** LIMB_BITS - 1;
/** The low half of each 64-bit lane, side by side. */
const PACK = [0, 1, 2, 3, 8, 9, 10, 11, 0, 1, 2, 3, 8, 9, 10, 11];
/**
 * A column adds up 9 products below 2^58 for each term, as many for the reduction, a carry below 2^36 and a constant limb: 2^64 holds
 * six terms and the reduction. Sums of more terms are split, and the high part of the extra ones joins the carry.
 */
const MAX_TERMS = 6;

/**
 * Montgomery's product column by column: each is reduced as soon as it is complete. With at most 15 terms whose factors are a value
 * below 2.4 primes and a constant below the prime every result is again below 2.4 primes, so that nothing is ever subtracted.
 */
export function writeSum(code: Code, sum: Sum): void {
  const locals = declareLocals(code);
  for (let column = 0; column < COLUMNS; column += 1) {
    addOwnTerms(code, sum, locals, column);
    const high = addExtraTerms(code, sum, locals, column);
    if (column < LIMBS) reduce(code, locals);
    else {
      code.get(sum.out).get(locals.sum).get(locals.sum).shuffle(PACK).get(locals.mask32).and();
      code.store64(8 * (column - LIMBS));
    }
    code.get(locals.sum).shiftRight64(LIMB_BITS);
    for (const part of high) code.get(part).add64();
    code.set(locals.carry);
  }
  code.get(sum.out).get(locals.carry);
  addConstant(code, sum, LIMBS - 1);
  code.set(locals.sum).get(locals.sum).get(locals.sum).shuffle(PACK);
  code.store64(8 * (LIMBS - 1));
}

interface Locals {
  readonly prime: readonly number[];
  readonly mask32: number;
  readonly mask64: number;
  readonly inverse: number;
  readonly sum: number;
  readonly carry: number;
  readonly part: number;
  /** Of the columns so far. */
  readonly quotients: number[];
}

function declareLocals(code: Code): Locals {
  const same = (value: number) => {
    const local = code.local();
    code.lanes(value, value, value, value).set(local);
    return local;
  };
  const mask64 = code.local();
  code.lanes(MASK, 0, MASK, 0).set(mask64);
  return {
    prime: PRIME_LIMBS.map(same),
    mask32: same(MASK),
    mask64,
    inverse: same(NEGATIVE_INVERSE),
    sum: code.local(),
    carry: code.local(),
    part: code.local(),
    quotients: [],
  };
}

/** The first terms, what the reduction adds, carry and constant. */
function addOwnTerms(code: Code, sum: Sum, { quotients, prime, carry, ...locals }: Locals, column: number): void {
  addProducts(code, sum, column, 0, Math.min(sum.terms, MAX_TERMS));
  for (let i = Math.max(0, column - LIMBS + 1); i < Math.min(column, LIMBS); i += 1)
    code
      .get(quotients[i] as number)
      .get(prime[column - i] as number)
      .widenMultiply()
      .add64();
  if (column > 0) code.get(carry).add64();
  if (column >= LIMBS) addConstant(code, sum, column - LIMBS);
  code.set(locals.sum);
}

/** The other terms: low parts into the column, high parts, which are returned, into the carry. */
function addExtraTerms(code: Code, sum: Sum, locals: Locals, column: number): readonly number[] {
  const parts: number[] = [];
  for (let from = MAX_TERMS; from < sum.terms; from += MAX_TERMS) {
    addProducts(code, sum, column, from, Math.min(sum.terms, from + MAX_TERMS));
    code.set(locals.part);
    const high = code.local();
    code.get(locals.part).shiftRight64(LIMB_BITS).set(high);
    code.get(locals.part).get(locals.mask64).and().get(locals.sum).add64().set(locals.sum);
    parts.push(high);
  }
  return parts;
}

/** Leaves the sum of the products of these terms on the stack. */
function addProducts(code: Code, { product }: Sum, column: number, from: number, to: number): void {
  let isFirst = true;
  for (let term = from; term < to; term += 1) {
    for (let left = Math.max(0, column - LIMBS + 1); left <= Math.min(column, LIMBS - 1); left += 1) {
      if (!product(term, left, column - left)) continue;
      if (!isFirst) code.add64();
      isFirst = false;
    }
  }
}

/** Adds the multiple of the prime that makes the column's low bits zero. */
function reduce(code: Code, { sum, inverse, mask32, prime, quotients }: Locals): void {
  const quotient = code.local();
  code.get(sum).get(sum).shuffle(PACK).get(inverse).multiply32().get(mask32).and().set(quotient);
  quotients.push(quotient);
  code.get(sum).get(quotient);
  code
    .get(prime[0] as number)
    .widenMultiply()
    .add64()
    .set(sum);
}

function addConstant(code: Code, { constant }: Sum, limb: number): void {
  if (constant === null) return;
  code.get(constant).load64(8 * limb);
  code.widen().add64();
}
