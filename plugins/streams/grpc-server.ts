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
import { ProtobufError } from '../../src/lib/protobuf.ts';
import { type Clock, codeOf, GateRefusal } from '../../src/plugin/plugin.ts';
import { networkOf, plain, type RemoteAddress } from '../../src/runtime/network-address.ts';
import { compress, ENCODINGS, type Encoding, encodingOf, loadCodec, unpackerOf } from './codecs.ts';

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

/** Open calls of one connection. */
const CALLS_PER_CONNECTION = 250;
const FRAME_BYTES = 5;
/** Smaller messages gain too little. */
const MIN_COMPRESSED_BYTES = 256;

/** The frame of a message that consists of two parts. */
export function frame(head: Uint8Array, body: Uint8Array, encoding: Encoding): Buffer {
  const size = head.length + body.length;
  if (encoding !== 'identity' && size >= MIN_COMPRESSED_BYTES) {
    const packed = compress(Buffer.concat([head, body]), encoding);
    const framed = Buffer.allocUnsafe(FRAME_BYTES + packed.length);
    framed[0] = 1;
    framed.writeUInt32BE(packed.length, 1);
    framed.set(packed, FRAME_BYTES);
    return framed;
  }
  const framed = Buffer.allocUnsafe(FRAME_BYTES + size);
  writeGrpcFrame(framed, 0, head, body);
  return framed;
}

/** Like `frame`, without compression and into a buffer with enough room. Returns the end offset. */
export function writeGrpcFrame(into: Buffer, at: number, head: Uint8Array, body: Uint8Array): number {
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
  /**
   * Called with the size of a message before it is read, and with that in all before each further part of it is unpacked; throws to refuse
   * it.
   */
  reserve(bytes: number): void;
  /** How long a message may take from its first byte to its last; null: no limit. */
  readonly deadline: { readonly clock: Clock; readonly timeoutMs: () => number } | null;
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
  let hasEnded = false;
  const head = Buffer.allocUnsafe(FRAME_BYTES);
  let headBytes = 0;
  let message: Buffer | null = null;
  let filled = 0;
  /** What came while a message is unpacked; null: none is. */
  let waiting: Buffer[] | null = null;
  let cancelDeadline: (() => void) | null = null;

  function fail(error: unknown): void {
    if (hasFailed || call.isOver) return;
    hasFailed = true;
    waiting = null;
    stopWatching();
    failed(error);
  }

  function stopWatching(): void {
    cancelDeadline?.();
    cancelDeadline = null;
  }

  function watch(): void {
    if (limits.deadline === null) return;
    cancelDeadline ??= limits.deadline.clock.timeout(limits.deadline.timeoutMs(), () =>
      fail(new GrpcError('deadlineExceeded', 'the message did not arrive in time')),
    );
  }

  /** Returns how much of the chunk was read: all of it, or up to the end of a message that is being unpacked. */
  function feed(chunk: Buffer): number {
    let at = 0;
    while (at < chunk.length && !call.isOver) {
      if (message === null) {
        const taken = Math.min(FRAME_BYTES - headBytes, chunk.length - at);
        chunk.copy(head, headBytes, at, at + taken);
        headBytes += taken;
        at += taken;
        if (headBytes < FRAME_BYTES) return at;
        const size = head.readUInt32BE(1);
        if (size > limits.maxBytes)
          throw new GrpcError('resourceExhausted', `a message of ${size} bytes is larger than ${limits.maxBytes}`);
        limits.reserve(size);
        message = Buffer.allocUnsafeSlow(size);
        filled = 0;
      }
      const taken = Math.min(message.length - filled, chunk.length - at);
      chunk.copy(message, filled, at, at + taken);
      filled += taken;
      at += taken;
      if (filled < message.length) return at;
      const whole = message;
      message = null;
      headBytes = 0;
      stopWatching();
      if (head[0] === 0 || whole.length === 0) take(whole);
      else {
        startUnpacking(whole);
        return at;
      }
    }
    return at;
  }

  function startUnpacking(packed: Buffer): void {
    waiting = [];
    stream.pause();
    unpack(call, packed, limits)
      .then((bytes) => {
        if (call.isOver || hasFailed) return;
        take(bytes);
        const rest = waiting ?? [];
        waiting = null;
        for (const chunk of rest) onData(chunk);
        if (waiting !== null) return;
        stream.resume();
        if (hasEnded && !call.isOver && !hasFailed) ended();
      })
      .catch(fail);
  }

  function onData(chunk: Buffer): void {
    if (call.isOver || hasFailed) return;
    if (waiting !== null) {
      waiting.push(chunk);
      return;
    }
    try {
      const rest = chunk.subarray(feed(chunk));
      if (rest.length > 0 && !call.isOver) waiting = [rest];
      if (message !== null || headBytes > 0) watch();
    } catch (error) {
      fail(error);
    }
  }

  stream.on('data', onData);
  const onEnd = () => {
    hasEnded = true;
    stopWatching();
    if (!call.isOver && !hasFailed && waiting === null) ended();
  };
  // A call without a message ends while a codec is loaded for it, before anybody listens.
  if (stream.readableEnded) onEnd();
  else stream.on('end', onEnd);
  stream.once('close', stopWatching);
}

/** In parts, so that nothing is unpacked before its bytes are reserved. */
async function unpack(call: Incoming, packed: Buffer, { maxBytes, reserve }: MessageLimits): Promise<Buffer> {
  const unpackParts = unpackerOf(call.headers['grpc-encoding']);
  if (unpackParts === null) throw new GrpcError('unimplemented', `messages may be compressed with ${ENCODINGS}`);
  const tooLarge = new GrpcError('invalidArgument', 'a compressed message is damaged or too large');
  const parts: Uint8Array[] = [];
  let size = 0;
  const reserveNext = (bytes: number) => reserve(packed.length + Math.min(size + bytes, maxBytes));
  try {
    for await (const part of unpackParts(packed, { maxBytes, reserve: reserveNext })) {
      size += part.length;
      if (size > maxBytes) throw tooLarge;
      parts.push(part);
    }
  } catch (error) {
    // Else it comes from the unpacker.
    if (error instanceof GrpcError || error instanceof GateRefusal) throw error;
    throw tooLarge;
  }
  reserve(packed.length + size);
  return Buffer.concat(parts, size);
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
          ...settings,
          ...options.tls,
          minVersion: 'TLSv1.2',
          allowHTTP1: false,
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
    const accepted = headers['grpc-accept-encoding'];
    const handle = () => options.handle(createCall(stream, headers, accepted, options.remoteAddress));
    const loading = loadCodec(accepted);
    if (loading === null) handle();
    else void loading.then(() => !stream.destroyed && handle());
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
  const socketKey = (socket: Socket | undefined) =>
    `${socket?.remoteAddress} ${socket?.remotePort} ${socket?.localPort}`;

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
      const name = socketKey(socket);
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
      const connection = open.get(socketKey(stream.session?.socket));
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

function createCall(
  stream: ServerHttp2Stream,
  headers: IncomingHttpHeaders,
  accepted: string | string[] | undefined,
  addressOf: RemoteAddress,
): GrpcCall {
  const encoding = encodingOf(accepted);
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

/** The outcome that a client gets for an error. */
export function grpcStatusOf(error: unknown): { readonly status: StatusName; readonly message: string } {
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
