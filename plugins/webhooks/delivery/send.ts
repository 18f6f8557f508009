import type { Clock } from '../../../src/ports/clock.ts';
import type { OutboundClient, OutboundRequest, OutboundResponse } from '../../../src/ports/outbound.ts';
import { formOf } from '../bodies/form.ts';
import type { WebhooksConfig } from '../config.ts';
import { isoTime } from '../model/view.ts';
import { chainOf, networkOf, type Webhook } from '../model/webhook.ts';
import { signBody } from './signature.ts';
import { isConnectionFailure, judgeError, judgeResponse, type Verdict } from './verdict.ts';

export interface Message {
  /** `webhook-id` */
  readonly id: string;
  readonly body: Uint8Array;
  /** 1-based. */
  readonly attempt: number;
  /** Unix milliseconds. */
  readonly createdAt: number;
  readonly test: boolean;
}

export interface Sent {
  readonly verdict: Verdict;
  /** Unix milliseconds. */
  readonly startedAt: number;
  readonly durationMs: number;
}

/** Sends one message to a webhook: one attempt. */
export type Send = (
  hook: Webhook,
  keys: readonly Buffer[],
  message: Message,
  signal: AbortSignal | undefined,
) => Promise<Sent>;

/** One request with headers that are ready. */
export interface Posting {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
  readonly timeoutMs: number;
  /** Whether a connection that fails at once is tried again, within the same attempt. */
  readonly repeatsAtOnce: boolean;
}

export type Post = (posting: Posting, signal: AbortSignal | undefined) => Promise<Verdict>;

const KEPT_BYTES = 4_096;
const READ_BYTES = 65_536;
/** A connection that fails sooner than this was probably a stale one. */
const AT_ONCE_MS = 1_000;

export const userAgentOf = (version: string): string => `parhelion-webhooks/${version}`;

export function createPost(client: OutboundClient, clock: Clock): Post {
  return async ({ url, headers, body, timeoutMs, repeatsAtOnce }, signal) => {
    const begin = clock.monotonic();
    const request: OutboundRequest = {
      method: 'POST',
      ...{ url, headers, body, timeoutMs },
      keepBytes: KEPT_BYTES,
      maxBytes: READ_BYTES,
      bodyOptional: true,
      ...(signal === undefined ? {} : { signal }),
    };
    return await requestOnce(client, request, () =>
      repeatsAtOnce ? clock.monotonic() - begin : Number.POSITIVE_INFINITY,
    );
  };
}

export interface SendParts {
  readonly post: Post;
  readonly clock: Clock;
  readonly config: WebhooksConfig;
  readonly userAgent: string;
}

export function createSend({ post, clock, config, userAgent }: SendParts): Send {
  return async (hook, keys, message, signal) => {
    const startedAt = clock.now();
    const begin = clock.monotonic();
    const headers: Record<string, string> = {
      'content-type': 'application/json',
      'user-agent': userAgent,
      ...signatureHeaders(hook, keys, message, startedAt),
      'x-parhelion-webhook': hook.id,
      'x-parhelion-attempt': String(message.attempt),
      'x-parhelion-network': networkOf(chainOf(hook.type)),
      'x-parhelion-created-at': isoTime(message.createdAt),
    };
    if (hook.authHeader !== null) headers.authorization = hook.authHeader;
    if (message.test) headers['x-parhelion-test'] = 'true';
    const { timeoutMs } = config.retry[hook.retryPreset];
    const repeatsAtOnce = hook.retryPreset === 'durable';
    const { url } = hook;
    const verdict = await post({ url, headers, body: message.body, timeoutMs, repeatsAtOnce }, signal);
    return { verdict, startedAt, durationMs: Math.round(clock.monotonic() - begin) };
  };
}

/** Discord verifies nothing. */
function signatureHeaders(
  { type }: Webhook,
  keys: readonly Buffer[],
  { id, body }: Message,
  now: number,
): Record<string, string> {
  if (formOf(type) === 'discord') return {};
  const timestamp = Math.floor(now / 1_000);
  return {
    'webhook-id': id,
    'webhook-timestamp': String(timestamp),
    'webhook-signature': signBody(keys, id, timestamp, body),
  };
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
