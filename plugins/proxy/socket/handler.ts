import { createRequire } from 'node:module';
import type { Duplex } from 'node:stream';
import type { WebSocket } from 'ws';
import type { Clock, Metrics, Price, SocketHandler } from '../../../src/kernel/plugin.ts';
import { lazy } from '../../../src/lib/lazy.ts';
import type { ProxyConfig } from '../config.ts';
import { type Client, createClient } from './client.ts';
import type { Hub } from './hub.ts';

export interface SocketsParts {
  readonly hub: () => Hub | null;
  readonly config: ProxyConfig['websocket'];
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly price: (method: string) => Price;
  readonly allowed: (method: string) => boolean;
}

export interface Sockets extends SocketHandler {
  /** Lets no new client in and asks the others to leave. */
  drain(): void;
  /** Cuts the clients that are left. */
  stop(): void;
}

export function createSockets(parts: SocketsParts): Sockets {
  const { config } = parts;
  const clients = new Set<Client>();
  let draining = false;
  const refused = parts.metrics.counter('sockets_refused_total', 'websockets refused because too many are open');
  parts.metrics.observe('client_sockets', 'open websockets of clients', () => clients.size);
  // With the first client: threads of other roles have none.
  const server = lazy(() => {
    const { WebSocketServer } = createRequire(import.meta.url)('ws') as typeof import('ws');
    return new WebSocketServer({
      noServer: true,
      clientTracking: false,
      perMessageDeflate: false,
      maxPayload: config.maxMessageBytes,
    });
  });

  return {
    connections: () => clients.size,
    upgrade(request, socket, head, context, dispatch, admit) {
      if (draining || clients.size >= config.maxConnections) {
        refused.add();
        refuse(socket);
        return;
      }
      server().handleUpgrade(request, socket, head, (webSocket: WebSocket) => {
        const client = createClient({
          ...parts,
          hub: parts.hub(),
          socket: webSocket,
          context,
          dispatch,
          admit,
          maxSubscriptions: config.maxSubscriptions,
          closed: () => clients.delete(client),
        });
        clients.add(client);
      });
    },
    drain() {
      draining = true;
      for (const client of clients) client.close(1001, 'the service is going away');
    },
    stop() {
      draining = true;
      for (const client of clients) client.terminate();
    },
  };
}

/** An answer in plain HTTP, since the upgrade has not happened. */
function refuse(socket: Duplex): void {
  const body = '{"error":"Service unavailable","code":503}';
  socket.on('error', () => {});
  socket.end(
    [
      'HTTP/1.1 503 Service Unavailable',
      'Content-Type: application/json; charset=utf-8',
      `Content-Length: ${body.length}`,
      'Retry-After: 1',
      'Connection: close',
      '',
      body,
    ].join('\r\n'),
  );
}
