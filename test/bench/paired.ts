/** Times two candidates in turns within one process, so that neither profits from its place or from the machine's mood. */
export interface Candidate {
  /** Does one round of work and answers a number that depends on all of it, so that nothing is optimised away. */
  run(): number;
}

export interface PairedOptions {
  readonly pairs: number;
  /** Least time of one measurement. */
  readonly minMs: number;
}

export interface PairedResult {
  /** Milliseconds per round, one figure per pair. */
  readonly oursMs: readonly number[];
  readonly baselineMs: readonly number[];
  /** Sum of all answers: printed, so that the work has a use. */
  readonly sink: number;
}

const MAX_WARM_ROUNDS = 10;
const STEADY = 0.05;

/** Warms both up, then measures A B, B A, A B and so on. */
export function paired(ours: Candidate, baseline: Candidate, { pairs, minMs }: PairedOptions): PairedResult {
  let sink = 0;
  const measure = (candidate: Candidate, leastMs: number): number => {
    const start = performance.now();
    let rounds = 0;
    let spentMs = 0;
    do {
      sink += candidate.run();
      rounds++;
      spentMs = performance.now() - start;
    } while (spentMs < leastMs);
    return spentMs / rounds;
  };
  for (const candidate of [ours, baseline]) warmUp(() => measure(candidate, minMs / 4));
  const oursMs: number[] = [];
  const baselineMs: number[] = [];
  for (let pair = 0; pair < pairs; pair++) {
    if (pair % 2 === 0) {
      oursMs.push(measure(ours, minMs));
      baselineMs.push(measure(baseline, minMs));
    } else {
      baselineMs.push(measure(baseline, minMs));
      oursMs.push(measure(ours, minMs));
    }
  }
  return { oursMs, baselineMs, sink };
}

/** Until two rounds in a row differ by less than 5 %. */
function warmUp(measure: () => number): void {
  let last = measure();
  for (let round = 1; round < MAX_WARM_ROUNDS; round++) {
    const next = measure();
    if (Math.abs(next - last) < STEADY * last) return;
    last = next;
  }
}

/** Median, least and largest of the quotients of each pair. */
export function ratioOf(
  above: readonly number[],
  below: readonly number[],
): { median: number; min: number; max: number } {
  const ratios = above.map((value, pair) => value / below[pair]!).sort((left, right) => left - right);
  if (ratios.length === 0) throw new RangeError('no pairs');
  const middle = ratios.length >> 1;
  const median = ratios.length % 2 === 1 ? ratios[middle]! : (ratios[middle - 1]! + ratios[middle]!) / 2;
  return { median, min: ratios[0]!, max: ratios.at(-1)! };
}
