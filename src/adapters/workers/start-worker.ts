import { fork, type SendHandle } from 'node:child_process';
import { Socket } from 'node:net';
import { CodedError, EXIT, messageOf } from '../../lib/coded-error.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Role } from '../../ports/daemon-view.ts';
import type { ApiProcess, HandedSocket, ListenHandle, WorkerHandle } from '../../ports/processes.ts';
import { startThread } from '../../runtime/start-thread.ts';
import type { ApiHub } from './api-process.ts';
import { fromErrorData, type LogWritten, type ToApiProcess, type WorkerCommand, type WorkerMessage } from './wire.ts';

interface WorkerOptions {
  readonly name: string;
  readonly role: Role;
  /** Module that the worker runs. */
  readonly entry: URL;
  /** Plain data for it. */
  readonly data: unknown;
  readonly clock: Clock;
  /** Receives complete lines of its log. */
  readonly writeLog: (lines: string) => void;
  /** Called once when the thread has ended, whatever the reason. */
  readonly gone?: () => void;
}

/** Starts a thread for a role. It loads its modules at once and opens nothing before the command `start`. */
export function startWorker(options: WorkerOptions): WorkerHandle {
  const worker = startThread(options.entry, options.data);
  const exited = new Promise<void>((resolve) => void worker.once('exit', () => resolve()));
  const { ended, take, handle } = superviseWorker(
    options,
    (message) => worker.postMessage(message),
    async () => {
      await Promise.all([exited, worker.terminate()]);
    },
  );
  worker.on('message', take);
  worker.on('error', (error) => ended(crashed(options.name, error)));
  worker.on('exit', (code) => {
    ended(endedWith(`the thread of the role ${options.name}`, code));
    options.gone?.();
  });
  return handle;
}

interface ApiProcessOptions extends Omit<WorkerOptions, 'data' | 'gone'> {
  /** Its input, at each start. */
  readonly data: () => unknown;
  readonly hub: Pick<ApiHub, 'join'>;
}

/** Starts a further process of the API, as `startWorker` does a thread. It ends with this process. */
export function startApiProcess(options: ApiProcessOptions): ApiProcess {
  let onSocket: (handed: HandedSocket) => void = ({ socket }) => socket.destroy();
  let life = startLife(options, (handed) => onSocket(handed));
  const { name, role } = options;
  return {
    name,
    role,
    get failed() {
      return life.handle.failed;
    },
    ask: (...args) => life.handle.ask(...args),
    end: () => life.handle.end(),
    restart() {
      life = startLife(options, (handed) => onSocket(handed));
    },
    async listen(listeners, release) {
      listeners.forEach((listener, place) => {
        life.post({ listener: place, of: listeners.length, release } satisfies ToApiProcess, listener);
      });
      await life.handle.ask('listen', LISTEN_TIMEOUT_MS);
    },
    onSocket(fn) {
      onSocket = fn;
    },
  };
}

