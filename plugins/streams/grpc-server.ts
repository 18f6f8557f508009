import {
  constants,
  createSecureServer,
  createServer,
  type Http2SecureServer,
  type Http2Server,
  type IncomingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from 'node:http2';
import type { AddressInfo, Socket } from 'node:net';
import type { Readable } from 'node:stream';
import * as zlib from 'node:zlib';
import { ProtobufError } from '../../src/lib/protobuf.ts';
import { type Clock, codeOf, GateRefusal } from '../../src/plugin/plugin.ts';
import { networkOf, plain, type RemoteAddress } from '../../src/runtime/network-address.ts';

/**
 * gRPC over node:http2: requests and answers are frames of five bytes (compressed or not, length) and a message, the outcome is in the
 * trailers. Written here because updates are sent as bytes that are ready: the general libraries encode and write each one by itself,
 * which costs ten times more per update.
 */

export const STATUS = {
  ok: 0,
  invalidArgument: 3,
  deadlineExceeded: 4,
  permissionDenied: 7,
  resourceExhausted: 8,
  outOfRange: 11,
  unimplemented: 12,
  internal: 13,
  unavailable: 14,
  unauthenticated: 16,
} as const;

export type StatusName = keyof typeof STATUS;

/** Ends a call with this status; the message is shown to the client. */
export class GrpcError extends Error {
  readonly status: StatusName;

  constructor(status: StatusName, message: string) {
    super(message);
    this.name = 'GrpcError';
    this.status = status;
  }
}

export type Encoding = 'identity' | 'gzip' | 'zstd';

type Codec = (bytes: Buffer, options?: { readonly maxOutputLength?: number; readonly level?: number }) => Buffer;

/** Newer versions of Node have zstd. */
const { zstdCompressSync, zstdDecompressSync } = zlib as { zstdCompressSync?: Codec; zstdDecompressSync?: Codec };

const CODECS: Readonly<Record<'gzip' | 'zstd', { readonly compress: Codec; readonly decompress: Codec } | null>> = {
  gzip: { compress: zlib.gzipSync as Codec, decompress: zlib.gunzipSync as Codec },
  zstd:
    zstdCompressSync === undefined || zstdDecompressSync === undefined
      ? null
      : { compress: zstdCompressSync, decompress: zstdDecompressSync },
};

/** What requests may be compressed with. */
const ENCODINGS = ['identity', ...(['zstd', 'gzip'] as const).filter((name) => CODECS[name] !== null)].join(',');

/** Open calls of one connection. */
const CALLS_PER_CONNECTION = 250;
const FRAME_BYTES = 5;
/** Smaller messages gain too little. */
const LEAST_COMPRESSED_BYTES = 256;
const GZIP_LEVEL = 1;

/** The frame of a message that consists of two parts. */
export function frame(head: Uint8Array, body: Uint8Array, encoding: Encoding): Buffer {
  const size = head.length + body.length;
  if (encoding !== 'identity' && size >= LEAST_COMPRESSED_BYTES) {
    const packed = CODECS[encoding]!.compress(
      Buffer.concat([head, body]),
      encoding === 'gzip' ? { level: GZIP_LEVEL } : {},
    );
    const framed = Buffer.allocUnsafe(FRAME_BYTES + packed.length);
    framed[0] = 1;
    framed.writeUInt32BE(packed.length, 1);
    framed.set(packed, FRAME_BYTES);
    return framed;
  }
  const framed = Buffer.allocUnsafe(FRAME_BYTES + size);
  writeFrame(framed, 0, head, body);
  return framed;
}

/** The same without compression, into a buffer with room; returns where it ends. */
export function writeFrame(into: Buffer, at: number, head: Uint8Array, body: Uint8Array): number {
  const size = head.length + body.length;
  into[at] = 0;
  into.writeUInt32BE(size, at + 1);
  into.set(head, at + FRAME_BYTES);
  into.set(body, at + FRAME_BYTES + head.length);
  return at + FRAME_BYTES + size;
}

/** Largest encoded size of a frame with this much in it, not compressed. */
export const frameBytes = (head: Uint8Array, body: Uint8Array): number => FRAME_BYTES + head.length + body.length;

/** One call. */
export interface GrpcCall {
  readonly method: string;
  readonly headers: IncomingHttpHeaders;
  readonly remoteAddress: string;
  /** What the client accepts for messages to it. */
  readonly encoding: Encoding;
  readonly stream: ServerHttp2Stream;
  /** Sends the headers of a streamed answer; without it they leave with the first message, or with the status. */
  open(): void;
  /** Ends the call; only the first one counts. Everything that was written before is sent first. */
  end(status: StatusName, message?: string): void;
  /** Whether the call has ended or its client has gone. */
  readonly isOver: boolean;
}

export interface MessageLimits {
  /** Largest message, compressed or not. */
  readonly maxBytes: number;
  /** Called with the size of a message before it is read, and with that in all when it has been unpacked; throws to refuse it. */
  reserve?(bytes: number): void;
}

export interface MessageTaker {
  /** Called for each message of a call, in order. */
  take(message: Buffer): void;
  /** The client has sent everything. */
  ended(): void;
  /** A message cannot be read, or `reserve` or `take` have thrown. Nothing is read after that. */
  failed(error: unknown): void;
}

/** The side of a call from which messages come. */
export interface Incoming extends Pick<GrpcCall, 'headers' | 'isOver'> {
  readonly stream: Readable;
}

export function readMessages(call: Incoming, limits: MessageLimits, { take, ended, failed }: MessageTaker): void {
  const { stream } = call;
  let hasFailed = false;
  const head = Buffer.allocUnsafe(FRAME_BYTES);
  let headBytes = 0;
  let message: Buffer | null = null;
  let filled = 0;

  function feed(chunk: Buffer): void {
    let at = 0;
    while (at < chunk.length && !call.isOver) {
      if (message === null) {
        const taken = Math.min(FRAME_BYTES - headBytes, chunk.length - at);
        chunk.copy(head, headBytes, at, at + taken);
        headBytes += taken;
        at += taken;
        if (headBytes < FRAME_BYTES) return;
        const size = head.readUInt32BE(1);
        if (size > limits.maxBytes)
          throw new GrpcError('resourceExhausted', `a message of ${size} bytes is larger than ${limits.maxBytes}`);
        limits.reserve?.(size);
        message = Buffer.allocUnsafeSlow(size);
        filled = 0;
      }
      const taken = Math.min(message.length - filled, chunk.length - at);
      chunk.copy(message, filled, at, at + taken);
      filled += taken;
      at += taken;
      if (filled < message.length) return;
      const whole = message;
      message = null;
      headBytes = 0;
      take(head[0] === 0 ? whole : unpacked(whole));
    }
  }

  function unpacked(packed: Buffer): Buffer {
    const bytes = unpack(call, packed, limits.maxBytes);
    limits.reserve?.(packed.length + bytes.length);
    return bytes;
  }

  stream.on('data', (chunk: Buffer) => {
    if (call.isOver || hasFailed) return;
    try {
      feed(chunk);
      // An empty message has no bytes that would start the loop again.
      if (message !== null && message.length === 0) feedEmpty();
    } catch (error) {
      hasFailed = true;
      failed(error);
    }
  });
  stream.on('end', () => {
    if (!call.isOver && !hasFailed) ended();
  });

  function feedEmpty(): void {
    message = null;
    headBytes = 0;
    take(Buffer.alloc(0));
  }
}

function unpack(call: Incoming, bytes: Buffer, maxBytes: number): Buffer {
  const name = call.headers['grpc-encoding'];
  const codec = name === 'gzip' || name === 'zstd' ? CODECS[name] : null;
  if (codec === null) throw new GrpcError('unimplemented', `messages may be compressed with ${ENCODINGS}`);
  try {
    return codec.decompress(bytes, { maxOutputLength: maxBytes });
  } catch {
    throw new GrpcError('invalidArgument', 'a compressed message is damaged or too large');
  }
}

export interface GrpcServerOptions {
  readonly host: string;
  readonly port: number;
  /** Null: plain HTTP/2. */
  readonly tls: { readonly cert: Buffer; readonly key: Buffer } | null;
  readonly maxConnections: number;
  /** Open connections of one client address (IPv6: /64); 0: no limit. Trusted proxies have none. */
  readonly maxConnectionsPerAddress: () => number;
  readonly isTrusted: (address: string) => boolean;
  /** The address of a client, behind proxies that are trusted too. */
  readonly remoteAddress: RemoteAddress;
  /** How long a client has for the handshake of TLS. */
  readonly handshakeTimeoutMs: number;
  /** How often a silent connection is checked; one without an answer until the next check is cut. */
  readonly pingIntervalMs: number;
  readonly clock: Clock;
  /** Called for each call; errors must end the call. */
  handle(call: GrpcCall): void;
}

export interface GrpcServer {
  /** The port it listens on; rejects when it cannot. */
  start(): Promise<number>;
  /** Tells all clients to go elsewhere and takes no new connections. */
  drain(): void;
  stop(): Promise<void>;
  connections(): number;
}

export function createGrpcServer(options: GrpcServerOptions): GrpcServer {
  const { clock } = options;
  const sessions = new Set<ServerHttp2Session>();
  const connections = createConnections(options);
  const settings = {
    settings: { maxConcurrentStreams: CALLS_PER_CONNECTION, enablePush: false },
    maxSessionMemory: 64,
  };
  const server: Http2Server | Http2SecureServer =
    options.tls === null
      ? createServer(settings)
      : createSecureServer({
          ...{ ...settings, ...options.tls, minVersion: 'TLSv1.2', allowHTTP1: false },
          handshakeTimeout: options.handshakeTimeoutMs,
        });
  let isDraining = false;

  server.on('connection', connections.admit);
  server.on('session', (session: ServerHttp2Session) => {
    if (isDraining) {
      session.destroy();
      return;
    }
    sessions.add(session);
    session.on('error', () => session.destroy());
    const cancel = keepAlive(session, clock, options.pingIntervalMs);
    session.once('close', () => {
      cancel();
      sessions.delete(session);
    });
  });
  server.on('sessionError', () => undefined);
  server.on('stream', (stream: ServerHttp2Stream, headers: IncomingHttpHeaders) => {
    // A reset by the client; the stream closes after it.
    stream.on('error', () => undefined);
    connections.called(stream);
    const contentType = String(headers['content-type'] ?? '');
    if (headers[':method'] !== 'POST' || !contentType.startsWith('application/grpc')) {
      stream.respond({ ':status': 415 }, { endStream: true });
      return;
    }
    options.handle(createCall(stream, headers, options.remoteAddress));
  });

  return {
    connections: connections.count,
    start: () =>
      new Promise((resolve, reject) => {
        server.once('error', reject);
        server.listen(options.port, options.host, () => {
          server.off('error', reject);
          server.on('error', () => undefined);
          resolve((server.address() as AddressInfo).port);
        });
      }),
    drain() {
      isDraining = true;
      server.close();
      for (const session of sessions) if (!session.destroyed) session.goaway(constants.NGHTTP2_NO_ERROR);
    },
    async stop() {
      isDraining = true;
      const closed = [...sessions].map((session) => new Promise((resolve) => session.once('close', resolve)));
      for (const session of sessions) session.destroy();
      server.close();
      await Promise.all(closed);
    },
  };
}

/** The connections of the listener. One without calls can be given up for another one, so that silent ones cannot take all places. */
function createConnections({ maxConnections, maxConnectionsPerAddress, isTrusted }: GrpcServerOptions) {
  interface Connection {
    readonly socket: Socket;
    calls: number;
  }
  /** By the ports of both sides, because sessions of HTTP/2 hide their socket; oldest first. */
  const open = new Map<string, Connection>();
  const perAddress = new Map<string, number>();
  const nameOf = (socket: Socket | undefined) => `${socket?.remoteAddress} ${socket?.remotePort} ${socket?.localPort}`;

  return {
    count: () => open.size,
    admit(socket: Socket): void {
      const peer = plain(socket.remoteAddress ?? '');
      const address = isTrusted(peer) ? null : networkOf(peer);
      const held = (address === null ? 0 : (perAddress.get(address) ?? 0)) + 1;
      const most = maxConnectionsPerAddress();
      if (address !== null && most > 0 && held > most) {
        socket.destroy();
        return;
      }
      if (open.size >= maxConnections) {
        const idle = [...open].find(([, { calls }]) => calls === 0);
        // Forgotten at once, although the close is reported later.
        if (idle !== undefined) open.delete(idle[0]);
        (idle?.[1].socket ?? socket).destroy();
        if (idle === undefined) return;
      }
      const name = nameOf(socket);
      const connection = { socket, calls: 0 };
      open.set(name, connection);
      if (address !== null) perAddress.set(address, held);
      socket.once('close', () => {
        if (open.get(name) === connection) open.delete(name);
        if (address === null) return;
        const left = (perAddress.get(address) ?? 1) - 1;
        if (left === 0) perAddress.delete(address);
        else perAddress.set(address, left);
      });
    },
    called(stream: ServerHttp2Stream): void {
      const connection = open.get(nameOf(stream.session?.socket));
      if (connection === undefined) return;
      connection.calls += 1;
      stream.once('close', () => {
        connection.calls -= 1;
      });
    },
  };
}

function keepAlive(session: ServerHttp2Session, clock: Clock, everyMs: number): () => void {
  let isAnswered = true;
  const check = (): void => {
    if (session.destroyed) return;
    if (!isAnswered) {
      session.destroy();
      return;
    }
    isAnswered = false;
    session.ping((error) => {
      isAnswered = error === null;
    });
    cancel = clock.timeout(everyMs, check);
  };
  let cancel = clock.timeout(everyMs, check);
  return () => cancel();
}

function createCall(stream: ServerHttp2Stream, headers: IncomingHttpHeaders, addressOf: RemoteAddress): GrpcCall {
  const encoding = encodingOf(headers['grpc-accept-encoding']);
  let isOver = false;
  let trailers: Record<string, string> | null = null;
  stream.once('close', () => {
    isOver = true;
  });
  const first = {
    ':status': 200,
    'content-type': 'application/grpc',
    'grpc-accept-encoding': ENCODINGS,
    ...(encoding === 'identity' ? {} : { 'grpc-encoding': encoding }),
  };
  const call: GrpcCall = {
    method: String(headers[':path']),
    headers,
    remoteAddress: addressOf({ socket: { remoteAddress: stream.session?.socket?.remoteAddress }, headers }),
    encoding,
    stream,
    get isOver() {
      return isOver;
    },
    open() {
      if (isOver || stream.headersSent) return;
      stream.respond(first, { waitForTrailers: true });
      stream.once('wantTrailers', () => stream.sendTrailers(trailers ?? trailersOf('internal', 'no status')));
    },
    end(status, message = '') {
      if (isOver) return;
      isOver = true;
      trailers = trailersOf(status, message);
      if (stream.destroyed) return;
      // Nothing reads the rest of the request: without this the stream would stay half open.
      stream.resume();
      if (!stream.headersSent) stream.respond({ ...first, ...trailers }, { endStream: true });
      else stream.end();
    },
  };
  return call;
}

function trailersOf(status: StatusName, message: string): Record<string, string> {
  const text = Buffer.from(message)
    .toString('latin1')
    // Everything but printable ASCII, and the percent sign itself, is percent-encoded.
    .replaceAll(/[^ -$&-~]/g, (one) => `%${one.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`);
  return { 'grpc-status': String(STATUS[status]), ...(text === '' ? {} : { 'grpc-message': text }) };
}

function encodingOf(accepted: string | string[] | undefined): Encoding {
  const names = String(accepted ?? '')
    .split(',')
    .map((name) => name.trim());
  for (const name of ['zstd', 'gzip'] as const) if (names.includes(name) && CODECS[name] !== null) return name;
  return 'identity';
}

/** The outcome that a client gets for an error. */
export function statusOf(error: unknown): { readonly status: StatusName; readonly message: string } {
  if (error instanceof GrpcError) return error;
  if (error instanceof ProtobufError) return { status: 'invalidArgument', message: error.message };
  if (error instanceof GateRefusal) return statusOfRefusal(error);
  if (codeOf(error)?.startsWith('CHAIN_'))
    return { status: 'unavailable', message: 'no upstream has answered, try again later' };
  if (codeOf(error)?.startsWith('STORE_')) return { status: 'unavailable', message: 'try again later' };
  return { status: 'internal', message: 'internal error' };
}

function statusOfRefusal({ reason, details }: GateRefusal): { readonly status: StatusName; readonly message: string } {
  switch (reason) {
    case 'no-key':
    case 'bad-key':
      return { status: 'unauthenticated', message: 'No valid auth token' };
    case 'ip':
      return { status: 'permissionDenied', message: 'this address may not use the key' };
    case 'plan':
    case 'permission':
      return { status: 'permissionDenied', message: details ?? 'the key has no permission for streams' };
    case 'credits':
      return { status: 'resourceExhausted', message: 'max usage reached' };
    default:
      return { status: 'resourceExhausted', message: details ?? 'too many requests' };
  }
}
