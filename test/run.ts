/**
 * Runs the tests. `npm test` runs the short tier: all files but `*.long.test.ts`, on SQLite, with a tenth of the seeds. `npm run test:all`
 * runs everything. Its exit code is 0 only when every test passed and every file left a result.
 *
 *     npm test -- follower webhooks            files whose path contains one of the words, whatever their tier, on all engines, with all seeds
 *     npm run test:all -- --rest               what `npm test` leaves out
 *     npm run test:all -- --shard 2/4          the second of four parts
 *     npm run test:all -- --since COMMIT       files that a change since then can reach
 *     … --list                                 only lists them
 *
 * An absolute path is a file of its own. PARHELION_TEST_ENGINES (`sqlite`, `postgres`) and PARHELION_TEST_SEEDS (`tenth`, `rest`, `all`)
 * choose other parts. One PostgreSQL server serves all suites, unless PARHELION_TEST_POSTGRES_URL names one.
 */
import { execFileSync, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  statfsSync,
  writeFileSync,
} from 'node:fs';
import { availableParallelism, freemem, tmpdir } from 'node:os';
import { basename, isAbsolute, join, relative } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { messageOf } from '../src/lib/coded-error.ts';
import { openGate } from './helpers/gate.ts';
import { listFiles } from './helpers/list-files.ts';
import { type NewerNode, newerNode } from './helpers/newer-node.ts';
import { packagesMissing } from './helpers/packages.ts';
import { startPostgresServer } from './helpers/postgres-server.ts';
import { reachedSince } from './helpers/reach.ts';
import { judgeTier } from './helpers/tier-budget.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const LONG_TIER = /\.long\.test\.ts$/;
const LONG_RUN_ADDS =
  'npm run test:all adds PostgreSQL, the other nine tenths of the seeds, kills, browser, real nodes, a second chain and packages';
/** Unit tests stand beside their sources and start nothing of their own. Loading takes longer than running them. */
const UNIT = /^(src|plugins|packages)\//;
const UNITS_PER_PROCESS = 32;
/** These run their daemons and chains in the test's process, or compute. The next one finds everything loaded and compiled. */
const SHARING =
  /^test\/((contract|helpers|repository|simulation)\/|conformance\/(?!agave|archive)|e2e\/(?!cli|crash|dashboard|docs|guide|peers|systemd))/;
/** Loading a daemon takes 2 s of CPU; parts of the long tier take longer by file. `share-process.mjs` bounds the time of each file. */
const PER_PROCESS = { short: 14, long: 6 };
/**
 * Most of the long tier runs under Node 24, which needs less CPU for it (`newer-node.ts`). One process of ten stays under this one, and so does
 * what is about the installed program, or about memory: the stated bounds are those of Node 20, and a newer one has a larger young generation.
 */
