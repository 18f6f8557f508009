import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import type { Clock } from '../ports/clock.ts';
import type { Counter } from '../ports/metrics.ts';

/** Cuts connections whose clients take their answers too slowly: what they leave unread stays in memory. */
export interface ReadingRate {
  attach(server: Server): void;
}

export interface ReadingRateParts {
  readonly clock: Clock;
  /** 0: no least rate. */
  readonly bytesPerSecond: number;
  /** Over which the rate is measured. */
  readonly windowMs: number;
  readonly cut: Counter;
}

/** Looks at the connections within one window. */
const LOOKS = 3;

/** What the streams of Node know of bytes that the system has not taken; they use it for their own time-outs. */
interface Handle {
  readonly writeQueueSize?: number;
  readonly bytesWritten?: number;
  /** Of TLS: the one of TCP below, which alone sees what has left of a large record. */
  readonly _parent?: Handle | null;
}

interface Slow {
  /** Monotonic milliseconds from when on something has been waiting without a break. */
  readonly sinceMs: number;
  readonly sentBefore: number;
}

/**
 * A connection counts while something waits to be taken at each look. Whether its client takes little, or nothing at all, is the same: a
 * message of any size is measured by the bytes that have left, not by its end.
 */
export function createReadingRate({ clock, bytesPerSecond, windowMs, cut }: ReadingRateParts): ReadingRate {
  const open = new Set<Socket>();
  const slow = new Map<Socket, Slow>();
  let cancel: (() => void) | null = null;

  const plan = () => {
    cancel ??= clock.timeout(Math.ceil(windowMs / LOOKS), look);
  };

  function look(): void {
    cancel = null;
    const now = clock.monotonic();
    for (const socket of open) {
      if (socket.writableLength === 0) {
        slow.delete(socket);
        continue;
      }
      const sent = sentBytes(socket);
      const known = slow.get(socket);
      if (known === undefined) slow.set(socket, { sinceMs: now, sentBefore: sent });
      else if (now - known.sinceMs >= windowMs) {
        if (((sent - known.sentBefore) * 1_000) / (now - known.sinceMs) < bytesPerSecond) {
          cut.add();
          socket.destroy();
        } else slow.set(socket, { sinceMs: now, sentBefore: sent });
      }
    }
    if (open.size > 0) plan();
  }

  return {
    attach(server) {
      if (bytesPerSecond === 0) return;
      server.on('setSecureContext' in server ? 'secureConnection' : 'connection', (socket: Socket) => {
        // A connection that offers another protocol comes by again.
        if (open.has(socket)) return;
        open.add(socket);
        socket.once('close', () => {
          open.delete(socket);
          slow.delete(socket);
          if (open.size > 0) return;
          cancel?.();
          cancel = null;
        });
        plan();
      });
    },
  };
}

/** Bytes that have left the process. */
function sentBytes(socket: Socket): number {
  const { _handle: handle } = socket as Socket & { readonly _handle?: Handle | null };
  const { writeQueueSize = 0, bytesWritten = socket.bytesWritten } = handle?._parent ?? handle ?? {};
  return bytesWritten - writeQueueSize;
}
