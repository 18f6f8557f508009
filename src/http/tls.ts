import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { Server, ServerOptions } from 'node:http';
import { createServer, type ServerOptions as HttpsOptions, type Server as TlsServer } from 'node:https';
import type { Socket } from 'node:net';
import { createSecureContext, type TLSSocket } from 'node:tls';
import { apiProcesses, type CoreConfig, type TlsSection } from '../config/core.ts';
import { CodedError, codeOf } from '../lib/coded-error.ts';
import type { Clock } from '../ports/clock.ts';
import type { Gauge, Log } from '../ports/telemetry.ts';
import { EXIT } from '../runtime/errors.ts';
import { rawAnswer } from './listener.ts';
import type { HttpMeter } from './meter.ts';

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

/** Older protocol versions are insecure. */
const MIN_TLS_VERSION = 'TLSv1.2';

/** A checked certificate with its key. */
export interface TlsFiles {
  readonly cert: Buffer;
  readonly key: Buffer;
  /** SHA-256 of the certificate, to detect a change. */
  readonly fingerprint: string;
  /** Names and addresses of the certificate, as written in it. */
  readonly names: string;
  /** Validity, in unix milliseconds. */
  readonly validFromMs: number;
  readonly validToMs: number;
}

/**
 * Reads the certificate of a section and checks that a listener can serve it; null if none is configured. Errors: TLS_UNREADABLE,
 * TLS_INVALID, exit 78; they name the files but never quote them.
 */
export function readTlsFiles(core: Pick<CoreConfig, TlsSection>, section: TlsSection): TlsFiles | null {
  const { certFile, keyFile } = core[section].tls;
  const name = `${section}.tls`;
  if (certFile === null && keyFile === null) return null;
  if (certFile === null || keyFile === null) throw invalid(`${name} needs both certFile and keyFile, or neither`);
  // A process cannot hand an encrypted connection to another one.
  if (section === 'http' && apiProcesses(core) > 1)
    throw invalid(`${name} works with one process: set http.processes to 1, or let a proxy in front end TLS`);
  const cert = readFile(`${name}.certFile`, certFile);
  const key = readFile(`${name}.keyFile`, keyFile);
  const certificate = parse(() => new X509Certificate(cert), `${name}.certFile: ${certFile} holds no PEM certificate`);
  const privateKey: KeyObject = parse(
    () => createPrivateKey(key),
    `${name}.keyFile: ${keyFile} holds no PEM private key, or one with a passphrase`,
  );
  if (!certificate.checkPrivateKey(privateKey))
    throw invalid(`${name}: the key of ${keyFile} is not that of the certificate in ${certFile}`);
  parse(
    () => createSecureContext({ cert, key, minVersion: MIN_TLS_VERSION }),
    `${name}: ${certFile} and ${keyFile} cannot be served: the chain is damaged, or the key too weak`,
  );
  return {
    ...{ cert, key, fingerprint: certificate.fingerprint256 },
    names: certificate.subjectAltName ?? certificate.subject,
    validFromMs: Date.parse(certificate.validFrom),
    validToMs: Date.parse(certificate.validTo),
  };
}

function readFile(name: string, path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    throw new CodedError('TLS_UNREADABLE', `${name}: ${path} cannot be read (${codeOf(error) ?? 'error'})`, {
      exitCode: EXIT.config,
    });
  }
}

/** Omits the message of OpenSSL, which may quote the file. */
function parse<T>(make: () => T, problem: string): T {
  try {
    return make();
  } catch {
    throw invalid(problem);
  }
}

const invalid = (problem: string) => new CodedError('TLS_INVALID', problem, { exitCode: EXIT.config });
