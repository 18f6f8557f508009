import { createHmac, hash } from 'node:crypto';
import { codeOf } from '../../../src/lib/coded-error.ts';
import type { Clock, Random } from '../../../src/ports/clock.ts';
import type {
  OutboundClient,
  OutboundFailure,
  OutboundRequest,
  OutboundResponse,
} from '../../../src/ports/outbound.ts';
import type { WebhooksConfig } from '../config.ts';
import { chainOf, formOf, isoTime, type NetworkOf, type Webhook } from '../model.ts';

interface Message {
  /** `webhook-id` */
  readonly id: string;
  readonly body: Uint8Array;
  /** 1-based. */
  readonly attempt: number;
  /** Unix milliseconds. */
  readonly createdAt: number;
  readonly test: boolean;
}

export interface AttemptResult {
  readonly verdict: Verdict;
  /** Unix milliseconds. */
  readonly startedAt: number;
  readonly durationMs: number;
}

/** Sends one message to a webhook: one attempt. */
export type SendDelivery = (
  hook: Webhook,
  keys: readonly Buffer[],
  message: Message,
  signal: AbortSignal | undefined,
) => Promise<AttemptResult>;

/** One request with complete headers. */
interface PostRequest {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
  readonly timeoutMs: number;
  /** Whether a connection that fails at once is retried within the same attempt. */
  readonly retriesAtOnce: boolean;
}

export type Post = (posting: PostRequest, signal: AbortSignal | undefined) => Promise<Verdict>;

const KEPT_BYTES = 4_096;
const READ_BYTES = 65_536;
/** A connection that fails sooner than this was probably stale. */
const AT_ONCE_MS = 1_000;

export const userAgentOf = (version: string): string => `parhelion-webhooks/${version}`;

export function createPost(client: OutboundClient, clock: Clock): Post {
  return async ({ url, headers, body, timeoutMs, retriesAtOnce }, signal) => {
    const begin = clock.monotonic();
    const request: OutboundRequest = {
      method: 'POST',
      url,
      headers,
      body,
      timeoutMs,
      keepBytes: KEPT_BYTES,
      maxBytes: READ_BYTES,
      bodyOptional: true,
      ...(signal === undefined ? {} : { signal }),
    };
    return await requestOnce(client, request, () =>
      retriesAtOnce ? clock.monotonic() - begin : Number.POSITIVE_INFINITY,
    );
  };
}

interface SendParts {
  readonly post: Post;
  readonly clock: Clock;
  readonly config: WebhooksConfig;
  readonly userAgent: string;
  readonly networkOf: NetworkOf;
}

export function createSend({ post, clock, config, userAgent, networkOf }: SendParts): SendDelivery {
  return async (hook, keys, message, signal) => {
    const startedAt = clock.now();
    const begin = clock.monotonic();
    const signature = (id: string, seconds: number) => signBody(keys, id, seconds, message.body);
    const authorization = hook.authHeader;
    const headers = headersOf(hook, message, { startedAt, userAgent, networkOf, signature, authorization });
    const { timeoutMs } = config.retry[hook.retryPreset];
    const retriesAtOnce = hook.retryPreset === 'durable';
    const { url } = hook;
    const verdict = await post({ url, headers, body: message.body, timeoutMs, retriesAtOnce }, signal);
    return { verdict, startedAt, durationMs: Math.round(clock.monotonic() - begin) };
  };
}

interface HeaderParts {
  /** Unix milliseconds. */
  readonly startedAt: number;
  readonly userAgent: string;
  readonly networkOf: NetworkOf;
  signature(id: string, timestampSeconds: number): string;
  readonly authorization: string | null;
}

/** The headers of a request. */
function headersOf(
  { id, type }: Pick<Webhook, 'id' | 'type'>,
  message: Omit<Message, 'body'>,
  { startedAt, userAgent, networkOf, signature, authorization }: HeaderParts,
): Record<string, string> {
  const seconds = Math.floor(startedAt / 1_000);
  const signed = {
    'webhook-id': message.id,
    'webhook-timestamp': String(seconds),
    'webhook-signature': signature(message.id, seconds),
  };
  return {
    'content-type': 'application/json',
    'user-agent': userAgent,
    // Discord verifies no signatures.
    ...(formOf(type) === 'discord' ? {} : signed),
    'x-parhelion-webhook': id,
    'x-parhelion-attempt': String(message.attempt),
    'x-parhelion-network': networkOf(chainOf(type)),
    'x-parhelion-created-at': isoTime(message.createdAt),
    ...(authorization === null ? {} : { authorization }),
    ...(message.test ? { 'x-parhelion-test': 'true' } : {}),
  };
}

const HIDDEN = '(hidden)';

/** The headers of an earlier attempt as they follow from its delivery and webhook; signature and authorization are hidden. */
export const describeHeaders = (
  hook: Webhook,
  message: Omit<Message, 'body' | 'test'>,
  startedAt: number,
  { userAgent, networkOf }: Pick<HeaderParts, 'userAgent' | 'networkOf'>,
): Record<string, string> =>
  headersOf(
    hook,
    { ...message, test: false },
    {
      startedAt,
      userAgent,
      networkOf,
      signature: () => HIDDEN,
      authorization: hook.authHeader === null ? null : HIDDEN,
    },
  );

const MAX_HEADERS = 20;
const MAX_HEADER_CHARS = 200;

