/** One `Subscribe` call: requests in, updates out, with everything that can end it. */
import { createHash } from 'node:crypto';
import { constants } from 'node:http2';
import { ProtobufError } from '../../../src/lib/protobuf.ts';
import type { Clock, Log } from '../../../src/plugin/plugin.ts';
import type { StreamMeter, Tenant } from '../../../src/ports/access.ts';
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
import { createRequestPace } from './request-pace.ts';
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

export function startReader(options: StreamReaderOptions): StreamReader {
  const { call, hub, clock, limits, tenant, meter } = options;
  const { stream } = call;
  let leave: Leave | null = null;
  /** The stream of a Yellowstone server, while the subscription is passed on to it. */
  let passed: PassedStream | null = null;
  const held = {
    /** A request from its first byte, and what of it is unpacked, until it is read. */
    received: tenant.take('requestBytes', 0),
    request: tenant.take('streamFilterBytes', 0),
    filters: tenant.take('streamFilterBytes', 0),
    weight: tenant.take('streamFilters', 0),
  };
  let cut: 'slow' | null = null;
  let cancelPing = (): void => undefined;
  let cancelFarewell = (): void => undefined;
  const pace = createRequestPace(clock, options.demandRate);
  const outgoing = new Outgoing({
    call,
    tenant,
    meter,
    maxQueuedBytes: limits.maxQueuedBytes,
    lagged: laggedToSend,
    end: ({ status, message }) => end(status, message),
  });

  function lagged(message: string): void {
    cut = 'slow';
    outgoing.drop();
    end('internal', message);
  }

  function laggedToSend(): void {
    lagged('lagged to send an update');
  }

  function end(status: StatusName, message: string): void {
    if (outgoing.isEnding || call.isOver) return;
    outgoing.finish({ status, message });
    leaveHub();
    endPassed();
    // Without the code of an error it would wait until the client has read everything.
    cancelFarewell = clock.timeout(FAREWELL_MS, () => stream.close(constants.NGHTTP2_CANCEL));
    outgoing.pump();
  }

  function leaveHub(): number | null {
    const goesOnFrom = leave?.() ?? null;
    leave = null;
    return goesOnFrom;
  }

  async function payForBlock(): Promise<void> {
    const credits = options.replayedBlockCredits();
    if (meter === null || credits === 0) return;
    if (!meter.affords(0, credits)) await meter.refresh();
    if (!meter.affords(0, credits)) throw new GrpcError('resourceExhausted', 'max usage reached');
    meter.count(0, credits);
  }

  const reader: Reader = {
    tenant,
    payForBlock,
    send: (batch) => outgoing.send(batch),
    lagged: () => lagged('lagged to receive geyser messages'),
    refused: ({ status, message }) => end(status, message),
    ready: () => outgoing.ready(),
  };

  function answer(body: Buffer): void {
    const bytes = frame(EMPTY, body, 'identity');
    outgoing.enqueue({ bytes, updates: 1, messageBytes: bytes.length });
  }

  function take(message: Buffer): void {
    if (outgoing.isEnding) return;
    try {
      pace.payRequest(message.length);
      const request = readSubscribeRequest(message, options.filters.limits);
      if (request.ping !== null) {
        // Its filters are not looked at: clients send their old ones along, or none.
        answer(encodePong(request.ping, clock.now()));
        return;
      }
      held.weight.set(weightOf(request));
      const filters = compileFilters(request, options.filters);
      if (needsYellowstone(request)) pass(message);
      else join(filters, requestKey(message), request.fromSlot);
    } catch (error) {
      if (error instanceof ProtobufError)
        throw new GrpcError('invalidArgument', `not a SubscribeRequest: ${error.message}`);
      throw error;
    } finally {
      held.request.set(0);
      held.received.set(0);
    }
  }

  function join(filters: Filters, key: string | null, fromSlot: bigint | null): void {
    endPassed();
    held.filters.set(filters.bytes);
    // Other filters do not end a replay: it goes on where it is.
    const goesOnFrom = leaveHub();
    const from = fromSlot === null ? goesOnFrom : Number(fromSlot);
    const { encoding } = call;
    const feed = createUpdateFeed(filters, encoding, clock);
    leave = hub.join({ key: key === null ? null : `${encoding} ${key}`, feed, from }, reader);
  }

  /** All of the subscription, so that a status of a slot comes after everything of the slot: clients resume from there. */
  function pass(request: Buffer): void {
    leaveHub();
    held.filters.set(0);
    const taker: PassedTaker = {
      take(updates) {
        const frames = updates.map((update) => frame(EMPTY, update, call.encoding));
        outgoing.send({
          bytes: frames.length === 1 ? frames[0]! : Buffer.concat(frames),
          updates: updates.length,
          messageBytes: updates.reduce((sum, update) => sum + frameBytes(EMPTY, update), 0),
        });
      },
      ended(error) {
        passed = null;
        const { status, message } = grpcStatusOf(error);
        end(status, message);
      },
    };
    passed ??= options.passOn?.open(tenant, taker, call.headers) ?? null;
    passed?.request(request);
  }

  function endPassed(): void {
    passed?.close();
    passed = null;
  }

  function ping(): void {
    answer(encodePing(clock.now()));
    cancelPing = clock.timeout(limits.pingIntervalMs, ping);
  }

  call.open();
  cancelPing = clock.timeout(limits.pingIntervalMs, ping);
  const endWatch = watchReading(clock, options.reading, {
    progress: () => outgoing.progress,
    tooSlow: laggedToSend,
  });
  stream.on('drain', () => outgoing.pump());
  stream.once('close', () => {
    leaveHub();
    endPassed();
    outgoing.close();
    cancelPing();
    cancelFarewell();
    endWatch();
    for (const lease of Object.values(held)) lease.release();
    options.closed(cut);
  });
  readMessages(
    call,
    {
      maxBytes: limits.maxRequestBytes,
      reserve(bytes) {
        if (outgoing.isEnding) return;
        pace.payForSize(bytes);
        held.received.set(bytes);
        held.request.set(bytes);
      },
      deadline: { clock, timeoutMs: options.requestTimeoutMs },
    },
    {
      take,
      // A client may close its side and go on reading.
      ended: () => undefined,
      failed(error) {
        const { status, message } = grpcStatusOf(error);
        if (status === 'internal' && !(error instanceof GrpcError))
          options.log.error({ err: error }, 'a request of a stream failed');
        end(status, message);
      },
    },
  );
  return { end };
}

/** Equal for equal requests. */
function requestKey(message: Buffer): string | null {
  if (message.length > MAX_SHARED_BYTES) return null;
  return createHash('sha256').update(message).digest('base64');
}
