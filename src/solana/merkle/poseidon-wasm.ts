import { FULL_ROUNDS, modulo, type PoseidonParameters, PRIME, type Recurrence } from './poseidon-field.ts';

/** Elements are nine limbs of 29 bits, lowest first, times 2^261: seven bits above the prime avoid every intermediate subtraction. */
export const LIMBS = 9;
export const LIMB_BITS = 29;
const RADIX = 1n << BigInt(LIMBS * LIMB_BITS);

function limbsOf(value: bigint): number[] {
  return Array.from({ length: LIMBS }, (_, i) =>
    Number((value >> BigInt(i * LIMB_BITS)) & ((1n << BigInt(LIMB_BITS)) - 1n)),
  );
}

/** value * 2^261, the Montgomery form in which elements are multiplied. */
function montgomery(value: bigint): bigint {
  return modulo(value * RADIX);
}

export const PRIME_LIMBS = limbsOf(PRIME);
/** -1 / prime modulo 2^29. */
const NEGATIVE_INVERSE = 0x0fffffff;
/** Multiplying by this converts a number to Montgomery form. */
const RADIX_SQUARED = modulo(RADIX * RADIX);

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
 * A module that hashes two input lists at once, one per lane, from `input` to `output`. Its constants are part of the module, so that
 * another thread needs only the compiled module.
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
  /** Function index of the sum of this many products. */
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

  // To Montgomery form, with the first constants added. The first element is zero.
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

/** A field element in memory: for each limb the limb of the first and of the second hash, 4 bytes each. */
const ELEMENT_BYTES = LIMBS * 8;
/** Above this many terms the factors do not fit into registers, and are read where they are used. */
const MAX_LOADED_TERMS = 5;

/** out = a * a / 2^261. Parameters: a, out. */
function writeSquare(code: Code): void {
  const limbs = loadLimbs(code, 0, 1);
  const doubled = limbs.map((limb) => {
    const local = code.local();
    code.get(limb).get(limb).add32().set(local);
    return local;
  });
  const product: PairProduct = (_, left, right) => {
    // Each pair of different limbs occurs twice.
    if (left > right) return false;
    const first = left === right ? limbs : doubled;
    code.get(first[left] as number).get(limbs[right] as number);
    code.widenMultiply();
    return true;
  };
  writeSum(code, { terms: 1, product, out: 1, constant: null });
}

/** out = a * b / 2^261. Parameters: a, b, out. */
function writeMultiply(code: Code): void {
  writeSum(code, { terms: 1, product: loadedProduct(code, 1), out: 2, constant: null });
}

