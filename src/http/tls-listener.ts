import type { Server } from 'node:http';
import { createServer, type ServerOptions, type Server as TlsServer } from 'node:https';
import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { codeOf } from '../lib/coded-error.ts';
import { rawAnswer } from './listener.ts';
import type { HttpMeter } from './meter.ts';
import { MIN_TLS_VERSION, type TlsFiles } from './tls-files.ts';

const PLAIN_HTTP = JSON.stringify({ error: 'This port speaks HTTPS: plain HTTP was sent', code: 400 });

/** Between accepting a connection and its first request. */
export interface Handshakes {
  /** Ends connections whose handshake is not done: node:http does not know them, and a close would wait for them. */
  destroyAll(): void;
}

/**
 * A TLS server without a certificate; `serveCertificate` gives it one. Everything else is that of node:http. A connection may take
 * `handshakeTimeoutMs` for its handshake.
 */
export function createTlsServer(
  options: ServerOptions,
  handshakeTimeoutMs: number,
  meter: Pick<HttpMeter, 'handshakes'>,
): { readonly server: Server; readonly handshakes: Handshakes } {
  const server: TlsServer = createServer({
    ...options,
    minVersion: MIN_TLS_VERSION,
    handshakeTimeout: handshakeTimeoutMs,
  });
  const shaking = new Map<string, Socket>();
  server.on('connection', (stream) => {
    const socket = stream as Socket;
    const id = connectionId(socket);
    shaking.set(id, socket);
    socket.once('close', () => {
      if (shaking.get(id) === socket) shaking.delete(id);
    });
  });
  server.on('secureConnection', (socket) => shaking.delete(connectionId(socket)));
  // The listener of node:https takes what is no TLS for broken HTTP, and would answer in the clear what it says of that.
  server.removeAllListeners('tlsClientError');
  server.on('tlsClientError', (error, socket) => {
    meter.handshakes.add();
    const under = shaking.get(connectionId(socket));
    if (codeOf(error) === 'ERR_SSL_HTTP_REQUEST' && under?.writable === true)
      under.end(rawAnswer(400, PLAIN_HTTP), () => under.destroy());
    else under?.destroy();
    socket.destroy();
  });
  return {
    server,
    handshakes: {
      destroyAll() {
        for (const socket of shaking.values()) socket.destroy();
      },
    },
  };
}

/** New connections get this certificate; those that are open keep theirs. */
export function serveCertificate(server: Server, { cert, key }: TlsFiles): void {
  (server as TlsServer).setSecureContext({ cert, key, minVersion: MIN_TLS_VERSION });
}

/** A TLS socket and the one below it have no public link but the ends they share. */
export function connectionId({ localAddress, localPort, remoteAddress, remotePort }: Socket | TLSSocket): string {
  return `${localAddress} ${localPort} ${remoteAddress} ${remotePort}`;
}
