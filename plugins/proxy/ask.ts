import type { Readable } from 'node:stream';
import { gather } from '../../src/lib/gather.ts';
import { skipBlanks } from '../../src/lib/json.ts';
import { isNull, type RpcReplyParts, readRpcReply } from '../../src/lib/json-rpc.ts';
import { createLru } from '../../src/lib/lru.ts';
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
import type { Counter } from '../../src/ports/telemetry.ts';
import type { CallSignal, Upstream, UpstreamReply } from '../../src/ports/upstream.ts';
import { retryAfterMs } from '../../src/runtime/waiting.ts';
import type { ProxyConfig } from './config.ts';

interface AskRequest {
  readonly context: CallContext;
  readonly method: string;
  readonly body: Buffer;
  readonly params: PastCall['params'];
  readonly id: string | undefined;
  /** An answer of up to this size is checked completely, and the second upstream is asked when it is malformed. */
  readonly wholeBytes: number;
  /** Aborts the upstream call; not always the signal of one caller, as callers can share a call. */
  readonly signal: CallSignal;
}

/** Asks the upstreams until one answers. Throws RpcError as documented in the interface, or the signal's reason. */
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
/** A wrong key in an upstream's address stays wrong: log it periodically, not for each call. */
const DENIED_LOG_MS = 60_000;

