/**
 * Runs the test suites: `npm test`, or `npm test -- follower webhooks` for files whose path contains one of the words.
 * Starts one PostgreSQL server for all store suites, and names every skipped test with its reason at the end.
 */
import { spawn } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { listFiles } from './helpers/list-files.ts';
import { startPostgresServer } from './helpers/postgres-server.ts';

const root = fileURLToPath(new URL('..', import.meta.url));

async function main(words: readonly string[]): Promise<number> {
  const files = listFiles(`${root}test`, (path) => path.endsWith('.test.ts'))
    .map((path) => path.slice(root.length))
    .filter((path) => words.length === 0 || words.some((word) => path.includes(word)));
  if (files.length === 0) {
    console.error(`no test file matches ${words.join(' ')}`);
    return 64;
  }
  const postgres = await startPostgresServer();
  try {
    return await runNode(files, { PARHELION_TEST_POSTGRES_URL: postgres.url });
  } finally {
    await postgres.stop();
  }
}

function runNode(files: readonly string[], env: Record<string, string>): Promise<number> {
  const child = spawn(
    process.execPath,
    [
      '--import=tsx',
      '--import=./test/helpers/leave.mjs',
      '--conditions=parhelion-source',
      '--expose-gc',
      '--test',
      `--test-concurrency=${Math.max(2, availableParallelism())}`,
      '--test-timeout=600000',
      '--test-reporter=spec',
      '--test-reporter-destination=stdout',
      '--test-reporter=./test/helpers/skip-reporter.mjs',
      '--test-reporter-destination=stdout',
      ...files,
    ],
    { cwd: root, stdio: ['ignore', 'inherit', 'inherit'], env: { ...process.env, NODE_ENV: 'test', ...env } },
  );
  return new Promise((resolve) => child.once('exit', (code, signal) => resolve(signal === null ? (code ?? 1) : 1)));
}

process.exitCode = await main(process.argv.slice(2));
