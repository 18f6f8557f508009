import type { Readable } from 'node:stream';
import { gather } from '../../src/lib/gather.ts';
import { createLru } from '../../src/lib/lru.ts';
import { isNull, type RpcReplyParts, readRpcReply } from '../../src/lib/rpc-reply.ts';
import type { RpcForward } from '../../src/plugin/host.ts';
import {
  type CallContext,
  type Clock,
  codeOf,
  GateRefusal,
  type Log,
  type Metrics,
  RpcError,
  type UpstreamPool,
} from '../../src/plugin/plugin.ts';
import type { Lease, Tenant } from '../../src/ports/access.ts';
import type { Counter } from '../../src/ports/metrics.ts';
import type { Upstream, UpstreamReply } from '../../src/ports/upstream.ts';
import { retryAfterMs } from '../../src/runtime/retry-after.ts';

interface AskRequest {
  readonly context: CallContext;
  readonly method: string;
  readonly body: Buffer;
  readonly params: PastCall['params'];
  readonly id: string | undefined;
  /** An answer up to this size is checked as a whole and may come from the second upstream when it is broken. */
  readonly wholeBytes: number;
  /** Aborts the upstream call; not always the caller's own signal, as callers can share one call. */
  readonly signal: AbortSignal;
}

/** Asks the upstreams until one answers. Throws RpcError in the words of the interface, or the signal's reason. */
export type Ask = (request: AskRequest) => Promise<Answer>;

interface AskParts {
  readonly pool: UpstreamPool;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly sticky: Sticky;
  readonly timeoutMs: number;
  readonly maxBytes: number;
}

/** One retry, on another upstream. */
const MAX_ATTEMPTS = 2;
/** A wrong key in an upstream's address stays wrong: say it now and then, not with each call. */
const DENIED_LOG_MS = 60_000;

export function createAsk(parts: AskParts): Ask {
  const { pool, clock, sticky } = parts;
  const attempts = parts.metrics.counter('upstream_attempts_total', 'calls to upstreams by outcome', [
    'upstream',
    'outcome',
  ]);
  const report = createReporter(parts, attempts);
  const past = createPast();

  /** Null: the time is up. */
  async function askOne(request: AskRequest, upstream: Upstream, untilMs: number): Promise<Attempt | null> {
    const timeoutMs = Math.ceil(untilMs - clock.monotonic());
    if (timeoutMs <= 0) return null;
    const made = await attempt(pool, upstream, {
      ...request,
      timeoutMs,
      maxBytes: parts.maxBytes,
      tenant: request.context.tenant,
    });
    report(upstream, made);
    return made;
  }

  const archives = () =>
    pool.candidates({ archive: true, healthyOnly: true, exceptLimited: true }).filter(({ archive }) => archive);

  /** The upstreams to be asked, best first. `isPast`: those that keep the whole history before others. */
  function upstreamsFor(request: AskRequest) {
    const upstreams = pool.candidates(preferred(sticky.of(request.context)));
    if (!isMixed(upstreams) || !past.wantsArchive(request, tipOf(pool))) return { upstreams, isPast: false };
    const first = archives();
    return { upstreams: [...first, ...upstreams.filter((one) => !first.includes(one))], isPast: true };
  }

  /** What an upstream that keeps the whole history says where another one has nothing; null when it cannot be asked. */
  async function askArchive(request: AskRequest, untilMs: number): Promise<Answer | null> {
    const [archive] = archives();
    const made = archive === undefined ? null : await askOne(request, archive, untilMs);
    return made !== null && isAnswer(made) ? made : null;
  }

  return async (request) => {
    const untilMs = clock.monotonic() + parts.timeoutMs;
    let retryAfterMs: number | null = null;
    const { upstreams, isPast } = upstreamsFor(request);
    for (const upstream of upstreams.slice(0, MAX_ATTEMPTS)) {
      const made = await askOne(request, upstream, untilMs);
      if (made === null || made.kind === 'late') throw new RpcError('timeout');
      if (made.kind === 'too-large') throw tooLarge(parts.maxBytes);
      if (isAnswer(made)) {
        // Who is sent to an archive for something old has its other calls answered where they were.
        if (!isPast) sticky.keep(request.context, upstream.label);
        return (past.isLacking(request, upstream, made) ? await askArchive(request, untilMs) : null) ?? made;
      }
      if (made.kind === 'limited') retryAfterMs = sooner(retryAfterMs, made.retryAfterMs);
      if (!mayRepeat(request.method, made)) break;
    }
    throw new RpcError('unavailable', { retryAfterS: Math.max(1, Math.ceil((retryAfterMs ?? 1000) / 1000)) });
  };
}

