import type { Server, ServerOptions } from 'node:http';
import { createServer, type ServerOptions as HttpsOptions, type Server as TlsServer } from 'node:https';
import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import type { CoreConfig, TlsSection } from '../config/core.ts';
import { CodedError, codeOf } from '../lib/coded-error.ts';
import type { Clock } from '../ports/clock.ts';
import type { Gauge, Log } from '../ports/telemetry.ts';
import { rawAnswer } from './listener.ts';
import type { HttpMeter } from './meter.ts';
import { MIN_TLS_VERSION, readTlsFiles, type TlsFiles } from './tls-files.ts';

export interface ListenerTlsOptions {
  /** Section of the certificate: the API listeners or the admin listener. */
  readonly section: TlsSection;
  readonly core: CoreConfig;
  /** Expiry of the certificate of each listener, in unix seconds. */
  readonly expiry: Gauge;
  readonly clock: Clock;
  readonly log: Log;
}

/** TLS state shared by the listeners of one section. */
export interface ListenerTls {
  /** Undefined without TLS. */
  readonly makeServer: ((options: ServerOptions) => Server) | undefined;
  /** See `HttpFront.prepareTls`. */
  prepare(core: CoreConfig): () => void;
  /** Closes connections that have not sent a request yet. */
  endHandshakes(): void;
}

/** Has no effect if the section has no certificate. `prepare` reads the files. */
export function createListenerTls(
  { section, core, expiry, clock, log }: ListenerTlsOptions,
  meter: HttpMeter,
): ListenerTls {
  const isOn = core[section].tls.certFile !== null;
  const servers: { readonly server: Server; readonly handshakes: Handshakes }[] = [];
  let served: TlsFiles | null = null;

  const makeServer = (options: ServerOptions): Server => {
    const made = createTlsServer(options, core.http.headerTimeoutMs, meter);
    servers.push(made);
    return made.server;
  };

  function serve(files: TlsFiles): void {
    for (const { server } of servers) serveCertificate(server, files);
    const { names, fingerprint, validToMs } = files;
    const validTo = new Date(validToMs).toISOString();
    if (validToMs <= clock.now()) log.warn({ listener: section, names, validTo }, 'the certificate has expired');
    if (served?.fingerprint !== fingerprint)
      log.info({ listener: section, names, validTo, fingerprint }, 'certificate served');
    expiry.with(section).set(validToMs / 1_000);
    served = files;
  }

  return {
    makeServer: isOn ? makeServer : undefined,
    prepare(next) {
      const files = readTlsFiles(next, section);
      if ((files !== null) !== isOn)
        throw new CodedError('PLUGIN_RELOAD_REFUSED', `changes of these keys need a restart: ${section}.tls`, {
          facts: { keys: [`${section}.tls`] },
        });
      if (files === null) return () => undefined;
      // At the start there is no alternative to an expired certificate; later the current one is better.
      if (served !== null && files.fingerprint !== served.fingerprint && files.validToMs <= clock.now())
        throw new CodedError(
          'TLS_INVALID',
          `${section}.tls.certFile: ${next[section].tls.certFile} contains an expired certificate`,
        );
      return () => serve(files);
    },
    endHandshakes() {
      for (const { handshakes } of servers) handshakes.destroyAll();
    },
  };
}

const PLAIN_HTTP = JSON.stringify({ error: 'This port speaks HTTPS: plain HTTP was sent', code: 400 });

/** Between accepting a connection and its first request. */
export interface Handshakes {
  /** Closes connections with an unfinished handshake: node:http does not know them, and a close would wait for them. */
  destroyAll(): void;
}

/**
 * A TLS server without a certificate; `serveCertificate` sets one. Otherwise it behaves like a node:http server. `handshakeTimeoutMs`
 * limits the handshake of a connection.
 */
function createTlsServer(
  options: HttpsOptions,
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
  // The default listener of node:https treats non-TLS bytes as malformed HTTP, and would answer in plain text.
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

/** Sets the certificate of new connections; open ones keep theirs. */
function serveCertificate(server: Server, { cert, key }: TlsFiles): void {
  (server as TlsServer).setSecureContext({ cert, key, minVersion: MIN_TLS_VERSION });
}

/** A TLS socket and the TCP socket below it share only their addresses; there is no public link. */
export function connectionId({ localAddress, localPort, remoteAddress, remotePort }: Socket | TLSSocket): string {
  return `${localAddress} ${localPort} ${remoteAddress} ${remotePort}`;
}
