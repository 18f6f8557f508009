import type { Role } from './daemon-view.ts';

/** One metric with its samples, as it is handed from thread to thread. */
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
  /** False when the daemon serves without it; left out otherwise. */
  readonly required?: false;
}

/** A whole configuration as values: core sections, and all sections with those of the plugins. */
export interface ConfigValues {
  readonly core: Readonly<Record<string, unknown>>;
  readonly values: Readonly<Record<string, unknown>>;
}

/** What the main thread wants of a role that runs in another thread. Arguments and answers are plain data. */
export interface WorkerCommands {
  /** Opens everything and runs. Errors: those of the stage that failed. */
  start(): Promise<void>;
  /** Answers when the event loop turns. */
  ping(): Promise<void>;
  checks(): Promise<readonly CheckResult[]>;
  metrics(): Promise<readonly MetricFamily[]>;
  /** Whether `takeConfig` may be tried; changes nothing. Errors: PLUGIN_RELOAD_REFUSED. */
  checkConfig(next: ConfigValues): Promise<void>;
  /** All or nothing. Errors: PLUGIN_RELOAD_REFUSED; the old configuration is in force then. */
  takeConfig(next: ConfigValues): Promise<void>;
  /** No new work; resolves when what runs is over. */
  drain(): Promise<void>;
  /** Closes everything. */
  stop(): Promise<void>;
}

/** A role in another thread, as the main thread sees it. */
export interface WorkerHandle {
  readonly role: Role;
  /** Errors: ROLE_SILENT after `timeoutMs` (null waits for as long as the member lives), ROLE_ENDED, and the errors of the command. */
  ask<D extends keyof WorkerCommands>(
    command: D,
    timeoutMs: number | null,
    ...args: Parameters<WorkerCommands[D]>
  ): Promise<Awaited<ReturnType<WorkerCommands[D]>>>;
  /** Resolves with the reason when it cannot go on, or has ended without being asked. */
  readonly failed: Promise<unknown>;
  /** Ends it, whatever it is doing. */
  end(): Promise<void>;
}
