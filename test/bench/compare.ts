import type { RowResult } from './row.ts';

/** Less is within what two runs differ by anyway. */
const NOTABLE = 0.1;

interface Range {
  readonly median: number;
  readonly least: number;
  readonly most: number;
}

/**
 * What got worse, and better, between two runs, a line each. What is compared is ours over its baseline, since two runs may be of two
 * machines; rows without a baseline say so. A change counts when the medians differ by a tenth and the ranges do not overlap.
 */
export function changesFrom(before: readonly RowResult[], now: readonly RowResult[]): string[] {
  const known = new Map(before.map((result) => [result.row, result]));
  const [worse, better, open]: [string[], string[], string[]] = [[], [], []];
  for (const result of now) {
    const earlier = known.get(result.row);
    const [from, to] = [earlier === undefined ? null : scoreOf(earlier), scoreOf(result)];
    if (from === null || to === null) {
      open.push(`${result.row} (${earlier === undefined ? 'not in the earlier run' : 'no baseline'})`);
      continue;
    }
    const line = `  ${result.row} ${result.name}: ${(to.median / from.median).toFixed(2)}x of before (ours over its baseline, more is better)`;
    if (to.median < from.median * (1 - NOTABLE) && to.most < from.least) worse.push(line);
    else if (to.median > from.median * (1 + NOTABLE) && to.least > from.most) better.push(line);
  }
  const part = (title: string, lines: readonly string[]) => [
    `${title}: ${lines.length === 0 ? 'none' : ''}`.trim(),
    ...lines,
  ];
  return ['', ...part('worse', worse), ...part('better', better), `not compared: ${open.join(', ') || 'none'}`];
}

/** Ours over the baseline of each pair, so that more is better; null without a baseline. */
function scoreOf({ ours, baseline, unit }: RowResult): Range | null {
  const quotients = ours.flatMap((value, pair) => {
    const other = baseline[pair] ?? baseline.at(-1);
    if (other === undefined || !(other > 0) || !(value > 0)) return [];
    return unit.includes('/s') ? value / other : other / value;
  });
  if (quotients.length === 0) return null;
  const sorted = quotients.toSorted((a, b) => a - b);
  return { median: sorted[sorted.length >> 1]!, least: sorted[0]!, most: sorted.at(-1)! };
}
