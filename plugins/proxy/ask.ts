import { parseVerbatim } from '../../src/lib/json.ts';
import { isNull } from '../../src/lib/json-rpc.ts';
import { createLru } from '../../src/lib/lru.ts';
import type { RpcBatchSeat, RpcForward } from '../../src/plugin/host.ts';
import {
  type CallContext,
  type Clock,
  type Log,
  type Metrics,
  RpcError,
  type UpstreamPool,
} from '../../src/plugin/plugin.ts';
import type { Counter } from '../../src/ports/telemetry.ts';
import type { CallSignal, Upstream, UpstreamQuorum } from '../../src/ports/upstream.ts';
import { type AnswerVote, askQuorum, voteOf, voteOfError } from '../../src/runtime/ask-quorum.ts';
import { sendHedged } from '../../src/runtime/hedge.ts';
import {
  isBeforeSending,
  isFinalAnswer,
  isMoreUseful,
  isOfHealth,
  isOfTheNode,
  isSkip,
  type NodeErrorMeaning,
  outcomeOf,
} from '../../src/solana/node-errors.ts';
import { type AttemptOutcome, type AttemptRequest, attempt, isSending, type ServedAnswer } from './attempt.ts';
import { createBatches } from './batch.ts';
import type { ProxyConfig } from './config.ts';

interface AskRequest {
  readonly context: CallContext;
  /** Null outside of a batch. */
  readonly seat: RpcBatchSeat | null;
  readonly method: string;
  readonly body: Buffer;
  readonly params: PastCall['params'];
  readonly id: string | undefined;
  /** An answer of up to this size is checked completely, and the second upstream is asked when it is malformed. */
  readonly wholeBytes: number;
  /** Aborts the upstream call; not always the signal of one caller, as callers can share a call. */
  readonly signal: CallSignal;
  /** Label of the upstream to ask first; absent: the one that the caller's other calls go to. */
  readonly prefer?: string;
}

/** Asks the upstreams until one answers. Throws RpcError as documented in the interface, or the signal's reason. */
export type AskUpstreams = (request: AskRequest) => Promise<ServedAnswer>;

interface AskParts {
  readonly pool: UpstreamPool;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly sticky: Sticky;
  readonly timeoutMs: number;
  readonly maxBytes: number;
}

/** A call is repeated once after a failure. A node that refuses because of itself does not count. */
const MAX_FAILURES = 2;
/** A wrong key in an upstream's address stays wrong: log it periodically, not for each call. */
const DENIED_LOG_MS = 60_000;

