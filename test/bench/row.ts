/** What a row of the bench is, and what it reports. */
export type Verdict = 'met' | 'missed' | 'not assessed';

export interface RunOptions {
  /** `full`: goal size. `quick`: goal size where that takes seconds. `smoke`: tiny, to check correctness only. */
  readonly size: 'full' | 'quick' | 'smoke';
  readonly seed: number;
  /** Progress in words, for people. */
  readonly say: (text: string) => void;
}

/** One comparison. A row may have several, such as one per input. */
export interface RowResult {
  /** `G1a`, or `G1a/synthetic` where a row has several parts. */
  readonly row: string;
  readonly name: string;
  readonly unit: string;
  /** One figure per pair, in the unit. */
  readonly ours: readonly number[];
  readonly baseline: readonly number[];
  /** Per pair, in the sense of the goal; empty for absolute goals. */
  readonly ratio: { readonly median: number; readonly min: number; readonly max: number } | null;
  /** As written in the goals: `<= 1.5x the time`. */
  readonly goal: string;
  readonly verdict: Verdict;
  readonly sizes: Readonly<Record<string, number | string>>;
  readonly seed: number;
  readonly notes: readonly string[];
}

export interface Row {
  readonly id: string;
  readonly name: string;
  /** Whether it takes so long that only a full run does it at goal size. */
  readonly isLong?: boolean;
  /** Throws when an answer is wrong. Missed goals do not throw. */
  run(options: RunOptions): Promise<readonly RowResult[]>;
}