/** One process, from its start to its end. */
function startLife({ data, hub, entry, ...options }: ApiProcessOptions, onSocket: (handed: HandedSocket) => void) {
  const child = fork(entry, { serialization: 'advanced', stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
  const exited = new Promise<void>((resolve) => void child.once('exit', () => resolve()));
  /** Until it has loaded: nothing listens there before. */
  let held: (readonly [object, ListenHandle | undefined])[] | null = [];
  // A message to a process that has just ended is lost, as its answer is.
  const send = (message: object, passed?: ListenHandle) =>
    void (child.connected && child.send(message, passed as SendHandle | undefined, () => undefined));
  const post = (message: object, passed?: ListenHandle) =>
    held === null ? send(message, passed) : void held.push([message, passed]);
  let peer: ReturnType<ApiHub['join']> | null = null;
  const { ended, take, handle } = superviseWorker(options, post, async () => {
    child.kill('SIGKILL');
    await exited;
  });
  const loaded = (): void => {
    // What it does not know yet it cannot have kept: no question has to wait for its start.
    peer = hub.join((peers) => post({ peers } satisfies ToApiProcess));
    for (const [message, passed] of held ?? []) send(message, passed);
    held = null;
  };
  child.on('message', (message, passed) => {
    const sent = message as WorkerMessage;
    if (sent.kind === 'loaded') loaded();
    else if (sent.kind === 'peers') peer?.take(sent.peers);
    else if (sent.kind !== 'socket') take(sent);
    // Without one the client had gone before it was sent.
    else if (passed instanceof Socket)
      onSocket({ listener: sent.listener, socket: passed, bytes: Buffer.from(sent.bytes) });
  });
  child.once('error', (error) => ended(crashed(options.name, error)));
  child.once('exit', (code, signal) => {
    peer?.lost();
    ended(endedWith(`the process ${options.name}`, code ?? signal));
  });
  send({ data: data() } satisfies ToApiProcess);
  return { post, handle };
}

const LISTEN_TIMEOUT_MS = 10_000;

interface Waiting {
  resolve(value: unknown): void;
  reject(error: unknown): void;
}

/** Commands and answers of a worker, whatever it runs in. */
function superviseWorker(
  { name, role, clock, writeLog }: Pick<WorkerOptions, 'name' | 'role' | 'clock' | 'writeLog'>,
  post: (message: WorkerCommand | LogWritten) => void,
  terminate: () => Promise<void>,
) {
  const waiting = new Map<number, Waiting>();
  const failure = createFailure();
  let nextId = 1;
  let over: CodedError | null = null;
  let isEnding = false;

  const ended = (reason: CodedError): void => {
    if (over !== null) return;
    over = reason;
    for (const { reject } of waiting.values()) reject(reason);
    waiting.clear();
    if (!isEnding) failure.report(reason);
  };
  const take = (message: WorkerMessage): void => {
    if (message.kind === 'log') {
      writeLog(message.lines);
      post({ taken: message.lines.length });
    } else if (message.kind === 'fatal') failure.report(fromErrorData(message.error));
    else if (message.kind === 'answer' || message.kind === 'error') {
      const asker = waiting.get(message.id);
      waiting.delete(message.id);
      if (message.kind === 'answer') asker?.resolve(message.value);
      else asker?.reject(fromErrorData(message.error));
    }
  };

  const handle: WorkerHandle = {
    name,
    role,
    failed: failure.reported,
    ask(command, timeoutMs, ...args) {
      return new Promise((resolve, reject) => {
        if (over !== null) return reject(over);
        const id = nextId++;
        const cancel = timeoutMs === null ? () => undefined : clock.timeout(timeoutMs, () => giveUp(id));
        const finish = () => {
          cancel();
          waiting.delete(id);
        };
        waiting.set(id, {
          resolve(value) {
            finish();
            resolve(value as never);
          },
          reject(error) {
            finish();
            reject(error as Error);
          },
        });
        post({ id, command, args });
      });
      function giveUp(id: number): void {
        const text = `the role ${name} did not do "${command}" within ${timeoutMs} ms`;
        waiting.get(id)?.reject(new CodedError('ROLE_SILENT', text, { facts: { role: name, command } }));
      }
    },
    async end() {
      isEnding = true;
      await terminate();
    },
  };
  return { ended, take, handle };
}

const endedWith = (what: string, code: number | string | null): CodedError =>
  new CodedError('ROLE_ENDED', `${what} ended with ${code}`, { exitCode: EXIT.bug });

/** The first reason counts; an unobserved rejection is harmless. */
function createFailure() {
  let report: (reason: unknown) => void = () => undefined;
  const reported = new Promise<unknown>((resolve) => {
    report = resolve;
  });
  return { reported, report };
}

function crashed(role: string, error: unknown): CodedError {
  const isMemory = (error as { readonly code?: unknown } | null)?.code === 'ERR_WORKER_OUT_OF_MEMORY';
  const exitCode = isMemory ? EXIT.temporary : EXIT.bug;
  return new CodedError('ROLE_CRASHED', `the role ${role} crashed: ${messageOf(error)}`, { exitCode, cause: error });
}
