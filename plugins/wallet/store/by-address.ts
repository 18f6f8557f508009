const DIGIT_BITS = 12;
const DIGITS = 1 << DIGIT_BITS;
const HALF_BITS = 2 ** (2 * DIGIT_BITS);

/**
 * Places of numbers of 48 bits in ascending order; equal ones keep theirs. Counting digits is faster than comparing. Loops instead of
 * callbacks: it runs over every row of every block.
 */
export function orderOf(numbers: Float64Array): Uint32Array {
  const count = numbers.length;
  const low = new Uint32Array(count);
  const high = new Uint32Array(count);
  let order = new Uint32Array(count);
  for (let at = 0; at < count; at += 1) {
    const number = numbers[at] as number;
    high[at] = Math.floor(number / HALF_BITS);
    low[at] = number - (high[at] as number) * HALF_BITS;
    order[at] = at;
  }
  for (const half of [low, high]) for (const shift of [0, DIGIT_BITS]) order = byDigit(order, half, shift);
  return order;
}

function byDigit(order: Uint32Array, half: Uint32Array, shift: number): Uint32Array<ArrayBuffer> {
  const count = order.length;
  const next = new Uint32Array(count);
  // Where the numbers of each digit begin.
  const begins = new Uint32Array(DIGITS + 1);
  for (let at = 0; at < count; at += 1) {
    const digit = ((half[at] as number) >>> shift) & (DIGITS - 1);
    begins[digit + 1] = (begins[digit + 1] as number) + 1;
  }
  for (let digit = 1; digit < DIGITS; digit += 1)
    begins[digit] = (begins[digit] as number) + (begins[digit - 1] as number);
  for (let at = 0; at < count; at += 1) {
    const place = order[at] as number;
    const digit = ((half[place] as number) >>> shift) & (DIGITS - 1);
    const free = begins[digit] as number;
    next[free] = place;
    begins[digit] = free + 1;
  }
  return next;
}
