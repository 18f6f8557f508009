import { Type } from '@sinclair/typebox';
import { defineRoute, type Route } from '../../../src/plugin/plugin.ts';
import { json, RequestError } from '../../../src/plugin/request.ts';
import { parseAddresses } from '../input/fields.ts';
import { addAddresses, dropAddresses } from '../manage/addresses.ts';
import type { ManageContext } from '../manage/context.ts';
import {
  ADDRESSES_BODY,
  COMMON,
  callerOf,
  DOCUMENTED_PATHS,
  errorReply,
  HOOK_REPLIES,
  hookIdOf,
  hookParams,
  WRITE_PRICE,
} from './common.ts';

const PATH = '/v0/webhooks/:webhookID/addresses';

/** Adding and removing addresses without sending the whole list. */
export function addressRoutes(context: ManageContext): readonly Route[] {
  const add = defineRoute({
    ...COMMON,
    path: PATH,
    price: WRITE_PRICE,
    bodyLimitBytes: context.config.bodyLimitBytes,
    params: hookParams,
    ...DOCUMENTED_PATHS,
    body: Type.Unknown(),
    ...ADDRESSES_BODY,
    method: 'POST',
    summary: 'Add addresses to a webhook',
    replies: {
      200: Type.Object({
        webhookID: Type.String(),
        added: Type.Integer(),
        alreadyPresent: Type.Integer(),
        addressCount: Type.Integer(),
      }),
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
    bodyLimitBytes: context.config.bodyLimitBytes,
    params: hookParams,
    ...DOCUMENTED_PATHS,
    body: Type.Unknown(),
    ...ADDRESSES_BODY,
    method: 'DELETE',
    summary: 'Remove addresses from a webhook',
    bodyOptional: true,
    replies: {
      200: Type.Object({
        webhookID: Type.String(),
        removed: Type.Integer(),
        notPresent: Type.Integer(),
        addressCount: Type.Integer(),
      }),
      ...HOOK_REPLIES,
      413: errorReply,
    },
    async handler(request) {
      // Some proxies strip the body of a DELETE: an empty one must not mean "all".
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
