import type { MessagePort } from 'node:worker_threads';
import { CodedError, codeOf, messageOf } from '../../lib/coded-error.ts';
import type { WorkerCommands } from '../../ports/processes.ts';

/** The channel of a process to its parent, as the port of a thread. */
export interface ParentChannel {
  postMessage(message: unknown): void;
  on(event: 'message', take: (message: never) => void): void;
}

export function parentChannel(): ParentChannel {
  return {
    postMessage: (message) => void process.send?.(message),
    on: (_event, take) => void process.on('message', take as (message: unknown) => void),
  };
}

/** The end of a worker. */
type WorkerPort = MessagePort | ParentChannel;

/** To the worker: a command. */
export interface WorkerCommand {
  readonly id: number;
  readonly command: string;
  readonly args: readonly unknown[];
}

/** To the worker: this many bytes of its log lines were written. */
export interface LogWritten {
  readonly taken: number;
}

/** To a process of the API, besides commands. */
export type ToApiProcess =
  /** The first message: its input. */
  | { readonly data: unknown }
  | { readonly peers: readonly PeerMessage[] }
  /** Comes with a listener, the one at this place of so many. */
  | { readonly listener: number; readonly of: number; readonly release: boolean };

/** A question between processes of the API, or its answer. */
export type PeerMessage =
  | { readonly ask: number; readonly to: 'main' | 'others'; readonly topic: string; readonly message: unknown }
  | { readonly answered: number; readonly value: unknown }
  | { readonly refused: number; readonly error: ErrorData };

/** From the worker. */
export type WorkerMessage =
  | { readonly kind: 'answer'; readonly id: number; readonly value: unknown }
  | { readonly kind: 'error'; readonly id: number; readonly error: ErrorData }
  /** The worker cannot continue. */
  | { readonly kind: 'fatal'; readonly error: ErrorData }
  /** Complete lines of its log. */
  | { readonly kind: 'log'; readonly lines: string }
  /** Only processes: it listens to commands. */
  | { readonly kind: 'loaded' }
  /** Only processes. */
  | { readonly kind: 'peers'; readonly peers: readonly PeerMessage[] }
  /** Only processes: comes with a socket. */
  | { readonly kind: 'socket'; readonly listener: number; readonly bytes: Uint8Array };

/** An error as plain data: an Error instance loses its code on the way. */
interface ErrorData {
  readonly code: string | null;
  readonly message: string;
  readonly exitCode: number | null;
  readonly retryable: boolean;
  readonly facts: Readonly<Record<string, unknown>>;
}

export function toErrorData(error: unknown): ErrorData {
  const coded = error instanceof CodedError ? error : null;
  return {
    code: codeOf(error) ?? null,
    message: messageOf(error),
    exitCode: coded?.exitCode ?? null,
    retryable: coded?.retryable ?? false,
    facts: coded === null ? {} : (JSON.parse(JSON.stringify(coded.facts)) as Record<string, unknown>),
  };
}

/** An error without a code is a bug of the other thread. */
export function fromErrorData(data: ErrorData): Error {
  if (data.code === null) return new Error(data.message);
  const { exitCode, retryable, facts } = data;
  return new CodedError(data.code, data.message, { retryable, facts, ...(exitCode === null ? {} : { exitCode }) });
}

/** Characters of lines that the main thread has not written yet; more are dropped. */
const MAX_WAITING = 4_194_304;
/** A message costs both sides more than a request, so lines are collected for this long, or until there are this many characters. */
const COLLECT_MS = 20;
const COLLECT_CHARACTERS = 65_536;
/** Lines that may wait: they report nothing wrong. */
const CALM = /^\{"level":"(?:info|debug|trace)"/;

export interface LogRelay {
  write(line: string): void;
  /** Sends what is collected. */
  flush(): void;
}

/**
 * Sends the log of a worker to the main thread, which alone writes to the output, so that lines of several threads never mix. A warning is
 * sent in the turn of the event loop in which it is written, with all lines before it.
 */
export function createLogRelay(port: WorkerPort): LogRelay {
  let lines = '';
  let waiting = 0;
  let isUrgent = false;
  let timer: NodeJS.Timeout | null = null;
  let dropped = 0;

  const flush = () => {
    isUrgent = false;
    if (timer !== null) clearTimeout(timer);
    timer = null;
    if (lines === '') return;
    waiting += lines.length;
    port.postMessage({ kind: 'log', lines } satisfies WorkerMessage);
    lines = '';
  };
  (port as ParentChannel).on('message', (message: WorkerCommand | LogWritten) => {
    if ('taken' in message) waiting -= message.taken;
  });
  // Also after an error that nobody caught.
  process.once('exit', flush);
  return {
    write(line) {
      if (waiting + lines.length > MAX_WAITING) {
        dropped += 1;
        return;
      }
      if (dropped > 0) {
        lines += `${JSON.stringify({ level: 'warn', msg: `${dropped} log lines were dropped` })}\n`;
        dropped = 0;
      }
      lines += line;
      if (isUrgent) return;
      if (lines.length < COLLECT_CHARACTERS && CALM.test(line)) timer ??= setTimeout(flush, COLLECT_MS);
      else {
        isUrgent = true;
        setImmediate(flush);
      }
    },
    flush,
  };
}

/** Executes the commands of the main thread, which has the other end of `port`; `fatal` is the error that ends the daemon. */
export function serveCommands(
  port: WorkerPort,
  commands: WorkerCommands,
  fatal: Promise<unknown>,
  relay: Pick<LogRelay, 'flush'>,
): void {
  // After the last answer the worker may end.
  const send = (message: WorkerMessage) => {
    relay.flush();
    port.postMessage(message);
  };

  async function answer({ id, command, args }: WorkerCommand): Promise<void> {
    try {
      const run = commands[command as keyof WorkerCommands] as (...args: readonly unknown[]) => Promise<unknown>;
      send({ kind: 'answer', id, value: await run(...args) });
    } catch (error) {
      send({ kind: 'error', id, error: toErrorData(error) });
    }
  }
  (port as ParentChannel).on('message', (message: WorkerCommand | LogWritten) => {
    if ('command' in message) void answer(message);
  });
  void fatal.then((error) => send({ kind: 'fatal', error: toErrorData(error) }));
}
