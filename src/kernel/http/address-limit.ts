import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import type { Counter } from '../../ports/metrics.ts';
import { plain } from './remote-address.ts';

/** Closes connections of client addresses that have too many open. */
export interface AddressLimit {
  attach(server: Server): void;
}

/**
 * All servers that it is attached to share one count. `maxPerAddress` 0 means no limit; exempt addresses have none. `open` holds the
 * addresses that have connections, and no others.
 */
export function createAddressLimit(
  maxPerAddress: number,
  isExempt: (address: string) => boolean,
  refused: Counter,
  open = new Map<string, number>(),
): AddressLimit {
  const known = new WeakSet<Socket>();

  const admit = (socket: Socket) => {
    // A connection whose offer of another protocol is left out comes by a second time.
    if (known.has(socket)) return;
    known.add(socket);
    const address = plain(socket.remoteAddress ?? '');
    if (address === '' || isExempt(address)) return;
    const count = (open.get(address) ?? 0) + 1;
    if (count > maxPerAddress) {
      refused.add();
      socket.destroy();
      return;
    }
    open.set(address, count);
    socket.once('close', () => {
      const left = (open.get(address) ?? 1) - 1;
      if (left === 0) open.delete(address);
      else open.set(address, left);
    });
  };
  return {
    attach(server) {
      if (maxPerAddress > 0) server.on('connection', admit);
    },
  };
}
