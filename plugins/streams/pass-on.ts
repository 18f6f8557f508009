/**
 * Subscriptions that only a Yellowstone server can answer: one stream there for each stream here, over as few connections as it allows.
 * They are passed on whole, so that one server decides the order of everything that is in them.
 */
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  constants,
  type IncomingHttpHeaders,
} from 'node:http2';
import { ProtobufReader, ProtobufWriter } from '../../src/lib/protobuf.ts';
import { type Clock, type Log, messageOf } from '../../src/plugin/plugin.ts';
import type { Lease, Tenant } from '../../src/ports/access.ts';
import { frame, GrpcError, readMessages, STATUS, type StatusName } from './grpc-server.ts';

export interface PassOnOptions {
  readonly url: string;
  /** Its `x-token`; null: none. */
  readonly token: string | null;
  readonly maxMessageBytes: () => number;
  readonly clock: Clock;
  readonly log: Log;
}

export interface PassedTaker {
  /** Updates as the server sent them, in order: all that arrived together. */
  take(updates: readonly Buffer[]): void;
  /** Nothing follows. Not called after `close`. */
  ended(error: unknown): void;
}

export interface PassedStream {
  /** `request`: bytes of a SubscribeRequest without a ping; it replaces the filters on the same stream. Throws GateRefusal. */
  request(request: Buffer): void;
  close(): void;
}

export interface PassOn {
  /**
   * Opens a subscription at the server. Of `headers`, those of the client's call, only the ones that choose a form of the subscription
   * are passed on. Throws GateRefusal when the tenant may not open another one.
   */
  open(tenant: Tenant, taker: PassedTaker, headers: IncomingHttpHeaders): PassedStream;
  close(): void;
}

interface Connection {
  readonly session: ClientHttp2Session;
  /** Resolves when it is known how many streams the server allows; rejects when it cannot be reached. */
  readonly ready: Promise<void>;
  streams: number;
}

const UPDATE = { ping: 6, pong: 9 } as const;
const REQUEST_PING = 9;
const EMPTY = Buffer.alloc(0);
const CONNECT_TIMEOUT_MS = 10_000;
const KEEP_ALIVE_MS = 15_000;
/** 80 MB/s, all accounts of mainnet, at 50 ms to the server and back. */
const STREAM_WINDOW_BYTES = 4_194_304;
const CONNECTION_WINDOW_BYTES = 16_777_216;
/** Larger messages count for the tenant while they arrive. */
const LARGE_BYTES = 65_536;
/** Counted for each waiting request besides its bytes. */
const WAITING_BYTES = 256;
/** Characters of a status text that are passed on. */
const MAX_TEXT = 200;
/** Only these statuses are passed on: the client can act on them. After any other one the client connects again. */
const PASSED: readonly StatusName[] = ['invalidArgument', 'outOfRange', 'internal'];

