/**
 * Runs the test suites: `npm test`, or `npm test -- follower webhooks` for files whose path contains one of the words (an absolute
 * path is a file of its own). Its exit code is 0 only when every test passed.
 * Starts one PostgreSQL server for all store suites, unless PARHELION_TEST_POSTGRES_URL names one, and names every skipped test with its reason at the end.
 */
import { execFileSync, spawn } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statfsSync,
  writeFileSync,
} from 'node:fs';
import { availableParallelism, freemem, tmpdir } from 'node:os';
import { isAbsolute, join, relative } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { messageOf } from '../src/lib/coded-error.ts';
import { listFiles } from './helpers/list-files.ts';
import { startPostgresServer } from './helpers/postgres-server.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
/** Unit tests stand beside their sources and start nothing of their own. Loading takes longer than running them. */
const UNIT = /^(src|plugins)\//;
const UNITS_PER_PROCESS = 32;
/** These run their daemons and chains in the test's process, or compute. The next one finds everything loaded and compiled. */
const SHARING =
  /^test\/((contract|helpers|repository|simulation)\/|conformance\/(?!agave|archive)|e2e\/(?!cli|crash|dashboard|docs|guide|peers|systemd))/;
const PER_PROCESS = 8;
const MEMORY_FOR_FOLDERS = 8 * 1024 ** 3;
const MOST_SLOW = 60;
/** They take longest and come first, then what shares processes, so that no core is without work at the end. */
const LONG =
  /^test\/(e2e\/crash|conformance\/agave|fault\/ports|e2e\/(dashboard|cli|docs|guide)|fault\/store|packaging)\//;

async function main(words: readonly string[]): Promise<number> {
  const foreign = words.filter((word) => isAbsolute(word));
  const files = ['src', 'plugins', 'test']
    .flatMap((folder) => listFiles(`${root}${folder}`, (path) => path.endsWith('.test.ts')))
    .map((path) => path.slice(root.length))
    .filter((path) => words.length === 0 || words.some((word) => path.includes(word)));
  if (files.length + foreign.length === 0) {
    console.error(`no test file matches ${words.join(' ')}`);
    return 64;
  }
  mkdirSync(join(root, '.cache'), { recursive: true });
  // Inside of the tree, so that what is built finds its packages.
  const folder = mkdtempSync(join(root, '.cache', 'tests-'));
  const given = process.env['PARHELION_TEST_POSTGRES_URL'];
  const postgres = given ? { url: given, stop: async () => {} } : await startPostgresServer();
  const times = join(folder, 'times');
  const temporary = mkdtempSync(join(foldersInMemory() ?? tmpdir(), 'parhelion-run-'));
  // PostgreSQL, and what is tested as a service, run as other users.
  chmodSync(temporary, 0o1777);
  try {
    const built = [...foreign, ...grouped(build(files, folder), folder)];
    return await runNode(built, {
      PARHELION_TEST_POSTGRES_URL: postgres.url,
      PARHELION_TEST_TIMES: times,
      TMPDIR: temporary,
    });
  } finally {
    printSlowest(times, folder);
    await postgres.stop();
    rmSync(folder, { recursive: true });
    try {
      rmSync(temporary, { recursive: true, force: true });
    } catch (error) {
      // A disk that a killed test had mounted.
      console.error(`${temporary} stays: ${messageOf(error)}`);
    }
  }
}

/**
 * Where temporary folders lie in memory; null if it cannot hold what the tests write, or if no program may run from there. Each commit of
 * SQLite waits for the disk otherwise. Tests kill processes, never the machine, so what they check is the same.
 */
function foldersInMemory(): string | null {
  const folder = '/dev/shm';
  const mount =
    existsSync('/proc/mounts') &&
    new RegExp(`^\\S+ ${folder} tmpfs (\\S+)`, 'm').exec(readFileSync('/proc/mounts', 'utf8'));
  if (!mount || mount[1]?.split(',').some((option) => option === 'noexec' || option === 'ro')) return null;
  const { bavail, bsize } = statfsSync(folder);
  // In a container; 0 or more than there is: unlimited.
  const limit = process.constrainedMemory() || Number.POSITIVE_INFINITY;
  return Math.min(bavail * bsize, freemem(), limit) >= MEMORY_FOR_FOLDERS ? folder : null;
}

