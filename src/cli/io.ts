/** What a command may touch of the process; tests give their own. */
export interface CliIo {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  /** One line on standard output. */
  out(text: string): void;
  /** One line on standard error. */
  err(text: string): void;
  readonly isTerminal: boolean;
}

export function processIo(): CliIo {
  return {
    env: process.env,
    cwd: process.cwd(),
    out: (text) => process.stdout.write(`${text}\n`),
    err: (text) => process.stderr.write(`${text}\n`),
    isTerminal: process.stdout.isTTY === true,
  };
}
