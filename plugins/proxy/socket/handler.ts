import { createRequire } from 'node:module';
import type { Duplex } from 'node:stream';
import type { WebSocket } from 'ws';
import { lazy } from '../../../src/lib/lru.ts';
import type { SocketHandler } from '../../../src/plugin/host.ts';
import type { Clock, Metrics, Price } from '../../../src/plugin/plugin.ts';
import type { AccessCharges } from '../../../src/ports/access.ts';
import type { ProxyConfig } from '../config.ts';
import { type Client, createClient } from './client.ts';
import type { Hub } from './hub.ts';

const PRODUCT = 'laserstreamWebsocket';
/** Notifications are paid by the byte; the price list names 0.1 MB. */
const BYTES_PER_PRICE = 100_000;

export interface SocketsParts {
  readonly hub: () => Hub | null;
  readonly config: ProxyConfig['websocket'];
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly price: (method: string) => Price;
  readonly credits: Pick<ProxyConfig['credits'], 'websocketOpened' | 'websocketData'>;
  /** Null: nobody counts credits. */
  readonly charges: AccessCharges | null;
}

export interface Sockets extends SocketHandler {
  /** Lets no new client in and asks the others to leave. */
  drain(): void;
  /** Cuts the clients that are left. */
  stop(): void;
}

export function createSockets(parts: SocketsParts): Sockets {
  const { config, credits } = parts;
  const data = { product: PRODUCT, creditsPerByte: credits.websocketData / BYTES_PER_PRICE };
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
    price: { product: PRODUCT, credits: credits.websocketOpened, groups: [] },
    connections: () => clients.size,
    upgrade(request, socket, head, context, dispatch) {
      let isOpen = false;
      if (draining || clients.size >= config.maxConnections) {
        refused.add();
        refuse(socket);
        return isOpen;
      }
      const place = context.tenant?.take('sockets', 1);
      socket.once('close', () => place?.release());
      server().handleUpgrade(request, socket, head, (webSocket: WebSocket) => {
        isOpen = true;
        const client = createClient({
          ...parts,
          hub: parts.hub(),
          socket: webSocket,
          context,
          dispatch,
          meter: context.caller === null ? null : (parts.charges?.stream(context.caller.projectId, data) ?? null),
          maxSubscriptions: config.maxSubscriptions,
          closed: () => clients.delete(client),
        });
        clients.add(client);
      });
      return isOpen;
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
