import { Type } from '@sinclair/typebox';
import { defineRoute, type Route } from '../../../src/plugin/plugin.ts';
import { json } from '../../../src/plugin/request.ts';
import { count, oneOf, orNull, text, time } from '../../../src/solana/schemas.ts';
import type { DeliveryQueue } from '../delivery/queue.ts';
import { failingHooks, healthViews, SHOWN_OFF_DAYS } from '../health.ts';
import { type ManageContext, webhookNotFound } from '../manage.ts';
import { isoTime } from '../model.ts';
import { findHook, listHooks } from '../store/hooks.ts';
import type { WebhookDb } from '../store/tables.ts';
import {
  BAD_REPLIES,
  COMMON,
  callerOf,
  DOCUMENTED_PATHS,
  FREE_PRICE,
  HOOK_REPLIES,
  healthReply,
  hookIdOf,
  hookParams,
  webhookID,
} from './common.ts';

interface HealthRouteParts {
  readonly context: ManageContext;
  readonly queue: DeliveryQueue;
}

/** Routes that say how deliveries go. */
export function healthRoutes(parts: HealthRouteParts): readonly Route[] {
  return [listRoute(parts), oneRoute(parts), failingRoute(parts)];
}

function listRoute({ context, queue }: HealthRouteParts): Route {
  return defineRoute({
    ...COMMON,
    method: 'GET',
    path: '/v0/webhooks/health',
    summary: 'Show how the deliveries of each webhook of the project go',
    price: FREE_PRICE,
    replies: {
      200: Type.Array(healthReply, { description: 'One entry per webhook, in the order of the list' }),
      ...BAD_REPLIES,
    },
    async handler(request) {
      const db = context.store.read as WebhookDb;
      const hooks = await listHooks(db, callerOf(request).projectId);
      return json(await healthViews(db, queue, hooks, context.clock.now()));
    },
  });
}

function oneRoute({ context, queue }: HealthRouteParts): Route {
  return defineRoute({
    ...COMMON,
    method: 'GET',
    path: '/v0/webhooks/:webhookID/health',
    summary: 'Show how the deliveries of a webhook go',
    price: FREE_PRICE,
    params: hookParams,
    ...DOCUMENTED_PATHS,
    replies: { 200: healthReply, ...HOOK_REPLIES },
    async handler(request) {
      const db = context.store.read as WebhookDb;
      const hook = await findHook(db, callerOf(request).projectId, hookIdOf(request));
      if (hook === null) throw webhookNotFound();
      const [view] = await healthViews(db, queue, [hook], context.clock.now());
      return json(view!);
    },
  });
}

const MAX_FAILING = 50;

export const failingReply = Type.Object({
  webhookID,
  project: text('Project that owns it', 'b5a3e1c2-7d64-4c0a-9e39-2f1f5a0d8c11'),
  name: orNull(text('Name for people', 'Deposits')),
  host: text('Host of the receiver; the rest of its address may contain a secret', 'example.org'),
  succeeded: count('Successful attempts of the last hour', 0),
  failed: count('Failed attempts of the last hour', 12),
  disabledReason: orNull(oneOf(['failure_rate', 'gone'], 'Why the daemon switched it off; null: it is on')),
  disabledAt: orNull(time('When it was switched off')),
});

function failingRoute({ context }: HealthRouteParts): Route {
  return defineRoute({
    tag: COMMON.tag,
    errors: COMMON.errors,
    auth: 'admin',
    method: 'GET',
    path: '/v0/admin/webhooks/failing',
    summary: `List webhooks of all projects that were switched off for their failures, the newest first, and failing ones, the most failed attempts first; at most ${MAX_FAILING}`,
    replies: {
      200: Type.Object(
        {
          webhooks: Type.Array(failingReply, { description: 'Failing webhooks' }),
        },
        {
          description: `Webhooks that the daemon switched off in the last ${SHOWN_OFF_DAYS} days, and those whose attempts of the last hour mostly failed`,
        },
      ),
    },
    async handler() {
      const failing = await failingHooks(context.store.read as WebhookDb, context.clock.now(), MAX_FAILING);
      return json({
        webhooks: failing.map(({ hook, attempts }) => ({
          webhookID: hook.id,
          project: hook.projectId,
          name: hook.name,
          host: new URL(hook.url).host,
          succeeded: attempts.ok,
          failed: attempts.failed,
          disabledReason: hook.disabledReason,
          disabledAt: hook.disabledAt === null ? null : isoTime(hook.disabledAt),
        })),
      });
    },
  });
}
