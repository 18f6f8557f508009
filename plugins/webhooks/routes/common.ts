import { type TSchema, Type } from '@sinclair/typebox';
import { encode32 } from '../../../src/lib/base58.ts';
import type { Caller, Price, Route } from '../../../src/plugin/plugin.ts';
import { RequestError, type RouteRequest } from '../../../src/plugin/request.ts';
import { ON_INACTIVE, RETRY_PRESETS, TXN_STATUSES, WEBHOOK_TYPES, type Webhook, webhookView } from '../model.ts';

const literals = (values: readonly string[]): TSchema => Type.Union(values.map((value) => Type.Literal(value)));
const time = Type.String({ format: 'date-time' });
const orNull = (schema: TSchema): TSchema => Type.Union([schema, Type.Null()]);

export const errorReply = Type.Object({ error: Type.String(), code: Type.Integer() });
/** Patterns of paths and bodies; the handlers validate them with their own texts. */
const PATHS = {
  webhookID: Type.String({ format: 'uuid', description: 'UUIDv4 of the webhook' }),
  deliveryId: Type.String({ pattern: '^[0-9]{1,15}$', description: 'id of the delivery' }),
};
const accountAddresses = Type.Array(Type.String({ pattern: '^[1-9A-HJ-NP-Za-km-z]{32,44}$' }), {
  description: 'base58',
});
const slot = Type.Integer({ minimum: 0 });
const instant = Type.Union([Type.Integer(), Type.String()], { description: 'Unix seconds, or a date and time' });
const hookFields = {
  webhookURL: Type.String({ format: 'uri' }),
  accountAddresses,
  transactionTypes: Type.Array(Type.String()),
  webhookType: literals(WEBHOOK_TYPES),
  authHeader: Type.String(),
  active: Type.Boolean(),
  txnStatus: literals(TXN_STATUSES),
  encoding: Type.String(),
  matchTokenOwners: Type.Boolean(),
  retryPreset: literals(RETRY_PRESETS),
  batchSize: Type.Integer({ minimum: 1 }),
  ordered: Type.Boolean(),
  onInactive: literals(ON_INACTIVE),
};
const { webhookURL, ...others } = hookFields;
const documented = (body: TSchema) => ({ documented: { params: PATHS, body } });

export const DOCUMENTED_PATHS = { documented: { params: PATHS } };
export const CREATE_BODY = documented(Type.Composite([Type.Object({ webhookURL }), Type.Partial(Type.Object(others))]));
export const EDIT_BODY = documented(Type.Partial(Type.Object(hookFields)));
export const TOGGLE_BODY = documented(Type.Object({ active: Type.Boolean() }));
export const ADDRESSES_BODY = documented(Type.Object({ accountAddresses }));
export const ROTATE_BODY = documented(
  Type.Object({ overlapSeconds: Type.Optional(Type.Integer({ minimum: 0, maximum: 604_800 })) }),
);
export const NO_FIELDS_BODY = documented(Type.Object({}));
export const RECOVER_BODY = documented(Type.Object({ since: instant, until: Type.Optional(instant) }));
export const REPLAY_BODY = documented(
  Type.Union([
    Type.Object({
      since: instant,
      until: Type.Optional(instant),
      status: Type.Optional(literals(['failed', 'discarded', 'all'])),
    }),
    Type.Object({ fromSlot: slot, toSlot: slot, force: Type.Optional(Type.Boolean()) }),
  ]),
);

export const hookParams = Type.Object({ webhookID: Type.String({ description: 'UUIDv4 of the webhook' }) });
export const deliveryParams = Type.Object({
  webhookID: Type.String({ description: 'UUIDv4 of the webhook' }),
  deliveryId: Type.String({ description: 'id of the delivery' }),
});

