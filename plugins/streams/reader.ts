/** One `Subscribe` call: requests in, updates out, with everything that can end it. */
import { createHash } from 'node:crypto';
import { constants } from 'node:http2';
import { ProtobufError } from '../../src/lib/protobuf.ts';
import type { ChainBlock, Clock, Log } from '../../src/plugin/plugin.ts';
import type { StreamMeter, Tenant } from '../../src/ports/access.ts';
import type { Encoding } from './codecs.ts';
import {
  compileFilters,
  type FilterMatch,
  type FilterOptions,
  type Filters,
  type Labels,
  needsYellowstone,
  weightOf,
} from './filters.ts';
import {
  frame,
  frameBytes,
  type GrpcCall,
  GrpcError,
  readMessages,
  type StatusName,
  statusOf,
  writeFrame,
} from './grpc-server.ts';
import type { Batch, Feed, Hub, Leave, Reader } from './hub/index.ts';
import type { PassedStream, PassedTaker, PassOn } from './pass-on.ts';
import { readSubscribeRequest } from './wire/request.ts';
import {
  type BlockUpdates,
  createBlockUpdates,
  encodeLabels,
  encodePing,
  encodePong,
  encodeSlot,
  SLOT_STATUS,
} from './wire/updates.ts';

export interface ReaderLimits {
  readonly maxQueuedBytes: number;
  readonly maxRequestBytes: number;
  readonly pingIntervalMs: number;
}

/** The least rate at which a client must read what is waiting for it. */
export interface ReadingLimits {
  /** 0: none. */
  readonly minReadBytesPerSecond: number;
  readonly readWindowMs: number;
}

