/** The stored series as values at evenly spaced times. */
import type { Series, SeriesPoint } from './api.ts';

export interface Grid {
  readonly times: readonly number[];
  readonly points: readonly (SeriesPoint | undefined)[];
  /** Milliseconds that the counts of each step stand for: `stepMs`, but for a step that is not over. */
  readonly spansMs: readonly number[];
}

const MIN_STEPS = 15;
const MINUTE_MS = 60_000;
/** What one measurement of a daemon stands for, unless configured otherwise. */
const MEASURED_MS = 20_000;

/**
 * A step that is not over holds only what was measured so far, so its time says nothing about its rate: it is left out as long as an
 * earlier one has a point.
 */
export function gridOf({ fromMs, toMs, stepMs, points }: Series): Grid {
  const byTime = new Map(points.map((point) => [point.at, point]));
  // A daemon that is younger than the range is shown from its start.
  const oldest = points[0]?.at ?? fromMs;
  const start = Math.max(fromMs, Math.min(oldest - stepMs, toMs - MIN_STEPS * stepMs));
  const first = start - (start % stepMs);
  const running = toMs - (toMs % stepMs);
  const last = points.some(({ at }) => at >= first && at < running) ? running - stepMs : running;
  const times = Array.from({ length: (last - first) / stepMs + 1 }, (_, at) => first + at * stepMs);
  const spansMs = times.map((at) => Math.min(stepMs, Math.max(MEASURED_MS, toMs - at)));
  return { times, spansMs, points: times.map((at) => byTime.get(at)) };
}

/** What counts or values of a family are told apart by: `rpc` of `requests.rpc`. */
export const labelsOf = ({ points }: Grid, family: string): readonly string[] => [
  ...new Set(
    points.flatMap((point) =>
      Object.keys(point?.sums ?? {}).flatMap((key) =>
        key.startsWith(`${family}.`) ? [key.slice(family.length + 1)] : [],
      ),
    ),
  ),
];

/** Counts, added up, as a rate per minute. */
export const perMinute = ({ points, spansMs }: Grid, keys: readonly string[]): (number | null)[] =>
  points.map((point, at) =>
    point === undefined
      ? null
      : (keys.reduce((all, key) => all + (point.sums[key] ?? 0), 0) * MINUTE_MS) / (spansMs[at] as number),
  );

/** All counts of a family as a rate per minute. */
export const familyPerMinute = (grid: Grid, family: string): (number | null)[] =>
  perMinute(
    grid,
    labelsOf(grid, family).map((label) => `${family}.${label}`),
  );

/** The style has this many colors, `--series-*`. */
export const SERIES_COLORS = 12;

/**
 * The number of a colour for each label: its own, or the first that nothing else has. Two labels have the same one only where there are more labels
 * than colours.
 */
export function colorsOf(
  labels: readonly string[],
  own: Readonly<Record<string, number>> = {},
): ReadonlyMap<string, number> {
  const taken = new Set(Object.values(own));
  const free = Array.from({ length: SERIES_COLORS }, (_, at) => at + 1).filter((color) => !taken.has(color));
  let given = 0;
  return new Map(
    labels.map((label) => {
      const color = Object.hasOwn(own, label) ? own[label] : undefined;
      if (color !== undefined) return [label, color] as const;
      const next = free[given] ?? (given % SERIES_COLORS) + 1;
      given += 1;
      return [label, next] as const;
    }),
  );
}
