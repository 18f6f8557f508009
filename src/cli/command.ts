import type { CliIo } from './io.ts';

export type CommandValues = Readonly<Record<string, string | boolean | undefined>>;

export interface CommandFlag {
  /** commander's notation: `--name <text>`. */
  readonly flags: string;
  readonly description: string;
  readonly required?: boolean;
  /** All values there are; others are a usage error. */
  readonly choices?: readonly string[];
  /** May be given several times; the values come as one, with commas between them. */
  readonly repeatable?: boolean;
}

/** What the file of a command exports as `run`: returns the exit code, or throws a coded error that carries one. */
export type RunCommand = (values: CommandValues, io: CliIo) => Promise<number>;

/** A line of the command table; the file itself is loaded when the command runs. */
export interface CliCommand {
  readonly path: readonly string[];
  readonly summary: string;
  /** What stands behind the command without a flag; its value is one of the values. */
  readonly argument?: { readonly name: string; readonly description: string };
  readonly options: readonly CommandFlag[];
  /** Shown below the options by --help. */
  readonly help?: string;
  load(): Promise<{ readonly run: RunCommand }>;
}