export function createAsk(parts: AskParts): AskUpstreams {
  const { pool, clock, sticky } = parts;
  const attempts = parts.metrics.counter('upstream_attempts_total', 'calls to upstreams by outcome', [
    'upstream',
    'outcome',
  ]);
  const report = createReporter(parts, attempts);
  const hedged = parts.metrics.counter('hedged_calls_total', 'reads that were also sent to a second upstream');
  const past = createPast();
  const batches = createBatches(pool, clock);

  /** Null: the deadline has passed. Written out: copying members into it takes longer than all else here. */
  function attemptOf(request: AskRequest, label: string, untilMs: number): AttemptRequest | null {
    const { context, method, body, id, wholeBytes, signal } = request;
    const sentAt = clock.monotonic();
    const timeoutMs = Math.ceil(untilMs - sentAt);
    const { maxBytes } = parts;
    const { tenant } = context;
    const upstream = label;
    return timeoutMs <= 0
      ? null
      : { method, body, id, upstream, sentAt, timeoutMs, maxBytes, wholeBytes, signal, tenant };
  }

  const archives = () =>
    pool.candidates({ archive: true, healthyOnly: true, exceptLimited: true }).filter(({ archive }) => archive);

  /** The upstreams to ask, best first. `isPast`: upstreams with the whole history first. */
  function upstreamsFor(request: AskRequest) {
    const { context, seat } = request;
    const upstreams = pool.candidates(preferred(request.prefer ?? sticky.of(context) ?? batches.choice(seat)));
    batches.choose(seat, upstreams[0]);
    if (!isMixed(upstreams) || !past.wantsArchive(request, tipOf(pool))) return { upstreams, isPast: false };
    const first = archives();
    return { upstreams: [...first, ...upstreams.filter((one) => !first.includes(one))], isPast: true };
  }

  /** Moves those with the whole history to the front. */
  function archivesFirst(upstreams: Upstream[]): void {
    upstreams.sort((a, b) => Number(b.archive) - Number(a.archive));
  }

  /** The answer of an upstream with the whole history, asked when another one has nothing; null when none can be asked. */
  async function askArchive(request: AskRequest, untilMs: number): Promise<ServedAnswer | null> {
    const [archive] = archives();
    const asked = archive === undefined ? null : attemptOf(request, archive.label, untilMs);
    if (archive === undefined || asked === null) return null;
    const made = await attempt(pool, archive, asked);
    report(archive, made);
    return isAnswer(made) && !isRefusal(made) ? made : null;
  }

  /** Sends to the first upstream, and to the next one as well when that is slow; the next one is then taken out of `left`. */
  async function send(first: Upstream, left: Upstream[], asked: AttemptRequest, { seat, signal }: AskRequest) {
    const { hedge } = pool;
    const mayHedge = hedge !== undefined && hedge.afterMs() !== null && seat === null && left.length > 0;
    if (!mayHedge || isSending(asked.method))
      return { made: await batches.attempt(first, asked, seat), upstream: first };
    let second: Upstream | undefined;
    const { result, by } = await sendHedged<AttemptOutcome>({
      clock,
      hedge,
      signal,
      send(choice, own) {
        if (choice === 'first') return attempt(pool, first, { ...asked, signal: own });
        second = left.shift()!;
        hedged.add();
        const sentAt = clock.monotonic();
        const timeoutMs = Math.max(1, asked.timeoutMs - Math.ceil(sentAt - asked.sentAt));
        return attempt(pool, second, { ...asked, upstream: second.label, sentAt, timeoutMs, signal: own });
      },
      isGood: (made) => isAnswer(made) && !isRefusal(made),
      isOpen: (made) => made.kind === 'stream',
    });
    return { made: result, upstream: by === 'first' ? first : second! };
  }

  /** The answer that enough upstreams give. */
  async function askEnough(request: AskRequest, quorum: UpstreamQuorum): Promise<ServedAnswer> {
    const untilMs = clock.monotonic() + parts.timeoutMs;
    const { method, signal } = request;
    const outcome = await askQuorum<ServedAnswer>({
      method,
      pool,
      quorum,
      clock,
      log: parts.log,
      signal,
      untilMs,
      async send(upstream) {
        const asked = attemptOf({ ...request, wholeBytes: parts.maxBytes }, upstream.label, untilMs);
        if (asked === null) return null;
        const made = await attempt(pool, upstream, asked);
        report(upstream, made);
        return made.kind === 'whole' ? voteOfAnswer(method, made) : null;
      },
    });
    if (outcome.kind === 'agreed') return outcome.value;
    throw new RpcError('unavailable', { details: outcome.text, retryAfterS: 1 });
  }

  return async (request) => {
    const { quorum } = pool;
    if (quorum?.concerns(request.method) && request.id !== undefined) return await askEnough(request, quorum);
    const untilMs = clock.monotonic() + parts.timeoutMs;
    let retryAfterMs: number | null = null;
    let refusal: Refusal | null = null;
    /** Attempts that failed, or were refused for a reason that may be about the call. */
    let failures = 0;
    const { upstreams, isPast } = upstreamsFor(request);
    /** Whether the caller's other calls follow this one to the upstream that answers it. */
    let moves = !isPast;
    const left = [...upstreams];
    for (let upstream = left.shift(); upstream !== undefined; upstream = left.shift()) {
      const asked = attemptOf(request, upstream.label, untilMs);
      const sent = asked === null ? null : await send(upstream, left, asked, request);
      const made: AttemptOutcome = sent?.made ?? { kind: 'late' };
      upstream = sent?.upstream ?? upstream;
      if (sent !== null && !batches.isTold(made)) report(upstream, made);
      if (made.kind === 'late') break;
      if (made.kind === 'too-large') throw answerTooLarge(parts.maxBytes);
      if (isRefusal(made)) {
        if (refusal === null || isMoreUseful(made.meaning, refusal.meaning)) refusal = made;
        if (past.isLacking(request, upstream, made)) archivesFirst(left);
        if (!isOfTheNode(made.meaning)) failures += 1;
        // A node without a method, an index or old data is fine for the other calls.
        if (!isOfHealth(made.meaning)) moves = false;
      } else if (isAnswer(made)) {
        if (moves) sticky.keep(request.context, upstream.label);
        return (past.isLacking(request, upstream, made) ? await askArchive(request, untilMs) : null) ?? made;
      }
      if (made.kind === 'limited') retryAfterMs = sooner(retryAfterMs, made.retryAfterMs);
      if (made.kind === 'failed') failures += 1;
      if (!mayRepeat(request.method, made) || failures >= MAX_FAILURES) break;
    }
    if (refusal !== null) return refusal;
    if (clock.monotonic() >= untilMs) throw new RpcError('timeout');
    throw new RpcError('unavailable', { retryAfterS: Math.max(1, Math.ceil((retryAfterMs ?? 1000) / 1000)) });
  };
}

