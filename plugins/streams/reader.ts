/** One `Subscribe` call: requests in, updates out, with everything that can end it. */
import { createHash } from 'node:crypto';
import { ProtobufError } from '../../src/lib/protobuf.ts';
import type { Clock } from '../../src/plugin/plugin.ts';
import type { StreamMeter } from '../../src/ports/access.ts';
import { compileFilters, type FilterOptions, type Filters } from './filters.ts';
import { endWith, frame, type GrpcCall, GrpcError, readMessages, type StatusName } from './grpc-server.ts';
import type { Batch, Hub, Leave, Reader } from './hub.ts';
import { readSubscribeRequest } from './wire/request.ts';
import { encodePing, encodePong } from './wire/updates.ts';

export interface ReaderLimits {
  readonly maxQueuedBytes: number;
  readonly maxRequestBytes: number;
  readonly pingIntervalMs: number;
}

/** Bytes of requests and filters that all subscriptions may hold together. */
export interface FilterRoom {
  /** Throws GrpcError when there is no room. */
  take(bytes: number): void;
  give(bytes: number): void;
}

export interface ReaderOptions {
  readonly call: GrpcCall;
  readonly hub: Hub;
  readonly clock: Clock;
  readonly filters: FilterOptions;
  readonly limits: ReaderLimits;
  readonly room: FilterRoom;
  /** Null: updates cost nothing. */
  readonly meter: StreamMeter | null;
  /** Called once, when the call has ended. */
  closed(cut: 'slow' | null): void;
}

export interface StreamReader {
  end(status: StatusName, message: string): void;
}

/** Bytes that are handed to the connection before it has sent the ones before. */
const IN_FLIGHT_BYTES = 1_048_576;
/** A replay reads on when fewer bytes wait for the client. */
const REPLAY_BYTES = 524_288;
/** How long a client has to read what is left for it after its stream has ended. */
const FAREWELL_MS = 5_000;
/** Requests above this size are not hashed to find equal ones. */
const MAX_SHARED_BYTES = 1_048_576;
const EMPTY = Buffer.alloc(0);

