import { Type } from '@sinclair/typebox';
import { defineRoute, type Route } from '../../../src/kernel/plugin.ts';
import { json } from '../../../src/kernel/request.ts';
import type { BodyBuilder } from '../bodies/builder.ts';
import type { Send } from '../delivery/send.ts';
import { sendTestEvent } from '../delivery/test-event.ts';
import { type ManageContext, notFound } from '../manage/context.ts';
import { findHook } from '../store/hooks.ts';
import type { Db } from '../store/tables.ts';
import { COMMON, callerOf, FREE_PRICE, HOOK_REPLIES, hookIdOf } from './common.ts';
import { hookParams } from './schemas.ts';

export function testEventRoute(context: ManageContext, send: Send, builder: BodyBuilder): Route {
  const orNull = (schema: ReturnType<typeof Type.String> | ReturnType<typeof Type.Integer>) =>
    Type.Union([schema, Type.Null()]);
  return defineRoute({
    ...COMMON,
    method: 'POST',
    path: '/v0/webhooks/:webhookID/test',
    summary: 'Send one made-up event to a webhook and say what came back',
    price: FREE_PRICE,
    params: hookParams,
    body: Type.Unknown(),
    bodyOptional: true,
    replies: {
      200: Type.Object({
        deliveryId: Type.String(),
        delivered: Type.Boolean(),
        statusCode: orNull(Type.Integer()),
        durationMs: Type.Integer(),
        failure: orNull(Type.String()),
      }),
      ...HOOK_REPLIES,
    },
    async handler(request) {
      const { store, clock, random } = context;
      const hook = await findHook(store.read as Db, callerOf(request).projectId, hookIdOf(request));
      if (hook === null) throw notFound();
      return json(await sendTestEvent({ store, clock, random, send, builder }, hook, request.signal));
    },
  });
}
