import type { Role } from './daemon-view.ts';

/** One metric with its samples, as passed between threads. */
export interface MetricFamily {
  readonly name: string;
  readonly help: string;
  readonly type: string;
  readonly values: readonly {
    /** Differs from the family's name for the parts of a histogram. */
    readonly metricName?: string;
    readonly labels: Readonly<Record<string, string | number>>;
    readonly value: number;
  }[];
}

/** The result of a health check. */
export interface CheckResult {
  readonly name: string;
  readonly ok: boolean;
  /** No secrets. */
  readonly detail: string;
  /** False if the daemon can serve without it; otherwise absent. */
  readonly required?: false;
}

/** A whole configuration as plain values: the core sections, and all sections including those of plugins. */
export interface ConfigValues {
  readonly core: Readonly<Record<string, unknown>>;
  readonly values: Readonly<Record<string, unknown>>;
}

/** Commands of the main thread to a role in another thread. Arguments and answers are plain data. */
export interface WorkerCommands {
  /** Runs all start stages. Errors: those of the stage that failed. */
  start(): Promise<void>;
  /** Answers as soon as the event loop runs. */
  ping(): Promise<void>;
  checks(): Promise<readonly CheckResult[]>;
  metrics(): Promise<readonly MetricFamily[]>;
  /** Assigns all values: those of the keys that need a restart have not changed. */
  takeConfig(next: ConfigValues): Promise<void>;
  /** Stops accepting new work; resolves when running work has finished. */
  drain(): Promise<void>;
  /** Closes everything. */
  stop(): Promise<void>;
}

/** A role in another thread, as seen by the main thread. */
export interface WorkerHandle {
  readonly role: Role;
  /** Errors: ROLE_SILENT after `timeoutMs` (null: no time limit), ROLE_ENDED, and the errors of the command. */
  ask<D extends keyof WorkerCommands>(
    command: D,
    timeoutMs: number | null,
    ...args: Parameters<WorkerCommands[D]>
  ): Promise<Awaited<ReturnType<WorkerCommands[D]>>>;
  /** Resolves with the reason when the worker cannot continue, or ended unexpectedly. */
  readonly failed: Promise<unknown>;
  /** Terminates the thread, whatever it is doing. */
  end(): Promise<void>;
}
