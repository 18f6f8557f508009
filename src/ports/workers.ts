import type { Socket } from 'node:net';
import type { Role } from './daemon-view.ts';
import { type ServiceToken, serviceToken } from './service.ts';

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

/** Commands of the main thread to a role in another thread or process. Arguments and answers are plain data. */
export interface WorkerCommands {
  /** Runs all start stages. Errors: those of the stage that failed. */
  start(): Promise<void>;
  /** Answers as soon as the event loop runs. */
  ping(): Promise<void>;
  /** Only processes of the API: opens the listeners that were passed before. */
  listen(): Promise<void>;
  checks(): Promise<readonly CheckResult[]>;
  metrics(): Promise<readonly MetricFamily[]>;
  /** Assigns all values: those of the keys that need a restart have not changed. */
  takeConfig(next: ConfigValues): Promise<void>;
  /** Stops accepting new work; resolves when running work has finished. */
  drain(): Promise<void>;
  /** Closes everything. */
  stop(): Promise<void>;
}

/** A role in another thread or process, as seen by the main thread. */
export interface WorkerHandle {
  /** Unique in the daemon: the role, or `api-2` for the second process of the API. */
  readonly name: string;
  readonly role: Role;
  /** Errors: ROLE_SILENT after `timeoutMs` (null: no time limit), ROLE_ENDED, and the errors of the command. */
  ask<D extends keyof WorkerCommands>(
    command: D,
    timeoutMs: number | null,
    ...args: Parameters<WorkerCommands[D]>
  ): Promise<Awaited<ReturnType<WorkerCommands[D]>>>;
  /** Resolves with the reason when the worker cannot continue, or ended unexpectedly. */
  readonly failed: Promise<unknown>;
  /** Terminates the thread or process, whatever it is doing. */
  end(): Promise<void>;
}

/** A connection that asks for a websocket, with the bytes of its request. `listener` is the place of its listener in the list. */
export interface HandedSocket {
  readonly listener: number;
  readonly socket: Socket;
  readonly bytes: Buffer;
}

/** The other processes that serve the API of this daemon. A process that ends, or does not know the topic, gives no answer. */
export interface ApiPeers {
  /** Number of processes, this one included. */
  readonly count: number;
  /** Of this process. */
  readonly name: string;
  /** The main process decides what has to be decided once. */
  readonly isMain: boolean;
  /** Answers the questions of the others. */
  answer(topic: string, fn: (message: unknown) => unknown): void;
  /** Returns when all others have answered. Errors: the first one of theirs. */
  askOthers(topic: string, message: unknown): Promise<readonly unknown[]>;
  /** Only from a further process. Errors: those of the answer. */
  askMain(topic: string, message: unknown): Promise<unknown>;
}

/** Null: this process serves the API alone. Offered by the kernel. */
export const kernelApiPeers: ServiceToken<{ readonly peers: ApiPeers | null }> = serviceToken('kernel.api-peers');

/**
 * A further process of the API: it accepts connections of the same listeners, and hands websockets to the main process. After its end it
 * can be started again; `failed` is of its present life.
 */
export interface ApiProcess extends WorkerHandle {
  /** Starts it again. */
  restart(): void;
  /** Lets it accept connections of these listeners. `release`: whether it has to leave them as soon as it drains. */
  listen(listeners: readonly ListenHandle[], release: boolean): Promise<void>;
  onSocket(take: (handed: HandedSocket) => void): void;
}

/**
 * The handle below a `Server` of node:net. A `Server` that comes from another process accepts at once, before anybody answers its
 * connections; a handle accepts nothing before a server takes it over.
 */
export type ListenHandle = object;

/** What a further process of the API gets from the main process. */
export interface SharedListeners {
  readonly listeners: readonly ListenHandle[];
  readonly release: boolean;
}
