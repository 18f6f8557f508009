import { inverse, type Matrix, modulo, PRIME } from './field.ts';

/** Full rounds: half of them before the partial rounds, half after. */
export const FULL_ROUNDS = 8;
/** Partial rounds by width, from 2 on. */
const PARTIAL_ROUNDS = [56, 57, 56, 60, 60, 63, 64, 63, 60, 66, 60, 65];
export const MAX_INPUTS = PARTIAL_ROUNDS.length;
const FIELD_BITS = 254;

/** The circom parameters of Poseidon over the BN254 scalar field with the S-box x^5. */
export interface PoseidonParameters {
  /** State elements: inputs + 1. */
  readonly width: number;
  readonly partialRounds: number;
  /** Round constants in round-major order: `constants[round * width + element]`. */
  readonly constants: readonly bigint[];
  /** `next[i] = sum of matrix[i][j] * state[j]`. */
  readonly matrix: Matrix;
}

/** Generates the parameters for 1 to 12 inputs by the Grain generator of the Poseidon paper. Throws RangeError. */
export function poseidonParameters(inputs: number): PoseidonParameters {
  const partialRounds = PARTIAL_ROUNDS[inputs - 1];
  if (partialRounds === undefined) throw new RangeError(`Poseidon takes 1 to ${MAX_INPUTS} inputs, not ${inputs}`);
  const width = inputs + 1;
  const bits = grain(width, partialRounds);
  const constants: bigint[] = [];
  while (constants.length < (FULL_ROUNDS + partialRounds) * width) {
    const value = number(bits);
    if (value < PRIME) constants.push(value);
  }
  return { width, partialRounds, constants, matrix: cauchyMatrix(width, bits) };
}

/** 1 / (x_i + y_j) for distinct x and y, which is invertible in all its parts. */
function cauchyMatrix(width: number, bits: () => 0 | 1): Matrix {
  for (;;) {
    const values = Array.from({ length: 2 * width }, () => modulo(number(bits)));
    if (new Set(values).size !== values.length) continue;
    const [xs, ys] = [values.slice(0, width), values.slice(width)];
    return xs.map((x) => ys.map((y) => inverse(x + y)));
  }
}

function number(bits: () => 0 | 1): bigint {
  let digits = '0b';
  for (let i = 0; i < FIELD_BITS; i += 1) digits += bits();
  return BigInt(digits);
}

/** An 80-bit shift register, seeded with the instance; of each pair of its bits the first decides whether the second counts. */
function grain(width: number, partialRounds: number): () => 0 | 1 {
  const seed = [
    [1, 2],
    [0, 4],
    [FIELD_BITS, 12],
    [width, 12],
    [FULL_ROUNDS, 10],
    [partialRounds, 10],
  ]
    .map(([value, length]) => (value as number).toString(2).padStart(length as number, '0'))
    .join('')
    .padEnd(80, '1');
  const register = Uint8Array.from(seed, Number);
  let first = 0;
  const at = (offset: number) => register[(first + offset) % 80] as number;
  const step = (): 0 | 1 => {
    const bit = at(62) ^ at(51) ^ at(38) ^ at(23) ^ at(13) ^ at(0);
    register[first] = bit;
    first = (first + 1) % 80;
    return bit as 0 | 1;
  };
  for (let i = 0; i < 160; i += 1) step();
  return () => {
    while (step() === 0) step();
    return step();
  };
}
