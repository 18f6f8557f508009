import type { WebSocket } from 'ws';
import type { Clock } from '../../../src/kernel/plugin.ts';

/** The way to one client: a bounded queue. */
export interface Outlet {
  /** Answers false when the client is too slow or on its way out; nothing more is sent then. */
  send(message: Buffer | string): boolean;
  close(code: number, reason: string): void;
  /** Told that the socket has closed. */
  end(): void;
}

/** How long a client has to read what is queued and to answer the close. */
const FAREWELL_MS = 5_000;

export function createOutlet(socket: WebSocket, clock: Clock, maxQueuedBytes: number): Outlet {
  let closing = false;
  let cancelFarewell = () => {};

  function close(code: number, reason: string): void {
    if (closing) return;
    closing = true;
    socket.close(code, reason);
    cancelFarewell = clock.timeout(FAREWELL_MS, () => socket.terminate());
  }

  return {
    send(message) {
      if (closing) return false;
      if (socket.bufferedAmount > 0 && socket.bufferedAmount + message.length > maxQueuedBytes) {
        close(1013, 'too slow');
        return false;
      }
      socket.send(message, { binary: false });
      return true;
    },
    close,
    end() {
      closing = true;
      cancelFarewell();
    },
  };
}
