import { FULL_ROUNDS, type PoseidonParameters } from '../parameters.ts';
import type { Recurrence } from '../recurrence.ts';
import { type Code, defineFunction, encodeModule } from './assembler.ts';
import { LIMBS, limbsOf, montgomery, RADIX_SQUARED } from './limbs.ts';
import { ELEMENT_BYTES, writeDot, writeMultiply, writeSquare } from './products.ts';

export const MEMORY_EXPORT = 'm';
export const HASH_EXPORT = 'h';
const FIRST_ADDRESS = 1_024;
const PAGE_BYTES = 65_536;

export interface KernelModule {
  readonly bytes: Uint8Array;
  /** Address of the inputs: an element each, raw numbers below 2^256. */
  readonly input: number;
  /** Address of the result: an element in [0, prime]. */
  readonly output: number;
}

/** Constants and scratch elements in linear memory. */
interface Memory {
  constant(value: bigint, form?: 'raw'): number;
  /** Constants in a row. */
  row(values: readonly bigint[]): number;
  space(elements: number): number;
  readonly end: number;
  readonly image: Uint8Array;
}

/**
 * A module that hashes two inputs lists at once, one in each lane, from `input` to `output`. Its constants come along as data, so that
 * a compiled module is all that another thread needs.
 */
export function buildKernelModule(parameters: PoseidonParameters, recurrence: Recurrence): KernelModule {
  const { width } = parameters;
  const widths = [
    width,
    ...recurrence.start.map(({ coefficients }) => coefficients.length),
    2 * width - 1,
    2 * width - 2,
  ];
  const dots = [1, ...new Set(widths)];
  const functions = [
    defineFunction(2, writeSquare),
    defineFunction(3, writeMultiply),
    ...dots.map((terms) => defineFunction(4, (code) => writeDot(code, terms))),
  ];
  const memory = createMemory();
  const input = memory.space(width - 1);
  const output = memory.space(1);
  const calls = { dot: (terms: number) => 2 + dots.indexOf(terms) };
  functions.push(
    defineFunction(0, (code) => writeHash(code, { parameters, recurrence, memory, input, output, ...calls })),
  );
  const bytes = encodeModule({
    functions,
    exported: { name: HASH_EXPORT, index: functions.length - 1 },
    memoryName: MEMORY_EXPORT,
    memoryPages: Math.ceil(memory.end / PAGE_BYTES),
    data: { address: FIRST_ADDRESS, bytes: memory.image },
  });
  return { bytes, input, output };
}

interface HashParts {
  readonly parameters: PoseidonParameters;
  readonly recurrence: Recurrence;
  readonly memory: Memory;
  readonly input: number;
  readonly output: number;
  /** Function index of the sum of so many products. */
  dot(terms: number): number;
}

const at = (address: number, index: number) => address + index * ELEMENT_BYTES;

/** The steps of a hash as calls of the functions above. */
interface Steps {
  dot(terms: number, a: number, b: number, constant: number, to: number): void;
  multiply(a: number, b: number, to: number): void;
  /** to = from^5. */
  power(from: number, to: number): void;
  /** The S-box on the whole state, then the first `count` rows of the matrix. */
  mix(target: (i: number) => number, constant: (i: number) => number, count?: number): void;
  readonly state: number;
}

function createSteps(code: Code, { parameters: { width, matrix }, memory, dot }: HashParts): Steps {
  const [state, powers] = [memory.space(width), memory.space(width)];
  const [second, fourth] = [memory.space(1), memory.space(1)];
  const rows = matrix.map(memory.row);
  const square = (from: number, to: number) => code.i32(from).i32(to).call(0);
  const steps: Steps = {
    state,
    dot: (terms, a, b, constant, to) => void code.i32(a).i32(b).i32(constant).i32(to).call(dot(terms)),
    multiply: (a, b, to) => void code.i32(a).i32(b).i32(to).call(1),
    power(from, to) {
      square(from, second);
      square(second, fourth);
      steps.multiply(fourth, from, to);
    },
    mix(target, constant, count = width) {
      for (let i = 0; i < width; i += 1) steps.power(at(state, i), at(powers, i));
      for (let i = 0; i < count; i += 1) steps.dot(width, powers, rows[i] as number, constant(i), target(i));
    },
  };
  return steps;
}