export const webhookReply = Type.Object({
  webhookID: Type.String(),
  project: Type.String(),
  wallet: Type.String(),
  webhookURL: Type.String(),
  transactionTypes: Type.Array(Type.String()),
  accountAddresses: Type.Array(Type.String()),
  webhookType: literals(WEBHOOK_TYPES),
  authHeader: Type.String(),
  active: Type.Boolean(),
  addressCount: Type.Integer(),
  txnStatus: literals(TXN_STATUSES),
  encoding: Type.Optional(Type.String()),
  matchTokenOwners: Type.Boolean(),
  retryPreset: literals(RETRY_PRESETS),
  batchSize: Type.Integer(),
  ordered: Type.Boolean(),
  onInactive: Type.String(),
  disabledReason: Type.Optional(Type.String()),
  disabledAt: Type.Optional(time),
  graceUntil: Type.Optional(time),
  signingSecret: Type.Optional(Type.String({ description: 'only in the answer of create' })),
});

export const gapReply = Type.Object({
  id: Type.String(),
  network: literals(['main', 'devnet']),
  fromSlot: Type.Integer(),
  toSlot: Type.Integer({ description: 'inclusive' }),
  reason: literals(['pruned', 'too_old', 'hole', 'manual', 'skipped']),
  detectedAt: time,
  status: literals(['open', 'filling', 'filled', 'abandoned']),
  filledTo: orNull(Type.Integer({ description: 'it is filled up to this slot' })),
  trouble: orNull(Type.String({ description: 'why it is not being filled' })),
});

export const missedReply = Type.Object({
  network: literals(['main', 'devnet']),
  fromSlot: Type.Integer(),
  toSlot: Type.Integer({ description: 'inclusive; a replay of the range delivers its events' }),
  events: Type.Integer({
    description: 'number of events that were not stored; events of a block that was read twice count twice',
  }),
  reason: literals(['queue_full', 'plan_full']),
  since: time,
});

export const deliveryReply = Type.Object({
  deliveryId: Type.String(),
  webhookID: Type.String(),
  status: literals(['pending', 'delivered', 'failed', 'discarded']),
  signature: Type.String(),
  slot: Type.Integer(),
  createdAt: time,
  nextAttemptAt: orNull(time),
  reason: orNull(Type.String({ description: 'of the last failure, or why it was discarded' })),
  attempts: Type.Array(
    Type.Object({
      attempt: Type.Integer(),
      at: time,
      durationMs: Type.Integer(),
      statusCode: orNull(Type.Integer()),
      failure: orNull(Type.String()),
      responseBody: orNull(Type.String()),
    }),
  ),
  body: Type.Optional(Type.Unknown({ description: 'the request body; only for a single delivery' })),
});

const WRITE_CREDITS = 100;

/** Create and edit. */
export const WRITE_PRICE: Price = { product: 'webhooks', credits: WRITE_CREDITS, groups: ['das'] };
/** Switching and deletion: a project without credits must be able to end its costs. */
export const END_PRICE: Price = { ...WRITE_PRICE, neverRefused: true };
/** Reading and delivery operations. */
export const FREE_PRICE: Price = { product: 'webhooks', credits: 0, groups: ['das'] };

/** Common members of all routes of this plugin. */
export const COMMON = { tag: 'Webhooks', auth: 'key', errors: 'plain' } as const satisfies Partial<Route>;

export const BAD_REPLIES = { 400: errorReply, 401: errorReply, 429: errorReply } as const;
export const HOOK_REPLIES = { ...BAD_REPLIES, 404: errorReply } as const;

export function callerOf(request: Pick<RouteRequest, 'caller'>): Caller {
  // The gate refuses calls without a key.
  if (request.caller === null) throw new RequestError(401, 'Invalid API key');
  return request.caller;
}

const UUID_V4 = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

export function hookIdOf({ params }: { readonly params: { readonly webhookID: string } }): string {
  const id = params.webhookID.toLowerCase();
  if (!UUID_V4.test(id)) throw new RequestError(400, 'webhookID must be a UUID');
  return id;
}

/** The response object of a webhook. */
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
