import { setMaxListeners } from 'node:events';
import { createRequire } from 'node:module';
import type { Duplex } from 'node:stream';
import type { ServerOptions, WebSocket } from 'ws';
import { lazy } from '../../../src/lib/lazy.ts';
import type {
  FollowedSubscriptions,
  HostContext,
  RpcDispatch,
  SocketContext,
  SocketHandler,
} from '../../../src/plugin/host.ts';
import type { Clock, Metrics, Price } from '../../../src/plugin/plugin.ts';
import type { AccessCharges, StreamMeter } from '../../../src/ports/access.ts';
import type { ProxyConfig } from '../config.ts';
import type { SubscriptionHub } from './hub.ts';
import { IncomingMessages } from './incoming.ts';
import { isKeepAlive } from './link.ts';
import {
  createOutlet,
  createPaidOutlet,
  createSubscriptions,
  FAREWELL_MS,
  type SubscriptionsParts,
} from './subscriptions.ts';

const PRODUCT = 'laserstreamWebsocket';
/** Notifications are charged per byte; the price list states a price per 0.1 MB. */
const BYTES_PER_PRICE = 100_000;

export interface SocketsParts {
  readonly hub: () => SubscriptionHub | null;
  /** Subscriptions that need no upstream; null: there are none. */
  readonly followed: FollowedSubscriptions | null;
  readonly config: ProxyConfig['websocket'];
  /** Limits that all listeners have. */
  readonly http: ListenerLimits;
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly price: (method: string) => Price;
  readonly credits: Pick<ProxyConfig['credits'], 'websocketOpened' | 'websocketData'>;
  /** Null: credits are not counted. */
  readonly charges: AccessCharges | null;
}

/** Largest body of a call, and how long a whole request may take to arrive. */
type ListenerLimits = Pick<HostContext['core']['http'], 'bodyLimitBytes' | 'requestTimeoutMs'>;

export interface Sockets extends SocketHandler {
  /** Refuses new clients and asks the others to leave. */
  drain(): void;
  /** Cuts the remaining clients. */
  stop(): void;
}

