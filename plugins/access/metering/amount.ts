/**
 * Credits without rounding. Prices are whole credits as a rule and may be down to a millionth of one; both parts are kept as integers,
 * in memory and in the store, so that sums are exact however many calls they are of.
 */
export interface Amount {
  whole: number;
  /** Millionths of a credit; any number of them. */
  micro: number;
}

const MICRO = 1_000_000;
const MICRO_BIG = 1_000_000n;

export const zero = (): Amount => ({ whole: 0, micro: 0 });

export function addCredits(amount: Amount, credits: number): void {
  if (Number.isInteger(credits)) {
    amount.whole += credits;
    return;
  }
  const whole = Math.floor(credits);
  amount.whole += whole;
  amount.micro += Math.round((credits - whole) * MICRO);
}

/** In millionths of a credit. */
export function toMicro(whole: number, micro: number): bigint {
  return BigInt(whole) * MICRO_BIG + BigInt(micro);
}

/** Both parts of a sum that is not negative. */
export function fromMicro(micro: bigint): Amount {
  return { whole: Number(micro / MICRO_BIG), micro: Number(micro % MICRO_BIG) };
}

/** Whole credits, rounded half up: done once, when a sum is shown. */
export function rounded(micro: bigint): number {
  return Number((micro + MICRO_BIG / 2n) / MICRO_BIG);
}

/** As a number for comparisons; exact for whole credits. */
export function toCredits(micro: bigint): number {
  const { whole, micro: rest } = fromMicro(micro < 0n ? 0n : micro);
  return whole + rest / MICRO;
}
