import { Readable } from 'node:stream';
import { gather } from '../../src/lib/gather.ts';
import type { JsonMember } from '../../src/lib/json.ts';
import { errorWithId, type RpcReplyParts, readRpcReply, sameId } from '../../src/lib/json-rpc.ts';
import { RpcReplyScan } from '../../src/lib/rpc-reply-scan.ts';
import { CodedError, codeOf, GateRefusal, type UpstreamPool } from '../../src/plugin/plugin.ts';
import type { Lease, Tenant } from '../../src/ports/access.ts';
import type { CallSignal, Upstream, UpstreamReply } from '../../src/ports/upstream.ts';
import { retryAfterMs } from '../../src/runtime/waiting.ts';
import {
  isDenied,
  meaningOfNodeError,
  type NodeErrorLike,
  type NodeErrorMeaning,
} from '../../src/solana/node-errors.ts';

/** One call to one upstream. */
export interface AttemptRequest {
  readonly method: string;
  readonly body: Buffer;
  /** Raw JSON of the caller's id; undefined for a notification. */
  readonly id: string | undefined;
  /** Label of the upstream, and monotonic milliseconds before it is sent: an answer counts for them. */
  readonly upstream: string;
  readonly sentAt: number;
  readonly timeoutMs: number;
  readonly maxBytes: number;
  /** An answer of up to this size is read and checked completely. */
  readonly wholeBytes: number;
  readonly signal: CallSignal;
  /** Tenant that the answer counts for. */
  readonly tenant: Tenant;
}

export type ServedAnswer =
  | {
      readonly kind: 'whole';
      readonly bytes: Buffer;
      readonly parts: RpcReplyParts;
      /** What its error object says; null: it has a result. */
      readonly meaning: NodeErrorMeaning | null;
      /** Retry-After of the upstream. */
      readonly retryAfterMs: number | null;
      /** Label of the upstream that gave it, and when it was asked (monotonic milliseconds). */
      readonly upstream: string;
      readonly sentAt: number;
    }
  /** Larger than `wholeBytes`. */
  | { readonly kind: 'stream'; readonly stream: CheckedReply }
  /** Answer to a notification. */
  | { readonly kind: 'empty' };

export type AttemptOutcome =
  | ServedAnswer
  /** `sent`: the upstream may have received the request. `blame`: the failure is the upstream's, not the request's. */
  | { readonly kind: 'failed'; readonly reason: string; readonly sent: boolean; readonly blame: boolean }
  | { readonly kind: 'limited'; readonly retryAfterMs: number | null }
  | { readonly kind: 'denied'; readonly status: number }
  | { readonly kind: 'late' }
  | { readonly kind: 'too-large' };

/** An error object is small; a larger body with an error status is not parsed. */
const ERROR_BODY_BYTES = 65_536;
/** A refusal up to this size is read whole, so that it can move the call. Larger ones are passed on like other answers. */
const REFUSAL_BYTES = 1_048_576;
/** Answers up to this size are not counted while they are read. */
const SMALL_BYTES = 65_536;

