/**
 * `npm run bench`: every row at quick sizes. `-- G1 G7` selects rows, `--full` runs the long ones at goal size, `--smoke` checks
 * correctness at tiny sizes. Prints a table and writes one JSON object per comparison to `bench-results.json`. A wrong answer ends
 * with exit code 1; a missed goal does not.
 */
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { availableParallelism, cpus } from 'node:os';
import { parseArgs } from 'node:util';
import { findProjectRoot } from '../helpers/project-root.ts';
import type { Row, RowResult, RunOptions } from './row.ts';
import { loadRows } from './rows.ts';

const root = findProjectRoot();

async function main(): Promise<number> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { full: { type: 'boolean' }, smoke: { type: 'boolean' }, seed: { type: 'string', default: '20261121' } },
  });
  const options: RunOptions = {
    size: values.full ? 'full' : values.smoke ? 'smoke' : 'quick',
    seed: Number(values.seed),
    say: (text) => process.stderr.write(`  ${text}\n`),
  };
  const rows = (await loadRows()).filter(
    (row) => positionals.length === 0 || positionals.some((id) => row.id.startsWith(id)),
  );
  if (rows.length === 0) {
    console.error(`no row is called ${positionals.join(' or ')}`);
    return 64;
  }
  console.log(
    `${availableParallelism()} cores, ${cpus()[0]?.model ?? 'unknown CPU'}, Node ${process.version}, commit ${commit()}, size ${options.size}\n`,
  );
  const results: RowResult[] = [];
  let wrong = false;
  for (const row of rows) {
    try {
      const own = await runRow(row, options);
      results.push(...own);
      // A run that is broken off loses nothing of what it measured.
      keep(results, options.size);
      for (const { row: id, ratio, verdict } of own) options.say(`${id} ${ratio?.median.toFixed(2) ?? ''} ${verdict}`);
    } catch (error) {
      wrong = true;
      console.error(`${row.id} ${row.name}: WRONG: ${error instanceof Error ? error.stack : String(error)}`);
    }
  }
  print(results);
  return wrong ? 1 : 0;
}

function keep(results: readonly RowResult[], size: RunOptions['size']): void {
  const lines = results.map((result) => JSON.stringify({ ...result, ...machine(), size }));
  writeFileSync(`${root}bench-results.json`, `${lines.join('\n')}\n`);
}

async function runRow(row: Row, options: RunOptions): Promise<readonly RowResult[]> {
  process.stderr.write(`${row.id} ${row.name}\n`);
  const results = await row.run(options);
  // Sizes are part of a goal: anything smaller proves nothing about it.
  const isSmaller = options.size === 'smoke' || (row.isLong === true && options.size !== 'full');
  return isSmaller ? results.map((result) => ({ ...result, verdict: 'not assessed' as const })) : results;
}

function print(results: readonly RowResult[]): void {
  const lines = results.map((result) => [
    result.row,
    result.name,
    median(result.ours),
    median(result.baseline),
    result.ratio === null
      ? ''
      : `${result.ratio.median.toFixed(2)} (${result.ratio.min.toFixed(2)}-${result.ratio.max.toFixed(2)})`,
    result.goal,
    result.verdict,
  ]);
  const head = ['row', 'what', 'ours', 'baseline', 'ratio (range)', 'goal', 'verdict'];
  const widths = head.map((title, column) => Math.max(title.length, ...lines.map((line) => line[column]?.length ?? 0)));
  for (const line of [head, ...lines])
    console.log(
      line
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    );
  for (const { row, unit, notes } of results)
    for (const note of [`unit: ${unit}`, ...notes]) console.log(`  ${row}: ${note}`);
}

function median(samples: readonly number[]): string {
  const sorted = [...samples].sort((a, b) => a - b);
  const middle = sorted[Math.floor(sorted.length / 2)];
  return middle === undefined ? '' : middle >= 1000 ? Math.round(middle).toLocaleString('en') : middle.toPrecision(3);
}

function commit(): string {
  try {
    return execFileSync('git', ['rev-parse', '--short', 'HEAD'], { cwd: root, encoding: 'utf8' }).trim();
  } catch {
    return 'unknown';
  }
}

function machine(): Record<string, string | number> {
  const date = new Date().toISOString().slice(0, 10);
  return {
    date,
    commit: commit(),
    node: process.version,
    cpu: cpus()[0]?.model ?? 'unknown',
    cores: availableParallelism(),
  };
}

process.exitCode = await main();
