import { Type } from '@sinclair/typebox';
import { defineRoute, type Route } from '../../../src/kernel/plugin.ts';
import { empty, json, RequestError } from '../../../src/kernel/request.ts';
import { busyPrograms } from '../input/busy-addresses.ts';
import { type ManageContext, notFound } from '../manage/context.ts';
import { createHook } from '../manage/create.ts';
import { editHook, toggleHook } from '../manage/edit.ts';
import { removeHook } from '../manage/remove.ts';
import { readAddresses, readFirstAddresses } from '../store/addresses.ts';
import { findHook, listHooks } from '../store/hooks.ts';
import type { Db } from '../store/tables.ts';
import {
  BAD_REPLIES,
  COMMON,
  callerOf,
  END_PRICE,
  FREE_PRICE,
  HOOK_REPLIES,
  hookIdOf,
  viewOf,
  WRITE_PRICE,
} from './common.ts';
import { errorReply, hookParams, webhookReply } from './schemas.ts';

const COLLECTION = '/v0/webhooks';
const ONE = '/v0/webhooks/:webhookID';
/** The list shows no more addresses than this per webhook; the single webhook shows all. */
const LISTED_ADDRESSES = 100;

/** The routes that manage webhooks themselves. */
export function hookRoutes(context: ManageContext): readonly Route[] {
  return [
    createRoute(context),
    listRoute(context),
    getRoute(context),
    editRoute(context),
    toggleRoute(context),
    removeRoute(context),
  ];
}

function createRoute(context: ManageContext): Route {
  return defineRoute({
    ...COMMON,
    method: 'POST',
    path: COLLECTION,
    summary: 'Create a webhook',
    price: WRITE_PRICE,
    bodyLimitBytes: context.config.bodyLimitBytes,
    body: Type.Unknown(),
    replies: { 200: webhookReply, ...BAD_REPLIES, 413: errorReply },
    async handler(request) {
      const caller = callerOf(request);
      const { hook, addresses, signingSecret } = await createHook(context, caller, request.body);
      request.log.info({ webhook: hook.id, addresses: addresses.length }, 'webhook created');
      const programs = busyPrograms(addresses);
      if (programs.length > 0) request.log.warn({ webhook: hook.id, programs }, 'a webhook watches most of the chain');
      return json({ ...viewOf(hook, addresses, caller, context.clock.now()), signingSecret });
    },
  });
}

function listRoute({ store, clock }: ManageContext): Route {
  return defineRoute({
    ...COMMON,
    method: 'GET',
    path: COLLECTION,
    summary: `List the project's webhooks, each with at most its first ${LISTED_ADDRESSES} addresses`,
    price: FREE_PRICE,
    replies: { 200: Type.Array(webhookReply), ...BAD_REPLIES },
    async handler(request) {
      const caller = callerOf(request);
      const db = store.read as Db;
      const hooks = await listHooks(db, caller.projectId);
      const numbers = hooks.map(({ number }) => number);
      const addresses = await readFirstAddresses(db, numbers, LISTED_ADDRESSES);
      return json(hooks.map((hook) => viewOf(hook, addresses.get(hook.number) ?? [], caller, clock.now())));
    },
  });
}

function getRoute({ store, clock }: ManageContext): Route {
  return defineRoute({
    ...COMMON,
    method: 'GET',
    path: ONE,
    summary: 'Read a webhook with all its addresses',
    price: FREE_PRICE,
    params: hookParams,
    replies: { 200: webhookReply, ...HOOK_REPLIES },
    async handler(request) {
      const caller = callerOf(request);
      const db = store.read as Db;
      const hook = await findHook(db, caller.projectId, hookIdOf(request));
      if (hook === null) throw notFound();
      const addresses = await readAddresses(db, hook.number);
      // The list is what counts, should a write have come in between.
      return json(viewOf({ ...hook, addressCount: addresses.length }, addresses, caller, clock.now()));
    },
  });
}

function editRoute(context: ManageContext): Route {
  return defineRoute({
    ...COMMON,
    method: 'PUT',
    path: ONE,
    summary: 'Edit a webhook: fields that are not sent keep their values',
    price: WRITE_PRICE,
    bodyLimitBytes: context.config.bodyLimitBytes,
    params: hookParams,
    body: Type.Unknown(),
    replies: { 200: webhookReply, ...HOOK_REPLIES, 413: errorReply },
    async handler(request) {
      const caller = callerOf(request);
      const { hook, addresses } = await editHook(context, caller.projectId, hookIdOf(request), request.body);
      return json(viewOf(hook, addresses, caller, context.clock.now()));
    },
  });
}

function toggleRoute(context: ManageContext): Route {
  return defineRoute({
    ...COMMON,
    method: 'PATCH',
    path: ONE,
    summary: 'Switch a webhook on or off',
    price: END_PRICE,
    bodyLimitBytes: context.config.bodyLimitBytes,
    params: hookParams,
    body: Type.Unknown(),
    replies: { 200: webhookReply, ...HOOK_REPLIES, 413: errorReply },
    async handler(request) {
      const caller = callerOf(request);
      const id = hookIdOf(request);
      const active = (request.body as { active?: unknown } | null)?.active;
      if (typeof active !== 'boolean') throw new RequestError(400, 'active must be a boolean');
      const { hook, addresses } = await toggleHook(context, caller.projectId, id, active);
      return json(viewOf(hook, addresses, caller, context.clock.now()));
    },
  });
}

function removeRoute(context: ManageContext): Route {
  return defineRoute({
    ...COMMON,
    method: 'DELETE',
    path: ONE,
    summary: 'Delete a webhook; the answer has no body',
    price: END_PRICE,
    params: hookParams,
    replies: { 200: Type.Undefined(), ...HOOK_REPLIES },
    async handler(request) {
      const id = hookIdOf(request);
      await removeHook(context, callerOf(request).projectId, id);
      request.log.info({ webhook: id }, 'webhook deleted');
      return empty();
    },
  });
}
