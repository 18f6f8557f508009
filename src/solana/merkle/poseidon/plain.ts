import { apply, FULL_ROUNDS, modulo, type PoseidonParameters, PRIME } from './field.ts';

/**
 * Poseidon as it is defined, in BigInt: the oracle of the fast kernel, and its stand-in where WebAssembly knows no SIMD. Throws
 * RangeError for an input that is not below the prime.
 */
export function plainPoseidon(parameters: PoseidonParameters, inputs: readonly bigint[]): bigint {
  const { width, partialRounds, constants, matrix } = parameters;
  if (inputs.some((input) => input < 0n || input >= PRIME)) throw new RangeError('an input is not below the prime');
  let state = [0n, ...inputs];
  const half = FULL_ROUNDS / 2;
  for (let round = 0; round < FULL_ROUNDS + partialRounds; round += 1) {
    const isFull = round < half || round >= half + partialRounds;
    state = state.map((value, i) => {
      const sum = modulo(value + (constants[round * width + i] as bigint));
      return isFull || i === 0 ? fifthPower(sum) : sum;
    });
    state = apply(matrix, state);
  }
  return state[0] as bigint;
}

function fifthPower(value: bigint): bigint {
  const square = (value * value) % PRIME;
  return (((square * square) % PRIME) * value) % PRIME;
}
