import type { CliIo } from './io.ts';

export type CommandValues = Readonly<Record<string, string | boolean | undefined>>;

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
export type RunCommand = (values: CommandValues, io: CliIo) => Promise<number>;

/** An entry of the command table; the file of the command is loaded when it runs. */
export interface CliCommand {
  readonly path: readonly string[];
  readonly summary: string;
  /** A positional argument; its value is among the values. */
  readonly argument?: { readonly name: string; readonly description: string };
  readonly options: readonly CommandFlag[];
  /** Shown by --help below the options. */
  readonly help?: string;
  load(): Promise<{ readonly run: RunCommand }>;
}
