import {
  type CallContext,
  type Clock,
  type Log,
  type Metrics,
  RpcError,
  type UpstreamPool,
} from '../../../src/kernel/plugin.ts';
import type { Counter } from '../../../src/ports/metrics.ts';
import type { Upstream } from '../../../src/ports/upstream.ts';
import { type Answer, type Attempt, attempt } from './attempt.ts';
import { createPast, type PastCall } from './past.ts';
import type { Sticky } from './sticky.ts';

export interface AskRequest {
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

export interface AskParts {
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
  const tell = createTeller(parts, attempts);
  const past = createPast();

  /** Null: the time is up. */
  async function askOne(request: AskRequest, upstream: Upstream, untilMs: number): Promise<Attempt | null> {
    const timeoutMs = Math.ceil(untilMs - clock.monotonic());
    if (timeoutMs <= 0) return null;
    const made = await attempt(pool, upstream, { ...request, timeoutMs, maxBytes: parts.maxBytes });
    tell(upstream, made);
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

function createTeller(parts: AskParts, attempts: Counter) {
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
