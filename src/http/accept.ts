import { spawn } from 'node:child_process';
import type { Server } from 'node:http';
import { createServer, type Server as NetServer } from 'node:net';
import { messageOf } from '../lib/coded-error.ts';
import type { ListenHandle } from '../ports/processes.ts';
import type { Log } from '../ports/telemetry.ts';
import { readDescriptors } from './connections.ts';
import { handleOf, LISTEN_BACKLOG } from './listener.ts';

/** Connections that have queued for this long queue because of a busy event loop. */
const QUEUED_MS = 50;
/** Further handles of a socket; each costs a failed accept for a connection that another one took. */
const MORE = 31;
/** One descriptor in so many free ones may be a further handle. */
const SHARE_OF_DESCRIPTORS = 16;
const COPY_TIMEOUT_MS = 10_000;

/** Returns a handle that it is sent as often as asked, every time with a descriptor of its own. It ends with the channel. */
const COPIER = `process.on('message', (times, handle) => {
  for (let i = 0; i < times; i += 1) process.send(i, handle);
});`;

/** The further handles of one listening socket. */
export interface FastAccept {
  readonly servers: readonly NetServer[];
  /** To be called once `server` has stopped accepting. Resolves when their connections have closed. */
  close(): Promise<void>;
}

/**
 * Node accepts one connection per handle in each turn of its event loop. At full load a turn lasts until every waiting request was handled, so
 * the last of 256 clients that connect together waits for 256 such turns. Several handles of the same socket accept one connection each.
 * They are opened when connections have queued for the first time; `server` handles what they accept.
 *
 * Only another process can copy a handle, so one is started for a moment.
 */
export function acceptFaster(server: Server, log: Log): FastAccept {
  const further: NetServer[] = [];
  let isWide = false;
  let isClosed = false;
  /** Since when connections arrived in every turn; null: none arrived in the last one. */
  let since: number | null = null;
  let arrived = false;

  const afterTurn = (): void => {
    if (!arrived || isWide || isClosed) {
      since = null;
      return;
    }
    arrived = false;
    if (performance.now() - (since ?? 0) >= QUEUED_MS) void widen();
    else setImmediate(afterTurn);
  };
  const widen = async (): Promise<void> => {
    isWide = true;
    const descriptors = readDescriptors();
    const room = descriptors === null ? MORE : (descriptors.limit - descriptors.open) / SHARE_OF_DESCRIPTORS;
    const more = Math.min(MORE, Math.floor(room));
    if (!server.listening || more < 1) return;
    try {
      await copies(handleOf(server), more, (copy) => {
        if (isClosed) {
          copy.close();
          return;
        }
        const one = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => server.emit('connection', socket));
        // Without one an error ends the process; the first handle still accepts.
        one.on('error', (error) => log.warn({ error: messageOf(error) }, 'cannot accept on a copy of the listener'));
        one.listen(copy, LISTEN_BACKLOG);
        further.push(one);
      });
      log.info({ handles: further.length + 1 }, 'connections queued: the listener accepts several at once from now on');
    } catch (error) {
      log.warn(
        { error: messageOf(error) },
        'connections queue, and the listener could not be copied to accept several at once',
      );
    }
  };
  server.on('connection', () => {
    arrived = true;
    if (isWide || since !== null) return;
    since = performance.now();
    setImmediate(afterTurn);
  });

  return {
    servers: further,
    async close() {
      isClosed = true;
      await Promise.all(further.map((one) => new Promise<void>((resolve) => void one.close(() => resolve()))));
    },
  };
}

/** Errors: the process could not be started, or did not return all of them in time. */
function copies(
  handle: ListenHandle,
  times: number,
  take: (copy: ListenHandle & { close(): void }) => void,
): Promise<void> {
  const copier = spawn(process.execPath, ['-e', COPIER], { stdio: ['ignore', 'ignore', 'ignore', 'ipc'], env: {} });
  return new Promise((resolve, reject) => {
    let left = times;
    const late = setTimeout(() => copier.kill('SIGKILL'), COPY_TIMEOUT_MS);
    copier.once('error', (error) => {
      clearTimeout(late);
      reject(error);
    });
    copier.on('message', (_place, copy) => {
      left -= 1;
      if (copy !== undefined) take(copy as never);
      if (left === 0) copier.disconnect();
    });
    copier.once('exit', () => {
      clearTimeout(late);
      if (left === 0) resolve();
      else reject(new Error(`the process that copies it returned ${times - left} of ${times}`));
    });
    copier.send(times, handle as never);
  });
}
