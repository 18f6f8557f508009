import {
  createServer,
  type IncomingMessage,
  type Server,
  type ServerOptions,
  type ServerResponse,
  STATUS_CODES,
} from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { CodedError, codeOf, EXIT, messageOf } from '../lib/coded-error.ts';
import type { ListenHandle } from '../ports/processes.ts';
import { callPeer } from '../runtime/call-peer.ts';
import type { HttpMeter } from './meter.ts';
import { JSON_TYPE } from './respond.ts';

/** Space for headers in addition to the longest target. */
const HEADER_BYTES = 16_384;
/** How often node:http checks for overdue requests. */
const CHECK_INTERVAL_MS = 1_000;
const STALL_GRACE_MS = 30_000;
/** Connections that may wait in a socket which this process did not bind, until a process accepts them. */
export const LISTEN_BACKLOG = 4_096;

interface ListenerTimeouts {
  readonly headerTimeoutMs: number;
  readonly requestTimeoutMs: number;
  readonly handlerTimeoutMs: number;
  readonly keepAliveTimeoutMs: number;
  /** A connection without progress is closed this long after the slowest handler would have answered. */
  readonly stallGraceMs?: number;
}

interface ListenerLimits extends ListenerTimeouts {
  readonly targetLimitBytes: number;
}

type RequestListener = (request: IncomingMessage, response: ServerResponse, expectsContinue: boolean) => void;

