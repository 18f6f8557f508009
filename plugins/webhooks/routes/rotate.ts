import { Type } from '@sinclair/typebox';
import { defineRoute, type Route } from '../../../src/kernel/plugin.ts';
import { json, RequestError } from '../../../src/kernel/request.ts';
import type { ManageContext } from '../manage/context.ts';
import { rotateSecret } from '../manage/rotate.ts';
import { isoTime } from '../model/view.ts';
import { COMMON, callerOf, FREE_PRICE, HOOK_REPLIES, hookIdOf } from './common.ts';
import { hookParams } from './schemas.ts';

const MAX_OVERLAP_SECONDS = 604_800;

export function rotateRoute(context: ManageContext): Route {
  return defineRoute({
    ...COMMON,
    method: 'POST',
    path: '/v0/webhooks/:webhookID/secret/rotate',
    summary: 'Give a webhook a new signing secret; the old one signs beside it for a while',
    price: FREE_PRICE,
    params: hookParams,
    body: Type.Unknown(),
    bodyOptional: true,
    replies: {
      200: Type.Object({ signingSecret: Type.String(), previousExpiresAt: Type.String({ format: 'date-time' }) }),
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