/** out = (a_1 * b_1 + .. + a_n * b_n) / 2^261 + c; a and b are n elements in a row. Parameters: a, b, c, out. */
function writeDot(code: Code, terms: number): void {
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

/** Pushes the product of two limbs of a term on the stack; false when it is counted elsewhere. */
type PairProduct = (term: number, left: number, right: number) => boolean;

interface Sum {
  readonly terms: number;
  readonly product: PairProduct;
  /** Parameter with the address of the result. */
  readonly out: number;
  /** Parameter with the address of an element to add, or null. */
  readonly constant: number | null;
}

const COLUMNS = 2 * LIMBS - 1;
const MASK = 2 ** LIMB_BITS - 1;
/** The low halves of the 64-bit lanes, packed. */
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
function writeSum(code: Code, sum: Sum): void {
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
  /** Quotients of the columns so far. */
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

/** The other terms: low parts into the column; high parts, which are returned, into the carry. */
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

/** Writes WebAssembly modules: only the sections and instructions that the kernel needs. */

const I32 = 0x7f;
const V128 = 0x7b;

/** Instructions of one function, its parameters being the locals from 0 on. */
interface Code {
  /** A new local of type v128. */
  local(): number;
  get(local: number): Code;
  set(local: number): Code;
  i32(value: number): Code;
  call(index: number): Code;
  /** The 8 bytes at `address + offset`, the rest zero. */
  load64(offset: number): Code;
  /** The low 8 bytes to `address + offset`; the address and the value are on the stack. */
  store64(offset: number): Code;
  /** A vector with these four 32-bit lanes. */
  lanes(a: number, b: number, c: number, d: number): Code;
  shuffle(bytes: readonly number[]): Code;
  shiftRight64(bits: number): Code;
  and(): Code;
  add64(): Code;
  add32(): Code;
  multiply32(): Code;
  /** Products of the two low 32-bit lanes, as two 64-bit lanes. */
  widenMultiply(): Code;
  /** The two low 32-bit lanes as two 64-bit lanes. */
  widen(): Code;
}

interface WasmFunction {
  readonly parameters: number;
  readonly body: readonly number[];
}

interface ModuleParts {
  readonly functions: readonly WasmFunction[];
  /** Name and function index. */
  readonly exported: { readonly name: string; readonly index: number };
  readonly memoryName: string;
  /** Pages of 64 KiB. */
  readonly memoryPages: number;
  readonly data: { readonly address: number; readonly bytes: Uint8Array };
}

/** A function that takes `parameters` addresses and returns nothing. */
function defineFunction(parameters: number, write: (code: Code) => void): WasmFunction {
  const { code, bytes, locals } = createCode(parameters);
  write(code);
  const declared = locals() === 0 ? [0] : [1, ...unsigned(locals()), V128];
  return { parameters, body: sized([...declared, ...bytes, 0x0b]) };
}

function encodeModule({ functions, exported, memoryName, memoryPages, data }: ModuleParts): Uint8Array {
  const most = Math.max(...functions.map(({ parameters }) => parameters));
  const types = Array.from({ length: most + 1 }, (_, count) => [0x60, count, ...Array<number>(count).fill(I32), 0]);
  const exports = [
    [...name(memoryName), 2, 0],
    [...name(exported.name), 0, ...unsigned(exported.index)],
  ];
  const segment = [0, 0x41, ...signed(data.address), 0x0b, ...unsigned(data.bytes.length)];
  return Uint8Array.from([
    0x00,
    0x61,
    0x73,
    0x6d,
    1,
    0,
    0,
    0,
    ...section(1, vector(types)),
    ...section(3, vector(functions.map(({ parameters }) => [parameters]))),
    ...section(5, vector([[0, ...unsigned(memoryPages)]])),
    ...section(7, vector(exports)),
    ...section(10, vector(functions.map(({ body }) => body))),
    ...section(11, vector([[...segment, ...data.bytes]])),
  ]);
}

function createCode(parameters: number) {
  const bytes: number[] = [];
  let locals = 0;
  const emit = (...more: number[]): Code => {
    for (const byte of more) bytes.push(byte);
    return code;
  };
  const simd = (opcode: number, ...more: number[]) => emit(0xfd, ...unsigned(opcode), ...more);
  const code: Code = {
    local: () => parameters + locals++,
    get: (local) => emit(0x20, ...unsigned(local)),
    set: (local) => emit(0x21, ...unsigned(local)),
    i32: (value) => emit(0x41, ...signed(value)),
    call: (index) => emit(0x10, ...unsigned(index)),
    load64: (offset) => simd(0x5d, 3, ...unsigned(offset)),
    store64: (offset) => simd(0x5b, 3, ...unsigned(offset), 0),
    lanes: (...values) => simd(0x0c, ...new Uint8Array(Uint32Array.from(values).buffer)),
    shuffle: (picked) => simd(0x0d, ...picked),
    shiftRight64: (bits) => emit(0x41, ...signed(bits)) && simd(0xcd),
    and: () => simd(0x4e),
    add64: () => simd(0xce),
    add32: () => simd(0xae),
    multiply32: () => simd(0xb5),
    widenMultiply: () => simd(0xde),
    widen: () => simd(0xc9),
  };
  return { code, bytes, locals: () => locals };
}

const section = (id: number, content: readonly number[]) => [id, ...sized(content)];
const sized = (content: readonly number[]) => [...unsigned(content.length), ...content];
const vector = (items: readonly (readonly number[])[]) => [...unsigned(items.length), ...items.flat()];
const name = (text: string) => [...unsigned(text.length), ...Buffer.from(text, 'latin1')];

/** LEB128. */
function unsigned(value: number): number[] {
  const bytes: number[] = [];
  let rest = value;
  for (; rest > 0x7f; rest = Math.floor(rest / 128)) bytes.push((rest & 0x7f) | 0x80);
  return [...bytes, rest];
}

function signed(value: number): number[] {
  const bytes: number[] = [];
  for (let rest = value; ; rest >>= 7) {
    const low = rest & 0x7f;
    if ((rest >= -64 && rest < 64) || rest === 0) return [...bytes, low];
    bytes.push(low | 0x80);
  }
}
