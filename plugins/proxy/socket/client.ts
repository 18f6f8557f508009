import type { WebSocket } from 'ws';
import type { CallContext, Clock, RpcDispatch, SocketAdmit } from '../../../src/kernel/plugin.ts';
import type { ProxyConfig } from '../config.ts';
import { errorReply, readClientMessage } from './message.ts';
import { createOutlet } from './outlet.ts';
import { errorText } from './refusal.ts';
import { createSubscriptions, type SubscriptionsParts } from './subscriptions.ts';

export interface ClientParts extends Omit<SubscriptionsParts, 'outlet' | 'admit'> {
  readonly socket: WebSocket;
  readonly context: CallContext;
  readonly clock: Clock;
  readonly config: ProxyConfig['websocket'];
  readonly dispatch: RpcDispatch;
  readonly admit: SocketAdmit;
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
  const outlet = createOutlet(socket, clock, config.maxQueuedBytes);
  const subscriptions = createSubscriptions({ ...parts, outlet });
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
    const read = readClientMessage(message);
    if (read.kind === 'ping') return;
    if (read.kind === 'call') {
      const reply = await parts.dispatch(message, { ...parts.context, signal: gone.signal });
      if (reply !== null) outlet.send(reply);
      return;
    }
    if (read.idText === undefined) return;
    try {
      await subscriptions.handle(read, read.idText);
    } catch (error) {
      outlet.send(errorReply(read.idText, errorText(error)));
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

  return { close: outlet.close, terminate: () => socket.terminate() };
}
