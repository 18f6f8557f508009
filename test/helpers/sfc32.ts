/** A small fast generator with a long cycle, for reproducible test and bench data. */
export interface Sfc32 {
  readonly seed: number;
  /** Uniform unsigned 32-bit integer. */
  next(): number;
  /** Uniform in [0, 1). */
  float(): number;
  /** Uniform integer in [0, bound). */
  below(bound: number): number;
  /** Uniform integer in [least, most]. */
  between(least: number, most: number): number;
  fill(bytes: Uint8Array): Uint8Array;
}

/** sfc32 with the state (seed, 0x9E3779B9, 0x243F6A88, 1); the first 20 values are thrown away. */
export function createSfc32(seed: number): Sfc32 {
  let a = seed | 0;
  let b = 0x9e3779b9 | 0;
  let c = 0x243f6a88 | 0;
  let d = 1;

  function next(): number {
    const t = (((a + b) | 0) + d) | 0;
    d = (d + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = (((c << 21) | (c >>> 11)) + t) | 0;
    return t >>> 0;
  }

  for (let skipped = 0; skipped < 20; skipped++) next();
  const float = (): number => next() / 4_294_967_296;
  const below = (bound: number): number => Math.floor(float() * bound);
  const between = (least: number, most: number): number => least + below(most - least + 1);
  function fill(bytes: Uint8Array): Uint8Array {
    for (let at = 0; at < bytes.length; at++) bytes[at] = next() >>> 11;
    return bytes;
  }
  return { seed, next, float, below, between, fill };
}