export interface ReaderOptions {
  readonly call: GrpcCall;
  readonly hub: Hub;
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

/** Bytes that are handed to the connection before it has sent the ones before. */
const IN_FLIGHT_BYTES = 1_048_576;
/** A replay reads on when fewer bytes wait for the client. */
const REPLAY_BYTES = 524_288;
/** How long a client has to read what is left for it after its stream has ended. */
const FAREWELL_MS = 5_000;
/** Small requests, such as answers to pings, need no token at this pace; a few may come at once. */
const SMALL_REQUEST_BYTES = 1_024;
/** Bytes of a request per token of the rate; the first ones are paid with the request itself. */
const BYTES_A_TOKEN = 65_536;
const SMALL_REQUEST_MS = 1_000;
const SMALL_REQUEST_BURST_MS = 10_000;
/** Looks at what is waiting, per window of the reading rate. */
const LOOKS = 3;
/** Requests above this size are not hashed to find equal ones. */
const MAX_SHARED_BYTES = 1_048_576;
const EMPTY = Buffer.alloc(0);

export function startReader(options: ReaderOptions): StreamReader {
  const { call, hub, clock, limits, tenant, meter, reading } = options;
  const { stream } = call;
  let queue: Batch[] = [];
  let queuedBytes = 0;
  /** Updates that wait while the credits are read. */
  let unpaid: Batch[] | null = meter === null ? null : [];
  let leave: Leave | null = null;
  /** The stream of a Yellowstone server, while the subscription is passed on to it. */
  let passed: PassedStream | null = null;
  /** Continues a replay that waits until the connection has sent what it was given. */
  let resume: (() => void) | null = null;
  const held = {
    /** Updates that were not read before newer ones came: those of one block are shared by all readers, and leave at once. */
    answers: tenant.take('answerBytes', 0),
    /** A request from its first byte, and what of it is unpacked, until it is read. */
    received: tenant.take('requestBytes', 0),
    request: tenant.take('streamFilterBytes', 0),
    filters: tenant.take('streamFilterBytes', 0),
    weight: tenant.take('streamFilters', 0),
  };
  let isCounted = false;
  let unpaidBytes = 0;
  /** Bytes that were ever queued. */
  let queuedInAll = 0;
  let slow: { readonly sinceMs: number; readonly sentBefore: number } | null = null;
  /** `queuedInAll` at the last look. */
  let queuedBefore = 0;
  let smallFromMs = clock.monotonic() - SMALL_REQUEST_BURST_MS;
  let hasRequest = false;
  /** Tokens that were taken for the size of the request that is being received. */
  let sizeTokens = 0;
  let outcome: { readonly status: StatusName; readonly message: string } | null = null;
  let cut: 'slow' | null = null;
  let cancelPing = (): void => undefined;
  let cancelFarewell = (): void => undefined;
  let cancelLook = (): void => undefined;
  /** Monotonic milliseconds of the next look. */
  let lookDueMs = clock.monotonic();

  function pump(): void {
    while (queue.length > 0 && stream.writableLength < IN_FLIGHT_BYTES && !stream.destroyed) {
      const { bytes } = queue.shift()!;
      queuedBytes -= bytes.length;
      stream.write(bytes);
    }
    if (held.answers.amount > waiting()) held.answers.set(waiting());
    if (outcome !== null && queue.length === 0) call.end(outcome.status, outcome.message);
    if (isReady()) wakeReplay();
  }

  /** Bytes that were queued and not sent. */
  const waiting = () => queuedBytes + stream.writableLength;

  const isReady = () => stream.destroyed || outcome !== null || (unpaid === null && waiting() < REPLAY_BYTES);

  function wakeReplay(): void {
    resume?.();
    resume = null;
  }

  function enqueue(batch: Batch): void {
    if (outcome !== null || stream.destroyed) return;
    // One update that is larger than the whole queue still reaches a client that keeps up.
    if ((waiting() > 0 && waiting() + batch.bytes.length > limits.maxQueuedBytes) || !holdsWaiting()) {
      lagged('lagged to send an update');
      return;
    }
    queue.push(batch);
    queuedBytes += batch.bytes.length;
    queuedInAll += batch.bytes.length;
    pump();
  }

  /** Counts what is left of earlier turns, once a turn. False when it is more than the tenant may hold. */
  function holdsWaiting(): boolean {
    if (isCounted) return true;
    isCounted = true;
    queueMicrotask(() => {
      isCounted = false;
    });
    try {
      held.answers.set(waiting() + unpaidBytes);
      return true;
    } catch {
      return false;
    }
  }

  /**
   * Ends a reader that takes too little of what is waiting, over a whole window. Who has taken what waited at the last look keeps up, also when
   * something new waits at each: a ping can be written in the same turn as every look.
   */
  function look(): void {
    const sent = queuedInAll - waiting();
    const now = clock.monotonic();
    // While the process did not run, nothing left it: that is not the time of its reader.
    const lateMs = Math.max(0, now - lookDueMs);
    const waitMs = Math.ceil(reading.readWindowMs / LOOKS);
    lookDueMs = now + waitMs;
    cancelLook = clock.timeout(waitMs, look);
    const keepsUp = sent >= queuedBefore;
    queuedBefore = queuedInAll;
    if (keepsUp || outcome !== null) slow = null;
    else if (slow === null) slow = { sinceMs: now, sentBefore: sent };
    else {
      slow = { sinceMs: slow.sinceMs + lateMs, sentBefore: slow.sentBefore };
      if (now - slow.sinceMs < reading.readWindowMs) return;
      const rate = ((sent - slow.sentBefore) * 1_000) / (now - slow.sinceMs);
      if (rate < reading.minReadBytesPerSecond) lagged('lagged to send an update');
      slow = { sinceMs: now, sentBefore: sent };
    }
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
    leaveHub();
    endPassed();
    // Without the code of an error it would wait until the client has read everything.
    cancelFarewell = clock.timeout(FAREWELL_MS, () => stream.close(constants.NGHTTP2_CANCEL));
    pump();
  }

  function leaveHub(): number | null {
    const goesOnFrom = leave?.() ?? null;
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
    unpaidBytes += batch.bytes.length;
    if (unpaidBytes <= limits.maxQueuedBytes && holdsWaiting()) {
      unpaid?.push(batch);
      return;
    }
    unpaid = [];
    unpaidBytes = 0;
    lagged('lagged to send an update');
  }

  async function readCredits(from: StreamMeter): Promise<void> {
    try {
      await from.refresh();
    } catch {
      return end('unavailable', 'try again later');
    }
    const batches = unpaid ?? [];
    unpaid = null;
    unpaidBytes = 0;
    for (const batch of batches) {
      if (!from.affords(batch.messageBytes)) return end('resourceExhausted', 'max usage reached');
      from.count(batch.messageBytes);
      enqueue(batch);
    }
    if (isReady()) wakeReplay();
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

  /** Before more of a request is received or unpacked, whatever becomes of it. */
  function payForSize(bytes: number): void {
    const due = Math.ceil(bytes / BYTES_A_TOKEN) - 1;
    if (due <= sizeTokens) return;
    const tokens = due - sizeTokens;
    sizeTokens = due;
    options.demandRate(tokens);
  }

  /** The first request has paid with the call. */
  function payRequest(bytes: number): void {
    const isFirst = !hasRequest;
    hasRequest = true;
    sizeTokens = 0;
    if (isFirst) return;
    if (bytes > SMALL_REQUEST_BYTES) {
      options.demandRate(1);
      return;
    }
    const now = clock.monotonic();
    const nextMs = Math.max(smallFromMs, now - SMALL_REQUEST_BURST_MS) + SMALL_REQUEST_MS;
    if (nextMs <= now) smallFromMs = nextMs;
    else options.demandRate(1);
  }

  function take(message: Buffer): void {
    if (outcome !== null) return;
    try {
      payRequest(message.length);
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
        pay({
          bytes: frames.length === 1 ? frames[0]! : Buffer.concat(frames),
          updates: updates.length,
          messageBytes: updates.reduce((sum, update) => sum + frameBytes(EMPTY, update), 0),
        });
      },
      ended(error) {
        passed = null;
        const { status, message } = statusOf(error);
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
  if (meter !== null) void readCredits(meter);
  if (reading.minReadBytesPerSecond > 0) look();
  stream.on('drain', pump);
  stream.once('close', () => {
    leaveHub();
    endPassed();
    wakeReplay();
    cancelPing();
    cancelFarewell();
    cancelLook();
    for (const lease of Object.values(held)) lease.release();
    queue = [];
    unpaid = null;
    options.closed(cut);
  });
  readMessages(
    call,
    {
      maxBytes: limits.maxRequestBytes,
      reserve(bytes) {
        if (outcome !== null) return;
        payForSize(bytes);
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
        const { status, message } = statusOf(error);
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

/** Frames are joined to buffers of about this size. */
const BATCH_BYTES = 131_072;

/** The updates of a subscription: frames of `geyser.Geyser` with the labels of the filters that matched. */
export function createUpdateFeed(filters: Filters, encoding: Encoding, clock: Clock): Feed {
  return {
    level: filters.level,
    content(block) {
      const matches = filters.match(block);
      const updates = updatesOf(block, clock);
      return join(
        matches.map((match) => ({ head: headOf(match.labels), body: bodyOf(match, updates) })),
        encoding,
      );
    },
    slot({ slot, parentSlot: parent, blockhash }, status) {
      const labels = filters.matchSlot(status);
      if (labels === null) return [];
      const dead = status === SLOT_STATUS.dead ? { deadError: 'the slot is on a fork that was left' } : {};
      const body = encodeSlot({ slot, parent, blockhash, status, ...dead }, clock.now());
      return join([{ head: headOf(labels), body }], encoding);
    },
  };
}

const known = new WeakMap<ChainBlock, BlockUpdates>();

/** The updates of a block, shared by all subscriptions so that each is encoded once. */
function updatesOf(block: ChainBlock, clock: Clock): BlockUpdates {
  let updates = known.get(block);
  if (updates === undefined) {
    updates = createBlockUpdates(block, clock.now());
    known.set(block, updates);
  }
  return updates;
}

function bodyOf(match: FilterMatch, updates: BlockUpdates): Buffer {
  switch (match.kind) {
    case 'transaction':
      return updates.transaction(match.index);
    case 'transactionStatus':
      return updates.transactionStatus(match.index);
    case 'block':
      return updates.block(match.content);
    case 'blockMeta':
      return updates.blockMeta();
  }
}

const heads = new WeakMap<Labels, Buffer>();

function headOf(labels: Labels): Buffer {
  let head = heads.get(labels);
  if (head === undefined) {
    head = encodeLabels(labels);
    heads.set(labels, head);
  }
  return head;
}

interface FramePart {
  readonly head: Buffer;
  readonly body: Buffer;
}

/** Few large writes cost far less than many small ones. */
function join(parts: readonly FramePart[], encoding: Encoding): readonly Batch[] {
  if (encoding !== 'identity') return joinPacked(parts, encoding);
  const batches: Batch[] = [];
  for (let from = 0; from < parts.length; ) {
    let size = 0;
    let to = from;
    while (to < parts.length && (to === from || size < BATCH_BYTES)) {
      size += frameBytes(parts[to]!.head, parts[to]!.body);
      to += 1;
    }
    const bytes = Buffer.allocUnsafeSlow(size);
    let at = 0;
    for (let part = from; part < to; part++) at = writeFrame(bytes, at, parts[part]!.head, parts[part]!.body);
    batches.push({ bytes, updates: to - from, messageBytes: size });
    from = to;
  }
  return batches;
}

function joinPacked(parts: readonly FramePart[], encoding: Encoding): readonly Batch[] {
  const batches: Batch[] = [];
  let frames: Buffer[] = [];
  let size = 0;
  let messageBytes = 0;
  const flush = () => {
    if (frames.length === 0) return;
    batches.push({ bytes: Buffer.concat(frames), updates: frames.length, messageBytes });
    frames = [];
    size = 0;
    messageBytes = 0;
  };
  for (const { head, body } of parts) {
    const framed = frame(head, body, encoding);
    frames.push(framed);
    size += framed.length;
    messageBytes += frameBytes(head, body);
    if (size >= BATCH_BYTES) flush();
  }
  flush();
  return batches;
}