/** What is kept of the headers of a response: not more than a few kB, and no cookies. */
function keptHeaders(headers: OutboundResponse['headers']): Record<string, string> {
  const kept = Object.entries(headers).filter(([name]) => name !== 'set-cookie');
  return Object.fromEntries(
    kept
      .slice(0, MAX_HEADERS)
      .map(([name, value]) => [name.slice(0, MAX_HEADER_CHARS), value.slice(0, MAX_HEADER_CHARS)]),
  );
}

async function requestOnce(
  client: OutboundClient,
  request: OutboundRequest,
  elapsedMs: () => number,
): Promise<Verdict> {
  let response: OutboundResponse;
  try {
    response = await client.request(request);
  } catch (error) {
    const again = isConnectionFailure(error) && elapsedMs() < AT_ONCE_MS && request.signal?.aborted !== true;
    if (!again) return judgeError(error);
    try {
      response = await client.request(request);
    } catch (second) {
      return judgeError(second);
    }
  }
  return judgeResponse(response);
}

/** Outcome of one attempt. */
interface Verdict {
  readonly status: number | null;
  /** Null on success. */
  readonly failure: Failure | null;
  readonly retryable: boolean;
  /** The receiver wants no more deliveries at all. */
  readonly gone: boolean;
  /** Send one at a time from now on. */
  readonly throttle: boolean;
  /** Wait longer before the next attempt. */
  readonly overloaded: boolean;
  readonly retryAfter: string | undefined;
  readonly excerpt: Buffer | null;
  /** Null without a response. */
  readonly responseHeaders: Readonly<Record<string, string>> | null;
}

type Failure = 'timeout' | 'connection' | 'dns' | 'tls' | 'blocked_address' | 'http_status' | 'unsendable';

const FAILURES: Readonly<Record<OutboundFailure, Failure>> = {
  OUTBOUND_BAD_URL: 'unsendable',
  OUTBOUND_BLOCKED_ADDRESS: 'blocked_address',
  OUTBOUND_DNS: 'dns',
  OUTBOUND_CONNECT: 'connection',
  OUTBOUND_TLS: 'tls',
  OUTBOUND_TIMEOUT: 'timeout',
  OUTBOUND_RESET: 'connection',
  OUTBOUND_BAD_RESPONSE: 'connection',
  OUTBOUND_TOO_LARGE: 'connection',
};

/** A day: longer values are capped. */
const MAX_WAIT_SECONDS = 86_400;

/** Any 2xx is a success; a redirect counts as a failure, because it is not followed. */
function judgeResponse({ status, headers, body }: OutboundResponse): Verdict {
  const ok = status >= 200 && status < 300;
  return {
    status,
    failure: ok ? null : 'http_status',
    retryable: status !== 403 && status !== 410,
    gone: status === 410,
    throttle: status === 429 || status === 502 || status === 504,
    overloaded: status === 429,
    retryAfter: ok ? undefined : retryAfterOf(headers['retry-after'], status === 429 ? body : null),
    excerpt: body.length === 0 ? null : body,
    responseHeaders: keptHeaders(headers),
  };
}

/** Discord returns the wait in the body, in fractional seconds: the longer of body and header applies. */
function retryAfterOf(header: string | undefined, body: Buffer | null): string | undefined {
  if (body === null || body.length === 0) return header;
  let seconds: unknown;
  try {
    seconds = (JSON.parse(body.toString()) as { readonly retry_after?: unknown } | null)?.retry_after;
  } catch {
    return header;
  }
  if (typeof seconds !== 'number' || !(seconds >= 0 && seconds <= MAX_WAIT_SECONDS)) return header;
  const named = Number(header);
  return header !== undefined && !(named < seconds) ? header : String(seconds);
}

/** Rethrows errors that do not come from the guarded client: those are bugs, not failures of the receiver. */
function judgeError(error: unknown): Verdict {
  const failure = FAILURES[codeOf(error) as OutboundFailure];
  if (failure === undefined) throw error;
  return {
    status: null,
    failure,
    retryable: failure !== 'blocked_address' && failure !== 'unsendable',
    gone: false,
    throttle: failure === 'timeout',
    overloaded: failure === 'timeout',
    retryAfter: undefined,
    excerpt: null,
    responseHeaders: null,
  };
}

/** A connection that broke or was refused: retried once at once. */
const isConnectionFailure = (error: unknown): boolean => {
  const code = codeOf(error);
  return code === 'OUTBOUND_CONNECT' || code === 'OUTBOUND_RESET';
};

const PREFIX = 'whsec_';
const SECRET_BYTES = 32;
const ID_DIGITS = 32;

/** A signing secret in the Standard Webhooks format. */
export function newSecret(random: Random): string {
  return PREFIX + Buffer.from(random.bytes(SECRET_BYTES)).toString('base64');
}

/** The HMAC key inside a secret. */
export function secretKey(secret: string): Buffer {
  return Buffer.from(secret.startsWith(PREFIX) ? secret.slice(PREFIX.length) : secret, 'base64');
}

/** The receiver's key for deduplication: stable across attempts, restarts, reorgs and resends. */
export function messageId(webhookId: string, signature: string): string {
  return `msg_${hash('sha256', `${webhookId}:${signature}`, 'hex').slice(0, ID_DIGITS)}`;
}

/**
 * Value of `webhook-signature`: one `v1` signature per key, newest first. `timestamp` is in unix seconds; `body` is the exact
 * bytes sent.
 */
export function signBody(keys: readonly Buffer[], id: string, timestamp: number, body: Uint8Array): string {
  const prefix = `${id}.${timestamp}.`;
  return keys.map((key) => `v1,${createHmac('sha256', key).update(prefix).update(body).digest('base64')}`).join(' ');
}
