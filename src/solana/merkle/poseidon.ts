import { CodedError } from '../../lib/coded-error.ts';
import {
  apply,
  deriveRecurrence,
  FULL_ROUNDS,
  MAX_INPUTS,
  modulo,
  type PoseidonParameters,
  PRIME,
  poseidonParameters,
} from './poseidon-field.ts';
import {
  buildKernelModule,
  HASH_EXPORT,
  type KernelModule,
  LIMB_BITS,
  LIMBS,
  MEMORY_EXPORT,
  PRIME_LIMBS,
} from './poseidon-wasm.ts';

/** Maximum number of inputs of the fast kernel; parameters exist for 12. */
const MAX_KERNEL_INPUTS = 7;
/**
 * Generating and compiling a kernel costs as much as this many plain hashes. The first start of a daemon needs fewer.
 */
const PLAIN_HASHES = 256;
const HASH_BYTES = 32;

/** Compiled kernels by number of inputs. They can be posted to another thread, which then need not compile. */
export type PoseidonModules = ReadonlyMap<number, CompiledKernel>;

export interface CompiledKernel extends Omit<KernelModule, 'bytes'> {
  readonly module: WebAssembly.Module;
}

export interface Poseidon {
  /** `simd`; `plain` without 128-bit vectors in WebAssembly: correct, but a hundred times slower. */
  readonly kind: 'simd' | 'plain';
  /**
   * Hashes `count` lists of `inputs` (1 to 12) numbers, 32 big-endian bytes each, stored consecutively from `src[srcOffset]` on, to 32
   * big-endian bytes each from `dst[dstOffset]` on. Both may be the same array when results precede unread input.
   * Errors: POSEIDON_INPUT_TOO_LARGE for a number that is not below the prime; nothing is written then.
   */
  hash(inputs: number, src: Uint8Array, srcOffset: number, dst: Uint8Array, dstOffset: number, count: number): void;
  /** Like `hash` for pairs of hashes. They must be below the prime: this is not checked. */
  hashPairs(src: Uint8Array, srcOffset: number, dst: Uint8Array, dstOffset: number, count: number): void;
  /** Pass these to `createPoseidon` in another thread. */
  readonly modules: PoseidonModules;
}

/**
 * circom's Poseidon over the BN254 scalar field, as Solana's syscall and the Light programs compute it. The kernel of an arity is generated
 * and compiled when more than a few hashes are wanted. One instance per thread; hashes never overlap.
 */
export function createPoseidon(compiled: PoseidonModules = new Map(), hasSimd = knowsSimd()): Poseidon {
  const modules = new Map(compiled);
  const arities = new Map<number, Arity>();

  function kernelFor(inputs: number, count: number): Kernel {
    let arity = arities.get(inputs);
    if (arity === undefined) {
      arity = firstKernel(inputs);
      arities.set(inputs, arity);
    }
    if (arity.plainHashes > 0) {
      arity.plainHashes -= count;
      if (arity.plainHashes <= 0) arity.kernel = fastKernel(modules, inputs);
    }
    return arity.kernel;
  }

  function firstKernel(inputs: number): Arity {
    if (modules.has(inputs)) return { kernel: fastKernel(modules, inputs), plainHashes: 0 };
    const plainHashes = hasSimd && inputs <= MAX_KERNEL_INPUTS ? PLAIN_HASHES : Number.POSITIVE_INFINITY;
    return { kernel: plainKernel(inputs), plainHashes };
  }
  return {
    kind: hasSimd ? 'simd' : 'plain',
    modules,
    hash(inputs, src, srcOffset, dst, dstOffset, count) {
      const kernel = kernelFor(inputs, count);
      refuseLarge(src, srcOffset, inputs * count);
      kernel.hash(src, srcOffset, dst, dstOffset, count);
    },
    hashPairs: (src, srcOffset, dst, dstOffset, count) =>
      kernelFor(2, count).hash(src, srcOffset, dst, dstOffset, count),
  };
}

interface Arity {
  kernel: Kernel;
  /** Hashes left until the fast kernel takes over. */
  plainHashes: number;
}

function fastKernel(modules: Map<number, CompiledKernel>, inputs: number): Kernel {
  let compiled = modules.get(inputs);
  if (compiled === undefined) {
    const parameters = poseidonParameters(inputs);
    const { bytes, ...places } = buildKernelModule(parameters, deriveRecurrence(parameters));
    compiled = { module: new WebAssembly.Module(bytes), ...places };
    modules.set(inputs, compiled);
  }
  return startKernel(compiled.module, compiled, inputs);
}

function plainKernel(inputs: number): Kernel {
  const parameters = poseidonParameters(inputs);
  return {
    hash(src, srcOffset, dst, dstOffset, count) {
      for (let i = 0; i < count; i += 1) {
        const list = Array.from({ length: inputs }, (_, j) => numberAt(src, srcOffset + HASH_BYTES * (i * inputs + j)));
        const text = plainPoseidon(parameters, list)
          .toString(16)
          .padStart(2 * HASH_BYTES, '0');
        dst.set(Buffer.from(text, 'hex'), dstOffset + HASH_BYTES * i);
      }
    },
  };
}

function numberAt(bytes: Uint8Array, offset: number): bigint {
  return BigInt(`0x${Buffer.from(bytes.buffer, bytes.byteOffset + offset, HASH_BYTES).toString('hex')}`);
}

const PRIME_BYTES = Buffer.from(PRIME.toString(16).padStart(2 * HASH_BYTES, '0'), 'hex');

