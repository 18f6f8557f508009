import { CodedError, codeOf, messageOf } from '../../../lib/coded-error.ts';
import { type RpcErrorObject, readRpcReply, rpcReplyOf, rpcRequest } from '../../../lib/json-rpc.ts';
import { GateRefusal } from '../../../plugin/request.ts';
import type { Tenant } from '../../../ports/access.ts';
import type { Clock, Random } from '../../../ports/clock.ts';
import type {
  Upstream,
  UpstreamHedge,
  UpstreamOutcome,
  UpstreamPool,
  UpstreamReply,
  UpstreamRequest,
} from '../../../ports/upstream.ts';
import { sendHedged } from '../../../runtime/hedge.ts';
import { backoffMs, retryAfterMs } from '../../../runtime/waiting.ts';
import { decodeResponse } from '../../../solana/decode/response.ts';
import {
  isDenied,
  isFinalAnswer,
  isMoreUseful,
  isOfTheNode,
  meaningOfNodeError,
  type NodeErrorMeaning,
  outcomeOf,
} from '../../../solana/node-errors.ts';

export interface AskAll {
  readonly method: string;
  readonly params: readonly unknown[];
  readonly signal?: AbortSignal;
  readonly tenant: Tenant;
  readonly timeoutMs: number;
  readonly maxBytes: number;
  readonly avoid?: readonly string[];
  /** Only upstreams with the whole history, when any is configured as such. */
  readonly archive?: boolean;
  /** Whether a second upstream may be asked while the first has not answered (`upstream.hedgeAfterMs`): for reads only. */
  readonly mayHedge?: boolean;
  /** Where every upstream asked for no requests, they are asked all the same: a client waits for the answer. */
  readonly mayAskLimited?: boolean;
  /** Extracts the result from the bytes of an answer without parsing it, where possible. */
  readonly scan?: ScanResult;
  /**
   * Whether an error object is the answer; otherwise the next upstream is asked. Default: what is about the call is; what may be about
   * the call is asked of one more upstream.
   */
  readonly isFinal?: (meaning: NodeErrorMeaning) => boolean;
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
   * reason of the signal. When all refuse with error objects, the most useful one is returned, not thrown.
   */
  ask(request: AskAll): Promise<Answered>;
}

/** Rounds over all upstreams before a call fails. */
const ROUNDS = 2;
/** Upstreams that refuse for a reason that may be about the call, before the refusal is believed. */
const MAX_DOUBTS = 2;

/** Waits until the first upstream that asked for no requests takes some again, if that is before the deadline. */
async function limitPasses(pool: UpstreamPool, clock: Clock, untilMs: number, signal?: AbortSignal): Promise<void> {
  const waitsMs = pool.states().flatMap(({ inService, limitedMs }) => (inService ? [limitedMs] : []));
  const waitMs = waitsMs.length === 0 ? 0 : Math.min(...waitsMs);
  if (waitMs > 0 && clock.monotonic() + waitMs < untilMs) await clock.sleep(Math.ceil(waitMs), signal);
}