export function createSockets(parts: SocketsParts): Sockets {
  const { config, credits } = parts;
  const dataPrice = () => ({ product: PRODUCT, creditsPerByte: credits.websocketData / BYTES_PER_PRICE });
  const clients = new Set<Client>();
  let draining = false;
  const refused = parts.metrics.counter('sockets_refused_total', 'websockets refused because too many are open');
  parts.metrics.observe('client_sockets', 'open websockets of clients', () => clients.size);
  // Loaded with the first client: threads of other roles have none.
  const server = lazy(() => {
    const { WebSocketServer } = createRequire(import.meta.url)('ws') as typeof import('ws');
    const options: ServerOptions & { readonly closeTimeout: number } = {
      noServer: true,
      clientTracking: false,
      perMessageDeflate: false,
      maxPayload: config.maxMessageBytes,
      // ws 8.19 and newer, not in its types: its own limit would cut a client before it has read why it is closed.
      closeTimeout: 2 * FAREWELL_MS,
    };
    return new WebSocketServer(options);
  });

  return {
    price: {
      product: PRODUCT,
      get credits() {
        return credits.websocketOpened;
      },
      groups: [],
    },
    connections: () => clients.size,
    upgrade(request, socket, head, context, dispatch) {
      let isOpen = false;
      if (draining || clients.size >= config.maxConnections) {
        refused.add();
        refuse(socket);
        return isOpen;
      }
      const place = context.tenant.take('sockets', 1);
      socket.once('close', () => place?.release());
      server().handleUpgrade(request, socket, head, (webSocket: WebSocket) => {
        isOpen = true;
        const client = createClient({
          ...parts,
          hub: parts.hub(),
          socket: webSocket,
          connection: socket,
          context,
          dispatch,
          meter:
            context.caller === null ? null : (parts.charges?.stream(context.caller.projectId, dataPrice()) ?? null),
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

/** A plain HTTP response, since the upgrade has not happened. */
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

export interface ClientParts extends Omit<SubscriptionsParts, 'outlet' | 'maxHeldBytes' | 'maxParamsBytes' | 'tenant'> {
  readonly socket: WebSocket;
  /** What `socket` reads from. */
  readonly connection: Duplex;
  readonly context: SocketContext;
  readonly clock: Clock;
  readonly config: ProxyConfig['websocket'];
  readonly http: ListenerLimits;
  readonly dispatch: RpcDispatch;
  /** Null: notifications are free. */
  readonly meter: StreamMeter | null;
  closed(): void;
}

export interface Client {
  /** Sends a close code; the socket is cut if the client does not answer. */
  close(code: number, reason: string): void;
  terminate(): void;
}

/** Serves one client socket until it closes. */
function createClient(parts: ClientParts): Client {
  const { socket, connection, clock, config, http } = parts;
  const gone = new AbortController();
  // Each call in flight adds a listener.
  setMaxListeners(0, gone.signal);
  const outlet = createOutlet(socket, clock, config.maxQueuedBytes, parts.context.tenant);
  const maxHeldBytes = config.maxQueuedBytes;
  const subscriptions = createSubscriptions({
    ...parts,
    outlet: parts.meter === null ? outlet : createPaidOutlet(outlet, parts.meter, maxHeldBytes),
    maxHeldBytes,
    maxParamsBytes: config.maxParamsBytes,
    tenant: parts.context.tenant,
  });
  let inFlight = 0;
  let alive = true;
  let cancelPing = () => {};

  function ping(): void {
    // One that is closing has a time of its own.
    if (socket.readyState !== socket.OPEN) return;
    if (!alive) {
      socket.terminate();
      return;
    }
    alive = false;
    socket.ping();
    cancelPing = clock.timeout(config.pingIntervalMs, ping);
  }

  async function handle(message: Buffer): Promise<void> {
    if (isKeepAlive(message)) return;
    const calls = subscriptions.calls();
    try {
      const reply = await parts.dispatch(message, { ...parts.context, signal: gone.signal }, calls);
      if (reply !== null) outlet.send(reply);
    } finally {
      calls.answered();
    }
  }

  /** A client with too much in flight is not read until a call ends. */
  async function take(message: Buffer): Promise<void> {
    inFlight++;
    if (inFlight >= config.maxInFlight) socket.pause();
    try {
      await handle(message);
    } catch (error) {
      if (gone.signal.aborted) return;
      parts.context.log.error({ err: error }, 'a websocket message could not be answered');
      outlet.close(1011, 'internal error');
    } finally {
      inFlight--;
      if (inFlight < config.maxInFlight && socket.isPaused) socket.resume();
    }
  }

  cancelPing = clock.timeout(config.pingIntervalMs, ping);
  const incoming = new IncomingMessages({
    tenant: parts.context.tenant,
    clock,
    maxMessageBytes: () => config.maxMessageBytes,
    maxCallBytes: () => http.bodyLimitBytes,
    isLarge: (method) => parts.followed?.serves({ method, params: undefined, paramsText: null }) === 'always',
    messageTimeoutMs: () => http.requestTimeoutMs,
    isPaused: () => socket.isPaused,
    refuse(code, reason) {
      // The library would go on collecting; what still comes is read and dropped, so that the client gets the close.
      connection.removeAllListeners('data');
      connection.on('data', () => undefined);
      outlet.close(code, reason);
    },
  });
  connection.prependListener('data', (chunk: Buffer) => incoming.feed(chunk));
  socket.on('message', (data: Buffer | ArrayBuffer | Buffer[]) => {
    incoming.handedOver();
    alive = true;
    subscriptions.heard();
    void take(Array.isArray(data) ? Buffer.concat(data) : Buffer.isBuffer(data) ? data : Buffer.from(data));
  });
  socket.on('ping', () => {
    alive = true;
    subscriptions.heard();
  });
  socket.on('pong', () => {
    alive = true;
  });
  // Oversized and malformed frames: the library has already sent the close code.
  socket.on('error', () => {});
  socket.on('close', () => {
    cancelPing();
    gone.abort(new Error('the client closed its socket'));
    subscriptions.end();
    outlet.end();
    incoming.end();
    parts.closed();
  });

  const { revoked } = parts.context;
  const dismiss = () => {
    outlet.close(1008, String(revoked.reason));
    subscriptions.end();
  };
  parts.context.onPlan(subscriptions.planChanged);
  if (revoked.aborted) dismiss();
  else revoked.addEventListener('abort', dismiss, { once: true });

  return { close: outlet.close, terminate: () => socket.terminate() };
}
