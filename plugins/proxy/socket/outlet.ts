import type { WebSocket } from 'ws';
import type { Clock } from '../../../src/plugin/plugin.ts';
import type { StreamMeter, Tenant } from '../../../src/ports/access.ts';

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

/** Smaller messages on an empty queue are with the system at once, and hardly ever wait. */
const SMALL_BYTES = 16_384;

/** What waits counts as answers that `tenant` holds. */
export function createOutlet(socket: WebSocket, clock: Clock, maxQueuedBytes: number, tenant?: Tenant): Outlet {
  const lease = tenant?.take('answerBytes', 0);
  let closing = false;
  let cancelFarewell = () => {};

  function close(code: number, reason: string): void {
    if (closing) return;
    closing = true;
    socket.close(code, reason);
    cancelFarewell = clock.timeout(FAREWELL_MS, () => socket.terminate());
  }

  function mayHold(queued: number, more: number): boolean {
    if (lease === undefined || (queued === 0 && lease.amount === 0 && more <= SMALL_BYTES)) return true;
    try {
      lease.set(queued + more);
      return true;
    } catch {
      return false;
    }
  }

  function sent(): void {
    if (lease !== undefined && socket.bufferedAmount < lease.amount) lease.set(socket.bufferedAmount);
  }

  return {
    send(message) {
      if (closing || socket.readyState !== socket.OPEN) return false;
      const queued = socket.bufferedAmount;
      if (queued + message.length > maxQueuedBytes || !mayHold(queued, message.length)) {
        close(1013, 'too slow');
        return false;
      }
      socket.send(message, { binary: false }, sent);
      if (lease !== undefined && lease.amount !== socket.bufferedAmount) mayHold(socket.bufferedAmount, 0);
      return true;
    },
    close,
    end() {
      closing = true;
      lease?.release();
      cancelFarewell();
    },
  };
}

/** The way for notifications, which cost credits by their bytes. A client whose credits are used up is closed with 1008. */
export function createPaidOutlet(outlet: Outlet, meter: StreamMeter, maxHeldBytes: number): Outlet {
  /** Notifications that wait while the store is asked for the credits; null: it is not asked. */
  let held: Buffer[] | null = null;
  let heldBytes = 0;

  function sendPaid(message: Buffer | string): boolean {
    const isSent = outlet.send(message);
    if (isSent) meter.count(Buffer.byteLength(message));
    return isSent;
  }

  async function sendHeld(): Promise<void> {
    try {
      await meter.refresh();
    } catch {
      outlet.close(1013, 'try again later');
      return;
    }
    const messages = held ?? [];
    held = null;
    heldBytes = 0;
    for (const message of messages) {
      if (!meter.affords(message.length)) {
        outlet.close(1008, 'max usage reached');
        return;
      }
      sendPaid(message);
    }
  }

  return {
    ...outlet,
    send(message) {
      if (held === null && meter.affords(Buffer.byteLength(message))) return sendPaid(message);
      const bytes = Buffer.from(message);
      heldBytes += bytes.length;
      if (heldBytes > maxHeldBytes) {
        outlet.close(1013, 'too slow');
        return false;
      }
      if (held !== null) {
        held.push(bytes);
        return true;
      }
      held = [bytes];
      void sendHeld();
      return true;
    },
  };
}
