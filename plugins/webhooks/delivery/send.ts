import type { Clock } from '../../../src/ports/clock.ts';
import type { OutboundClient, OutboundRequest, OutboundResponse } from '../../../src/ports/outbound.ts';
import type { WebhooksConfig } from '../config.ts';
import { isoTime } from '../model/view.ts';
import { chainOf, type Webhook } from '../model/webhook.ts';
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

const KEPT_BYTES = 4_096;
const READ_BYTES = 65_536;
/** A connection that fails sooner than this was probably a stale one. */
const AT_ONCE_MS = 1_000;

export interface SendParts {
  readonly client: OutboundClient;
  readonly clock: Clock;
  readonly config: WebhooksConfig;
  /** Of the daemon, for `User-Agent`. */
  readonly version: string;
}

export function createSend({ client, clock, config, version }: SendParts): Send {
  const userAgent = `parhelion-webhooks/${version}`;

  return async (hook, keys, message, signal) => {
    const startedAt = clock.now();
    const begin = clock.monotonic();
    const timestamp = Math.floor(startedAt / 1_000);
    const headers: Record<string, string> = {
      'content-type': 'application/json',
      'user-agent': userAgent,
      'webhook-id': message.id,
      'webhook-timestamp': String(timestamp),
      'webhook-signature': signBody(keys, message.id, timestamp, message.body),
      'x-parhelion-webhook': hook.id,
      'x-parhelion-attempt': String(message.attempt),
      'x-parhelion-network': chainOf(hook.type) === 'devnet' ? 'devnet' : 'mainnet',
      'x-parhelion-created-at': isoTime(message.createdAt),
    };
    if (hook.authHeader !== null) headers.authorization = hook.authHeader;
    if (message.test) headers['x-parhelion-test'] = 'true';
    const request: OutboundRequest = {
      method: 'POST',
      url: hook.url,
      headers,
      body: message.body,
      timeoutMs: config.retry[hook.retryPreset].timeoutMs,
      keepBytes: KEPT_BYTES,
      maxBytes: READ_BYTES,
      bodyOptional: true,
      ...(signal === undefined ? {} : { signal }),
    };
    const verdict = await requestOnce(client, request, () =>
      hook.retryPreset === 'durable' ? clock.monotonic() - begin : Number.POSITIVE_INFINITY,
    );
    return { verdict, startedAt, durationMs: Math.round(clock.monotonic() - begin) };
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
