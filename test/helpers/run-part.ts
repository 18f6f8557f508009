/**
 * What part of the tests this process runs, by two variables of the environment. `test/run.ts` sets them for each process; without them
 * everything runs. The suites of an engine or of seeds are declared through the functions below, so that the long run has what the short
 * one has left out, and nothing else of the same file (`share-process.mjs`).
 */
import type { Dialect } from '../../src/ports/store.ts';

/** `tenth` and `rest` of the seeds make `all` of them. */
export type Seeds = 'tenth' | 'rest' | 'all';

/** PARHELION_TEST_ENGINES: one or more, with commas between them. */
const ENGINES = (process.env['PARHELION_TEST_ENGINES'] || 'sqlite,postgres').split(',') as readonly Dialect[];
/** PARHELION_TEST_SEEDS. */
const SEEDS = (process.env['PARHELION_TEST_SEEDS'] || 'all') as Seeds;

/** Where `share-process.mjs` looks while a test is declared. */
const marks = globalThis as { parhelionTestMark?: Mark; parhelionTestsRun?: true };
/** `both`: of an engine and of seeds. */
type Mark = 'engine' | 'seeds' | 'both';

function declareAs(mark: Mark, declare: () => void): void {
  // The choice is made where a file declares its suites: a part of a suite would run in no tier.
  if (marks.parhelionTestsRun) throw new Error('parts of a run are declared at the top of a file');
  const outer = marks.parhelionTestMark;
  marks.parhelionTestMark = mark;
  try {
    declare();
  } finally {
    if (outer === undefined) delete marks.parhelionTestMark;
    else marks.parhelionTestMark = outer;
  }
}

/** Declares the tests of one engine, if it belongs to this run; not inside of a suite. */
export function onEngine(dialect: Dialect, declare: () => void): void {
  if (!ENGINES.includes(dialect)) return;
  declareAs(marks.parhelionTestMark === 'seeds' ? 'both' : 'engine', declare);
}

/** Declares the tests of those of the seeds from 1 to `count` that belong to this run; not inside of a suite. */
export function bySeed(count: number, declare: (seeds: readonly number[]) => void): void {
  declareAs('seeds', () => declare(seedsOf(Array.from({ length: count }, (_, index) => index + 1))));
}

/** The seeds of this list that the tier runs: for seeds that have found something, or are spread over files. */
export function seedsOf(all: readonly number[]): readonly number[] {
  const tenth = Math.ceil(all.length / 10);
  if (SEEDS === 'all') return all;
  return SEEDS === 'tenth' ? all.slice(0, tenth) : all.slice(tenth);
}

/** Declares the tests of those of the cases that belong to this run: the short tier has the first one and each tenth; not inside of a suite. */
export function byCase<Case>(all: readonly Case[], declare: (own: readonly Case[]) => void): void {
  const own = SEEDS === 'all' ? all : all.filter((_, at) => (at % 10 === 0) === (SEEDS === 'tenth'));
  declareAs('seeds', () => declare(own));
}

/** Declares tests that the short tier leaves out, because a cheaper one of the same file fails with them; not inside of a suite. */
export function inLongTier(declare: () => void): void {
  if (SEEDS !== 'tenth') declareAs('seeds', declare);
}
