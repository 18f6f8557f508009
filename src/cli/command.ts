import { existsSync, realpathSync } from 'node:fs';
import { basename, delimiter, join, relative } from 'node:path';
import type { CommandValues } from '../plugin/plugin.ts';
import type { Clock } from '../ports/clock.ts';

export type { CommandValues } from '../plugin/plugin.ts';

export interface CommandFlag {
  /** commander's notation: `--name <text>`. */
  readonly flags: string;
  readonly description: string;
  readonly required?: boolean;
  /** The allowed values; others are a usage error. */
  readonly choices?: readonly string[];
  /** May be given several times; the values are joined with commas. */
  readonly repeatable?: boolean;
}

/** The `run` export of a command's file: returns the exit code, or throws a coded error with one. */
export type RunCommand = (
  values: CommandValues,
  io: CliIo,
  /** All commands, those of the plugins too, for documents about them. */
  commands: () => Promise<readonly CliCommand[]>,
) => Promise<number>;

/** An entry of the command table; the file of the command is loaded when it runs. */
export interface CliCommand {
  readonly path: readonly string[];
  readonly summary: string;
  /** A positional argument; its value is among the values. */
  readonly argument?: { readonly name: string; readonly description: string; readonly choices?: readonly string[] };
  readonly options: readonly CommandFlag[];
  /** Not in lists of commands: for packagers. */
  readonly isHidden?: boolean;
  /** Shown by --help below the options. */
  readonly help?: string;
  load(): Promise<{ readonly run: RunCommand }>;
}

/** The parts of the process that commands use; tests replace them. */
export interface CliIo {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  /** One line on standard output. */
  out(text: string): void;
  /** One line on standard error. */
  err(text: string): void;
  readonly isTerminal: boolean;
  /** Target of progress bars: standard error if it is a terminal. */
  readonly bar?: { write(text: string): void; readonly columns: number };
  /** The command line that starts this program, for printed commands that users copy. */
  readonly program: string;
}

export function processIo(): CliIo {
  return {
    env: process.env,
    cwd: process.cwd(),
    out: (text) => process.stdout.write(`${text}\n`),
    err: (text) => process.stderr.write(`${text}\n`),
    isTerminal: process.stdout.isTTY === true,
    ...(process.stderr.isTTY === true ? { bar: terminalBar(process.stderr) } : {}),
    program: typedProgramName({ entry: process.argv[1] ?? '', cwd: process.cwd(), env: process.env }),
  };
}

const terminalBar = (stream: NodeJS.WriteStream) => ({
  write: (text: string) => void stream.write(text),
  get columns() {
    return stream.columns ?? 80;
  },
});

const NAME = 'parhelion';

interface Start {
  /** The file that Node was given: a link of npm, or main of a build or of the sources. */
  readonly entry: string;
  readonly cwd: string;
  /** The packages start the program by a script, which gives its own path as PARHELION_STARTED_AS. */
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** A command line that starts the same program again from this folder: its name, if a shell finds it by that. */
export function typedProgramName({ entry, cwd, env }: Start): string {
  const started = env['PARHELION_STARTED_AS'] ?? entry;
  if (started.endsWith('.ts')) return `npx tsx ${relative(cwd, started)}`;
  if (basename(started) !== NAME)
    return fileOf(started).startsWith(`${fileOf(cwd)}/dist/`) ? `npx ${NAME}` : `node ${started}`;
  // npm adds this folder to the path of its own scripts only.
  if (started.includes('/node_modules/.bin/')) return `npx ${NAME}`;
  // A shell starts the first one that it finds.
  const found = (env['PATH'] ?? '')
    .split(delimiter)
    .map((folder) => join(folder, NAME))
    .find((path) => existsSync(path));
  return found !== undefined && fileOf(found) === fileOf(started) ? NAME : started;
}

/** Without links; what does not exist stays as it is. */
function fileOf(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}

/** Flags of all commands. They have no defaults here: those are in the configuration. */
export const commonFlags: readonly CommandFlag[] = [
  {
    flags: '--config <file>',
    description: 'configuration file; default: PARHELION_CONFIG, ./parhelion.yaml, /etc/parhelion/parhelion.yaml',
  },
  { flags: '--data-dir <folder>', description: 'sets dataDir; from the working directory' },
];

export interface Progress {
  /** `note` follows the numbers, for example the reason of a wait. */
  update(done: number, note?: string | null): void;
  /** Ends the line of the bar. */
  end(): void;
}

interface ProgressOptions {
  /** `backfill`; in the JSON lines. */
  readonly what: string;
  /** `slots` */
  readonly unit: string;
  /** Null if unknown. */
  readonly total: number | null;
  readonly io: Pick<CliIo, 'err' | 'bar'>;
  readonly clock: Clock;
}

const BAR_MS = 200;
const LINE_MS = 10_000;
/** Time over which the rate is measured. */
const RATE_MS = 30_000;
const BAR_WIDTH = 24;

/** Shows progress on standard error: a bar with rate and time left in a terminal, otherwise a JSON line every 10 s. */
export function createProgress({ what, unit, total, io, clock }: ProgressOptions): Progress {
  const samples: { readonly at: number; readonly done: number }[] = [];
  let shownAt = io.bar === undefined ? clock.monotonic() : Number.NEGATIVE_INFINITY;

  function ratePerSecond(): number {
    const [first, last] = [samples[0], samples.at(-1)];
    if (first === undefined || last === undefined || last.at <= first.at) return 0;
    return Math.max(0, (last.done - first.done) / ((last.at - first.at) / 1_000));
  }

  function show(done: number, note: string | null): void {
    const rate = ratePerSecond();
    const etaSeconds = rate > 0 && total !== null ? Math.ceil((total - done) / rate) : null;
    const percent = total === null ? null : total === 0 ? 100 : Math.floor((done / total) * 100);
    if (io.bar === undefined) {
      const ratePer = Number(rate.toFixed(1));
      io.err(JSON.stringify({ progress: what, done, total, unit, percent, ratePerSecond: ratePer, etaSeconds, note }));
      return;
    }
    const left = etaSeconds === null ? '' : `, ${duration(etaSeconds)} left`;
    const share = percent === null ? `${done}` : `${barOf(percent)} ${percent}% ${done}/${total}`;
    const text = `${what} ${share} ${unit}, ${rate.toFixed(1)}/s${left}${note === null ? '' : ` (${note})`}`;
    io.bar.write(`\r${text.slice(0, io.bar.columns - 1)}\u001b[K`);
  }

  return {
    update(done, note = null) {
      const at = clock.monotonic();
      samples.push({ at, done });
      while (samples.length > 2 && samples[0]!.at < at - RATE_MS) samples.shift();
      if (at - shownAt < (io.bar === undefined ? LINE_MS : BAR_MS)) return;
      shownAt = at;
      show(done, note);
    },
    end() {
      if (io.bar === undefined || samples.length === 0) return;
      show(samples.at(-1)!.done, null);
      io.bar.write('\n');
    },
  };
}

function barOf(percent: number): string {
  const filled = Math.round((percent / 100) * BAR_WIDTH);
  return `[${'#'.repeat(filled)}${'-'.repeat(BAR_WIDTH - filled)}]`;
}

function duration(seconds: number): string {
  const hours = Math.floor(seconds / 3_600);
  const minutes = Math.floor((seconds % 3_600) / 60);
  if (hours > 0) return `${hours} h ${minutes} min`;
  return minutes > 0 ? `${minutes} min ${seconds % 60} s` : `${seconds} s`;
}
