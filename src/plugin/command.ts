import type { Store } from '../ports/store.ts';

/** A command of the CLI that works on the store. */
export interface Command {
  /** `['keys', 'create']` */
  readonly path: readonly string[];
  readonly summary: string;
  readonly options: readonly CommandOption[];
  /** Refused while a daemon of this data folder runs; default false. */
  readonly needsStoppedDaemon?: boolean;
  run(options: Readonly<Record<string, string | boolean | undefined>>, io: CommandIo): Promise<void>;
}

export interface CommandOption {
  /** commander's notation: `--name <text>`. */
  readonly flags: string;
  readonly description: string;
  readonly required?: boolean;
}

export interface CommandIo {
  /** For people. */
  line(text: string): void;
  /** For scripts: one JSON document on stdout; use it when `--json` was given. */
  json(value: unknown): void;
  readonly store: Store;
  /** How a person calls this program, for commands that are printed to be copied. */
  readonly program: string;
  /**
   * Shows long work on standard error: a bar in a terminal, a JSON line per 10 s elsewhere. `total` in `unit`, or null when it is not
   * known. End it in any case.
   */
  progress?(work: { readonly what: string; readonly unit: string; readonly total: number | null }): CommandProgress;
}

export interface CommandProgress {
  update(done: number): void;
  end(): void;
}