export function createRpcClient(pool: UpstreamPool, clock: Clock, random: Random): RpcClient {
  return {
    async ask(request) {
      const body = rpcRequest(request.method, request.params);
      const startedAt = clock.monotonic();
      let refusal: (Answered & { readonly meaning: NodeErrorMeaning }) | null = null;
      let doubts = 0;
      const isFinal = (meaning: NodeErrorMeaning): boolean => {
        if (request.isFinal !== undefined) return request.isFinal(meaning);
        if (!isFinalAnswer(meaning) && !isOfTheNode(meaning)) doubts += 1;
        return isFinalAnswer(meaning) || doubts >= MAX_DOUBTS;
      };
      let empty: Answered | null = null;
      let lastReason = 'none is configured';
      for (let round = 0; round < ROUNDS; round += 1) {
        if (round > 0) await clock.sleep(backoffMs(round, random), request.signal);
        const wanted = { avoid: request.avoid ?? [], exceptLimited: true, archive: request.archive ?? false };
        let candidates = pool.candidates(wanted);
        if (candidates.length === 0) {
          await limitPasses(pool, clock, startedAt + request.timeoutMs, request.signal);
          candidates = pool.candidates(wanted);
        }
        if (candidates.length === 0 && request.mayAskLimited === true)
          candidates = pool.candidates({ ...wanted, exceptLimited: false });
        if (candidates.length === 0 && pool.states().length > 0) lastReason = whyNone(pool);
        const left = [...candidates];
        for (let first = left.shift(); first !== undefined; first = left.shift()) {
          request.signal?.throwIfAborted();
          const leftMs = request.timeoutMs - (clock.monotonic() - startedAt);
          if (leftMs <= 0) throw timedOut(request.method);
          const asked = { ...request, timeoutMs: leftMs };
          const hedged = request.mayHedge === true && left.length > 0 ? pool.hedge : undefined;
          const { answer, upstream } =
            hedged === undefined || hedged.afterMs() === null
              ? { answer: await askOne(pool, first, body, asked), upstream: first }
              : await askTwo({ pool, clock, hedge: hedged, body, asked }, first, left);
          request.signal?.throwIfAborted();
          if (answer.error !== undefined) {
            const meaning = meaningOfNodeError(answer.error, request.method);
            if (refusal === null || isMoreUseful(meaning, refusal.meaning))
              refusal = { upstream, error: answer.error, meaning };
            if (isFinal(meaning)) return refusal;
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
        const least: Answered | null = empty ?? refusal;
        if (least !== null) return least;
      }
      throw new CodedError('CHAIN_UNREACHABLE', `no upstream answered ${request.method}: ${lastReason}`, {
        retryable: true,
        facts: { method: request.method },
      });
    },
  };
}

interface HedgedAsk {
  readonly pool: UpstreamPool;
  readonly clock: Clock;
  readonly hedge: UpstreamHedge;
  readonly body: string;
  readonly asked: AskAll;
}

/** Asks the next upstream too when the first is slow; it is then taken out of `left`. */
async function askTwo({ pool, clock, hedge, body, asked }: HedgedAsk, first: Upstream, left: Upstream[]) {
  let second: Upstream | undefined;
  const { result, by } = await sendHedged({
    clock,
    hedge,
    signal: asked.signal,
    send(choice, signal) {
      if (choice === 'second') second = left.shift();
      return askOne(pool, choice === 'first' ? first : second!, body, { ...asked, signal });
    },
    isGood: (answer) => 'result' in answer,
  });
  return { answer: result, upstream: by === 'first' ? first : second! };
}

async function askOne(pool: UpstreamPool, upstream: Upstream, body: string, request: AskAll): Promise<ReadAnswer> {
  const answer = await readReply(
    { send: (inner) => pool.send(upstream, inner) },
    {
      body,
      timeoutMs: request.timeoutMs,
      maxBytes: request.maxBytes,
      isRead: true,
      tenant: request.tenant,
      ...(request.signal === undefined ? {} : { signal: request.signal }),
    },
    request.method,
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
export async function readReply(
  sender: Sender,
  request: UpstreamRequest,
  method: string,
  scan?: ScanResult,
): Promise<ReadAnswer> {
  try {
    const reply = await sender.send(request);
    const chunks: Buffer[] = [];
    for await (const chunk of reply.body) chunks.push(chunk as Buffer);
    return classify(reply, Buffer.concat(chunks), method, scan);
  } catch (error) {
    // Too many waiting calls of one tenant say nothing about the upstream.
    if (error instanceof GateRefusal) throw error;
    return { outcome: { kind: 'failed', reason: codeOf(error) ?? messageOf(error) }, failure: error };
  }
}

/** Longest Retry-After that is respected. */
const MAX_RETRY_AFTER_MS = 300_000;

function classify(reply: UpstreamReply, body: Buffer, method: string, scan: ScanResult | undefined): ReadAnswer {
  const { status } = reply;
  const pauseMs = retryAfterMs(reply.headers['retry-after'], null, MAX_RETRY_AFTER_MS);
  if (status === 429) return { outcome: { kind: 'limited', retryAfterMs: pauseMs } };
  if (isDenied(status)) return { outcome: { kind: 'denied', status } };
  const scanned = status < 400 && hasOurId(body) ? (scan?.(body) ?? null) : null;
  if (scanned !== null) return { outcome: { kind: 'ok' }, result: scanned };
  const answer = parse(body);
  if (answer !== null && 'error' in answer)
    return { outcome: outcomeOf(meaningOfNodeError(answer.error, method), pauseMs), error: answer.error };
  if (status >= 400) return failed(`status ${status}`);
  if (answer === null) return failed('the answer is not JSON-RPC');
  return { outcome: { kind: 'ok' }, result: answer.result };
}

const failed = (reason: string): ReadAnswer => ({ outcome: { kind: 'failed', reason } });

/** Id of every request of this client. */
const OUR_ID = 1;
/** Bytes at both ends of an answer in which its id stands, unless its members are in a rare order. */
const ID_BYTES = 128;
const ID_FIRST = /^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*([^,\s}]+)/;
const ID_LAST = /"id"\s*:\s*([^,\s}]+)\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$/;

/** Whether an answer that is not parsed shows our id; otherwise it is parsed, which decides. */
function hasOurId(body: Buffer): boolean {
  const id =
    ID_FIRST.exec(body.toString('latin1', 0, ID_BYTES))?.[1] ??
    ID_LAST.exec(body.toString('latin1', Math.max(0, body.length - ID_BYTES)))?.[1];
  return id === String(OUR_ID);
}

/** Null: no JSON-RPC, or the answer to another call. A server that did not read the call refuses it without its id. */
function parse(body: Buffer): ReturnType<typeof rpcReplyOf> {
  try {
    const value = decodeResponse(body);
    const reply = rpcReplyOf(value);
    const { id = null } = value as { readonly id?: unknown };
    return reply !== null && (id === OUR_ID || (id === null && 'error' in reply)) ? reply : null;
  } catch {
    return null;
  }
}

/** What a node has refused, as an error of the daemon. `what`: the method, and what it was asked of. */
export const callRefused = (method: string, error: RpcErrorObject, what = method): CodedError =>
  new CodedError('CHAIN_RPC_ERROR', `${what}: ${error.message}`, {
    retryable: true,
    facts: { method, rpcCode: error.code },
  });

/** The result as unparsed text. */
export function resultText(body: Buffer): string | null {
  const result = readRpcReply(body)?.result ?? null;
  return result === null ? null : body.toString('utf8', result.start, result.end);
}
