import { QUANTITIES, type Quantity, type Sample } from './samples.ts';

/** How a quantity went over the run: medians of the second and the last quarter, or what it grew by in them, and a line. */
export interface Trend {
  readonly quantity: Quantity;
  readonly secondQuarter: number;
  readonly lastQuarter: number;
  /** Growth per hour, of the least-squares line from the second quarter on. */
  readonly perHour: number;
  readonly isFlat: boolean;
}

/** What a quantity may grow by and still count as flat: a share of its value, or so much at least. */
const ROOM: Readonly<Record<Quantity, { readonly share: number; readonly least: number }>> = {
  rssMb: { share: 0.1, least: 10 },
  // Its value depends on when rubbish was collected last.
  heapMb: { share: 0.25, least: 15 },
  descriptors: { share: 0.1, least: 12 },
  threads: { share: 0, least: 2 },
  loopLagMs: { share: 1, least: 60 },
  chainLagSlots: { share: 0, least: 5 },
  openDeliveries: { share: 0.5, least: 60 },
  callMs: { share: 1, least: 60 },
  diskMb: { share: 0.5, least: 20 },
};
/** What is kept for hours or days grows with the traffic: here it is the growth of a quarter that has to stay the same. */
const GROWING: ReadonlySet<Quantity> = new Set<Quantity>(['diskMb']);

export function trendsOf(samples: readonly Sample[]): readonly Trend[] {
  const quarter = Math.floor(samples.length / 4);
  const second = samples.slice(quarter, 2 * quarter);
  const last = samples.slice(samples.length - quarter);
  return QUANTITIES.map((quantity) => {
    const of = (list: readonly Sample[]) =>
      GROWING.has(quantity)
        ? (list.at(-1)?.[quantity] ?? 0) - (list[0]?.[quantity] ?? 0)
        : median(list.map((sample) => sample[quantity]));
    const { share, least } = ROOM[quantity];
    const secondQuarter = of(second);
    const lastQuarter = of(last);
    const isFlat = lastQuarter - secondQuarter <= Math.max(least, share * secondQuarter);
    return { quantity, secondQuarter, lastQuarter, perHour: slope(samples.slice(quarter), quantity) * 3_600, isFlat };
  });
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const upper = sorted[middle] ?? 0;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? upper) + upper) / 2;
}

function slope(samples: readonly Sample[], quantity: Quantity): number {
  const n = samples.length;
  const mean = (pick: (sample: Sample) => number) => samples.reduce((total, sample) => total + pick(sample), 0) / n;
  const meanX = mean((sample) => sample.atSeconds);
  const meanY = mean((sample) => sample[quantity]);
  let over = 0;
  let under = 0;
  for (const sample of samples) {
    over += (sample.atSeconds - meanX) * (sample[quantity] - meanY);
    under += (sample.atSeconds - meanX) ** 2;
  }
  return under === 0 ? 0 : over / under;
}
