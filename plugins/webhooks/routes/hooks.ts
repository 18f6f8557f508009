import { Type } from '@sinclair/typebox';
import { defineRoute, type Route } from '../../../src/plugin/plugin.ts';
import { empty, json, RequestError } from '../../../src/plugin/request.ts';
import { count, flag, orNull, text, time } from '../../../src/solana/schemas.ts';
import type { BodyBuilder } from '../bodies.ts';
import type { SendDelivery } from '../delivery/send.ts';
import { sendTestEvent, type TestEventParts } from '../delivery/test-event.ts';
import { busyPrograms, parseAddresses, parseInput } from '../input.ts';
import {
  addAddresses,
  createHook,
  dropAddresses,
  editHook,
  type ManageContext,
  removeHook,
  rotateSecret,
  toggleHook,
  webhookNotFound,
} from '../manage.ts';
import { isoTime } from '../model.ts';
import { findHook, listHooks, readAddresses, readFirstAddresses } from '../store/hooks.ts';
import type { WebhookDb } from '../store/tables.ts';
import {
  addressesBody,
  BAD_REPLIES,
  COMMON,
  callerOf,
  createBody,
  DOCUMENTED_PATHS,
  END_PRICE,
  editBody,
  errorReply,
  FREE_PRICE,
  HOOK_REPLIES,
  hookIdOf,
  hookParams,
  ignoredBody,
  rotateBody,
  toggleBody,
  WRITE_PRICE,
  webhookID,
  webhookReply,
  webhookViewOf,
} from './common.ts';

const COLLECTION = '/v0/webhooks';
const ONE = '/v0/webhooks/:webhookID';
/** The list shows at most this many addresses per webhook; a single webhook shows all. */
const LISTED_ADDRESSES = 100;

