import type { IncomingMessage, Server } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { TLSSocket } from 'node:tls';
import type { BudgetLedger } from '../budgets.ts';
import type { Gate, SocketContext, SocketHandler } from '../plugin/host.ts';
import { GateRefusal, RequestError } from '../plugin/plugin.ts';
import { type Caller, OWN_WORK } from '../ports/access.ts';
import type { Random } from '../ports/clock.ts';
import type { Log } from '../ports/telemetry.ts';
import { LazySignal } from '../runtime/lazy-signal.ts';
import { faultOf } from './errors.ts';
import type { RpcFront } from './json-rpc/front.ts';
import { rawAnswer } from './listener.ts';
import type { Pipeline } from './pipeline.ts';
import { credentialsOf } from './query.ts';
import { checkHead, errorAnswer } from './respond.ts';
import { parseRequestTarget } from './router.ts';

const NOT_CHARGED = { charged: false, bytesOut: 0 };

export interface UpgradeOptions {
  readonly pipeline: Pipeline;
  readonly sockets: SocketHandler | null;
  readonly rpc: RpcFront;
  readonly gate: Gate | null;
  readonly log: Log;
  readonly random: Random;
  readonly targetLimitBytes: number;
  readonly budgets?: BudgetLedger | null;
}

export interface Upgrader {
  /** If `handOver` is set, websockets belong to another process: it receives the connection and the bytes of its request. */
  attach(server: Server, handOver: ((socket: Socket, bytes: Buffer) => void) | null): void;
  /** Closes all upgraded sockets. */
  destroyAll(): void;
}

/**
 * Handles websocket upgrades on any path: the key is checked here, with plain HTTP answers, and watched while the socket is open.
 */
export function createUpgrader(options: UpgradeOptions): Upgrader {
  const open = new Set<Duplex>();

  const accept = async (request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> => {
    const requestId = options.random.uuid();
    const remoteAddress = options.pipeline.remoteAddress(request);
    const log = options.log.child({ requestId });
    try {
      const handler = checkUpgrade(options, request);
      const authenticated = await authenticate(options, request, remoteAddress);
      options.gate?.spend?.(authenticated, 'rpc', 1);
      // Permissions are checked for each call on the socket.
      const admission = await options.gate?.admit(authenticated, [
        { name: 'websocket', price: handler.price, permission: null },
      ]);
      if (socket.destroyed) {
        admission?.charge([NOT_CHARGED]);
        return;
      }
      const lazy = new LazySignal();
      track(options, open, socket, () => lazy.abort('the client has gone'));
      const revoked = new AbortController();
      const client = { remoteAddress, origin: request.headers.origin };
      const end = (refusal: GateRefusal) => {
        const { details, message } = faultOf(refusal, requestId);
        log.info(
          { remote: remoteAddress, projectId: authenticated.projectId, reason: refusal.reason },
          'websocket ended',
        );
        revoked.abort(details ?? message);
      };
      let planChanged = (): void => undefined;
      const watched = options.gate?.watch?.(authenticated, client, end, () => planChanged());
      socket.once('close', () => watched?.end());
      const caller = watched?.caller ?? authenticated;
      const context: SocketContext = {
        requestId,
        log,
        get signal() {
          return lazy.signal;
        },
        caller,
        tenant: options.budgets?.tenantOf(caller, remoteAddress) ?? OWN_WORK,
        remoteAddress,
        revoked: revoked.signal,
        onPlan(listener) {
          planChanged = listener;
        },
      };
      log.info({ remote: remoteAddress, projectId: caller.projectId }, 'websocket opened');
      let isOpen = false;
      try {
        isOpen = handler.upgrade(request, socket, head, context, options.rpc.dispatch);
      } finally {
        admission?.charge([{ charged: isOpen, bytesOut: 0 }]);
      }
    } catch (error) {
      const fault = faultOf(error, requestId);
      if (fault.unexpected) log.error({ err: error }, 'a websocket upgrade failed');
      const answer = errorAnswer(fault, 'plain');
      log.info({ remote: remoteAddress, status: answer.status }, 'websocket refused');
      if (socket.writable)
        socket.end(rawAnswer(answer.status, answer.body, { ...answer.headers, 'X-Request-Id': requestId }));
      else socket.destroy();
    }
  };

  return {
    attach: (server, handOver) => {
      server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
        if (request.headers.upgrade?.toLowerCase() !== 'websocket') {
          replay(server, request, socket, head);
          return;
        }
        if (handOver !== null) {
          handOver(socket as Socket, bytesOf(request, head, true));
          return;
        }
        options.pipeline.connections.busy(socket as Socket);
        // Without a listener a reset connection would be an uncaught exception.
        socket.on('error', () => socket.destroy());
        (socket as Duplex & { setTimeout?: (ms: number) => void }).setTimeout?.(0);
        void accept(request, socket, head);
      });
    },
    destroyAll: () => {
      for (const socket of open) socket.destroy();
    },
  };
}

function checkUpgrade(options: UpgradeOptions, request: IncomingMessage): SocketHandler {
  checkHead(request);
  if (options.pipeline.draining)
    throw new RequestError(503, 'Service unavailable', { details: 'The service is shutting down' });
  if ((request.url ?? '').length > options.targetLimitBytes) throw new RequestError(414, 'Request target too long');
  if (options.sockets === null) throw new RequestError(404, 'invalid path');
  return options.sockets;
}

async function authenticate(options: UpgradeOptions, request: IncomingMessage, remoteAddress: string): Promise<Caller> {
  if (options.gate === null) throw new GateRefusal('no-key');
  const { query } = parseRequestTarget(request.url ?? '/');
  return options.gate.authenticate(credentialsOf(query, request.headers), remoteAddress);
}

function track(options: UpgradeOptions, open: Set<Duplex>, socket: Duplex, onClose: () => void): void {
  const { sockets } = options.pipeline.meter;
  open.add(socket);
  sockets.set(open.size);
  socket.once('close', () => {
    open.delete(socket);
    sockets.set(open.size);
    onClose();
  });
}

/**
 * A request may offer another protocol (Java's client offers h2c on every request) and must be answered as if it did not. node:http has
 * already released the socket, so the request is put back into it without the offer.
 */
function replay(server: Server, request: IncomingMessage, socket: Duplex, head: Buffer): void {
  socket.unshift(bytesOf(request, head, false));
  // On `connection` a TLS server would start another handshake.
  server.emit(socket instanceof TLSSocket ? 'secureConnection' : 'connection', socket);
}

/** The request as it came, or without its offer. */
function bytesOf(request: IncomingMessage, head: Buffer, withOffer: boolean): Buffer {
  const lines = [`${request.method} ${request.url} HTTP/${request.httpVersion}`];
  for (let i = 0; i + 1 < request.rawHeaders.length; i += 2) {
    const name = request.rawHeaders[i] as string;
    const given = request.rawHeaders[i + 1] as string;
    const dropped = !withOffer && /^(upgrade|http2-settings)$/i.test(name);
    // Drops `Upgrade` from the Connection header and keeps its other values.
    const value = !withOffer && /^connection$/i.test(name) ? withoutUpgrade(given) : given;
    if (!dropped && (withOffer || value !== '')) lines.push(`${name}: ${value}`);
  }
  return Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1'), head]);
}

function withoutUpgrade(value: string): string {
  return value
    .split(',')
    .map((token) => token.trim())
    .filter((token) => !/^(upgrade|http2-settings)$/i.test(token))
    .join(', ');
}
