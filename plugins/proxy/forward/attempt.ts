import type { Readable } from 'node:stream';
import { gather } from '../../../src/lib/gather.ts';
import { type RpcReplyParts, readRpcReply } from '../../../src/lib/rpc-reply.ts';
import { codeOf, GateRefusal, type UpstreamPool } from '../../../src/plugin/plugin.ts';
import type { Lease, Tenant } from '../../../src/ports/access.ts';
import type { Upstream, UpstreamReply } from '../../../src/ports/upstream.ts';
import { retryAfterMs } from '../../../src/runtime/retry-after.ts';

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
export async function attempt(pool: UpstreamPool, upstream: Upstream, request: AttemptRequest): Promise<Attempt> {
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
    if (parts !== null && (fine || isAnswer(gathered.bytes, parts, status, request.id))) {
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
function isAnswer(bytes: Buffer, parts: RpcReplyParts, status: number, id: string | undefined): boolean {
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
