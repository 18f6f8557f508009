import { CodedError } from '../../../lib/coded-error.ts';
import { deriveRecurrence, MAX_INPUTS, PRIME, poseidonParameters } from './field.ts';
import { type Kernel, startKernel } from './kernel.ts';
import { plainPoseidon } from './plain.ts';
import { buildKernelModule, type KernelModule } from './wasm.ts';

/** Most inputs of one hash that the fast kernel takes; the definition has parameters for 12. */
const MAX_KERNEL_INPUTS = 7;
const HASH_BYTES = 32;

/** Compiled kernels by number of inputs. They can be posted to another thread, which then compiles nothing. */
export type PoseidonModules = ReadonlyMap<number, CompiledKernel>;

export interface CompiledKernel extends Omit<KernelModule, 'bytes'> {
  readonly module: WebAssembly.Module;
}

export interface Poseidon {
  /** `simd`, or `plain` where WebAssembly has no 128-bit vectors: right all the same, and a hundred times slower. */
  readonly kind: 'simd' | 'plain';
  /**
   * Hashes `count` lists of `inputs` (1 to 12) numbers, 32 big-endian bytes each, that lie in a row from `src[srcOffset]` on, to 32
   * big-endian bytes each from `dst[dstOffset]` on. Both may be the same array when the result lies before what is still to be read.
   * Errors: POSEIDON_INPUT_TOO_LARGE for a number that is not below the prime; nothing is written then.
   */
  hash(inputs: number, src: Uint8Array, srcOffset: number, dst: Uint8Array, dstOffset: number, count: number): void;
  /** The same for pairs that are themselves hashes, and so below the prime: nothing is checked. */
  hashPairs(src: Uint8Array, srcOffset: number, dst: Uint8Array, dstOffset: number, count: number): void;
  /** To be given to `createPoseidon` in another thread. */
  readonly modules: PoseidonModules;
}

/**
 * circom's Poseidon over the BN254 scalar field, as Solana's syscall and the Light programs compute it. Kernels are generated and compiled
 * when an arity is first used, in some ten milliseconds. One instance per thread, and never two hashes at a time.
 */
export function createPoseidon(compiled: PoseidonModules = new Map(), hasSimd = knowsSimd()): Poseidon {
  const modules = new Map(compiled);
  const kernels = new Map<number, Kernel>();

  function kernelFor(inputs: number): Kernel {
    const known = kernels.get(inputs);
    if (known !== undefined) return known;
    const kernel = hasSimd && inputs <= MAX_KERNEL_INPUTS ? fastKernel(modules, inputs) : plainKernel(inputs);
    kernels.set(inputs, kernel);
    return kernel;
  }
  return {
    kind: hasSimd ? 'simd' : 'plain',
    modules,
    hash(inputs, src, srcOffset, dst, dstOffset, count) {
      const kernel = kernelFor(inputs);
      refuseLarge(src, srcOffset, inputs * count);
      kernel.hash(src, srcOffset, dst, dstOffset, count);
    },
    hashPairs: (src, srcOffset, dst, dstOffset, count) => kernelFor(2).hash(src, srcOffset, dst, dstOffset, count),
  };
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

/** The programs on chain refuse such numbers; reducing them would give the hash of another number. */
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

/** Whether this engine takes a module that uses a vector. */
function knowsSimd(): boolean {
  return WebAssembly.validate(
    Uint8Array.from([
      ...[0x00, 0x61, 0x73, 0x6d, 1, 0, 0, 0, 1, 5, 1, 0x60, 0, 1, 0x7b, 3, 2, 1, 0, 10, 10, 1, 8, 0],
      ...[0x41, 0, 0xfd, 0x0f, 0xfd, 0x62, 0x0b],
    ]),
  );
}

export { MAX_INPUTS };