/** The on-chain programs refuse such numbers; reducing them would give the hash of another number. */
function refuseLarge(src: Uint8Array, offset: number, count: number): void {
  for (let i = 0; i < count; i += 1) {
    const at = offset + HASH_BYTES * i;
    if ((src[at] as number) < (PRIME_BYTES[0] as number)) continue;
    if (PRIME_BYTES.compare(src, at, at + HASH_BYTES) <= 0) {
      throw new CodedError('POSEIDON_INPUT_TOO_LARGE', 'a number to be hashed is not below the prime of the field', {
        facts: { index: i },
      });
    }
  }
}

/** Whether this engine accepts a module with a vector. */
function knowsSimd(): boolean {
  return WebAssembly.validate(
    Uint8Array.from([
      0x00, 0x61, 0x73, 0x6d, 1, 0, 0, 0, 1, 5, 1, 0x60, 0, 1, 0x7b, 3, 2, 1, 0, 10, 10, 1, 8, 0, 0x41, 0, 0xfd, 0x0f,
      0xfd, 0x62, 0x0b,
    ]),
  );
}

export { MAX_INPUTS };

/**
 * Poseidon by definition, in BigInt: the oracle of the fast kernel, and its replacement without SIMD or for few hashes. As in the kernel,
 * numbers at or above the prime are silently reduced.
 */
function plainPoseidon(parameters: PoseidonParameters, inputs: readonly bigint[]): bigint {
  const { width, partialRounds, constants, matrix } = parameters;
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

/** Hashes two lists of inputs at once. One instance per thread: it has one scratch area. */
export interface Kernel {
  /** Hashes `count` lists of `inputs` numbers of 32 big-endian bytes from `src` on, to 32 bytes each from `dst` on. */
  hash(src: Uint8Array, srcOffset: number, dst: Uint8Array, dstOffset: number, count: number): void;
}

const MASK = 2 ** LIMB_BITS - 1;

/** Instantiates a kernel for this many inputs. Numbers at or above the prime are silently reduced: the caller must refuse them. */
function startKernel(module: WebAssembly.Module, places: Omit<KernelModule, 'bytes'>, inputs: number): Kernel {
  const { exports } = new WebAssembly.Instance(module);
  const memory = new Int32Array((exports[MEMORY_EXPORT] as WebAssembly.Memory).buffer);
  const run = exports[HASH_EXPORT] as () => void;
  const [input, output] = [places.input / 4, places.output / 4];
  const words = new Int32Array(LIMBS);

  const read = (src: Uint8Array, offset: number, lane: number) => {
    for (let i = 0; i < inputs; i += 1) {
      readWords(src, offset + 32 * i, words);
      spread(words, memory, input + 2 * LIMBS * i + lane);
    }
  };
  return {
    hash(src, srcOffset, dst, dstOffset, count) {
      const size = 32 * inputs;
      for (let i = 0; i < count; i += 2) {
        const isPair = i + 1 < count;
        read(src, srcOffset + size * i, 0);
        read(src, srcOffset + size * (isPair ? i + 1 : i), 1);
        run();
        write(memory, output, dst, dstOffset + 32 * i);
        if (isPair) write(memory, output + 1, dst, dstOffset + 32 * (i + 1));
      }
    },
  };
}

/** Eight 32-bit words, lowest first, and a zero. */
function readWords(src: Uint8Array, offset: number, words: Int32Array): void {
  for (let i = 0, at = offset + 28; i < 8; i += 1, at -= 4)
    words[i] =
      ((src[at] as number) << 24) |
      ((src[at + 1] as number) << 16) |
      ((src[at + 2] as number) << 8) |
      (src[at + 3] as number);
}

/** Words to limbs; limbs are two positions apart. */
function spread(words: Int32Array, memory: Int32Array, at: number): void {
  for (let i = 0, bit = 0; i < LIMBS; i += 1, bit += LIMB_BITS) {
    const word = bit >> 5;
    const shift = bit & 31;
    const high = shift > 3 ? (words[word + 1] as number) << (32 - shift) : 0;
    memory[at + 2 * i] = (((words[word] as number) >>> shift) | high) & MASK;
  }
}

/** Limbs of a number in [0, prime] to big-endian bytes; the prime itself is zero. */
function write(memory: Int32Array, at: number, dst: Uint8Array, offset: number): void {
  const limb = (i: number) => memory[at + 2 * i] as number;
  if (isPrime(limb)) {
    dst.fill(0, offset, offset + 32);
    return;
  }
  for (let i = 0, bit = 0; i < 8; i += 1, bit += 32) {
    const first = Math.floor(bit / LIMB_BITS);
    const shift = bit - LIMB_BITS * first;
    const next = first + 1 < LIMBS ? limb(first + 1) << (LIMB_BITS - shift) : 0;
    const last = 2 * LIMB_BITS - shift < 32 && first + 2 < LIMBS ? limb(first + 2) << (2 * LIMB_BITS - shift) : 0;
    const word = (limb(first) >>> shift) | next | last;
    const to = offset + 28 - 4 * i;
    dst[to] = word >>> 24;
    dst[to + 1] = word >>> 16;
    dst[to + 2] = word >>> 8;
    dst[to + 3] = word;
  }
}

function isPrime(limb: (i: number) => number): boolean {
  for (let i = 0; i < LIMBS; i += 1) if (limb(i) !== PRIME_LIMBS[i]) return false;
  return true;
}