function writeHash(code: Code, parts: HashParts): void {
  const { parameters, memory, input, output } = parts;
  const { width, partialRounds, constants } = parameters;
  const n = width - 1;
  const half = FULL_ROUNDS / 2;
  const steps = createSteps(code, parts);
  const { state } = steps;
  const ark = (round: number, i: number) => memory.constant(constants[round * width + i] as bigint);
  const zero = memory.constant(0n);
  const inState = (i: number) => at(state, i);

  // Into Montgomery's form, the first constants added. The first element is zero.
  const scale = memory.constant(RADIX_SQUARED, 'raw');
  steps.dot(1, zero, zero, ark(0, 0), state);
  for (let i = 0; i < n; i += 1) steps.dot(1, at(input, i), scale, ark(0, i + 1), at(state, i + 1));
  for (let round = 1; round < half; round += 1) steps.mix(inState, (i) => ark(round, i));
  writePartialRounds(code, steps, parts, zero);
  for (let round = half + partialRounds + 1; round < FULL_ROUNDS + partialRounds; round += 1)
    steps.mix(inState, (i) => ark(round, i));
  steps.mix(inState, () => zero, 1);
  steps.multiply(state, memory.constant(1n, 'raw'), output);
}

/** From the last full round of the first half to the state before the first of the second half. */
function writePartialRounds(code: Code, steps: Steps, parts: HashParts, zero: number): void {
  const { recurrence, memory } = parts;
  const { width, partialRounds: rounds } = parts.parameters;
  const n = width - 1;
  // The elements that partial rounds do not touch, followed by the first outputs of the S-box.
  const resting = memory.space(2 * n);
  // y_0 u_0 y_1 u_1 ...
  const track = memory.space(2 * rounds + 1);
  const [y, u] = [(k: number) => at(track, 2 * k), (k: number) => at(track, 2 * k + 1)];
  const first = memory.constant(recurrence.first);
  steps.mix(
    (i) => (i === 0 ? y(0) : at(resting, i - 1)),
    (i) => (i === 0 ? first : zero),
  );
  const step = memory.row(recurrence.step);
  for (let k = 0; k < rounds; k += 1) {
    steps.power(y(k), u(k));
    const row = recurrence.start[k];
    if (row === undefined) {
      const constant = memory.constant(recurrence.stepConstants[k - n] as bigint);
      steps.dot(2 * n + 1, u(k - n), step, constant, y(k + 1));
      continue;
    }
    copy(code, u(k), at(resting, n + k));
    const { coefficients } = row;
    steps.dot(coefficients.length, resting, memory.row(coefficients), memory.constant(row.constant), y(k + 1));
  }
  recurrence.end.forEach(({ coefficients, constant }, i) => {
    const to = at(steps.state, i + 1);
    steps.dot(2 * n, u(rounds - n), memory.row(coefficients), memory.constant(constant), to);
  });
  copy(code, y(rounds), steps.state);
}

function copy(code: Code, from: number, to: number): void {
  for (let limb = 0; limb < LIMBS; limb += 1) {
    code
      .i32(to)
      .i32(from)
      .load64(8 * limb)
      .store64(8 * limb);
  }
}

function createMemory(): Memory {
  const known = new Map<string, number>();
  const written: { readonly address: number; readonly limbs: readonly number[] }[] = [];
  let end = FIRST_ADDRESS;
  const space = (elements: number) => {
    const address = end;
    end += elements * ELEMENT_BYTES;
    return address;
  };
  const place = (name: string, values: readonly bigint[]) => {
    const found = known.get(name);
    if (found !== undefined) return found;
    const address = space(values.length);
    values.forEach((value, i) => void written.push({ address: at(address, i), limbs: limbsOf(value) }));
    known.set(name, address);
    return address;
  };
  return {
    space,
    row: (values) => place(values.join(), values.map(montgomery)),
    constant: (value, form) => place(`${form ?? ''}${value}`, [form === 'raw' ? value : montgomery(value)]),
    get end() {
      return end;
    },
    get image() {
      const image = new Uint32Array((end - FIRST_ADDRESS) / 4);
      for (const { address, limbs } of written) {
        const first = (address - FIRST_ADDRESS) / 4;
        for (const [i, limb] of limbs.entries()) image.fill(limb, first + 2 * i, first + 2 * i + 2);
      }
      return new Uint8Array(image.buffer);
    },
  };
}