/** An error object that says something about the node: another upstream may answer. */
type Refusal = Extract<ServedAnswer, { readonly kind: 'whole' }> & { readonly meaning: NodeErrorMeaning };

const isRefusal = (made: AttemptOutcome): made is Refusal =>
  made.kind === 'whole' && made.meaning !== null && !isFinalAnswer(made.meaning);

const isAnswer = (made: AttemptOutcome): made is ServedAnswer =>
  made.kind === 'whole' || made.kind === 'stream' || made.kind === 'empty';

type WholeAnswer = Extract<ServedAnswer, { readonly kind: 'whole' }>;

/** Null: it says something about the node only. */
function voteOfAnswer(method: string, made: WholeAnswer): AnswerVote<ServedAnswer> | null {
  const { result, error } = made.parts;
  if (result !== null)
    return voteOf(method, parseVerbatim(made.bytes.toString('utf8', result.start, result.end)), made);
  if (error === null || made.meaning === null || isOfTheNode(made.meaning)) return null;
  const code = errorCodeOf(made.bytes.toString('utf8', error.start, error.end));
  return code === null ? null : voteOfError(code, isSkip(made.meaning), made);
}

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

export function answerTooLarge(maxBytes: number): RpcError {
  return new RpcError('internal', { details: `the answer of the upstream is larger than ${maxBytes} bytes` });
}

/** A call that sends something must not be sent twice, unless the first attempt cannot have left, or was refused before it was sent. */
function mayRepeat(method: string, made: AttemptOutcome): boolean {
  if (!isSending(method)) return true;
  if (isRefusal(made)) return isBeforeSending(made.meaning);
  return made.kind === 'limited' || made.kind === 'denied' || (made.kind === 'failed' && !made.sent);
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
  return (upstream: Upstream, made: AttemptOutcome): void => {
    if (made.kind === 'stream') {
      // Only its end shows whether it is an answer.
      made.stream.once('settled', (end: AttemptOutcome) => conclude(upstream, end));
      return;
    }
    conclude(upstream, made);
  };

  function conclude(upstream: Upstream, made: AttemptOutcome): void {
    if (isRefusal(made)) {
      const outcome = outcomeOf(made.meaning, made.retryAfterMs);
      count(upstream.label, outcome.kind === 'limited' ? 'limited' : 'refused');
      pool.report(upstream, outcome);
      return;
    }
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
  }
}

type PastCall = Pick<RpcForward, 'method' | 'body' | 'params'>;

/** Recognizes calls about data that a node may have pruned, when some upstreams keep the whole history. */
interface Past {
  /** Whether to ask an upstream with the whole history first. `tipSlot`: the newest known slot of all upstreams. */
  wantsArchive(call: PastCall, tipSlot: number | null): boolean;
  /** Whether the node may have pruned the requested data. Such an answer is remembered. */
  isLacking(call: PastCall, upstream: Upstream, answer: ServedAnswer): boolean;
}

/** Methods about one slot. */
const OF_SLOT = new Set(['getBlock', 'getBlockTime']);
/** A node that pruned a part lists the rest, and the answer does not show it. */
const LISTS_FROM_SLOT = new Set(['getBlocks', 'getBlocksWithLimit']);
/** Every node keeps this many slots. */
const RECENT_SLOTS = 5_000;
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
      const { meaning } = answer;
      if (error === null || meaning === null) return false;
      const code = errorCodeOf(answer.bytes.toString('utf8', error.start, error.end));
      if (isOfSlot && code === CLEANED_UP) lostTo = Math.max(lostTo, slotOf(call) ?? -1);
      return meaning === 'no-history' || isSkip(meaning);
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
