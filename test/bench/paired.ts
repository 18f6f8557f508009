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
  /** The same in CPU time of this process: what others do on the machine shows less in it. */
  readonly oursCpuMs: readonly number[];
  readonly baselineCpuMs: readonly number[];
  /** Sum of all answers: printed, so that the work has a use. */
  readonly sink: number;
}

const MAX_WARM_ROUNDS = 10;
const STEADY = 0.05;

/** Warms both up, then measures A B, B A, A B and so on. */
export function paired(ours: Candidate, baseline: Candidate, { pairs, minMs }: PairedOptions): PairedResult {
  let sink = 0;
  const measure = (candidate: Candidate, leastMs: number): Sample => {
    const cpuStart = cpuMs();
    const start = performance.now();
    let rounds = 0;
    let spentMs = 0;
    do {
      sink += candidate.run();
      rounds++;
      spentMs = performance.now() - start;
    } while (spentMs < leastMs);
    return { ms: spentMs / rounds, cpuMs: (cpuMs() - cpuStart) / rounds };
  };
  for (const candidate of [ours, baseline]) warmUp(() => measure(candidate, minMs / 4).ms);
  const own: Sample[] = [];
  const other: Sample[] = [];
  for (let pair = 0; pair < pairs; pair++) {
    if (pair % 2 === 0) own.push(measure(ours, minMs));
    other.push(measure(baseline, minMs));
    if (pair % 2 === 1) own.push(measure(ours, minMs));
  }
  const ms = (list: readonly Sample[]) => list.map((sample) => sample.ms);
  const cpu = (list: readonly Sample[]) => list.map((sample) => sample.cpuMs);
  return { oursMs: ms(own), baselineMs: ms(other), oursCpuMs: cpu(own), baselineCpuMs: cpu(other), sink };
}

/** Per round. */
interface Sample {
  readonly ms: number;
  readonly cpuMs: number;
}

function cpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
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