export function createAsk(parts: AskParts): Ask {
  const { pool, clock, sticky } = parts;
  const attempts = parts.metrics.counter('upstream_attempts_total', 'calls to upstreams by outcome', [
    'upstream',
    'outcome',
  ]);
  const report = createReporter(parts, attempts);
  const past = createPast();

  /** Null: the deadline has passed. Written out: copying members into it takes longer than all else here. */
  function attemptOf({ context, body, id, wholeBytes, signal }: AskRequest, untilMs: number): AttemptRequest | null {
    const timeoutMs = Math.ceil(untilMs - clock.monotonic());
    const { maxBytes } = parts;
    return timeoutMs <= 0 ? null : { body, id, timeoutMs, maxBytes, wholeBytes, signal, tenant: context.tenant };
  }

  const archives = () =>
    pool.candidates({ archive: true, healthyOnly: true, exceptLimited: true }).filter(({ archive }) => archive);

  /** The upstreams to ask, best first. `isPast`: upstreams with the whole history first. */
  function upstreamsFor(request: AskRequest) {
    const upstreams = pool.candidates(preferred(sticky.of(request.context)));
    if (!isMixed(upstreams) || !past.wantsArchive(request, tipOf(pool))) return { upstreams, isPast: false };
    const first = archives();
    return { upstreams: [...first, ...upstreams.filter((one) => !first.includes(one))], isPast: true };
  }

  /** The answer of an upstream with the whole history, asked when another one has nothing; null when none can be asked. */
  async function askArchive(request: AskRequest, untilMs: number): Promise<Answer | null> {
    const [archive] = archives();
    const asked = attemptOf(request, untilMs);
    if (archive === undefined || asked === null) return null;
    const made = await attempt(pool, archive, asked);
    report(archive, made);
    return isAnswer(made) ? made : null;
  }

  return async (request) => {
    const untilMs = clock.monotonic() + parts.timeoutMs;
    let retryAfterMs: number | null = null;
    const { upstreams, isPast } = upstreamsFor(request);
    for (const upstream of upstreams.slice(0, MAX_ATTEMPTS)) {
      const asked = attemptOf(request, untilMs);
      if (asked === null) throw new RpcError('timeout');
      const made = await attempt(pool, upstream, asked);
      report(upstream, made);
      if (made.kind === 'late') throw new RpcError('timeout');
      if (made.kind === 'too-large') throw tooLarge(parts.maxBytes);
      if (isAnswer(made)) {
        // A call answered by an archive does not move the caller's other calls there.
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

/** True when only some upstreams keep the whole history, so that the choice matters. */
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

/** A call that sends something must not be sent twice, unless the first attempt cannot have left. */
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

  /** Reports to the pool what the answer says about the upstream. A passed deadline says nothing: the request may have been heavy. */
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

/** Recognizes calls about data that a node may have pruned, when some upstreams keep the whole history. */
interface Past {
  /** Whether to ask an upstream with the whole history first. `tipSlot`: the newest known slot of all upstreams. */
  wantsArchive(call: PastCall, tipSlot: number | null): boolean;
  /** Whether the node may have pruned the requested data. Such an answer is remembered. */
  isLacking(call: PastCall, upstream: Upstream, answer: Answer): boolean;
}

/** Methods about one slot. */
const OF_SLOT = new Set(['getBlock', 'getBlockTime']);
/** A node that pruned a part lists the rest, and the answer does not show it. */
const LISTS_FROM_SLOT = new Set(['getBlocks', 'getBlocksWithLimit']);
/** Every node keeps this many slots. */
const RECENT_SLOTS = 5_000;
/** Cleaned up; not in this ledger or skipped; not in the long-term storage; no history at all. */
const LACKING_CODES = new Set([-32001, -32007, -32009, -32011]);
const CLEANED_UP = -32001;

function createPast(): Past {
  // Pruned slots do not come back: from then on such calls go to the archive directly.
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

/** The first parameter when it is a slot; else null. */
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

/** Remembers the upstream that last answered a caller, so that slots do not go backwards between its calls. */
interface Sticky {
  /** Label of the preferred upstream, or undefined. */
  of(context: CallContext): string | undefined;
  /** Called after each answer: the period restarts with each. */
  keep(context: CallContext, label: string): void;
}

export function createSticky(clock: Clock, config: Pick<ProxyConfig, 'stickyMs' | 'stickyCallers'>): Sticky {
  const seen = createLru<string, { readonly label: string; readonly at: number }>({ max: config.stickyCallers });
  return {
    of(context) {
      const entry = seen.get(callerName(context));
      return entry !== undefined && clock.monotonic() - entry.at < config.stickyMs ? entry.label : undefined;
    },
    keep(context, label) {
      if (config.stickyMs > 0) seen.set(callerName(context), { label, at: clock.monotonic() });
    },
  };
}

/** A key is one caller from any address; without a key the address is the caller. */
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
  /** An answer of up to this size is read and checked completely. */
  readonly wholeBytes: number;
  readonly signal: CallSignal;
  /** Tenant that the answer counts for. */
  readonly tenant?: Tenant | undefined;
}

export type Answer =
  | { readonly kind: 'whole'; readonly bytes: Buffer; readonly parts: RpcReplyParts }
  /** Larger than `wholeBytes`; the stream starts at the first byte of the answer. */
  | { readonly kind: 'stream'; readonly stream: Readable }
  /** To a notification. */
  | { readonly kind: 'empty' };

export type Attempt =
  | Answer
  /** `sent`: the upstream may have received the request. `blame`: the failure is the upstream's, not the request's. */
  | { readonly kind: 'failed'; readonly reason: string; readonly sent: boolean; readonly blame: boolean }
  | { readonly kind: 'limited'; readonly retryAfterMs: number | null }
  | { readonly kind: 'denied'; readonly status: number }
  | { readonly kind: 'late' }
  | { readonly kind: 'too-large' };

/** An error object is small; a larger body with an error status is not parsed. */
const ERROR_BODY_BYTES = 65_536;
/** Answers up to this size are not counted while they are read. */
const SMALL_BYTES = 65_536;

/** Sends and classifies. Throws only the signal's reason when the caller is gone. */
async function attempt(pool: UpstreamPool, upstream: Upstream, request: AttemptRequest): Promise<Attempt> {
  let reply: UpstreamReply;
  try {
    reply = await pool.send(upstream, {
      body: request.body,
      timeoutMs: request.timeoutMs,
      maxBytes: request.maxBytes,
      wholeBytes: Math.min(SMALL_BYTES, request.wholeBytes),
      signal: request.signal,
      tenant: request.tenant,
    });
  } catch (error) {
    if (error instanceof GateRefusal) throw error;
    return transportFailure(error, request.signal);
  }
  if (reply.whole !== null) return judge(reply.status, reply.whole, request);
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
    // From here on the writer of the response counts it.
    lease?.release();
  }
}

async function classify(reply: UpstreamReply, request: AttemptRequest, lease: Lease | undefined): Promise<Attempt> {
  const { status, body } = reply;
  if (status === 429)
    return { kind: 'limited', retryAfterMs: retryAfterMs(reply.headers['retry-after'], null, 86_400_000) };
  if (status === 401 || status === 403) return { kind: 'denied', status };
  const fine = isFine(status);
  const limitBytes = fine ? request.wholeBytes : ERROR_BODY_BYTES;
  const gathered = await gather(body, limitBytes, (bytes) => {
    if (bytes > SMALL_BYTES) lease?.set(bytes);
  });
  if (request.id === undefined && fine) return { kind: 'empty' };
  if (gathered.ended) return judge(status, gathered.bytes, request);
  if (!fine || !looksLikeObject(gathered.bytes)) return unusable(status);
  body.unshift(gathered.bytes);
  return { kind: 'stream', stream: body };
}

/** What a whole answer is. */
function judge(status: number, bytes: Buffer, { id }: AttemptRequest): Attempt {
  const fine = isFine(status);
  if (id === undefined && fine) return { kind: 'empty' };
  const parts = readRpcReply(bytes);
  return parts !== null && (fine || isRpcAnswer(bytes, parts, status, id))
    ? { kind: 'whole', bytes, parts }
    : unusable(status);
}

const isFine = (status: number): boolean => status >= 200 && status < 300;

function unusable(status: number): Attempt {
  const fine = isFine(status);
  const reason = fine ? 'the answer is not a JSON-RPC response' : `HTTP status ${status}`;
  // A caller can provoke 400 or 413; that must not exclude the upstream for others.
  return { kind: 'failed', reason, sent: true, blame: fine || status >= 500 };
}

/**
 * Whether an answer with an error status is the node's own error object. With 5xx a gateway in front of the node sends such
 * objects too, but without the id.
 */
function isRpcAnswer(bytes: Buffer, parts: RpcReplyParts, status: number, id: string | undefined): boolean {
  if (parts.error === null || bytes[parts.error.start] !== 0x7b) return false;
  if (status < 500) return true;
  return parts.id !== null && id !== undefined && bytes.toString('utf8', parts.id.start, parts.id.end) === id;
}

/** A JSON-RPC answer starts with the object: neither HTML nor a byte-order mark nor a batch is one. */
function looksLikeObject(bytes: Buffer): boolean {
  return bytes[skipBlanks(bytes)] === 0x7b;
}

function transportFailure(error: unknown, signal: CallSignal): Attempt {
  if (signal.aborted) throw signal.reason;
  const code = codeOf(error);
  if (code === 'UPSTREAM_TIMEOUT') return { kind: 'late' };
  if (code === 'UPSTREAM_TOO_LARGE') return { kind: 'too-large' };
  const connect = code === 'UPSTREAM_CONNECT';
  // The text of the error could contain the address.
  const reason = connect ? 'the connection could not be opened' : 'the connection broke';
  return { kind: 'failed', reason, sent: !connect, blame: true };
}

/** Ends a body without a reader and ignores its late errors. */
function discard(body: Readable): void {
  body.on('error', () => {});
  if (!body.destroyed && !body.readableEnded) body.destroy();
}
