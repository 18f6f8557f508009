import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { CodedError, messageOf } from '../../lib/coded-error.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Role } from '../../ports/daemon-view.ts';
import type { WorkerHandle } from '../../ports/workers.ts';
import { EXIT } from '../../runtime/errors.ts';
import { fromErrorData, type LogWritten, type WorkerCommand, type WorkerMessage } from './wire.ts';

export interface WorkerOptions {
  readonly role: Role;
  /** Module that the thread runs. */
  readonly entry: URL;
  /** Plain data for it, read there as `workerData`. */
  readonly data: unknown;
  readonly clock: Clock;
  /** Receives complete lines of its log. */
  readonly writeLog: (lines: string) => void;
  /** Called once when the thread has ended, whatever the reason. */
  readonly gone?: () => void;
}

interface Waiting {
  resolve(value: unknown): void;
  reject(error: unknown): void;
}

/** Starts a thread for a role. It loads its modules at once and opens nothing before the command `start`. */
export function startWorker(options: WorkerOptions): WorkerHandle {
  const { role, clock } = options;
  const worker = startThread(options.entry, options.data);
  const exited = new Promise<void>((resolve) => void worker.once('exit', () => resolve()));
  const waiting = new Map<number, Waiting>();
  const failure = createFailure();
  let nextId = 1;
  let ended: CodedError | null = null;
  let isEnding = false;

  const end = (reason: CodedError): void => {
    if (ended !== null) return;
    ended = reason;
    for (const { reject } of waiting.values()) reject(reason);
    waiting.clear();
    if (!isEnding) failure.report(reason);
  };
  worker.on('message', (message: WorkerMessage) => {
    if (message.kind === 'log') {
      options.writeLog(message.lines);
      worker.postMessage({ taken: message.lines.length } satisfies LogWritten);
    } else if (message.kind === 'fatal') failure.report(fromErrorData(message.error));
    else {
      const asker = waiting.get(message.id);
      waiting.delete(message.id);
      if (message.kind === 'answer') asker?.resolve(message.value);
      else asker?.reject(fromErrorData(message.error));
    }
  });
  worker.on('error', (error) => end(crashed(role, error)));
  worker.on('exit', (code) => {
    end(new CodedError('ROLE_ENDED', `the thread of the role ${role} ended with ${code}`, { exitCode: EXIT.bug }));
    options.gone?.();
  });

  return {
    role,
    failed: failure.reported,
    ask(command, timeoutMs, ...args) {
      return new Promise((resolve, reject) => {
        if (ended !== null) return reject(ended);
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
        worker.postMessage({ id, command, args } satisfies WorkerCommand);
      });
      function giveUp(id: number): void {
        const text = `the role ${role} did not do "${command}" within ${timeoutMs} ms`;
        waiting.get(id)?.reject(new CodedError('ROLE_SILENT', text, { facts: { role, command } }));
      }
    },
    async end() {
      isEnding = true;
      await Promise.all([exited, worker.terminate()]);
    },
  };
}

/** The first reason counts; an unobserved rejection is harmless. */
function createFailure() {
  let report: (reason: unknown) => void = () => undefined;
  const reported = new Promise<unknown>((resolve) => {
    report = resolve;
  });
  return { reported, report };
}

function crashed(role: Role, error: unknown): CodedError {
  const isMemory = (error as { readonly code?: unknown } | null)?.code === 'ERR_WORKER_OUT_OF_MEMORY';
  const exitCode = isMemory ? EXIT.temporary : EXIT.bug;
  return new CodedError('ROLE_CRASHED', `the role ${role} crashed: ${messageOf(error)}`, { exitCode, cause: error });
}

/**
 * The TypeScript loader of a source tree does not reach into threads, so a first line of JavaScript loads it
 * before the entry.
 */
function startThread(entry: URL, workerData: unknown): Worker {
  if (extname(fileURLToPath(entry)) !== '.ts') return new Worker(entry, { workerData });
  const loader = JSON.stringify(import.meta.resolve('tsx/esm/api'));
  const module = JSON.stringify(entry.href);
  const boot = `import(${loader}).then(({ register }) => { register(); return import(${module}); })`;
  return new Worker(boot, { eval: true, workerData });
}
