import type { Socket } from 'node:net';
import type { Role } from './daemon-view.ts';
import { type ServiceToken, serviceToken } from './service.ts';

/**
 * How the threads and processes of a daemon work together: commands to roles, hints, a lock that shows who is alive, and what the service
 * manager hears.
 */

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
  /** Name of this process. */
  readonly name: string;
  /** The main process makes the decisions that must be made once. */
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

/**
 * Hints between the roles of a daemon, across threads and processes. Delivery is at most once, without an order across senders; messages
 * without a subscriber, or on a broken connection, are lost. Correctness must not depend on a message: subscribers also poll the store.
 */
export interface Bus {
  /**
   * Sends a message to all subscribers of the topic, including those of this bus; asynchronously, never within the call. `message` is
   * encoded as JSON and must stay below 7,000 bytes. Never throws.
   */
  publish(topic: string, message: object): void;
  /** The listener receives parsed JSON, possibly from another version of the daemon. The returned function unsubscribes. */
  subscribe(topic: string, listener: (message: unknown) => void): () => void;
  /** Closes the connections; later messages are dropped. */
  close(): Promise<void>;
}

/** The bus scoped to one plugin: hints to the same plugin in other threads and processes. */
export type Hints = Pick<Bus, 'publish' | 'subscribe'>;

/**
 * A line to the other threads of this process that open one of the same name, as plain data and bytes of any size, in order. Unlike the
 * bus it reaches no other process. Messages without a listener are lost; the receiver must bound its queue.
 */
interface ThreadLine {
  /** A view of bytes is sent with the whole buffer behind it. */
  post(message: object): void;
  close(): void;
}

export type OpenThreadLine = (name: string, take: (message: unknown) => void) => ThreadLine;

/** Offered by the kernel. */
export const kernelThreadLine: ServiceToken<OpenThreadLine> = serviceToken('kernel.thread-line');

/** A lock that shows other processes of the machine that this one is alive. The operating system releases it however the process ends. */
export interface Owner {
  /** Unique; never reused. */
  readonly id: string;
  /**
   * Whether the process with this id has certainly ended. False if it runs or is paused, or if the id is unknown on this machine: the
   * process may run elsewhere.
   */
  isGone(id: string): boolean;
  /**
   * Removes the files of ended processes, but only at the second call that finds them: a database server may still commit a transaction
   * that a process sent just before its end. Their ids are unknown afterwards.
   */
  forgetGone(): void;
  /** Releases the lock. */
  close(): void;
}

/** This process, in a daemon that executes jobs; null: its data folder cannot be locked. Offered by the kernel. */
export const kernelOwner: ServiceToken<() => Owner | null> = serviceToken('kernel.owner');

/** States that can be reported to a service manager. */
export type NotifyState =
  /** The service accepts requests; also ends `reloading`. */
  | 'ready'
  /** A new configuration is being read. */
  | 'reloading'
  | 'stopping'
  /** Feeds the watchdog. */
  | 'alive';

export interface Notice {
  readonly state?: NotifyState;
  /** One line for people. No secrets: every user of the machine can read it. */
  readonly status?: string;
}

/** The service manager that started this process, such as systemd. */
export interface Notify {
  /** Whether a service manager listens; if not, `tell` does nothing. */
  readonly enabled: boolean;
  /** The manager ends the service if it receives no `alive` for this long; null: no watchdog. */
  readonly watchdogMs: number | null;
  /**
   * Sends a notice. Notices arrive in the order of the calls. Resolves when the notice was accepted, or was given up after a bounded time;
   * never rejects.
   */
  tell(notice: Notice): Promise<void>;
}

/** Descriptors of listening TCP sockets that the service manager keeps open across restarts; null: the daemon binds the socket. */
export interface InheritedSockets {
  readonly api: number | null;
  readonly websocket: number | null;
  readonly admin: number | null;
}