export function createPassOn({ url, token, maxMessageBytes, clock, log }: PassOnOptions): PassOn {
  const connections = new Set<Connection>();

  function connectAgain(): Connection {
    const settings = { initialWindowSize: STREAM_WINDOW_BYTES, enablePush: false };
    const session = connect(url, { settings });
    let cancel = clock.timeout(CONNECT_TIMEOUT_MS, () => session.destroy());
    let isAnswered = true;
    const ping = () => {
      if (session.destroyed) return;
      // A server that has not answered the last one is gone, whatever TCP knows of it.
      if (!isAnswered) {
        session.destroy();
        return;
      }
      isAnswered = false;
      session.ping(() => {
        isAnswered = true;
      });
      cancel = clock.timeout(KEEP_ALIVE_MS, ping);
    };
    session.once('connect', () => session.setLocalWindowSize(CONNECTION_WINDOW_BYTES));
    const ready = new Promise<void>((resolve, reject) => {
      session.once('remoteSettings', () => {
        cancel();
        cancel = clock.timeout(KEEP_ALIVE_MS, ping);
        resolve();
      });
      session.once('close', () => reject(new GrpcError('unavailable', LOST)));
    });
    ready.catch(() => undefined);
    const made = { session, ready, streams: 0 };
    connections.add(made);
    // Its streams end with it.
    session.on('error', () => undefined);
    session.once('goaway', () => connections.delete(made));
    session.once('close', () => {
      cancel();
      connections.delete(made);
    });
    return made;
  }

  /** A connection with room for one more stream, which is counted. */
  async function connected(): Promise<Connection> {
    for (;;) {
      const usable = [...connections].filter(({ session }) => !session.closed && !session.destroyed);
      const chosen = usable.find(hasRoom) ?? connectAgain();
      await chosen.ready;
      // Others may have taken the room meanwhile.
      if (!hasRoom(chosen)) {
        if (chosen.streams === 0) throw new GrpcError('unavailable', LOST);
        continue;
      }
      chosen.streams += 1;
      return chosen;
    }
  }

  return {
    open: (tenant, taker, headers) =>
      new PassedSubscription({ token, maxMessageBytes, log, connected, tenant, taker, headers }),
    close() {
      for (const { session } of connections) session.destroy();
    },
  };
}

interface PassedStreamParts extends Pick<PassOnOptions, 'token' | 'maxMessageBytes' | 'log'> {
  readonly tenant: Tenant;
  readonly taker: PassedTaker;
  /** The headers with which the client called. */
  readonly headers: IncomingHttpHeaders;
  /** A connection with room for one more stream, which is counted. */
  connected(): Promise<Connection>;
}

/**
 * One stream at the server, and the client's side of it. Requests wait in `early` until it is open; updates that arrive in one turn are handed
 * on together. Once it is over nothing is handed on, and `ended` is called at most once.
 */
class PassedSubscription implements PassedStream {
  private readonly parts: PassedStreamParts;
  private readonly place: Lease;
  /** Requests that the server has not taken yet. */
  private readonly requested: Lease;
  /** A large message while it arrives. */
  private readonly arriving: Lease;
  /** Null: it is not open yet. */
  private stream: ClientHttp2Stream | null = null;
  /** Requests before the stream is open. */
  private early: Buffer[] = [];
  /** Updates of this turn. */
  private arrived: Buffer[] = [];
  private isOver = false;

  constructor(parts: PassedStreamParts) {
    this.parts = parts;
    this.place = parts.tenant.take('passedStreams', 1);
    this.requested = parts.tenant.take('streamFilterBytes', 0);
    this.arriving = parts.tenant.take('answerBytes', 0);
    this.start().catch((error: unknown) => {
      parts.log.warn({ error: messageOf(error) }, 'the Yellowstone server cannot be reached');
      this.finish(new GrpcError('unavailable', LOST));
    });
  }

  close(): void {
    this.isOver = true;
    this.early = [];
    this.arrived = [];
    for (const lease of [this.place, this.requested, this.arriving]) lease.release();
    this.stream?.close(constants.NGHTTP2_CANCEL);
  }

  private finish(error: unknown): void {
    if (this.isOver) return;
    this.flush();
    this.close();
    this.parts.taker.ended(error);
  }

  private flush(): void {
    const updates = this.arrived;
    this.arrived = [];
    if (updates.length > 0 && !this.isOver) this.parts.taker.take(updates);
  }

  private write(request: Buffer): void {
    this.stream?.write(frame(EMPTY, request, 'identity'), () =>
      this.requested.set(Math.max(0, this.requested.amount - request.length - WAITING_BYTES)),
    );
  }

  private status(headers: Readonly<Record<string, unknown>>): void {
    const code = headers['grpc-status'];
    if (code === undefined || this.isOver) return;
    const [name] = Object.entries(STATUS).find(([, value]) => String(value) === String(code)) ?? [];
    this.parts.log.warn({ status: name ?? null }, 'the Yellowstone server has ended a stream');
    const isPassed = PASSED.includes(name as StatusName);
    this.finish(
      isPassed
        ? new GrpcError(name as StatusName, statusText(headers['grpc-message']))
        : new GrpcError('unavailable', LOST),
    );
  }

