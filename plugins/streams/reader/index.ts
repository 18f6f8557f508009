/** One `Subscribe` call: requests in, updates out, with everything that can end it. */
import { createHash } from 'node:crypto';
import { constants, type ServerHttp2Stream } from 'node:http2';
import { ProtobufError } from '../../../src/lib/protobuf.ts';
import type { Clock, Log } from '../../../src/plugin/plugin.ts';
import type { Lease, StreamMeter, Tenant } from '../../../src/ports/access.ts';
import { compileFilters, type FilterOptions, type Filters, needsYellowstone, weightOf } from '../filters.ts';
import {
  frame,
  frameBytes,
  type GrpcCall,
  GrpcError,
  grpcStatusOf,
  readMessages,
  type StatusName,
} from '../grpc-server.ts';
import type { Leave, Reader, StreamHub } from '../hub/index.ts';
import type { PassedStream, PassedTaker, PassOn } from '../pass-on.ts';
import { readSubscribeRequest } from '../wire/request.ts';
import { encodePing, encodePong } from '../wire/updates.ts';
import { Outgoing } from './outgoing.ts';
import { type ReadingLimits, watchReading } from './reading-rate.ts';
import { createRequestPace, type RequestPace } from './request-pace.ts';
import { createUpdateFeed } from './update-feed.ts';

export type { ReadingLimits };

export interface ReaderLimits {
  readonly maxQueuedBytes: number;
  readonly maxRequestBytes: number;
  readonly pingIntervalMs: number;
}

export interface StreamReaderOptions {
  readonly call: GrpcCall;
  readonly hub: StreamHub;
  readonly clock: Clock;
  readonly log: Log;
  readonly filters: FilterOptions;
  readonly limits: ReaderLimits;
  readonly reading: ReadingLimits;
  /** How long a request may take from its first byte to its last. */
  readonly requestTimeoutMs: () => number;
  readonly tenant: Tenant;
  /** Null: updates cost nothing. */
  readonly meter: StreamMeter | null;
  readonly replayedBlockCredits: () => number;
  /** Null: what only a Yellowstone server has is refused. */
  readonly passOn: PassOn | null;
  /** Takes tokens of the rate. Throws GateRefusal. */
  demandRate(tokens: number): void;
  /** Called once, when the call has ended. */
  closed(cut: 'slow' | null): void;
}

export interface StreamReader {
  end(status: StatusName, message: string): void;
}

/** How long a client has to read what is left for it after its stream has ended. */
const FAREWELL_MS = 5_000;
/** Requests above this size are not hashed to find equal ones. */
const MAX_SHARED_BYTES = 1_048_576;
const EMPTY = Buffer.alloc(0);

/**
 * The filters of the last request decide who answers: the hub (`leave` is set), or a Yellowstone server (`passed` is set), never both. After
 * `end` nothing is sent but what waits in `outgoing`; leases are given back when the stream closes, however it ends.
 */
class SubscribeCall implements StreamReader {
  private readonly options: StreamReaderOptions;
  private readonly stream: ServerHttp2Stream;
  private leave: Leave | null = null;
  /** The stream of a Yellowstone server, while the subscription is passed on to it. */
  private passed: PassedStream | null = null;
  private readonly held: {
    /** A request from its first byte, and what of it is unpacked, until it is read. */
    /** A request from its first byte, and what of it is unpacked, until it is read. */
    readonly received: Lease;
    readonly request: Lease;
    readonly filters: Lease;
    readonly weight: Lease;
  };
  private cut: 'slow' | null = null;
  private cancelPing = (): void => undefined;
  private cancelFarewell = (): void => undefined;
  private readonly pace: RequestPace;
  private readonly outgoing: Outgoing;
  private readonly reader: Reader;
  private readonly endWatch: () => void;

  constructor(options: StreamReaderOptions) {
    this.options = options;
    const { stream } = options.call;
    this.stream = stream;
    this.held = {
      received: options.tenant.take('requestBytes', 0),
      request: options.tenant.take('streamFilterBytes', 0),
      filters: options.tenant.take('streamFilterBytes', 0),
      weight: options.tenant.take('streamFilters', 0),
    };
    this.pace = createRequestPace(options.clock, options.demandRate);
    this.outgoing = new Outgoing({
      call: options.call,
      tenant: options.tenant,
      meter: options.meter,
      maxQueuedBytes: options.limits.maxQueuedBytes,
      lagged: () => this.laggedToSend(),
      end: ({ status, message }) => this.end(status, message),
    });
    this.reader = {
      tenant: options.tenant,
      payForBlock: () => this.payForBlock(),
      send: (batch) => this.outgoing.send(batch),
      lagged: () => this.lagged('lagged to receive geyser messages'),
      refused: ({ status, message }) => this.end(status, message),
      ready: () => this.outgoing.ready(),
    };
    options.call.open();
    this.cancelPing = options.clock.timeout(options.limits.pingIntervalMs, () => this.ping());
    this.endWatch = watchReading(options.clock, options.reading, {
      progress: () => this.outgoing.progress,
      tooSlow: () => this.laggedToSend(),
    });
    stream.on('drain', () => this.outgoing.pump());
    stream.once('close', () => {
      this.leaveHub();
      this.endPassed();
      this.outgoing.close();
      this.cancelPing();
      this.cancelFarewell();
      this.endWatch();
      for (const lease of Object.values(this.held)) lease.release();
      options.closed(this.cut);
    });
    readMessages(
      options.call,
      {
        maxBytes: options.limits.maxRequestBytes,
        reserve: (bytes) => {
          if (this.outgoing.isEnding) return;
          this.pace.payForSize(bytes);
          this.held.received.set(bytes);
          this.held.request.set(bytes);
        },
        deadline: { clock: options.clock, timeoutMs: options.requestTimeoutMs },
      },
      {
        take: (message) => this.take(message),
        // A client may close its side and go on reading.
        ended: () => undefined,
        failed: (error) => {
          const { status, message } = grpcStatusOf(error);
          if (status === 'internal' && !(error instanceof GrpcError))
            options.log.error({ err: error }, 'a request of a stream failed');
          this.end(status, message);
        },
      },
    );
  }

