import { CodedError, codeOf, messageOf } from '../../../lib/coded-error.ts';
import { type RpcErrorObject, rpcReplyOf, rpcRequest } from '../../../lib/json-rpc.ts';
import { GateRefusal } from '../../../plugin/request.ts';
import type { Tenant } from '../../../ports/access.ts';
import type { Clock, Random } from '../../../ports/clock.ts';
import type {
  Upstream,
  UpstreamOutcome,
  UpstreamPool,
  UpstreamReply,
  UpstreamRequest,
} from '../../../ports/upstream.ts';
import { backoffMs, retryAfterMs } from '../../../runtime/waiting.ts';
import { decodeResponse } from '../../../solana/decode/response.ts';

export interface AskAll {
  readonly method: string;
  readonly params: readonly unknown[];
  readonly signal?: AbortSignal;
  readonly tenant?: Tenant | undefined;
  readonly timeoutMs: number;
  readonly maxBytes: number;
  readonly avoid?: readonly string[];
  /** Only upstreams with the whole history, when any is configured as such. */
  readonly archive?: boolean;
  /** Extracts the result from the bytes of an answer without parsing it, where possible. */
  readonly scan?: ScanResult;
  /** What to do with an error object: return it, or ask the next upstream. */
  readonly onNodeError?: (error: RpcErrorObject, upstream: Upstream) => 'take' | 'next';
  /** A result without information: the next upstream is asked, and this one is returned only when no upstream has more. */
  readonly isEmpty?: (result: unknown) => boolean;
  /** Throws or returns a reason when a result is implausible: the upstream is distrusted and the next one asked. */
  readonly check?: (result: unknown, upstream: Upstream) => string | null;
}

export interface Answered {
  readonly upstream: Upstream;
  readonly result?: unknown;
  readonly error?: RpcErrorObject;
}

export interface RpcClient {
  /**
   * One call, over the upstreams in order until an answer is accepted. Errors: CHAIN_UNREACHABLE, CHAIN_TIMEOUT, the
   * reason of the signal. An error object that every upstream returns is returned, not thrown.
   */
  ask(request: AskAll): Promise<Answered>;
}

/** Rounds over all upstreams before a call fails. */
const ROUNDS = 2;

export function createRpcClient(pool: UpstreamPool, clock: Clock, random: Random): RpcClient {
  return {
    async ask(request) {
      const body = rpcRequest(request.method, request.params);
      const startedAt = clock.monotonic();
      let lastError: Answered | null = null;
      let empty: Answered | null = null;
      let lastReason = 'none is configured';
      for (let round = 0; round < ROUNDS; round += 1) {
        if (round > 0) await clock.sleep(backoffMs(round, random), request.signal);
        const candidates = pool.candidates({
          ...{ avoid: request.avoid ?? [], exceptLimited: true, archive: request.archive ?? false },
        });
        if (candidates.length === 0 && pool.states().length > 0) lastReason = whyNone(pool);
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
            const problem = request.check?.(answer.result, upstream) ?? null;
            if (problem === null) {
              const taken: Answered = { upstream, result: answer.result };
              if (request.isEmpty?.(answer.result) !== true) return taken;
              empty = taken;
              continue;
            }
            pool.report(upstream, { kind: 'contradicted', reason: problem });
            lastReason = problem;
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
      tenant: request.tenant,
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

function whyNone(pool: UpstreamPool): string {
  const out = pool.states().find(({ inService }) => !inService);
  return out?.reason ?? 'the remaining upstreams are cooling down';
}

const timedOut = (method: string) =>
  new CodedError('CHAIN_TIMEOUT', `no upstream answered ${method} in time`, { retryable: true, facts: { method } });

/** A complete answer and what it says about the upstream. */
interface ReadAnswer {
  readonly outcome: UpstreamOutcome;
  /** Set when the upstream answered with a result (which may be null). */
  readonly result?: unknown;
  /** Set when the upstream answered with an error object. */
  readonly error?: RpcErrorObject;
  /** Set when the request failed before an answer arrived. */
  readonly failure?: unknown;
}

interface Sender {
  send(request: UpstreamRequest): Promise<UpstreamReply>;
}

/** Finds the result in the bytes of an answer without parsing it; null when the answer has to be parsed. */
type ScanResult = (body: Buffer) => unknown;

/** Sends one JSON-RPC request and reads the whole answer. Throws only GateRefusal; the caller decides what a failure means. */
export async function readReply(sender: Sender, request: UpstreamRequest, scan?: ScanResult): Promise<ReadAnswer> {
  try {
    const reply = await sender.send(request);
    const chunks: Buffer[] = [];
    for await (const chunk of reply.body) chunks.push(chunk as Buffer);
    return classify(reply, Buffer.concat(chunks), scan);
  } catch (error) {
    // Too many waiting calls of one tenant say nothing about the upstream.
    if (error instanceof GateRefusal) throw error;
    return { outcome: { kind: 'failed', reason: codeOf(error) ?? messageOf(error) }, failure: error };
  }
}

/** Longest Retry-After that is respected. */
const MOST_RETRY_AFTER_MS = 300_000;

function classify(reply: UpstreamReply, body: Buffer, scan: ScanResult | undefined): ReadAnswer {
  const { status } = reply;
  if (status === 429)
    return {
      outcome: { kind: 'limited', retryAfterMs: retryAfterMs(reply.headers['retry-after'], null, MOST_RETRY_AFTER_MS) },
    };
  if (status === 401 || status === 403) return { outcome: { kind: 'denied', status } };
  const scanned = status < 400 ? (scan?.(body) ?? null) : null;
  if (scanned !== null) return { outcome: { kind: 'ok' }, result: scanned };
  const answer = parse(body);
  if (answer !== null && 'error' in answer) return { outcome: { kind: 'ok' }, error: answer.error };
  if (status >= 400) return failed(`status ${status}`);
  if (answer === null) return failed('the answer is no JSON-RPC');
  return { outcome: { kind: 'ok' }, result: answer.result };
}

const failed = (reason: string): ReadAnswer => ({ outcome: { kind: 'failed', reason } });

function parse(body: Buffer): ReturnType<typeof rpcReplyOf> {
  try {
    return rpcReplyOf(decodeResponse(body));
  } catch {
    return null;
  }
}

/** Meaning of a node's error code for a request of a block. */
type BlockErrorMeaning = 'skipped' | 'not-yet' | 'pruned' | 'version' | 'unwell' | 'fatal';

const MEANINGS: ReadonlyMap<number, BlockErrorMeaning> = new Map([
  [-32001, 'pruned'],
  [-32004, 'not-yet'],
  [-32005, 'unwell'],
  [-32007, 'skipped'],
  [-32009, 'skipped'],
  [-32010, 'unwell'],
  [-32011, 'pruned'],
  [-32014, 'not-yet'],
  [-32015, 'version'],
  [-32016, 'not-yet'],
  [-32019, 'unwell'],
  [-32602, 'fatal'],
]);

/** Unknown codes count as an unhealthy node: the next upstream is asked. */
export const meaningOf = (code: number): BlockErrorMeaning => MEANINGS.get(code) ?? 'unwell';
