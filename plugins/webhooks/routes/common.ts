import type { Caller, Price, Route } from '../../../src/kernel/plugin.ts';
import { RequestError, type RouteRequest } from '../../../src/kernel/request.ts';
import { encode32 } from '../../../src/lib/base58.ts';
import { webhookView } from '../model/view.ts';
import type { Webhook } from '../model/webhook.ts';
import { errorReply } from './schemas.ts';

const WRITE_CREDITS = 100;

/** Create and edit. */
export const WRITE_PRICE: Price = { product: 'webhooks', credits: WRITE_CREDITS, groups: ['das'] };
/** Switching and deletion: whoever ran out of credits must be able to end what costs them. */
export const END_PRICE: Price = { ...WRITE_PRICE, neverRefused: true };
/** Reading and delivery operations. */
export const FREE_PRICE: Price = { product: 'webhooks', credits: 0, groups: ['das'] };

/** What all routes of this plugin share. */
export const COMMON = { tag: 'Webhooks', auth: 'key', errors: 'plain' } as const satisfies Partial<Route>;

export const BAD_REPLIES = { 400: errorReply, 401: errorReply, 429: errorReply } as const;
export const HOOK_REPLIES = { ...BAD_REPLIES, 404: errorReply } as const;

export function callerOf(request: Pick<RouteRequest, 'caller'>): Caller {
  // The gate lets nobody through without a key.
  if (request.caller === null) throw new RequestError(401, 'Invalid API key');
  return request.caller;
}

const UUID_V4 = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

export function hookIdOf({ params }: { readonly params: { readonly webhookID: string } }): string {
  const id = params.webhookID.toLowerCase();
  if (!UUID_V4.test(id)) throw new RequestError(400, 'webhookID must be a UUID');
  return id;
}

/** The object of an answer. */
export function viewOf(
  hook: Webhook,
  addresses: readonly Uint8Array[],
  caller: Caller,
  now: number,
): Record<string, unknown> {
  return webhookView(
    hook,
    addresses.map((key) => encode32(key)),
    caller.wallet,
    now,
  );
}
