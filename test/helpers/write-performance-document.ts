/**
 * `npm run performance:write`: copies the results of `npm run bench` (bench-results.json) into docs/explanation/performance.md, so that no
 * figure is typed by hand. Rows that were not measured this time keep their results.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { RowResult } from '../bench/row.ts';
import { findProjectRoot } from './project-root.ts';

/** A line of bench-results.json. */
export interface MeasuredRow extends RowResult {
  readonly size: string;
  /** ISO, the day only. */
  readonly date: string;
  readonly commit: string;
  readonly node: string;
  readonly cpu: string;
  readonly cores: number;
}

const HEAD = ['row', 'what', 'ours', 'baseline', 'ratio (range)', 'goal', 'verdict', 'size', 'date', 'commit', 'on'];

const INTRODUCTION = `# Performance

How fast the daemon is compared with simple baselines, as measured by \`npm run bench\`. To measure rows again:

\`\`\`sh host
npm run bench -- G1          # rows whose name starts with G1; without names, all rows; --full uses the sizes of the goals
npm run bench -- G2 --beside ../parhelion-before   # the same rows of another checkout in alternating pairs: this one over that one
npm run bench -- --compare FILE   # prints what got worse since another run, whose bench-results.json is FILE
npm run performance:write    # writes this page from the results of the last run
\`\`\`

The row \`peers\` compares with servers that you have built and started: \`BENCH_PHOTON\` is the address of a Photon, \`BENCH_SVIX\` that of a Svix
server, with a token in \`BENCH_SVIX_TOKEN\`. \`npm run bench -- peers\` says how to start them, and skips those without an address.

Each row compares the daemon with a baseline in the same run on the same machine, in alternating pairs, so the ratio is what counts. Absolute
figures depend on the machine and say little about another one. \`ours\` and \`baseline\` are medians in the given unit. Every row has its
date and commit.
`;

const tableRow = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;

/** The page with these results in place of older ones of the same rows. Results of `--smoke` are omitted: they are no measurements. */
export function performanceDocument(page: string, results: readonly MeasuredRow[]): string {
  const known = page
    .split('\n')
    .filter((line) => line.startsWith('| ') && !line.startsWith(`| ${HEAD[0]} |`))
    .map((line) => [line.slice(2, line.indexOf(' |')), line] as const);
  const measured = results.filter(({ size }) => size !== 'smoke').map((one) => [one.row, lineOf(one)] as const);
  const rows = [...new Map([...known, ...measured])].sort(([a], [b]) => a.localeCompare(b, 'en', { numeric: true }));
  const table = [tableRow(HEAD), `|${HEAD.map(() => '---').join('|')}|`, ...rows.map(([, line]) => line)];
  return `${INTRODUCTION}\n${table.join('\n')}\n`;
}

function lineOf(result: MeasuredRow): string {
  const { row, name, unit, ratio, goal, verdict, size, date, commit, node, cpu, cores } = result;
  const figure = (samples: readonly number[]) => (samples.length === 0 ? '' : `${median(samples)} ${unit}`);
  const range = ratio === null ? '' : `${ratio.median.toFixed(2)} (${ratio.min.toFixed(2)} to ${ratio.max.toFixed(2)})`;
  const machine = `${cores} x ${cpu}, Node ${node.replace(/^v/, '')}`;
  const cells = [row, name, figure(result.ours), figure(result.baseline), range, goal, verdict, size, date, commit];
  return tableRow([...cells, machine].map((cell) => cell.replaceAll('|', '\\|').replaceAll('<', '&lt;')));
}

function median(samples: readonly number[]): string {
  const middle = [...samples].sort((a, b) => a - b)[Math.floor(samples.length / 2)] as number;
  return middle >= 1_000 ? Math.round(middle).toLocaleString('en') : String(Number(middle.toPrecision(3)));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const root = findProjectRoot();
  const lines = readFileSync(`${root}bench-results.json`, 'utf8').trim().split('\n');
  const path = `${root}docs/explanation/performance.md`;
  const page = existsSync(path) ? readFileSync(path, 'utf8') : '';
  const results = lines.map((line) => JSON.parse(line) as MeasuredRow);
  writeFileSync(path, performanceDocument(page, results));
  const left = results.filter(({ size }) => size === 'smoke').length;
  console.log(`${results.length - left} rows written${left === 0 ? '' : `, ${left} of smoke runs omitted`}`);
}
