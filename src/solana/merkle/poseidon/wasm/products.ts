import type { Code } from './assembler.ts';
import { type PairProduct, writeSum } from './columns.ts';
import { LIMBS } from './limbs.ts';

/** A field element in memory: for each limb the limb of the first and of the second hash, 4 bytes each. */
export const ELEMENT_BYTES = LIMBS * 8;
/** Above this many terms the factors no longer fit into registers or near them, and are read where they are used. */
const MAX_LOADED_TERMS = 5;

/** out = a * a / 2^261. Parameters: a, out. */
export function writeSquare(code: Code): void {
  const limbs = loadLimbs(code, 0, 1);
  const doubled = limbs.map((limb) => {
    const local = code.local();
    code.get(limb).get(limb).add32().set(local);
    return local;
  });
  const product: PairProduct = (_, left, right) => {
    // Each pair of different limbs is met twice.
    if (left > right) return false;
    const first = left === right ? limbs : doubled;
    code.get(first[left] as number).get(limbs[right] as number);
    code.widenMultiply();
    return true;
  };
  writeSum(code, { terms: 1, product, out: 1, constant: null });
}

/** out = a * b / 2^261. Parameters: a, b, out. */
export function writeMultiply(code: Code): void {
  writeSum(code, { terms: 1, product: loadedProduct(code, 1), out: 2, constant: null });
}

/** out = (a_1 * b_1 + .. + a_n * b_n) / 2^261 + c; a and b are n elements in a row. Parameters: a, b, c, out. */
export function writeDot(code: Code, terms: number): void {
  const product = terms <= MAX_LOADED_TERMS ? loadedProduct(code, terms) : readProduct(code);
  writeSum(code, { terms, product, out: 3, constant: 2 });
}

function loadedProduct(code: Code, terms: number): PairProduct {
  const a = loadLimbs(code, 0, terms);
  const b = loadLimbs(code, 1, terms);
  return (term, left, right) => {
    code.get(a[term * LIMBS + left] as number).get(b[term * LIMBS + right] as number);
    code.widenMultiply();
    return true;
  };
}

function readProduct(code: Code): PairProduct {
  return (term, left, right) => {
    code.get(0).load64(term * ELEMENT_BYTES + 8 * left);
    code.get(1).load64(term * ELEMENT_BYTES + 8 * right);
    code.widenMultiply();
    return true;
  };
}

function loadLimbs(code: Code, address: number, elements: number): number[] {
  return Array.from({ length: elements * LIMBS }, (_, i) => {
    const local = code.local();
    code.get(address).load64(8 * i);
    code.set(local);
    return local;
  });
}