const STAYS = /^test\/(packaging|soak|fault\/leak|e2e\/shadow\/bounds|fault\/hostile\/websocket)/;
const STAYS_EVERY = 10;
const MEMORY_FOR_FOLDERS = 8 * 1024 ** 3;
const MAX_SLOW = 30;
/** What each file took when it last ran: the processes that took longest begin first, so that no core is without work at the end. */
const TIMES_FILE = join(root, '.cache/test-times.json');
/** Of a file that has not run here, as in a fresh clone: the first that fits. */
const UNKNOWN_SECONDS: readonly (readonly [files: RegExp, seconds: number])[] = [
  [
    /^test\/(e2e\/(cli\/exit-codes|crash\/kill)|conformance\/agave\/(follow|one-answer)|packaging\/(package|deb|release))/,
    300,
  ],
  [/^test\/(e2e\/(crash|dashboard|cli|docs|guide)|conformance\/agave|fault\/(ports|store)|packaging)\//, 100],
  // Several of these share a process.
  [/^test\/(e2e|contract\/(das|sinks))\//, 40],
  [/^/, 5],
];

interface Options {
  readonly words: readonly string[];
  readonly tier: 'short' | 'rest' | 'all';
  readonly shard: { readonly index: number; readonly of: number } | null;
  readonly since: string | null;
  readonly isListOnly: boolean;
}

/** Which tests of a file run: all, those of another engine than SQLite, or those of the seeds that the short tier leaves out. */
type Part = 'whole' | 'engine' | 'seeds';

interface Member {
  /** From the root of the tree. */
  readonly file: string;
  readonly part: Part;
}

/** What a process of a part runs with; a whole file with what the run has. */
const PARTS = {
  whole: null,
  engine: { only: 'engine', env: { PARHELION_TEST_ENGINES: 'postgres', PARHELION_TEST_SEEDS: 'all' } },
  seeds: { only: 'seeds', env: { PARHELION_TEST_ENGINES: 'sqlite', PARHELION_TEST_SEEDS: 'rest' } },
} as const;
/** How a file shows that it has tests of such a part. */
const DECLARES = {
  engine: /\beachStore\(|\bonEngine\('postgres'/,
  seeds: /\b(bySeed|byCase|inLongTier|manyLives)\(/,
} as const;

class UsageError extends Error {}

function readOptions(args: readonly string[]): Options {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      all: { type: 'boolean' },
      rest: { type: 'boolean' },
      list: { type: 'boolean' },
      shard: { type: 'string' },
      since: { type: 'string' },
    },
  });
  let shard: Options['shard'] = null;
  if (values.shard !== undefined) {
    const [, index, of] = (/^(\d+)\/(\d+)$/.exec(values.shard) ?? []).map(Number) as [number, number, number];
    if (!(index >= 1 && index <= of)) throw new UsageError(`--shard ${values.shard}: expected 2/4 or the like`);
    shard = { index, of };
  }
  const tier = values.rest ? 'rest' : values.all || positionals.length > 0 ? 'all' : 'short';
  return { words: positionals, tier, shard, since: values.since ?? null, isListOnly: values.list ?? false };
}

/** The tests to run, sorted by name. */
function choose({ words, tier, shard, since }: Options): readonly Member[] {
  const all = ['src', 'plugins', 'packages', 'test']
    .flatMap((folder) => listFiles(`${root}${folder}`, (path) => path.endsWith('.test.ts')))
    .map((path) => path.slice(root.length));
  const named = all.filter((file) => words.length === 0 || words.some((word) => file.includes(word)));
  const reached = since === null ? null : reachedSince(root, since, named);
  const files = named
    .filter((file) => reached === null || reached.has(file))
    .filter((_, at) => shard === null || at % shard.of === shard.index - 1)
    .filter((file) => packagesMissing(file) === null);
  return files.flatMap((file): Member[] => {
    const isLong = LONG_TIER.test(file);
    if (tier === 'all' || (tier === 'rest' && isLong)) return [{ file, part: 'whole' }];
    if (tier === 'short') return isLong ? [] : [{ file, part: 'whole' }];
    const text = readFileSync(join(root, file), 'utf8');
    return (['engine', 'seeds'] as const).filter((part) => DECLARES[part].test(text)).map((part) => ({ file, part }));
  });
}

async function main(args: readonly string[]): Promise<number> {
  const options = readOptions(args);
  const foreign = options.words.filter((word) => isAbsolute(word));
  const members = choose(options);
  if (members.length + foreign.length === 0) {
    if (options.since !== null) {
      console.log(`no test is reached by what has changed since ${options.since}`);
      return 0;
    }
    throw new UsageError(`no test file matches ${options.words.join(' ')}`);
  }
  if (options.isListOnly) {
    for (const { file, part } of members) console.log(part === 'whole' ? file : `${file} ${part}`);
    return 0;
  }
  const isShort = options.tier === 'short';
  if (isShort) console.log(`SHORT TIER: ${members.length} files on SQLite. ${LONG_RUN_ADDS}.`);
  else console.log(`${members.length + foreign.length} files`);
  const env = {
    PARHELION_TEST_ENGINES: process.env['PARHELION_TEST_ENGINES'] ?? (isShort ? 'sqlite' : 'sqlite,postgres'),
    PARHELION_TEST_SEEDS: process.env['PARHELION_TEST_SEEDS'] ?? (isShort ? 'tenth' : 'all'),
  };
  mkdirSync(join(root, '.cache'), { recursive: true });
  // Inside of the tree, so that what is built finds its packages.
  const folder = mkdtempSync(join(root, '.cache', 'tests-'));
  const given = process.env['PARHELION_TEST_POSTGRES_URL'];
  const needsServer = !given && env.PARHELION_TEST_ENGINES.includes('postgres') && members.length > 0;
  const postgres = needsServer ? await startPostgresServer() : { url: given ?? '', stop: async () => {} };
  const times = join(folder, 'times');
  const temporary = mkdtempSync(join(foldersInMemory() ?? tmpdir(), 'parhelion-run-'));
  // PostgreSQL, and what is tested as a service, run as other users.
  chmodSync(temporary, 0o1777);
  let code = 1;
  try {
    build([...new Set(members.map(({ file }) => file))], folder);
    const processes = processesOf(members, isShort, folder);
    const newer = isShort ? null : newerNode(join(folder, 'compiled'));
    const [own, others] = [true, false].map((isOwn) =>
      processes.filter((one) => (newer === null || stays(one)) === isOwn).map(({ path }) => path),
    ) as [string[], string[]];
    if (newer !== null)
      console.log(
        `${own.length} processes under Node ${process.versions.node}, ${others.length} under ${newer.version}`,
      );
    const runEnv = {
      ...env,
      PARHELION_TEST_POSTGRES_URL: postgres.url,
      PARHELION_TEST_TIMES: times,
      TMPDIR: temporary,
    };
    const parts = [{ files: [...foreign, ...own], newer: null }];
    code = await runAtOnce(newer === null ? parts : [{ files: others, newer }, ...parts], temporary, runEnv);
  } finally {
    const { cpu, costs } = printTimes(times, folder);
    const failures = existsSync(`${times}.failed`) ? readFileSync(`${times}.failed`, 'utf8') : '';
    await postgres.stop();
    rmSync(folder, { recursive: true });
    try {
      rmSync(temporary, { recursive: true, force: true });
    } catch (error) {
      // A disk that a killed test had mounted.
      console.error(`${temporary} stays: ${messageOf(error)}`);
    }
    const isWhole = isShort && options.shard === null && options.since === null;
    if (isWhole && costs.size > 0) {
      const { isWithin, text } = judgeTier(cpu, costs);
      console.log(`\n${text}`);
      if (!isWithin) code ||= 1;
    }
    if (isShort) console.log(`\n${LONG_RUN_ADDS}.`);
    if (failures !== '') console.log(`\nFAILED:\n${failures.replaceAll(folder, '')}`);
  }
  return code;
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

/** Seconds by the clock and of CPU. */
interface Cost {
  readonly seconds: number;
  readonly cpu: number;
}

interface ProcessRow extends Cost {
  readonly file: string;
  /** Of files that share the process, by their address. */
  readonly costs: Readonly<Record<string, Cost>>;
  /** Of a process that took too long. */
  readonly waitedFor?: readonly string[];
}

/**
 * What each process wrote at its end (`test-process.mjs`), its children included: the slowest, and each suite's share. Keeps it for the next
 * run. Returns the CPU seconds of the whole run so far, and of each file that ran whole.
 */
function printTimes(times: string, folder: string): { readonly cpu: number; readonly costs: Map<string, number> } {
  const whole = spentSeconds();
  const ran = new Map<string, number>();
  if (!existsSync(times)) return { cpu: whole, costs: ran };
  const rows = readFileSync(times, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as ProcessRow);
  const nameOf = (file: string) =>
    file.startsWith(folder) ? relative(folder, file).replace(/\.(js|\w+\.group\.mjs)$/, '.ts') : file;
  const known = readTimes();
  const suites = new Map<string, number>();
  for (const row of rows) {
    const costs = Object.entries(row.costs).map(([url, cost]) => [fileURLToPath(url), cost] as const);
    for (const [file, cost] of costs.length > 0 ? costs : [[row.file, row] as const]) {
      const name = nameOf(file);
      if (isAbsolute(name)) continue;
      const part = /\.(whole|engine|seeds)\.group\.mjs$/.exec(row.file)?.[1] ?? 'whole';
      known[part === 'whole' ? name : `${name} ${part}`] = { seconds: round(cost.seconds), cpu: round(cost.cpu) };
      if (part === 'whole') ran.set(name, cost.cpu);
      const suite = UNIT.test(name) ? 'unit' : name.split('/').slice(0, 2).join('/');
      suites.set(suite, (suites.get(suite) ?? 0) + cost.cpu);
    }
  }
  writeFileSync(TIMES_FILE, JSON.stringify(known, null, 1));
  for (const { file, waitedFor } of rows)
    if (waitedFor !== undefined) console.log(`\nENDED: ${file} waited for\n  ${waitedFor.join('\n  ')}`);
  const slow = rows.filter(({ seconds }) => seconds >= 5).toSorted((one, other) => other.seconds - one.seconds);
  const lines = slow.slice(0, MAX_SLOW).map(({ file, seconds, cpu, costs }) => {
    const others = Object.keys(costs).length - 1;
    const what = others > 0 ? `${nameOf(file)} and ${others} more` : nameOf(file);
    return `${seconds.toFixed(0).padStart(5)} s  ${cpu.toFixed(0).padStart(4)} s of CPU  ${what}`;
  });
  const sum = (of: 'seconds' | 'cpu') => rows.reduce((all, row) => all + row[of], 0);
  if (lines.length > 0)
    console.log(
      `\nSLOWEST PROCESSES (all ${rows.length}: ${sum('seconds').toFixed(0)} s, ${sum('cpu').toFixed(0)} s of CPU):\n${lines.join('\n')}`,
    );
  suites.set('build and runner', whole - sum('cpu'));
  const shares = [...suites]
    .toSorted(([, one], [, other]) => other - one)
    .map(([suite, cpu]) => {
      return `${cpu.toFixed(0).padStart(5)} s  ${((100 * cpu) / whole).toFixed(0).padStart(3)} %  ${suite}`;
    });
  console.log(`\nCPU BY SUITE (${whole.toFixed(0)} s):\n${shares.join('\n')}`);
  return { cpu: whole, costs: ran };
}

/** CPU of this process and of all that it waited for; on Linux. There fields 16 and 17 of the line are theirs, in hundredths. */
function spentSeconds(): number {
  const { user, system } = process.cpuUsage();
  const line = existsSync('/proc/self/stat') ? readFileSync('/proc/self/stat', 'utf8') : '';
  const fields = line.replace(/^.*\) /s, '').split(' ');
  return (user + system) / 1e6 + (Number(fields[13] ?? 0) + Number(fields[14] ?? 0)) / 100;
}

const round = (seconds: number) => Math.round(10 * seconds) / 10;

function readTimes(): Record<string, Cost> {
  try {
    return JSON.parse(readFileSync(TIMES_FILE, 'utf8')) as Record<string, Cost>;
  } catch {
    return {};
  }
}

/** The files as Node loads them fastest: the loader of TypeScript took a third of the time of a whole run. */
function build(files: readonly string[], folder: string): void {
  if (files.length === 0) return;
  execFileSync(process.execPath, [`${root}build.mjs`, relative(root, folder), ...files], { stdio: 'inherit' });
}

interface TestProcess {
  /** What it runs. */
  readonly path: string;
  /** Of the tree; several share a process. */
  readonly files: readonly string[];
}

/** A file for each process, those that take longest first. Where members share one, or a part of them runs, a file that loads them. */
function processesOf(members: readonly Member[], isShort: boolean, folder: string): readonly TestProcess[] {
  const helper = pathToFileURL(join(root, 'test/helpers/share-process.mjs')).href;
  const known = readTimes();
  const secondsOf = ({ file, part }: Member) =>
    known[part === 'whole' ? file : `${file} ${part}`]?.seconds ??
    UNKNOWN_SECONDS.find(([files]) => files.test(file))![1];
  const processes: (TestProcess & { readonly seconds: number })[] = [];
  const builtOf = ({ file }: Member) => join(folder, file.replace(/\.ts$/, '.js'));
  for (const part of ['whole', 'engine', 'seeds'] as const) {
    const own = members.filter((member) => member.part === part);
    const units = own.filter(({ file }) => UNIT.test(file));
    const sharing = own.filter(({ file }) => SHARING.test(file));
    const alone = own.filter((member) => !units.includes(member) && !sharing.includes(member));
    const groups = [
      ...inGroups(units, UNITS_PER_PROCESS),
      ...inGroups(sharing, isShort ? PER_PROCESS.short : PER_PROCESS.long),
      ...alone.map((member) => [member]),
    ];
    for (const group of groups) {
      const first = builtOf(group[0]!);
      const isAlone = part === 'whole' && alone.includes(group[0]!);
      const path = isAlone ? first : first.replace(/\.js$/, `.${part}.group.mjs`);
      if (!isAlone) {
        const urls = group.map((member) => pathToFileURL(builtOf(member)).href);
        writeFileSync(
          path,
          `import { takeTurns } from '${helper}';\nawait takeTurns(${JSON.stringify(urls, null, 2)}, ${JSON.stringify(PARTS[part] ?? {})});\n`,
        );
      }
      const files = group.map(({ file }) => file);
      processes.push({ path, files, seconds: group.reduce((sum, member) => sum + secondsOf(member), 0) });
    }
  }
  return processes.toSorted((one, other) => other.seconds - one.seconds);
}

/** Depends on the names alone, so that a file runs under the same Node in each run. */
function stays({ path, files }: TestProcess): boolean {
  return (
    files.some((file) => STAYS.test(file)) ||
    createHash('sha256').update(basename(path)).digest()[0]! % STAYS_EVERY === 0
  );
}

function inGroups(members: readonly Member[], most: number): Member[][] {
  return Array.from({ length: Math.ceil(members.length / most) }, (_, index) =>
    members.slice(index * most, (index + 1) * most),
  );
}

/** Files, and the newer Node that they run under. */
interface NodePart {
  readonly files: readonly string[];
  readonly newer: NewerNode | null;
}

/** All parts at once, so that no core is without work at the end of one. The first prints as it goes, and then what the others have said. */
async function runAtOnce(parts: readonly NodePart[], folder: string, env: Record<string, string>): Promise<number> {
  const least = Math.max(2, Math.ceil(1.5 * availableParallelism()));
  const most = least + 1;
  const gatePath = join(folder, 'gate.sock');
  const gate = openGate(gatePath, least, most);
  const outputs = parts.map((_, at) => (at === 0 ? null : join(folder, `output-${at}`)));
  try {
    const codes = await Promise.all(
      parts.map(({ files, newer }, at) => {
        const path = outputs[at] ?? null;
        const args = [gatePath, `${most}`, process.env['PARHELION_TEST_TIMEOUT_MS'] ?? '1800000', ...files];
        return files.length === 0
          ? 0
          : runNode(args, { ...env, ...newer?.env }, path === null ? 'inherit' : openSync(path, 'w'), newer?.path);
      }),
    );
    return Math.max(...codes);
  } finally {
    gate.close();
    for (const path of outputs) if (path !== null && existsSync(path)) process.stdout.write(readFileSync(path));
  }
}

/** Runs `run-files.mjs` with these arguments. */
async function runNode(
  args: readonly string[],
  env: Record<string, string>,
  output: 'inherit' | number,
  node = process.execPath,
): Promise<number> {
  const child = spawn(
    node,
    [
      '--enable-source-maps',
      '--import=./test/helpers/test-process.mjs',
      '--conditions=parhelion-source',
      '--expose-gc',
      './test/helpers/run-files.mjs',
      ...args,
    ],
    { cwd: root, stdio: ['ignore', output, output], env: { ...process.env, NODE_ENV: 'test', ...env } },
  );
  return await new Promise((resolve) =>
    child.once('exit', (code, signal) => resolve(signal === null ? (code ?? 1) : 1)),
  );
}

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  const isUsage = error instanceof UsageError || (error as { code?: string }).code?.startsWith('ERR_PARSE_ARGS');
  if (!isUsage) throw error;
  console.error(messageOf(error));
  process.exitCode = 64;
}
