/**
 * Another checkout beside this one, in alternating pairs: each runs the rows with its own bench, its own build and its own packages, so that
 * two versions are compared on one machine in one run. What a row measures is its business; rows that only one of both has are left out.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ratioOf } from './paired.ts';
import type { RowResult, RunOptions } from './row.ts';

export interface BesideOptions extends Pick<RunOptions, 'size' | 'seed' | 'say'> {
  /** The other checkout, with its packages installed. */
  readonly folder: string;
  /** The root of this one. */
  readonly root: string;
  /** Row names, as the command line has them; none: all. */
  readonly rows: readonly string[];
  readonly pairs: number;
}

/** Why a folder cannot stand beside this one; null if it can. */
export function whyNotBeside(folder: string): string | null {
  if (!existsSync(join(folder, 'test/bench/run.ts'))) return `${folder} is no checkout of parhelion that has a bench`;
  if (!existsSync(join(folder, 'node_modules'))) return `${folder} has no packages: run npm ci there`;
  return null;
}

/** One result for each row that both have: `ours` is this checkout's median of each run, `baseline` that of the other. */
export function runBeside({ folder, root, rows, pairs, size, seed, say }: BesideOptions): RowResult[] {
  const here: RowResult[][] = [];
  const there: RowResult[][] = [];
  for (let pair = 0; pair < pairs; pair++) {
    const turns = [
      { name: 'this checkout', cwd: root, runs: here },
      { name: 'the other one', cwd: folder, runs: there },
    ];
    for (const { name, cwd, runs } of pair % 2 === 0 ? turns : turns.toReversed()) {
      say(`pair ${pair + 1} of ${pairs}: ${name}`);
      runs.push(runBench(cwd, ['--seed', String(seed), ...(size === 'quick' ? [] : [`--${size}`]), ...rows]));
    }
  }
  return pairsOf(here, there);
}

/** Runs the bench of a checkout as a person would, and reads the file that it writes. */
function runBench(cwd: string, args: readonly string[]): RowResult[] {
  const { status } = spawnSync('npm', ['run', '--silent', 'bench', '--', ...args], {
    cwd,
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  if (status !== 0) throw new Error(`the bench of ${cwd} ended with exit code ${status}`);
  const lines = readFileSync(join(cwd, 'bench-results.json'), 'utf8').split('\n');
  return lines.filter((line) => line !== '').map((line) => JSON.parse(line) as RowResult);
}

/** The runs of both, matched by row. Each figure is the median of one run; the ratio is in the sense of the unit: more is better for us. */
export function pairsOf(
  here: readonly (readonly RowResult[])[],
  there: readonly (readonly RowResult[])[],
): RowResult[] {
  return (here[0] ?? []).flatMap((first) => {
    const figures = (runs: readonly (readonly RowResult[])[]) =>
      runs.map((run) => middleOf(run.find(({ row }) => row === first.row)?.ours ?? []));
    const [ours, baseline] = [figures(here), figures(there)];
    if (![...ours, ...baseline].every((figure) => figure !== null && figure > 0)) return [];
    const [own, other] = [ours as number[], baseline as number[]];
    const isRate = first.unit.includes('/s');
    return [
      {
        row: first.row,
        name: first.name,
        unit: `${first.unit}; the other checkout is the baseline`,
        ours: own,
        baseline: other,
        ratio: isRate ? ratioOf(own, other) : ratioOf(other, own),
        goal: isRate ? 'more than the other, by factors' : 'less than the other, by factors',
        verdict: 'not assessed' as const,
        sizes: first.sizes,
        seed: first.seed,
        notes: [],
      },
    ];
  });
}

function middleOf(samples: readonly number[]): number | null {
  const sorted = samples.toSorted((one, other) => one - other);
  return sorted[sorted.length >> 1] ?? null;
}
