import { type TSchema, Type } from '@sinclair/typebox';
import { RETRY_PRESETS, TXN_STATUSES, WEBHOOK_TYPES } from '../model/webhook.ts';

const literals = (values: readonly string[]): TSchema => Type.Union(values.map((value) => Type.Literal(value)));
const time = Type.String({ format: 'date-time' });
const orNull = (schema: TSchema): TSchema => Type.Union([schema, Type.Null()]);

export const errorReply = Type.Object({ error: Type.String(), code: Type.Integer() });
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
  reason: literals(['pruned', 'too_old', 'hole', 'manual']),
  detectedAt: time,
  status: literals(['open', 'filling', 'filled', 'abandoned']),
  filledTo: orNull(Type.Integer({ description: 'up to this slot it is filled' })),
  trouble: orNull(Type.String({ description: 'why it is not being filled' })),
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
