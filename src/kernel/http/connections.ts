import type { Socket } from 'node:net';
import type { Exchange } from './exchange.ts';

/** The requests of each connection whose answers are not out yet. */
export interface Connections {
  /** How many the connection has now, this one included. */
  enter(exchange: Exchange): number;
  /** False when it had left before. */
  leave(exchange: Exchange): boolean;
}

/**
 * `lost` is called for every request whose connection closed. node:http tells that only to the first of several pipelined
 * requests: the others would count as being handled for ever.
 */
export function createConnections(lost: (exchange: Exchange) => void): Connections {
  const pending = new WeakMap<Socket, Exchange[]>();
  return {
    enter: (exchange) => {
      const { socket } = exchange.request;
      let exchanges = pending.get(socket);
      if (exchanges === undefined) {
        const mine: Exchange[] = [];
        socket.once('close', () => {
          for (const one of [...mine]) lost(one);
        });
        pending.set(socket, mine);
        exchanges = mine;
      }
      return exchanges.push(exchange);
    },
    leave: (exchange) => {
      const exchanges = pending.get(exchange.request.socket);
      const at = exchanges?.indexOf(exchange) ?? -1;
      if (at >= 0) exchanges?.splice(at, 1);
      return at >= 0;
    },
  };
}
