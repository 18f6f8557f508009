import { CodedError } from '../../../lib/coded-error.ts';
import type { Clock, Random } from '../../../ports/clock.ts';
import type { Upstream, UpstreamPool } from '../../../ports/upstream.ts';
import { type NodeError, type ReadAnswer, readReply, type ScanResult } from './read-reply.ts';

export interface AskAll {
  readonly method: string;
  readonly params: readonly unknown[];
  readonly signal?: AbortSignal;
  readonly timeoutMs: number;
  readonly maxBytes: number;
  readonly avoid?: readonly string[];
  /** Only upstreams that keep the whole history, where any is marked so. */
  readonly archive?: boolean;
  /** Makes the result of the bytes of an answer without parsing it, where it can. */
  readonly scan?: ScanResult;
  /** What to do with an error object: take it as the answer, or ask the next upstream. */
  readonly onNodeError?: (error: NodeError, upstream: Upstream) => 'take' | 'next';
  /** A result that says nothing: the next upstream is asked, and it is the answer only when no other one has more. */
  readonly isEmpty?: (result: unknown) => boolean;
  /** Throws or returns a reason when a result is not believable: the upstream is distrusted and the next one asked. */
  readonly check?: (result: unknown, upstream: Upstream) => string | null;
}

export interface Answered {
  readonly upstream: Upstream;
  readonly result?: unknown;
  readonly error?: NodeError;
}

export interface RpcClient {
  /**
   * One call, over the upstreams in order until one gives an answer that is taken. Errors: CHAIN_UNREACHABLE, CHAIN_TIMEOUT, the
   * signal's reason. An error object that every upstream answers with is returned, not thrown.
   */
  ask(request: AskAll): Promise<Answered>;
}

const FIRST_PAUSE_MS = 250;
/** Rounds over all upstreams before a call gives up. */
const ROUNDS = 2;

export function createRpcClient(pool: UpstreamPool, clock: Clock, random: Random): RpcClient {
  return {
    async ask(request) {
      const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: request.method, params: request.params });
      const startedAt = clock.monotonic();
      let lastError: Answered | null = null;
      let empty: Answered | null = null;
      let lastReason = 'none is configured';
      for (let round = 0; round < ROUNDS; round += 1) {
        if (round > 0) await clock.sleep(FIRST_PAUSE_MS * (0.8 + 0.4 * random.float()), request.signal);
        const candidates = pool.candidates({
          ...{ avoid: request.avoid ?? [], exceptLimited: true, archive: request.archive ?? false },
        });
        if (candidates.length === 0 && pool.size > 0)
          lastReason = 'those that are left ask to be left alone for a while';
        for (const upstream of candidates) {
          request.signal?.throwIfAborted();
          const leftMs = request.timeoutMs - (clock.monotonic() - startedAt);
          if (leftMs <= 0) throw timedOut(request.method);
          const answer = await askOne(pool, upstream, body, { ...request, timeoutMs: leftMs });
          request.signal?.throwIfAborted();
          if (answer.error !== undefined) {
            const taken: Answered = { upstream, error: answer.error };
            if ((request.onNodeError?.(answer.error, upstream) ?? 'take') === 'take') return taken;
            lastError = taken;
          } else if ('result' in answer) {
            const doubt = request.check?.(answer.result, upstream) ?? null;
            if (doubt === null) {
              const taken: Answered = { upstream, result: answer.result };
              if (request.isEmpty?.(answer.result) !== true) return taken;
              empty = taken;
              continue;
            }
            pool.report(upstream, { kind: 'contradicted', reason: doubt });
            lastReason = doubt;
          } else {
            lastReason = reasonOf(answer);
          }
        }
        const least = empty ?? lastError;
        if (least !== null) return least;
      }
      throw new CodedError('CHAIN_UNREACHABLE', `no upstream answered ${request.method}: ${lastReason}`, {
        retryable: true,
        facts: { method: request.method },
      });
    },
  };
}

async function askOne(pool: UpstreamPool, upstream: Upstream, body: string, request: AskAll): Promise<ReadAnswer> {
  const answer = await readReply(
    { send: (inner) => pool.send(upstream, inner) },
    {
      body,
      timeoutMs: request.timeoutMs,
      maxBytes: request.maxBytes,
      ...(request.signal === undefined ? {} : { signal: request.signal }),
    },
    request.scan,
  );
  if (!request.signal?.aborted) pool.report(upstream, answer.outcome);
  return answer;
}

function reasonOf(answer: ReadAnswer): string {
  const { outcome } = answer;
  if (outcome.kind === 'failed' || outcome.kind === 'contradicted') return outcome.reason;
  return outcome.kind === 'denied' ? `refused with status ${outcome.status}` : outcome.kind;
}

const timedOut = (method: string) =>
  new CodedError('CHAIN_TIMEOUT', `no upstream answered ${method} in time`, { retryable: true, facts: { method } });
