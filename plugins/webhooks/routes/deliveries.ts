import { Type } from '@sinclair/typebox';
import { stringify } from '../../../src/lib/json.ts';
import { defineRoute, type Route } from '../../../src/plugin/plugin.ts';
import { JsonText, json, RequestError } from '../../../src/plugin/request.ts';
import type { AccessCharges } from '../../../src/ports/access.ts';
import { oneOf } from '../../../src/solana/schemas.ts';
import { wrapElement } from '../bodies.ts';
import type { DeliveryQueue } from '../delivery/queue.ts';
import { resendDelivery } from '../delivery/resend.ts';
import { describeHeaders, messageId } from '../delivery/send.ts';
import { type ManageContext, webhookNotFound } from '../manage.ts';
import { DELIVERY_STATUSES, type Delivery, isoTime, type NetworkOf, type Webhook } from '../model.ts';
import {
  batchOfDelivery,
  elementKey,
  readAttempts,
  readElements,
  readTypes,
  type StoredAttempt,
} from '../store/deliveries.ts';
import { findHook } from '../store/hooks.ts';
import { type MissedRange, readMissed } from '../store/missed.ts';
import type { WebhookDb } from '../store/tables.ts';
import {
  COMMON,
  callerOf,
  DOCUMENTED_PATHS,
  deliveryId,
  deliveryParams,
  deliveryReply,
  errorReply,
  FREE_PRICE,
  HOOK_REPLIES,
  hookIdOf,
  hookParams,
  ignoredBody,
  missedReply,
  pageReply,
} from './common.ts';

const MAX_LIMIT = 100;
const DEFAULT_LIMIT = 50;

interface DeliveryRouteParts {
  readonly context: ManageContext;
  readonly queue: DeliveryQueue;
  readonly charges: AccessCharges | null;
  readonly userAgent: string;
  readonly networkOf: NetworkOf;
}

/** Routes that read deliveries and resend one. */
export function deliveryRoutes(parts: DeliveryRouteParts): readonly Route[] {
  return [listRoute(parts), getRoute(parts), ...resendRoutes(parts)];
}

async function hookOf({ store }: ManageContext, projectId: string, id: string): Promise<Webhook> {
  const hook = await findHook(store.read as WebhookDb, projectId, id);
  if (hook === null) throw webhookNotFound();
  return hook;
}

async function deliveryOf(queue: DeliveryQueue, hook: Webhook, text: string): Promise<Delivery> {
  const id = /^\d{1,15}$/.test(text) ? Number(text) : null;
  const delivery = id === null ? null : await queue.get(hook.id, id);
  if (delivery === null) throw new RequestError(404, 'delivery not found');
  return delivery;
}

function listRoute({ context, queue }: DeliveryRouteParts): Route {
  return defineRoute({
    ...COMMON,
    method: 'GET',
    path: '/v0/webhooks/:webhookID/deliveries',
    summary: 'List deliveries, newest first',
    price: FREE_PRICE,
    params: hookParams,
    ...DOCUMENTED_PATHS,
    query: Type.Object({
      limit: Type.Integer({
        minimum: 1,
        maximum: MAX_LIMIT,
        default: DEFAULT_LIMIT,
        description: 'Deliveries of a page',
      }),
      cursor: Type.Optional(
        Type.String({ pattern: '^\\d{1,15}$', description: '`nextCursor` of the page before', examples: ['1041'] }),
      ),
      signature: Type.Optional(
        Type.String({
          pattern: '^[1-9A-HJ-NP-Za-km-z]{64,88}$',
          description: 'Only the delivery of this transaction',
          examples: ['5h6xBEauJ3PK6SWCZ1PGjBvj8vDdWG3KpwATGy1ARAXFSDwt8GFXM7W5Ncn16wmqokgpiKRLuS83KUxyZyv2sUYv'],
        }),
      ),
      status: Type.Optional(oneOf(DELIVERY_STATUSES, 'Only deliveries in this state', 'failed')),
    }),
    replies: {
      200: Type.Object(
        {
          data: Type.Array(deliveryReply, { description: 'Deliveries, newest first' }),
          missed: Type.Array(missedReply, { description: 'Ranges whose events were not stored' }),
          pagination: pageReply,
        },
        { description: 'A page of deliveries' },
      ),
      ...HOOK_REPLIES,
    },
    async handler(request) {
      const hook = await hookOf(context, callerOf(request).projectId, hookIdOf(request));
      const { limit, cursor, status, signature = null } = request.query;
      const before = cursor === undefined ? null : Number(cursor);
      const page = await queue.list(hook.id, { status: status ?? null, before, limit: limit + 1, signature });
      const shown = page.slice(0, limit);
      const attempts = await readAttempts(
        context.store.read as WebhookDb,
        shown.map(({ id }) => id),
      );
      const types = await readTypes(
        context.store,
        shown.map(({ payload }) => payload),
      );
      const hasMore = page.length > limit;
      return json({
        data: shown.map((delivery) => ({
          ...deliveryView(delivery, (attempts.get(delivery.id) ?? []).map(attemptView)),
          type: typeOf(delivery, types),
        })),
        missed: (await readMissed(context.store.read as WebhookDb, hook.number)).map(missedView),
        pagination: { hasMore, nextCursor: hasMore ? String(shown.at(-1)?.id) : null },
      });
    },
  });
}