/** The routes that manage webhooks. */
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
    get bodyLimitBytes() {
      return context.config.bodyLimitBytes;
    },
    body: createBody,
    explain: (body) => demandUrl(parseInput(body, context.rules)),
    replies: { 200: webhookReply, ...BAD_REPLIES, 413: errorReply },
    async handler(request) {
      const caller = callerOf(request);
      const { hook, addresses, signingSecret } = await createHook(context, caller, request.body);
      request.log.info({ webhook: hook.id, addresses: addresses.length }, 'webhook created');
      const programs = busyPrograms(addresses);
      if (programs.length > 0) request.log.warn({ webhook: hook.id, programs }, 'a webhook watches most of the chain');
      return json({ ...webhookViewOf(hook, addresses, caller, context.clock.now()), signingSecret });
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
    replies: { 200: Type.Array(webhookReply, { description: 'The webhooks of the project' }), ...BAD_REPLIES },
    async handler(request) {
      const caller = callerOf(request);
      const db = store.read as WebhookDb;
      const hooks = await listHooks(db, caller.projectId);
      const numbers = hooks.map(({ number }) => number);
      const addresses = await readFirstAddresses(db, numbers, LISTED_ADDRESSES);
      return json(hooks.map((hook) => webhookViewOf(hook, addresses.get(hook.number) ?? [], caller, clock.now())));
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
    ...DOCUMENTED_PATHS,
    replies: { 200: webhookReply, ...HOOK_REPLIES },
    async handler(request) {
      const caller = callerOf(request);
      const db = store.read as WebhookDb;
      const hook = await findHook(db, caller.projectId, hookIdOf(request));
      if (hook === null) throw webhookNotFound();
      const addresses = await readAddresses(db, hook.number);
      // The list decides, in case of a concurrent write.
      return json(webhookViewOf({ ...hook, addressCount: addresses.length }, addresses, caller, clock.now()));
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
    get bodyLimitBytes() {
      return context.config.bodyLimitBytes;
    },
    params: hookParams,
    ...DOCUMENTED_PATHS,
    body: editBody,
    explain: (body) => parseInput(body, context.rules),
    replies: { 200: webhookReply, ...HOOK_REPLIES, 413: errorReply },
    async handler(request) {
      const caller = callerOf(request);
      const { hook, addresses } = await editHook(context, caller.projectId, hookIdOf(request), request.body);
      return json(webhookViewOf(hook, addresses, caller, context.clock.now()));
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
    get bodyLimitBytes() {
      return context.config.bodyLimitBytes;
    },
    params: hookParams,
    ...DOCUMENTED_PATHS,
    body: toggleBody,
    explain: demandActive,
    replies: { 200: webhookReply, ...HOOK_REPLIES, 413: errorReply },
    async handler(request) {
      const caller = callerOf(request);
      const id = hookIdOf(request);
      const { active } = request.body;
      if (active && request.isUnpaid === true) throw withoutCredits();
      const { hook, addresses } = await toggleHook(context, caller.projectId, id, active);
      return json(webhookViewOf(hook, addresses, caller, context.clock.now()));
    },
  });
}

function removeRoute(context: ManageContext): Route {
  return defineRoute({
    ...COMMON,
    method: 'DELETE',
    path: ONE,
    summary: 'Delete a webhook',
    price: END_PRICE,
    params: hookParams,
    ...DOCUMENTED_PATHS,
    replies: { 200: Type.Undefined({ description: 'It was deleted; the response has no body' }), ...HOOK_REPLIES },
    async handler(request) {
      const id = hookIdOf(request);
      await removeHook(context, callerOf(request).projectId, id);
      request.log.info({ webhook: id }, 'webhook deleted');
      return empty();
    },
  });
}

function demandUrl({ url }: { readonly url?: string }): void {
  if (url === undefined) throw new RequestError(400, 'webhookURL is required');
}

function demandActive(body: unknown): void {
  if (typeof (body as { active?: unknown } | null)?.active !== 'boolean')
    throw new RequestError(400, 'active must be a boolean');
}

/** Only switching off is never refused; the gate cannot distinguish it from switching on. */
const withoutCredits = () =>
  new RequestError(429, 'max usage reached', { details: 'Credits of this cycle are used up', retryAfterS: 3_600 });

const MAX_OVERLAP_SECONDS = 604_800;

export function rotateRoute(context: ManageContext): Route {
  return defineRoute({
    ...COMMON,
    method: 'POST',
    path: '/v0/webhooks/:webhookID/secret/rotate',
    summary: 'Give a webhook a new signing secret; the old one also signs until it expires',
    price: FREE_PRICE,
    params: hookParams,
    ...DOCUMENTED_PATHS,
    body: rotateBody,
    explain: (body) => overlapOf(body, 0),
    bodyOptional: true,
    replies: {
      200: Type.Object(
        {
          signingSecret: text('The new secret', 'whsec_c2VjcmV0LW9mLXRoaXMtd2ViaG9vaw=='),
          previousExpiresAt: time('Until then the old secret also signs'),
        },
        { description: 'The new secret' },
      ),
      ...HOOK_REPLIES,
    },
    async handler(request) {
      const id = hookIdOf(request);
      const overlapSeconds = overlapOf(request.body, context.config.secret.overlapSeconds);
      const rotation = await rotateSecret(context, callerOf(request).projectId, id, overlapSeconds);
      request.log.info({ webhook: id }, 'signing secret rotated');
      return json({
        signingSecret: rotation.signingSecret,
        previousExpiresAt: isoTime(rotation.previousExpiresAt),
      });
    },
  });
}

function overlapOf(body: unknown, standard: number): number {
  const given = (body as { overlapSeconds?: unknown } | null | undefined)?.overlapSeconds;
  if (given === undefined || given === null) return standard;
  if (typeof given !== 'number' || !Number.isInteger(given) || given < 0 || given > MAX_OVERLAP_SECONDS) {
    throw new RequestError(400, `overlapSeconds must be an integer from 0 to ${MAX_OVERLAP_SECONDS}`);
  }
  return given;
}

export function testEventRoute(
  context: ManageContext,
  send: SendDelivery,
  { bodies: builder, parsed }: Pick<TestEventParts, 'parsed'> & { readonly bodies: BodyBuilder },
): Route {
  return defineRoute({
    ...COMMON,
    method: 'POST',
    path: '/v0/webhooks/:webhookID/test',
    summary: 'Send a test event to a webhook and return the response of the receiver',
    price: FREE_PRICE,
    params: hookParams,
    ...DOCUMENTED_PATHS,
    body: ignoredBody,
    bodyOptional: true,
    replies: {
      200: Type.Object(
        {
          deliveryId: text('Id of the test event', 'test_5e1a3c1e'),
          delivered: flag('Whether the receiver accepted it', true),
          statusCode: orNull(Type.Integer({ description: 'Status of the response of the receiver', examples: [200] })),
          durationMs: count('Milliseconds until the response', 84),
          failure: orNull(text('Why it failed', 'timeout')),
        },
        { description: 'How the receiver answered' },
      ),
      ...HOOK_REPLIES,
    },
    async handler(request) {
      const { store, clock, random } = context;
      const hook = await findHook(store.read as WebhookDb, callerOf(request).projectId, hookIdOf(request));
      if (hook === null) throw webhookNotFound();
      return json(await sendTestEvent({ store, clock, random, send, builder, parsed }, hook, request.signal));
    },
  });
}

const PATH = '/v0/webhooks/:webhookID/addresses';

/** Routes that add and remove addresses without sending the whole list. */
export function addressRoutes(context: ManageContext): readonly Route[] {
  const add = defineRoute({
    ...COMMON,
    path: PATH,
    price: WRITE_PRICE,
    get bodyLimitBytes() {
      return context.config.bodyLimitBytes;
    },
    params: hookParams,
    ...DOCUMENTED_PATHS,
    body: addressesBody,
    explain: addressesOf,
    method: 'POST',
    summary: 'Add addresses to a webhook',
    replies: {
      200: Type.Object(
        {
          webhookID,
          added: count('Addresses that were added'),
          alreadyPresent: count('Addresses that it already watched', 0),
          addressCount: count('Addresses that it watches now'),
        },
        { description: 'What was added' },
      ),
      ...HOOK_REPLIES,
      413: errorReply,
    },
    async handler(request) {
      const keys = addressesOf(request.body);
      const done = await addAddresses(context, callerOf(request).projectId, hookIdOf(request), keys);
      const { webhookID, changed, unchanged, addressCount } = done;
      return json({ webhookID, added: changed, alreadyPresent: unchanged, addressCount });
    },
  });
  const remove = defineRoute({
    ...COMMON,
    path: PATH,
    price: WRITE_PRICE,
    get bodyLimitBytes() {
      return context.config.bodyLimitBytes;
    },
    params: hookParams,
    ...DOCUMENTED_PATHS,
    body: addressesBody,
    explain: addressesOf,
    method: 'DELETE',
    summary: 'Remove addresses from a webhook',
    bodyOptional: true,
    replies: {
      200: Type.Object(
        {
          webhookID,
          removed: count('Addresses that were removed'),
          notPresent: count('Addresses that it did not watch', 0),
          addressCount: count('Addresses that it watches now', 0),
        },
        { description: 'What was removed' },
      ),
      ...HOOK_REPLIES,
      413: errorReply,
    },
    async handler(request) {
      // Some proxies strip the body of a DELETE: an empty body must not mean "all".
      const keys = addressesOf(request.body);
      const done = await dropAddresses(context, callerOf(request).projectId, hookIdOf(request), keys);
      const { webhookID, changed, unchanged, addressCount } = done;
      return json({ webhookID, removed: changed, notPresent: unchanged, addressCount });
    },
  });
  return [add, remove];
}

function addressesOf(body: unknown): Uint8Array[] {
  if (typeof body !== 'object' || body === null) {
    throw new RequestError(400, 'the body must be a JSON object with accountAddresses');
  }
  return parseAddresses((body as { accountAddresses?: unknown }).accountAddresses);
}