/** Sends and classifies. Throws only the signal's reason when the caller is gone. */
export async function attempt(
  pool: UpstreamPool,
  upstream: Upstream,
  request: AttemptRequest,
): Promise<AttemptOutcome> {
  let reply: UpstreamReply;
  try {
    reply = await pool.send(upstream, {
      body: request.body,
      timeoutMs: request.timeoutMs,
      maxBytes: request.maxBytes,
      wholeBytes: Math.min(SMALL_BYTES, request.wholeBytes),
      isRead: !isSending(request.method),
      signal: request.signal,
      tenant: request.tenant,
    });
  } catch (error) {
    if (error instanceof GateRefusal) throw error;
    return transportFailure(error, request.signal);
  }
  if (reply.whole !== null) return judgeAnswer(reply, reply.whole, request);
  const lease = request.tenant.take('answerBytes', 0);
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

async function classify(
  reply: UpstreamReply,
  request: AttemptRequest,
  lease: Lease | undefined,
): Promise<AttemptOutcome> {
  const { status, body } = reply;
  if (status === 429) return { kind: 'limited', retryAfterMs: pauseOf(reply) };
  if (isDenied(status)) return { kind: 'denied', status };
  const fine = isFine(status);
  const limitBytes = fine ? request.wholeBytes : ERROR_BODY_BYTES;
  const count = (bytes: number) => {
    if (bytes > SMALL_BYTES) lease?.set(bytes);
  };
  const gathered = await gather(body, limitBytes, count);
  if (request.id === undefined && fine) return { kind: 'empty' };
  if (gathered.ended) return judgeAnswer(reply, gathered.bytes, request);
  if (!fine) return unusable(status);
  const scan = new RpcReplyScan(request.id);
  if (scan.take(gathered.bytes) !== null) return unusable(status);
  if (scan.hasError && limitBytes < REFUSAL_BYTES) {
    const refusal = await gather(body, REFUSAL_BYTES, count);
    if (refusal.ended) return judgeAnswer(reply, refusal.bytes, request);
  }
  return { kind: 'stream', stream: new CheckedReply(body, request) };
}

/** What a whole answer is. */
export function judgeAnswer(
  reply: Pick<UpstreamReply, 'status' | 'headers'>,
  bytes: Buffer,
  request: Pick<AttemptRequest, 'id' | 'method' | 'upstream' | 'sentAt'>,
): AttemptOutcome {
  const { status } = reply;
  const { id, method, upstream, sentAt } = request;
  if (id === undefined && isFine(status)) return { kind: 'empty' };
  const parts = readRpcReply(bytes);
  if (parts === null) return isFine(status) ? notJson(bytes, reply, method) : unusable(status);
  const idText = parts.id === null ? null : bytes.toString('utf8', parts.id.start, parts.id.end);
  const isOurs = id !== undefined && idText !== null && sameId(idText, id);
  if (parts.error === null)
    return isOurs && isFine(status)
      ? { kind: 'whole', bytes, parts, meaning: null, retryAfterMs: null, upstream, sentAt }
      : unusable(status);
  // A gateway in front of the node sends error objects with 5xx too, but without the id.
  const own = isOurs ? bytes : status < 500 && id !== undefined ? errorWithId(bytes, parts, id) : null;
  if (own === null) return unusable(status);
  const meaning = meaningOfNodeError(errorOf(bytes, parts.error), method);
  const ownParts = own === bytes ? parts : (readRpcReply(own) ?? parts);
  return { kind: 'whole', bytes: own, parts: ownParts, meaning, retryAfterMs: pauseOf(reply), upstream, sentAt };
}

export const pauseOf = ({ headers }: Pick<UpstreamReply, 'headers'>) =>
  retryAfterMs(headers['retry-after'], null, 86_400_000);

/** Whether a call sends something, which must not happen twice. */
export const isSending = (method: string): boolean => /^send|^requestAirdrop$/.test(method);

const isFine = (status: number): boolean => status >= 200 && status < 300;

/** Longest text of a provider that refuses without JSON. */
const MAX_TEXT_BYTES = 512;

/** Some providers refuse with a line of text and status 200. */
function notJson(bytes: Buffer, reply: Pick<UpstreamReply, 'status' | 'headers'>, method: string): AttemptOutcome {
  const message = bytes.length <= MAX_TEXT_BYTES ? bytes.toString() : '';
  const meaning = /^\s*[{[<]/.test(message) ? 'unknown' : meaningOfNodeError({ message }, method);
  return meaning === 'limited' || meaning === 'exhausted'
    ? { kind: 'limited', retryAfterMs: pauseOf(reply) }
    : unusable(reply.status);
}

function errorOf(bytes: Buffer, { start, end }: JsonMember): NodeErrorLike {
  return JSON.parse(bytes.toString('utf8', start, end)) as NodeErrorLike;
}

export function unusable(status: number): AttemptOutcome {
  const fine = isFine(status);
  const reason = fine ? 'the answer is not the JSON-RPC response to the call' : `HTTP status ${status}`;
  // A caller can provoke 400 or 413; that must not exclude the upstream for others.
  return { kind: 'failed', reason, sent: true, blame: fine || status >= 500 };
}

/**
 * A large answer, checked while it passes: it ends with an error before its last bytes when they do not complete the response to the call.
 * Emits `settled` once, with what it was; not when its reader leaves.
 */
class CheckedReply extends Readable {
  readonly #source: Readable;
  readonly #scan: RpcReplyScan;
  readonly #signal: CallSignal;
  #isSettled = false;

  constructor(source: Readable, { id, signal }: Pick<AttemptRequest, 'id' | 'signal'>) {
    super();
    this.#source = source;
    this.#scan = new RpcReplyScan(id);
    this.#signal = signal;
    // It may break before somebody reads it; without a listener the error would end the process.
    this.on('error', () => undefined);
    source.on('data', (chunk: Buffer) => {
      const fault = this.#scan.take(chunk);
      if (fault !== null) this.#breakOff(fault);
      else if (!this.push(chunk)) source.pause();
    });
    source.on('end', () => {
      const fault = this.#scan.end();
      if (fault !== null) return this.#breakOff(fault);
      this.#settle({ kind: 'stream', stream: this });
      this.push(null);
    });
    source.on('error', (error) => {
      if (!this.#signal.aborted) this.#settle(transportFailure(error, this.#signal));
      this.destroy(error);
    });
    source.on('close', () => {
      if (!source.readableEnded && !this.destroyed) this.#breakOff('it is cut off');
    });
    source.pause();
  }

  override _read(): void {
    this.#source.resume();
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#source.destroy();
    done(error);
  }

  #breakOff(fault: string): void {
    this.#settle({ kind: 'failed', reason: `a bad answer: ${fault}`, sent: true, blame: true });
    this.destroy(
      new CodedError('UPSTREAM_FAILED', `the answer of the upstream broke off: ${fault}`, { retryable: true }),
    );
  }

  #settle(made: AttemptOutcome): void {
    if (this.#isSettled) return;
    this.#isSettled = true;
    this.emit('settled', made);
  }
}

export function transportFailure(error: unknown, signal: CallSignal): AttemptOutcome {
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
export function discard(body: Readable): void {
  body.on('error', () => {});
  if (!body.destroyed && !body.readableEnded) body.destroy();
}