const isAnswer = (made: Attempt): made is Answer =>
  made.kind === 'whole' || made.kind === 'stream' || made.kind === 'empty';

/** Only where some keep the whole history and some do not is there something to choose. */
const isMixed = (upstreams: readonly Upstream[]): boolean =>
  upstreams.some(({ archive }) => archive) && upstreams.some(({ archive }) => !archive);

function tipOf(pool: UpstreamPool): number | null {
  const slots = pool.states().flatMap(({ slot }) => (slot === null ? [] : [slot]));
  return slots.length === 0 ? null : Math.max(...slots);
}

const preferred = (label: string | undefined) => (label === undefined ? {} : { prefer: label });

const sooner = (first: number | null, second: number | null) =>
  first === null || second === null ? (first ?? second) : Math.min(first, second);

export function tooLarge(maxBytes: number): RpcError {
  return new RpcError('internal', { details: `the answer of the upstream is larger than ${maxBytes} bytes` });
}

/** What sends something must not be sent twice, unless the first try cannot have left. */
function mayRepeat(method: string, made: Attempt): boolean {
  if (!/^send|^requestAirdrop$/.test(method)) return true;
  return made.kind === 'failed' && !made.sent;
}

function createReporter(parts: AskParts, attempts: Counter) {
  const { pool, clock, log } = parts;
  const counters = new Map<string, Counter>();
  let deniedLoggedAt = Number.NEGATIVE_INFINITY;
  const count = (label: string, outcome: string) => {
    const name = `${label} ${outcome}`;
    const counter = counters.get(name) ?? attempts.with(label, outcome);
    counters.set(name, counter);
    counter.add();
  };

  /** Tells the pool what the answer says about the upstream. A passed deadline says nothing: the request may have been heavy. */
  return (upstream: Upstream, made: Attempt): void => {
    count(upstream.label, isAnswer(made) ? 'ok' : made.kind);
    if (made.kind === 'failed') {
      if (made.blame) pool.report(upstream, { kind: 'failed', reason: made.reason });
    } else if (made.kind === 'limited') {
      pool.report(upstream, { kind: 'limited', retryAfterMs: made.retryAfterMs });
    } else if (made.kind === 'denied') {
      pool.report(upstream, { kind: 'denied', status: made.status });
      if (clock.monotonic() - deniedLoggedAt < DENIED_LOG_MS) return;
      deniedLoggedAt = clock.monotonic();
      const fields = { upstream: upstream.label, status: made.status };
      log.error(fields, 'the upstream refuses its credentials: check its address and headers in the configuration');
    } else if (made.kind !== 'late' && made.kind !== 'too-large') {
      pool.report(upstream, { kind: 'ok' });
    }
  };
}

type PastCall = Pick<RpcForward, 'method' | 'body' | 'params'>;

/** Knows which calls are about what a node may have forgotten, where some upstreams keep the whole history. */
interface Past {
  /** Whether an upstream that keeps everything is to be asked first. `tipSlot`: the newest slot that any is known to have. */
  wantsArchive(call: PastCall, tipSlot: number | null): boolean;
  /** Whether an answer may be one of a node that has forgotten what it was asked for. Such an answer is remembered. */
  isLacking(call: PastCall, upstream: Upstream, answer: Answer): boolean;
}

/** Their subject is a slot. */
const OF_SLOT = new Set(['getBlock', 'getBlockTime']);
/** A node that has forgotten a part gives the rest, and nobody can see that from the answer. */
const LISTS_FROM_SLOT = new Set(['getBlocks', 'getBlocksWithLimit']);
/** As many slots as every node keeps. */
const RECENT_SLOTS = 5_000;
/** Cleaned up, not in this ledger or skipped, not in the long-term storage, no history at all. */
const LACKING_CODES = new Set([-32001, -32007, -32009, -32011]);
const CLEANED_UP = -32001;