  private lagged(message: string): void {
    this.cut = 'slow';
    this.outgoing.drop();
    this.end('internal', message);
  }

  private laggedToSend(): void {
    this.lagged('lagged to send an update');
  }

  end(status: StatusName, message: string): void {
    if (this.outgoing.isEnding || this.options.call.isOver) return;
    this.outgoing.finish({ status, message });
    this.leaveHub();
    this.endPassed();
    // Without the code of an error it would wait until the client has read everything.
    this.cancelFarewell = this.options.clock.timeout(FAREWELL_MS, () => this.stream.close(constants.NGHTTP2_CANCEL));
    this.outgoing.pump();
  }

  private leaveHub(): number | null {
    const goesOnFrom = this.leave?.() ?? null;
    this.leave = null;
    return goesOnFrom;
  }

  private async payForBlock(): Promise<void> {
    const credits = this.options.replayedBlockCredits();
    if (this.options.meter === null || credits === 0) return;
    if (!this.options.meter.affords(0, credits)) await this.options.meter.refresh();
    if (!this.options.meter.affords(0, credits)) throw new GrpcError('resourceExhausted', 'max usage reached');
    this.options.meter.count(0, credits);
  }

  private answer(body: Buffer): void {
    const bytes = frame(EMPTY, body, 'identity');
    this.outgoing.enqueue({ bytes, updates: 1, messageBytes: bytes.length });
  }

  private take(message: Buffer): void {
    if (this.outgoing.isEnding) return;
    try {
      this.pace.payRequest(message.length);
      const request = readSubscribeRequest(message, this.options.filters.limits);
      if (request.ping !== null) {
        // Its filters are not looked at: clients send their old ones along, or none.
        this.answer(encodePong(request.ping, this.options.clock.now()));
        return;
      }
      this.held.weight.set(weightOf(request));
      const filters = compileFilters(request, this.options.filters);
      if (needsYellowstone(request)) this.pass(message);
      else this.join(filters, requestKey(message), request.fromSlot);
    } catch (error) {
      if (error instanceof ProtobufError)
        throw new GrpcError('invalidArgument', `not a SubscribeRequest: ${error.message}`);
      throw error;
    } finally {
      this.held.request.set(0);
      this.held.received.set(0);
    }
  }

  private join(filters: Filters, key: string | null, fromSlot: bigint | null): void {
    this.endPassed();
    this.held.filters.set(filters.bytes);
    // Other filters do not end a replay: it goes on where it is.
    const goesOnFrom = this.leaveHub();
    const from = fromSlot === null ? goesOnFrom : Number(fromSlot);
    const { encoding } = this.options.call;
    const feed = createUpdateFeed(filters, encoding, this.options.clock);
    this.leave = this.options.hub.join({ key: key === null ? null : `${encoding} ${key}`, feed, from }, this.reader);
  }

  /** All of the subscription, so that a status of a slot comes after everything of the slot: clients resume from there. */
  private pass(request: Buffer): void {
    this.leaveHub();
    this.held.filters.set(0);
    const taker: PassedTaker = {
      take: (updates) => {
        const frames = updates.map((update) => frame(EMPTY, update, this.options.call.encoding));
        this.outgoing.send({
          bytes: frames.length === 1 ? frames[0]! : Buffer.concat(frames),
          updates: updates.length,
          messageBytes: updates.reduce((sum, update) => sum + frameBytes(EMPTY, update), 0),
        });
      },
      ended: (error) => {
        this.passed = null;
        const { status, message } = grpcStatusOf(error);
        this.end(status, message);
      },
    };
    this.passed ??= this.options.passOn?.open(this.options.tenant, taker, this.options.call.headers) ?? null;
    this.passed?.request(request);
  }

  private endPassed(): void {
    this.passed?.close();
    this.passed = null;
  }

  private ping(): void {
    this.answer(encodePing(this.options.clock.now()));
    this.cancelPing = this.options.clock.timeout(this.options.limits.pingIntervalMs, () => this.ping());
  }
}

export const startReader = (options: StreamReaderOptions): StreamReader => new SubscribeCall(options);

/** Equal for equal requests. */
function requestKey(message: Buffer): string | null {
  if (message.length > MAX_SHARED_BYTES) return null;
  return createHash('sha256').update(message).digest('base64');
}
