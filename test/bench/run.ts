/**
 * `npm run bench`. Prints a table and writes one JSON object per comparison to `bench-results.json`. A wrong answer ends with exit
 * code 1; a missed goal does not, nor what got worse.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism, cpus } from 'node:os';
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { messageOf } from '../../src/lib/coded-error.ts';
import { findProjectRoot } from '../helpers/project-root.ts';
import { runBeside, whyNotBeside } from './beside.ts';
import { changesFrom } from './compare.ts';
import type { Row, RowResult, RunOptions } from './row.ts';
import { loadRows } from './rows.ts';

const root = findProjectRoot();

const AT_ONCE_IN_SMOKE = 3;

const USAGE = `npm run bench -- [ROW…] [options]

Compares the daemon with baselines in the same run. Without rows, all of them; a row is named by the beginning of its id (G1, das).

  --full           the sizes of the goals; takes hours with all rows
  --smoke          tiny sizes: checks the answers only
  --compare FILE   prints what got worse since another run, whose bench-results.json is FILE
  --beside FOLDER  runs the rows of another checkout too, in alternating pairs, and prints this one over that one
  --pairs NUMBER   of such runs; 3 without it
  --seed NUMBER    of the data that is drawn
  --help           this text`;

async function main(): Promise<number> {
  const given = argumentsOf(process.argv.slice(2));
  if (typeof given === 'string') {
    console.error(`${given}\n\n${USAGE}`);
    return 64;
  }
  const { values, positionals } = given;
  if (values.help) {
    console.log(USAGE);
    return 0;
  }
  const pairs = Number(values.pairs);
  if (!(Number.isInteger(pairs) && pairs >= 1)) {
    console.error(`--pairs ${values.pairs}: expected a whole number of at least 1`);
    return 64;
  }
  const before = values.compare === undefined ? [] : readResults(values.compare);
  if (typeof before === 'string') {
    console.error(before);
    return 66;
  }
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
  if (values.beside !== undefined) return runPairs(resolve(values.beside), positionals, pairs, options);
  const results: RowResult[] = [];
  let wrong = false;
  const waiting = rows.values();
  async function runWaiting(): Promise<void> {
    for (const row of waiting) {
      try {
        const own = await runRow(row, options);
        results.push(...own);
        // A run that is broken off loses nothing of what it measured.
        keep(results, options.size);
        for (const { row: id, ratio, verdict } of own)
          options.say(`${id} ${ratio?.median.toFixed(2) ?? ''} ${verdict}`);
      } catch (error) {
        wrong = true;
        console.error(`${row.id} ${row.name}: WRONG: ${error instanceof Error ? error.stack : String(error)}`);
      }
    }
  }
  // A smoke run measures nothing, and its rows wait more than they work.
  const atOnce = options.size === 'smoke' ? AT_ONCE_IN_SMOKE : 1;
  await Promise.all(Array.from({ length: atOnce }, runWaiting));
  print(results);
  if (values.compare !== undefined) for (const line of changesFrom(before, results)) console.log(line);
  return wrong ? 1 : 0;
}

/** Exit code: 1 if a run failed. Its results replace those that the runs left. */
function runPairs(folder: string, rows: readonly string[], pairs: number, options: RunOptions): number {
  const reason = whyNotBeside(folder);
  if (reason !== null) {
    console.error(reason);
    return 66;
  }
  try {
    const results = runBeside({ ...options, folder, root, rows, pairs });
    keep(results, options.size);
    print(results);
    return 0;
  } catch (error) {
    console.error(messageOf(error));
    return 1;
  }
}

/** The arguments, or what is wrong with them. */
function argumentsOf(args: string[]) {
  try {
    return parseArgs({
      args,
      allowPositionals: true,
      options: {
        full: { type: 'boolean' },
        smoke: { type: 'boolean' },
        help: { type: 'boolean' },
        compare: { type: 'string' },
        beside: { type: 'string' },
        pairs: { type: 'string', default: '3' },
        seed: { type: 'string', default: '20261121' },
      },
    });
  } catch (error) {
    return messageOf(error);
  }
}

/** The results of an earlier run, or why they cannot be read. */
function readResults(path: string): RowResult[] | string {
  try {
    const lines = readFileSync(path, 'utf8').split('\n');
    return lines.filter((line) => line !== '').map((line) => JSON.parse(line) as RowResult);
  } catch (error) {
    return `${path} has no results of a run: ${messageOf(error)}`;
  }
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
