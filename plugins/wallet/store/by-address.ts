const DIGIT_BITS = 12;
const DIGITS = 1 << DIGIT_BITS;
const HALF_BITS = 2 ** (2 * DIGIT_BITS);

/** Places of numbers of 48 bits in ascending order; equal ones keep theirs. Counting digits is several times faster than comparing. */
export function orderOf(numbers: Float64Array): Uint32Array {
  const low = Uint32Array.from(numbers, (number) => number % HALF_BITS);
  const high = Uint32Array.from(numbers, (number) => Math.floor(number / HALF_BITS));
  let order = Uint32Array.from(numbers, (_, at) => at);
  for (const [half, shift] of [
    [low, 0],
    [low, DIGIT_BITS],
    [high, 0],
    [high, DIGIT_BITS],
  ] as const)
    order = byDigit(order, half, shift);
  return order;
}

function byDigit(order: Uint32Array, half: Uint32Array, shift: number): Uint32Array<ArrayBuffer> {
  const ends = new Uint32Array(DIGITS + 1);
  const digitOf = (at: number): number => ((half[at] as number) >>> shift) & (DIGITS - 1);
  for (const at of order) ends[digitOf(at) + 1] = (ends[digitOf(at) + 1] as number) + 1;
  for (let digit = 1; digit <= DIGITS; digit += 1) ends[digit] = (ends[digit] as number) + (ends[digit - 1] as number);
  const next = new Uint32Array(order.length);
  for (const at of order) {
    const digit = digitOf(at);
    const place = ends[digit] as number;
    next[place] = at;
    ends[digit] = place + 1;
  }
  return next;
}
