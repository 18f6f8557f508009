import { setMaxListeners } from 'node:events';
import type { WebSocket } from 'ws';
import type { RpcDispatch, SocketContext } from '../../../src/plugin/host.ts';
import type { Clock } from '../../../src/plugin/plugin.ts';
import type { StreamMeter } from '../../../src/ports/access.ts';
import type { ProxyConfig } from '../config.ts';
import { isKeepAlive } from './message.ts';
import { createOutlet, createPaidOutlet } from './outlet.ts';
import { createSubscriptions, type SubscriptionsParts } from './subscriptions.ts';

export interface ClientParts extends Omit<SubscriptionsParts, 'outlet' | 'maxHeldBytes' | 'maxParamsBytes' | 'tenant'> {
  readonly socket: WebSocket;
  readonly context: SocketContext;
  readonly clock: Clock;
  readonly config: ProxyConfig['websocket'];
  readonly dispatch: RpcDispatch;
  /** Null: notifications cost nothing. */
  readonly meter: StreamMeter | null;
  closed(): void;
}

export interface Client {
  /** Says good-bye with a close code; the socket is cut if the client does not answer. */
  close(code: number, reason: string): void;
  terminate(): void;
}

/** Serves one client socket until it closes. */
export function createClient(parts: ClientParts): Client {
  const { socket, clock, config } = parts;
  const gone = new AbortController();
  // Each call in flight listens.
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

  /** A client that has too much in flight is not read until something is done. */
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
  socket.on('message', (data: Buffer | ArrayBuffer | Buffer[]) => {
    alive = true;
    void take(Array.isArray(data) ? Buffer.concat(data) : Buffer.isBuffer(data) ? data : Buffer.from(data));
  });
  socket.on('pong', () => {
    alive = true;
  });
  // Oversized and malformed frames: the library has sent the close code already.
  socket.on('error', () => {});
  socket.on('close', () => {
    cancelPing();
    gone.abort(new Error('the client closed its socket'));
    subscriptions.end();
    outlet.end();
    parts.closed();
  });

  const { revoked } = parts.context;
  const dismiss = () => {
    outlet.close(1008, String(revoked.reason));
    subscriptions.end();
  };
  if (revoked.aborted) dismiss();
  else revoked.addEventListener('abort', dismiss, { once: true });

  return { close: outlet.close, terminate: () => socket.terminate() };
}