function createPast(): Past {
  // What was cleaned up on one upstream does not come back: from then on nobody waits for it to say so.
  let lostTo = -1;
  return {
    wantsArchive(call, tipSlot) {
      if (call.method === 'getSignaturesForAddress') return true;
      if (LISTS_FROM_SLOT.has(call.method)) {
        const slot = slotOf(call);
        return slot !== null && (tipSlot === null || slot < tipSlot - RECENT_SLOTS);
      }
      return lostTo >= 0 && OF_SLOT.has(call.method) && (slotOf(call) ?? Number.POSITIVE_INFINITY) <= lostTo;
    },
    isLacking(call, upstream, answer) {
      if (upstream.archive || answer.kind !== 'whole') return false;
      const isOfSlot = OF_SLOT.has(call.method);
      if (!isOfSlot && call.method !== 'getTransaction') return false;
      const { result, error } = answer.parts;
      if (result !== null) return isNull(answer.bytes, result);
      const code = error === null ? null : errorCodeOf(answer.bytes.toString('utf8', error.start, error.end));
      if (isOfSlot && code === CLEANED_UP) lostTo = Math.max(lostTo, slotOf(call) ?? -1);
      return code !== null && LACKING_CODES.has(code);
    },
  };
}

/** The first parameter, where it is a slot. */
function slotOf({ body, params }: PastCall): number | null {
  const text = params === null ? '' : body.toString('latin1', params.start, Math.min(params.end, params.start + 64));
  const digits = /^\[\s*(\d{1,15})\s*[,\]]/.exec(text)?.[1];
  return digits === undefined ? null : Number(digits);
}

function errorCodeOf(errorText: string): number | null {
  try {
    const { code } = JSON.parse(errorText) as { readonly code?: unknown };
    return typeof code === 'number' ? code : null;
  } catch {
    return null;
  }
}

/** Remembers which upstream answered a caller last, so that slots do not appear to go backwards between its calls. */
interface Sticky {
  /** Label of the upstream to prefer, or undefined. */
  of(context: CallContext): string | undefined;
  /** Called after each answer: the time counts from the last one. */
  keep(context: CallContext, label: string): void;
}

export function createSticky(clock: Clock, stickyMs: number, callers: number): Sticky {
  const seen = createLru<string, { readonly label: string; readonly at: number }>({ max: callers });
  return {
    of(context) {
      const entry = seen.get(callerName(context));
      return entry !== undefined && clock.monotonic() - entry.at < stickyMs ? entry.label : undefined;
    },
    keep(context, label) {
      if (stickyMs > 0) seen.set(callerName(context), { label, at: clock.monotonic() });
    },
  };
}

/** A key is one caller wherever it calls from; without a key the address is. */
function callerName({ caller, remoteAddress }: CallContext): string {
  return caller?.keyId ?? `${caller?.projectId ?? ''} ${remoteAddress}`;
}

/** One call to one upstream. */
export interface AttemptRequest {
  readonly body: Buffer;
  /** Raw JSON of the caller's id; undefined for a notification. */
  readonly id: string | undefined;
  readonly timeoutMs: number;
  readonly maxBytes: number;
  /** An answer up to this size is read and checked as a whole. */
  readonly wholeBytes: number;
  readonly signal: AbortSignal;
  /** Whose answer it is. */
  readonly tenant?: Tenant | undefined;
}

export type Answer =
  | { readonly kind: 'whole'; readonly bytes: Buffer; readonly parts: RpcReplyParts }
  /** Larger than `wholeBytes`; the stream begins at the first byte of the answer. */
  | { readonly kind: 'stream'; readonly stream: Readable }
  /** To a notification. */
  | { readonly kind: 'empty' };

export type Attempt =
  | Answer
  /** `sent`: the upstream may have seen the request. `blame`: it says something about the upstream, not about this request. */
  | { readonly kind: 'failed'; readonly reason: string; readonly sent: boolean; readonly blame: boolean }
  | { readonly kind: 'limited'; readonly retryAfterMs: number | null }
  | { readonly kind: 'denied'; readonly status: number }
  | { readonly kind: 'late' }
  | { readonly kind: 'too-large' };