function getRoute({ context, queue, userAgent, networkOf }: DeliveryRouteParts): Route {
  return defineRoute({
    ...COMMON,
    method: 'GET',
    path: '/v0/webhooks/:webhookID/deliveries/:deliveryId',
    summary: 'Read one delivery with its attempts and its body',
    price: FREE_PRICE,
    params: deliveryParams,
    ...DOCUMENTED_PATHS,
    replies: { 200: deliveryReply, ...HOOK_REPLIES },
    async handler(request) {
      const hook = await hookOf(context, callerOf(request).projectId, hookIdOf(request));
      const delivery = await deliveryOf(queue, hook, request.params.deliveryId);
      const db = context.store.read as WebhookDb;
      const attempts = await readAttempts(db, [delivery.id]);
      const blobs = await readElements(context.store, [delivery.payload]);
      const element = blobs.get(elementKey(delivery.payload));
      const common = await requestOf(db, queue, hook, delivery);
      const shown = (attempts.get(delivery.id) ?? []).map((attempt) => ({
        ...attemptView(attempt),
        ...(attempt.responseHeaders === null ? {} : { responseHeaders: attempt.responseHeaders }),
        requestHeaders: describeHeaders(hook, { ...common, attempt: attempt.n }, attempt.startedAt, {
          userAgent,
          networkOf,
        }),
      }));
      const type = typeOf(delivery, await readTypes(context.store, [delivery.payload]));
      const head = stringify({ ...deliveryView(delivery, shown), type });
      // The element is JSON text and is inserted as it was sent.
      return json(
        new JsonText(
          element === undefined ? head : `${head.slice(0, -1)},"body":${wrapElement(delivery.payload.form, element)}}`,
        ),
      );
    },
  });
}

const typeOf = ({ payload }: Delivery, types: ReadonlyMap<string, string>): string | null =>
  types.get(elementKey(payload)) ?? null;

/** What the requests of a delivery have in common: those of a batch carry the id of all its events, and the time of its leader. */
async function requestOf(db: WebhookDb, queue: DeliveryQueue, hook: Webhook, delivery: Delivery) {
  const batch = await batchOfDelivery(db, delivery.id);
  const leader = batch === null || batch.leaderId === delivery.id ? delivery : await queue.get(hook.id, batch.leaderId);
  const { payload, createdAt } = leader ?? delivery;
  const signatures = [payload.signature, ...(batch?.members ?? []).map((member) => member.payload.signature)];
  return { id: messageId(hook.id, signatures.join(',')), createdAt };
}

function resendRoutes({ context, queue, charges }: DeliveryRouteParts): readonly Route[] {
  return ['replay', 'resend'].map((word) =>
    defineRoute({
      ...COMMON,
      method: 'POST',
      path: `/v0/webhooks/:webhookID/deliveries/:deliveryId/${word}`,
      summary: 'Send a delivery again, or a waiting one now, with the same webhook-id',
      price: FREE_PRICE,
      params: deliveryParams,
      ...DOCUMENTED_PATHS,
      body: ignoredBody,
      bodyOptional: true,
      replies: {
        202: Type.Object({ deliveryId, status: Type.Literal('pending') }, { description: 'It is attempted now' }),
        ...HOOK_REPLIES,
        409: errorReply,
      },
      async handler(request) {
        const hook = await hookOf(context, callerOf(request).projectId, hookIdOf(request));
        const delivery = await deliveryOf(queue, hook, request.params.deliveryId);
        await resendDelivery({ store: context.store, queue, charges }, hook, delivery);
        return json({ deliveryId: String(delivery.id), status: 'pending' }, 202);
      },
    }),
  );
}

/** Missed ranges as the API shows them. */
const missedView = ({ chain, fromSlot, toSlot, events, reason, since }: MissedRange) => ({
  network: chain,
  fromSlot,
  toSlot,
  events,
  reason,
  since: isoTime(since),
});

/** A delivery as the API shows it. */
function deliveryView(delivery: Delivery, attempts: readonly Record<string, unknown>[]): Record<string, unknown> {
  return {
    deliveryId: String(delivery.id),
    webhookID: delivery.webhookId,
    status: delivery.status,
    signature: delivery.payload.signature,
    slot: delivery.payload.slot,
    createdAt: isoTime(delivery.createdAt),
    nextAttemptAt: delivery.nextAttemptAt === null ? null : isoTime(delivery.nextAttemptAt),
    reason: delivery.error,
    attempts,
  };
}

const attemptView = (attempt: StoredAttempt): Record<string, unknown> => ({
  attempt: attempt.n,
  at: isoTime(attempt.startedAt),
  durationMs: attempt.durationMs,
  statusCode: attempt.status,
  failure: attempt.failure,
  // Bytes that are not UTF-8 become replacement characters.
  responseBody: attempt.excerpt === null ? null : new TextDecoder().decode(attempt.excerpt),
});
