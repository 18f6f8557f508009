import { HASH_EXPORT, type KernelModule, LIMB_BITS, LIMBS, MEMORY_EXPORT, PRIME_LIMBS } from './wasm.ts';

/** Hashes two lists of inputs at once. One instance per thread: it has one scratch area. */
export interface Kernel {
  /** Hashes `count` lists of `inputs` numbers of 32 big-endian bytes from `src` on, to 32 bytes each from `dst` on. */
  hash(src: Uint8Array, srcOffset: number, dst: Uint8Array, dstOffset: number, count: number): void;
}

const MASK = 2 ** LIMB_BITS - 1;

/** Instantiates a kernel for so many inputs. Numbers at or above the prime are silently reduced: the caller has to refuse them. */
export function startKernel(module: WebAssembly.Module, places: Omit<KernelModule, 'bytes'>, inputs: number): Kernel {
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

/** Words to limbs, which stand two places apart. */
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