/** An error object is small; what is larger in an answer with an error status is not looked at. */
const ERROR_BODY_BYTES = 65_536;

/** Sends and classifies. Throws only the signal's reason when the caller is gone. */
async function attempt(pool: UpstreamPool, upstream: Upstream, request: AttemptRequest): Promise<Attempt> {
  let reply: UpstreamReply;
  try {
    reply = await pool.send(upstream, {
      body: request.body,
      timeoutMs: request.timeoutMs,
      maxBytes: request.maxBytes,
      signal: request.signal,
      tenant: request.tenant,
    });
  } catch (error) {
    if (error instanceof GateRefusal) throw error;
    return transportFailure(error, request.signal);
  }
  const lease = request.tenant?.take('answerBytes', 0);
  try {
    const made = await classify(reply, request, lease);
    if (made.kind !== 'stream') discard(reply.body);
    return made;
  } catch (error) {
    discard(reply.body);
    if (error instanceof GateRefusal) throw error;
    return transportFailure(error, request.signal);
  } finally {
    // From here on whoever writes it counts it.
    lease?.release();
  }
}

async function classify(reply: UpstreamReply, request: AttemptRequest, lease: Lease | undefined): Promise<Attempt> {
  const { status, body } = reply;
  if (status === 429)
    return { kind: 'limited', retryAfterMs: retryAfterMs(reply.headers['retry-after'], null, 86_400_000) };
  if (status === 401 || status === 403) return { kind: 'denied', status };
  const fine = status >= 200 && status < 300;
  const limitBytes = fine ? request.wholeBytes : ERROR_BODY_BYTES;
  const gathered = await gather(body, limitBytes, (bytes) => {
    if (bytes > ERROR_BODY_BYTES) lease?.set(bytes);
  });
  if (request.id === undefined && fine) return { kind: 'empty' };
  if (gathered.ended) {
    const parts = readRpcReply(gathered.bytes);
    if (parts !== null && (fine || isRpcAnswer(gathered.bytes, parts, status, request.id))) {
      return { kind: 'whole', bytes: gathered.bytes, parts };
    }
  } else if (fine && looksLikeObject(gathered.bytes)) {
    body.unshift(gathered.bytes);
    return { kind: 'stream', stream: body };
  }
  const reason = fine ? 'the answer is no JSON-RPC response' : `HTTP status ${status}`;
  // A caller can provoke 400 or 413; that must not take the upstream away from the others.
  return { kind: 'failed', reason, sent: true, blame: fine || status >= 500 };
}

/**
 * Whether an answer with an error status is the node's own error object. With 5xx a gateway in front of the node writes such
 * objects too, but it does not know the id.
 */
function isRpcAnswer(bytes: Buffer, parts: RpcReplyParts, status: number, id: string | undefined): boolean {
  if (parts.error === null || bytes[parts.error.start] !== 0x7b) return false;
  if (status < 500) return true;
  return parts.id !== null && id !== undefined && bytes.toString('utf8', parts.id.start, parts.id.end) === id;
}

/** JSON text begins with the object at once: neither HTML nor a byte-order mark nor a batch is an answer. */
function looksLikeObject(bytes: Buffer): boolean {
  for (const byte of bytes) {
    if (byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09) continue;
    return byte === 0x7b;
  }
  return false;
}

function transportFailure(error: unknown, signal: AbortSignal): Attempt {
  if (signal.aborted) throw signal.reason;
  const code = codeOf(error);
  if (code === 'UPSTREAM_TIMEOUT') return { kind: 'late' };
  if (code === 'UPSTREAM_TOO_LARGE') return { kind: 'too-large' };
  const connect = code === 'UPSTREAM_CONNECT';
  // The error's own text could name the address.
  const reason = connect ? 'the connection could not be opened' : 'the connection broke';
  return { kind: 'failed', reason, sent: !connect, blame: true };
}

/** Ends a body that nobody will read; its late errors are of no interest. */
function discard(body: Readable): void {
  body.on('error', () => {});
  if (!body.destroyed && !body.readableEnded) body.destroy();
}