interface ProcessRow {
  readonly file: string;
  readonly seconds: number;
  readonly cpu: number;
  /** Of a process that took too long. */
  readonly waitedFor?: readonly string[];
}

/** What each process wrote at its end (`test-process.mjs`): its file, and seconds by the clock and of CPU, its children included. */
function printSlowest(times: string, folder: string): void {
  if (!existsSync(times)) return;
  const rows = readFileSync(times, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as ProcessRow);
  const sum = (of: 'seconds' | 'cpu') => rows.reduce((all, row) => all + row[of], 0).toFixed(0);
  const slow = rows.filter(({ seconds }) => seconds >= 5).toSorted((one, other) => other.seconds - one.seconds);
  const lines = slow.slice(0, MOST_SLOW).map(({ file, seconds, cpu }) => {
    const name = file.startsWith(folder) ? relative(folder, file).replace(/\.js$/, '.ts') : file;
    return `${seconds.toFixed(0).padStart(5)} s  ${cpu.toFixed(0).padStart(4)} s of CPU  ${name}`;
  });
  for (const { file, waitedFor } of rows)
    if (waitedFor !== undefined) console.log(`\nENDED: ${file} waited for\n  ${waitedFor.join('\n  ')}`);
  if (slow.length === 0) return;
  console.log(
    `\nSLOWEST FILES (all ${rows.length} processes: ${sum('seconds')} s, ${sum('cpu')} s of CPU):\n${lines.join('\n')}`,
  );
}

/** The files as Node loads them fastest: the loader of TypeScript took a third of the time of a whole run. */
function build(files: readonly string[], folder: string): string[] {
  if (files.length === 0) return [];
  execFileSync(process.execPath, [`${root}build.mjs`, relative(root, folder), ...files], { stdio: 'inherit' });
  return files.map((file) => join(folder, file.replace(/\.ts$/, '.js')));
}

/** Puts one file that loads them in the place of the members of a group. */
function grouped(files: readonly string[], folder: string): string[] {
  const helper = pathToFileURL(join(root, 'test/helpers/share-process.mjs')).href;
  const groupsOf = (members: readonly string[], most: number): string[] =>
    Array.from({ length: Math.ceil(members.length / most) }, (_, index) => {
      const group = members.slice(index * most, (index + 1) * most);
      const urls = group.map((file) => pathToFileURL(file).href);
      const path = `${group[0]!.slice(0, -'.test.js'.length)}.group.mjs`;
      const text = `import { takeTurns } from '${helper}';\nawait takeTurns(${JSON.stringify(urls, null, 2)});\n`;
      writeFileSync(path, text);
      return path;
    });
  const of = (kind: RegExp) => files.filter((file) => kind.test(relative(folder, file)));
  const [long, sharing, units] = [of(LONG), of(SHARING), of(UNIT)];
  const rest = files.filter((file) => ![...long, ...sharing, ...units].includes(file));
  return [...long, ...groupsOf(sharing, PER_PROCESS), ...rest, ...groupsOf(units, UNITS_PER_PROCESS)];
}

function runNode(files: readonly string[], env: Record<string, string>): Promise<number> {
  const least = Math.max(2, Math.ceil(1.5 * availableParallelism()));
  const child = spawn(
    process.execPath,
    [
      '--enable-source-maps',
      '--import=./test/helpers/test-process.mjs',
      '--conditions=parhelion-source',
      '--expose-gc',
      './test/helpers/run-files.mjs',
      `${least}`,
      process.env['PARHELION_TEST_TIMEOUT_MS'] ?? '600000',
      ...files,
    ],
    { cwd: root, stdio: ['ignore', 'inherit', 'inherit'], env: { ...process.env, NODE_ENV: 'test', ...env } },
  );
  return new Promise((resolve) => child.once('exit', (code, signal) => resolve(signal === null ? (code ?? 1) : 1)));
}

process.exitCode = await main(process.argv.slice(2));