  private update(bytes: Buffer): void {
    this.arriving.set(0);
    const kind = pingOf(bytes);
    // Both sides keep their own stream alive.
    if (kind === UPDATE.ping && this.stream?.writableNeedDrain === false)
      this.stream.write(frame(EMPTY, PING, 'identity'));
    if (kind !== null) return;
    if (this.arrived.length === 0) queueMicrotask(() => this.flush());
    this.arrived.push(bytes);
  }

  private async start(): Promise<void> {
    const connection = await this.parts.connected();
    if (this.isOver) {
      connection.streams -= 1;
      return;
    }
    const opened = connection.session.request({
      ':method': 'POST',
      ':path': '/geyser.Geyser/Subscribe',
      'content-type': 'application/grpc',
      te: 'trailers',
      ...(this.parts.token === null ? {} : { 'x-token': this.parts.token }),
      ...chosenOf(this.parts.headers),
    });
    this.stream = opened;
    opened.on('response', (headers) => this.status(headers));
    opened.on('trailers', (headers) => this.status(headers));
    opened.on('error', () => this.finish(new GrpcError('unavailable', LOST)));
    opened.once('close', () => {
      connection.streams -= 1;
      this.finish(new GrpcError('unavailable', LOST));
    });
    const isOver = () => this.isOver;
    readMessages(
      {
        stream: opened,
        headers: {},
        get isOver() {
          return isOver();
        },
      },
      {
        maxBytes: this.parts.maxMessageBytes(),
        reserve: (bytes) => this.arriving.set(bytes > LARGE_BYTES ? bytes : 0),
        // The server is ours.
        deadline: null,
      },
      { take: (bytes) => this.update(bytes), ended: () => undefined, failed: (error) => this.finish(error) },
    );
    for (const request of this.early) this.write(request);
    this.early = [];
  }

  readonly request: PassedStream['request'] = (request) => {
    if (this.isOver) return;
    this.requested.set(this.requested.amount + request.length + WAITING_BYTES);
    if (this.stream === null) this.early.push(request);
    else this.write(request);
  };
}

const LOST =
  'the Yellowstone server behind this one has ended the stream: updates may be missing from here on, subscribe again';

/**
 * Every write of an account instead of the last one of each slot, by both names of the hosted service; and accounts as they are at the start
 * (helius-laserstream 1.1.0, yellowstone-grpc-client 17.0.0).
 */
const CHOICES = ['x-intra-slot-updates', 'x-disable-geyser-archive', 'x-request-snapshot'] as const;
const MAX_CHOICE_CHARS = 16;

function chosenOf(headers: IncomingHttpHeaders): Record<string, string> {
  const chosen: Record<string, string> = {};
  for (const name of CHOICES) {
    const value = headers[name];
    if (typeof value === 'string' && value.length <= MAX_CHOICE_CHARS) chosen[name] = value;
  }
  return chosen;
}

const hasRoom = ({ session, streams }: Connection): boolean =>
  streams < (session.remoteSettings?.maxConcurrentStreams ?? Number.POSITIVE_INFINITY);

const PING = pingRequest();

/** Servers and load balancers cut streams on which the client is silent. */
function pingRequest(): Buffer {
  const id = new ProtobufWriter();
  id.always(1, 1);
  const request = new ProtobufWriter();
  request.raw(REQUEST_PING, id.take());
  return Buffer.from(request.take());
}

/** Null for an update with content. */
function pingOf(update: Buffer): number | null {
  const reader = new ProtobufReader(update);
  for (let field = reader.next(); field !== 0; field = reader.next()) {
    if (field === UPDATE.ping || field === UPDATE.pong) return field;
    reader.skip();
  }
  return null;
}

function statusText(value: unknown): string {
  const text = typeof value === 'string' ? value.slice(0, MAX_TEXT) : '';
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
