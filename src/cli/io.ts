import { relative } from 'node:path';

/** What a command may touch of the process; tests give their own. */
export interface CliIo {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  /** One line on standard output. */
  out(text: string): void;
  /** One line on standard error. */
  err(text: string): void;
  readonly isTerminal: boolean;
  /** Where a progress bar can be drawn: standard error, when it is a terminal. */
  readonly bar?: { write(text: string): void; readonly columns: number };
  /** How a person calls this program, for commands that are printed to be copied. */
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
    program: programName(process.argv[1] ?? '', process.cwd()),
  };
}

const terminalBar = (stream: NodeJS.WriteStream) => ({
  write: (text: string) => void stream.write(text),
  get columns() {
    return stream.columns ?? 80;
  },
});

/** The source tree runs without a build, but its command does not: `npx parhelion` needs one. */
function programName(entry: string, cwd: string): string {
  return entry.endsWith('.ts') ? `npx tsx ${relative(cwd, entry)}` : 'npx parhelion';
}