export function startReader(options: ReaderOptions): StreamReader {
  const { call, hub, clock, limits, room, meter } = options;
  const { stream } = call;
  let queue: Batch[] = [];
  let queuedBytes = 0;
  /** Updates that wait while the credits are read. */
  let unpaid: Batch[] | null = meter === null ? null : [];
  let leave: Leave | null = null;
  /** Continues a replay that waits until the connection has sent what it was given. */
  let resume: (() => void) | null = null;
  let requestBytes = 0;
  let filterBytes = 0;
  let outcome: { readonly status: StatusName; readonly message: string } | null = null;
  let cut: 'slow' | null = null;
  let cancelPing = (): void => undefined;
  let cancelFarewell = (): void => undefined;

  function pump(): void {
    while (queue.length > 0 && stream.writableLength < IN_FLIGHT_BYTES && !stream.destroyed) {
      const { bytes } = queue.shift()!;
      queuedBytes -= bytes.length;
      stream.write(bytes);
    }
    if (outcome !== null && queue.length === 0) call.end(outcome.status, outcome.message);
    if (isReady()) wakeReplay();
  }

  const isReady = () =>
    stream.destroyed || outcome !== null || (unpaid === null && queuedBytes + stream.writableLength < REPLAY_BYTES);

  function wakeReplay(): void {
    resume?.();
    resume = null;
  }

  function enqueue(batch: Batch): void {
    if (outcome !== null || stream.destroyed) return;
    const waiting = queuedBytes + stream.writableLength;
    // One update that is larger than the whole queue still reaches a client that keeps up.
    if (waiting > 0 && waiting + batch.bytes.length > limits.maxQueuedBytes) {
      lagged('lagged to send an update');
      return;
    }
    queue.push(batch);
    queuedBytes += batch.bytes.length;
    pump();
  }

  function lagged(message: string): void {
    cut = 'slow';
    queue = [];
    queuedBytes = 0;
    end('internal', message);
  }

  function end(status: StatusName, message: string): void {
    if (outcome !== null || call.isOver) return;
    outcome = { status, message };
    leaveHub('at-once');
    cancelFarewell = clock.timeout(FAREWELL_MS, () => stream.close());
    pump();
  }

  function leaveHub(how: 'at-once' | 'after-released'): number | null {
    const goesOnFrom = leave?.(how) ?? null;
    leave = null;
    return goesOnFrom;
  }

  function pay(batch: Batch): void {
    if (meter === null) enqueue(batch);
    else if (unpaid !== null) hold(batch);
    else if (meter.affords(batch.messageBytes)) {
      meter.count(batch.messageBytes);
      enqueue(batch);
    } else {
      unpaid = [];
      hold(batch);
      void readCredits(meter);
    }
  }

  function hold(batch: Batch): void {
    const held = [...(unpaid ?? []), batch];
    const isTooMuch = held.reduce((sum, { bytes }) => sum + bytes.length, 0) > limits.maxQueuedBytes;
    unpaid = isTooMuch ? [] : held;
    if (isTooMuch) lagged('lagged to send an update');
  }

  async function readCredits(from: StreamMeter): Promise<void> {
    try {
      await from.refresh();
    } catch {
      return end('unavailable', 'try again later');
    }
    const held = unpaid ?? [];
    unpaid = null;
    for (const batch of held) {
      if (!from.affords(batch.messageBytes)) return end('resourceExhausted', 'max usage reached');
      from.count(batch.messageBytes);
      enqueue(batch);
    }
    if (isReady()) wakeReplay();
  }

  const reader: Reader = {
    send: pay,
    lagged: () => lagged('lagged to receive geyser messages'),
    refused: ({ status, message }) => end(status, message),
    ready: () =>
      new Promise((resolve) => {
        if (isReady()) resolve();
        else resume = resolve;
      }),
  };

  function answer(body: Buffer): void {
    const bytes = frame(EMPTY, body, 'identity');
    enqueue({ bytes, updates: 1, messageBytes: bytes.length });
  }

  function take(message: Buffer): void {
    const released = requestBytes;
    requestBytes = 0;
    try {
      const request = readSubscribeRequest(message);
      if (request.ping !== null) {
        // Its filters are not looked at: clients send their old ones along, or none.
        answer(encodePong(request.ping, clock.now()));
        return;
      }
      join(compileFilters(request, options.filters), keyOf(message), request.fromSlot);
    } catch (error) {
      if (error instanceof ProtobufError)
        throw new GrpcError('invalidArgument', `not a SubscribeRequest: ${error.message}`);
      throw error;
    } finally {
      room.give(released);
    }
  }

  function join(filters: Filters, key: string | null, fromSlot: bigint | null): void {
    room.take(filters.bytes);
    room.give(filterBytes);
    filterBytes = filters.bytes;
    // Other filters do not end a replay: it goes on where it is.
    const goesOnFrom = leaveHub('after-released');
    const from = fromSlot === null ? goesOnFrom : Number(fromSlot);
    leave = hub.join({ key, filters, encoding: call.encoding, from }, reader);
  }

  function ping(): void {
    answer(encodePing(clock.now()));
    cancelPing = clock.timeout(limits.pingIntervalMs, ping);
  }

  call.open();
  cancelPing = clock.timeout(limits.pingIntervalMs, ping);
  if (meter !== null) void readCredits(meter);
  stream.on('drain', pump);
  stream.once('close', () => {
    leaveHub('at-once');
    wakeReplay();
    cancelPing();
    cancelFarewell();
    room.give(filterBytes + requestBytes);
    queue = [];
    options.closed(cut);
  });
  readMessages(
    call,
    {
      maxBytes: limits.maxRequestBytes,
      reserve(bytes) {
        room.take(bytes);
        requestBytes = bytes;
      },
    },
    (message) => {
      if (outcome !== null) return;
      try {
        take(message);
      } catch (error) {
        if (!(error instanceof GrpcError)) return endWith(call, error);
        end(error.status, error.message);
      }
    },
    // A client may close its side and go on reading.
    () => undefined,
  );
  return { end };
}

/** Equal for equal requests. */
function keyOf(message: Buffer): string | null {
  if (message.length > MAX_SHARED_BYTES) return null;
  return createHash('sha256').update(message).digest('base64');
}