/** An HTTP or HTTPS server of Node with all limits set; it does not listen yet. */
export function createListener(
  limits: ListenerLimits,
  meter: HttpMeter,
  onRequest: RequestListener,
  makeServer: (options: ServerOptions) => Server = createServer,
): Server {
  const server = makeServer({
    maxHeaderSize: limits.targetLimitBytes + HEADER_BYTES,
    connectionsCheckingInterval: CHECK_INTERVAL_MS,
    noDelay: true,
  });
  // Above a number node:http silently drops headers, including X-Forwarded-For; `checkHead` refuses such requests.
  server.maxHeadersCount = 0;
  setTimeouts(server, limits);
  server.on('request', (request, response) => onRequest(request, response, false));
  server.on('checkContinue', (request, response) => onRequest(request, response, true));
  // Other expectations may be ignored; the default answer would not be JSON.
  server.on('checkExpectation', (request, response) => onRequest(request, response, false));
  const refused = new WeakSet<Duplex>();
  server.on('clientError', (error, socket) => {
    // Ignore bytes after a malformed request.
    if (refused.has(socket)) return;
    refused.add(socket);
    meter.malformed.add();
    refuseMalformed(error, socket, limits.targetLimitBytes);
  });
  // Without a listener the connection would be closed without an answer.
  server.on('connect', (_request, socket) => {
    socket.on('error', () => socket.destroy());
    const body = JSON.stringify({ error: 'Method not allowed', code: 405 });
    socket.end(rawAnswer(405, body, { Allow: 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS' }), () => socket.destroy());
  });
  return server;
}

/** What another process needs to accept as well. */
export function handleOf(server: Server): ListenHandle {
  return (server as Server & { readonly _handle: ListenHandle })._handle;
}

/** For requests that come from now on; `timeout` for connections. */
export function setTimeouts(server: Server, limits: ListenerTimeouts): void {
  server.headersTimeout = Math.min(limits.headerTimeoutMs, limits.requestTimeoutMs);
  server.requestTimeout = limits.requestTimeoutMs;
  server.keepAliveTimeout = limits.keepAliveTimeoutMs;
  // Closes the socket of a client that neither reads nor sends.
  server.timeout = Math.max(limits.handlerTimeoutMs, limits.requestTimeoutMs) + (limits.stallGraceMs ?? STALL_GRACE_MS);
}

/** Answers a request that node:http could not parse: after the answers to earlier requests, never in the middle of one. */
function refuseMalformed(error: Error, socket: Duplex, targetLimitBytes: number): void {
  const current = (socket as Duplex & { _httpMessage?: ServerResponse | null })._httpMessage;
  if (socket.writable && current?.req.complete === true) {
    socket.pause();
    current.once('close', () => refuseMalformed(error, socket, targetLimitBytes));
    return;
  }
  if (!socket.writable || codeOf(error) === 'ECONNRESET' || current?.headersSent === true) {
    socket.destroy();
    return;
  }
  const [status, text] = malformedStatus(error, targetLimitBytes);
  socket.end(rawAnswer(status, JSON.stringify({ error: text, code: status })), () => socket.destroy());
}

function malformedStatus(error: Error & { rawPacket?: Buffer }, targetLimitBytes: number): readonly [number, string] {
  const code = codeOf(error);
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return [408, 'The request did not arrive in time'];
  if (code !== 'HPE_HEADER_OVERFLOW') return [400, 'Malformed HTTP request'];
  // The target is the part that is too long if its line does not end, or ends beyond the limit.
  const lineEnd = error.rawPacket?.indexOf('\r\n') ?? -1;
  const isTarget = lineEnd < 0 || lineEnd > targetLimitBytes;
  return isTarget ? [414, 'Request target too long'] : [431, 'Request headers too large'];
}

async function refusalOf(error: Error, target: ListenTarget): Promise<CodedError> {
  const isTaken = codeOf(error) === 'EADDRINUSE';
  const fail = (text: string) =>
    new CodedError(isTaken ? 'HTTP_PORT_TAKEN' : 'HTTP_LISTEN_FAILED', text, {
      cause: error,
      exitCode: EXIT.temporary,
    });
  if (!('host' in target)) {
    const where = 'fd' in target ? `descriptor ${target.fd}` : 'a listener of the main process';
    return fail(isTaken ? `${where} is in use by another process` : `cannot listen on ${where}: ${messageOf(error)}`);
  }
  const where = `${target.host}:${target.port}`;
  if (!isTaken) return fail(`cannot listen on ${where}: ${messageOf(error)}`);
  const holder = (await isParhelion(target.host, target.port)) ? 'another parhelion' : 'another process';
  const variable = `PARHELION_${target.key.replace('.', '__').toUpperCase()}`;
  return fail(
    `${where} is in use by ${holder}: stop it, or set ${target.key} (${variable}) to another port, 0 for any free one`,
  );
}

/** The first call makes it write its document. */
const HOLDER_LIMIT_MS = 10_000;

/** Whether what listens there is a daemon of this kind: the first bytes of its OpenAPI document say so. */
async function isParhelion(host: string, port: number): Promise<boolean> {
  const name = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host;
  const address = `http://${name.includes(':') ? `[${name}]` : name}:${port}/openapi.json`;
  try {
    const { body } = await callPeer(address, { signal: AbortSignal.timeout(HOLDER_LIMIT_MS) });
    for await (const chunk of body ?? []) return Buffer.from(chunk as Uint8Array).includes('"title":"parhelion');
  } catch {
    // Whoever it is does not speak HTTP, or uses TLS.
  }
  return false;
}

type ListenTarget =
  | {
      readonly host: string;
      readonly port: number;
      /** Key of the configuration that sets the port. */
      readonly key: 'http.port' | 'http.websocketPort' | 'admin.port';
    }
  | { readonly fd: number }
  /** A listener of the main process: both accept. */
  | { readonly shared: ListenHandle };

/** Binds a server. Throws HTTP_PORT_TAKEN or HTTP_LISTEN_FAILED. */
export function listenOn(server: Server, target: ListenTarget): Promise<AddressInfo> {
  return new Promise((resolve, reject) => {
    const onError = (error: Error) => {
      server.off('listening', onListening);
      void refusalOf(error, target).then(reject);
    };
    const onListening = () => {
      server.off('error', onError);
      const address = server.address();
      // An inherited descriptor may be of any type; callers need an address and a port.
      if (address !== null && typeof address === 'object') resolve(address);
      else server.close(() => onError(new Error('it is not a TCP socket')));
    };
    server.once('error', onError);
    server.once('listening', onListening);
    if ('shared' in target) server.listen(target.shared, LISTEN_BACKLOG);
    else server.listen('fd' in target ? { ...target, backlog: LISTEN_BACKLOG } : target);
  });
}

/** Stops accepting and closes idle connections; resolves when the last connection has closed. */
export function closeListener(server: Server): Promise<void> {
  return new Promise((resolve) => {
    if (!server.listening) {
      resolve();
      return;
    }
    server.close(() => resolve());
    server.closeIdleConnections();
  });
}

/** A whole answer as text, for sockets that node:http no longer manages. */
export function rawAnswer(status: number, body: string, headers: Readonly<Record<string, string>> = {}): string {
  const lines = Object.entries({
    'Content-Type': JSON_TYPE,
    'Content-Length': String(Buffer.byteLength(body)),
    'Cache-Control': 'no-store',
    'X-Content-Type-Options': 'nosniff',
    'Access-Control-Allow-Origin': '*',
    ...headers,
    Connection: 'close',
  }).map(([name, value]) => `${name}: ${value}\r\n`);
  return `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? 'Error'}\r\n${lines.join('')}\r\n${body}`;
}
