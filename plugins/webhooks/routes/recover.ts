import { Type } from '@sinclair/typebox';
import { defineRoute, type Route } from '../../../src/plugin/plugin.ts';
import { json, RequestError } from '../../../src/plugin/request.ts';
import type { ChainGap, GapRecords } from '../../../src/ports/following.ts';
import { count, flag, slot, text } from '../../../src/solana/schemas.ts';
import type { FinishedRange } from '../delivery/queue.ts';
import {
  type Recovered,
  type RecoverParts,
  recoverDeliveries,
  resendChoice,
  resendDeliveries,
} from '../delivery/resend.ts';
import { instantOf, sinceOf, untilOf } from '../input.ts';
import { type ManageContext, webhookNotFound } from '../manage.ts';
import { isoTime } from '../model.ts';
import type { HookReplays, ReplayRange } from '../replay.ts';
import { findHook } from '../store/hooks.ts';
import type { WebhookDb } from '../store/tables.ts';
import {
  BAD_REPLIES,
  COMMON,
  callerOf,
  DOCUMENTED_PATHS,
  errorReply,
  FREE_PRICE,
  gapReply,
  HOOK_REPLIES,
  hookIdOf,
  hookParams,
  pageReply,
  periodBodies,
} from './common.ts';

const DAY_MS = 86_400_000;
const BOTH: FinishedRange['states'] = ['failed', 'discarded'];
const STATES: Readonly<Record<string, FinishedRange['states']>> = {
  failed: ['failed'],
  discarded: ['discarded'],
  all: ['done', 'failed', 'discarded'],
};

interface RecoverRouteParts extends RecoverParts {
  readonly context: ManageContext;
  /** Null when blocks cannot be replayed. */
  readonly replays: HookReplays | null;
}

/** Routes that send many deliveries again: stored ones, or events of replayed blocks. The examples of their bodies are a day old at the start. */
export function recoverRoutes(parts: RecoverRouteParts): readonly Route[] {
  const { resend, recover, replay } = periodBodies(parts.context.clock.now() - DAY_MS);
  return [resendRoute(parts, resend), recoverRoute(parts, recover), replayRoute(parts, replay)];
}

type PeriodBodies = ReturnType<typeof periodBodies>;

function resendRoute(parts: RecoverRouteParts, schema: PeriodBodies['resend']): Route {
  return defineRoute({
    ...COMMON,
    method: 'POST',
    path: '/v0/webhooks/:webhookID/resend',
    summary: 'Send what was not delivered: waiting deliveries now, failed and discarded ones again',
    price: FREE_PRICE,
    params: hookParams,
    ...DOCUMENTED_PATHS,
    body: schema,
    bodyOptional: true,
    explain: (body) => {
      const given = objectOf(body ?? {});
      resendChoice(given['status']);
      if (given['since'] != null) instantOf('since', given['since'], Number.POSITIVE_INFINITY);
      untilOf(given['until'], Number.POSITIVE_INFINITY, 0);
    },
    replies: {
      202: Type.Object(
        {
          queued: count('Deliveries that are attempted now', 12),
          remaining: count('Finished deliveries of the period that are left', 0),
        },
        { description: 'What is sent' },
      ),
      ...HOOK_REPLIES,
      409: errorReply,
    },
    async handler(request) {
      const body = objectOf(request.body ?? {});
      const { clock, config, store } = parts.context;
      const hook = await findHook(store.read as WebhookDb, callerOf(request).projectId, hookIdOf(request));
      if (hook === null) throw webhookNotFound();
      const now = clock.now();
      const sinceMs = sinceOf(body['since'] ?? null, now, config.retention.failedDays);
      const untilMs = untilOf(body['until'], now, sinceMs);
      return json(
        { ...(await resendDeliveries(parts, hook, { ...resendChoice(body['status']), sinceMs, untilMs })) },
        202,
      );
    },
  });
}

function recoverRoute(parts: RecoverRouteParts, schema: PeriodBodies['recover']): Route {
  return defineRoute({
    ...COMMON,
    method: 'POST',
    path: '/v0/webhooks/:webhookID/recover',
    summary: 'Another name of resend for failed and discarded deliveries of a period',
    price: FREE_PRICE,
    params: hookParams,
    ...DOCUMENTED_PATHS,
    body: schema,
    explain: (body) => checkPeriod(objectOf(body)),
    replies: {
      202: Type.Object(
        {
          queued: count('Deliveries that were queued', 12),
          remaining: count('Deliveries of the period that are left', 0),
        },
        { description: 'What was queued' },
      ),
      ...HOOK_REPLIES,
      409: errorReply,
    },
    async handler(request) {
      const body = objectOf(request.body);
      const done = await recover(parts, callerOf(request).projectId, hookIdOf(request), body, BOTH);
      return json({ ...done }, 202);
    },
  });
}

function replayRoute(parts: RecoverRouteParts, schema: PeriodBodies['replay']): Route {
  const { context, replays } = parts;
  return defineRoute({
    ...COMMON,
    method: 'POST',
    path: '/v0/webhooks/:webhookID/replay',
    summary: 'Replay a range of slots; with since: another name of resend',
    price: FREE_PRICE,
    params: hookParams,
    ...DOCUMENTED_PATHS,
    body: schema,
    explain: checkReplay,
    replies: {
      202: Type.Union(
        [
          Type.Object({
            replayed: count('Deliveries that were queued', 12),
            hasMore: flag('Whether some of the period are left'),
          }),
          Type.Object({
            replayId: text('Id of the replay', '3'),
            fromSlot: slot('First slot'),
            toSlot: slot('Last slot'),
          }),
        ],
        { description: 'What was queued' },
      ),
      ...HOOK_REPLIES,
      409: errorReply,
    },
    async handler(request) {
      const { projectId } = callerOf(request);
      const id = hookIdOf(request);
      const body = objectOf(request.body);
      if (body['fromSlot'] === undefined && body['toSlot'] === undefined) {
        const states = statesOf(body);
        const { queued, remaining } = await recover(parts, projectId, id, body, states);
        return json({ replayed: queued, hasMore: remaining > 0 }, 202);
      }
      const range = rangeOf(body);
      if (replays === null) throw new RequestError(400, 'the chain cannot be read again here');
      const price = (range.toSlot - range.fromSlot + 1) * context.config.replay.creditsPerSlot;
      const begin = () => replays.begin(context, projectId, id, range);
      const { id: replayId, fromSlot, toSlot } = await charged(parts, projectId, price, begin);
      request.log.info({ webhook: id, fromSlot, toSlot }, 'replay of slots for a webhook started');
      return json({ replayId, fromSlot, toSlot }, 202);
    },
  });
}

async function recover(
  parts: RecoverRouteParts,
  projectId: string,
  id: string,
  body: Readonly<Record<string, unknown>>,
  states: FinishedRange['states'],
): Promise<Recovered> {
  const { store, clock, config } = parts.context;
  const hook = await findHook(store.read as WebhookDb, projectId, id);
  if (hook === null) throw webhookNotFound();
  const now = clock.now();
  const sinceMs = sinceOf(body['since'], now, config.retention.failedDays);
  return await recoverDeliveries(parts, hook, { states, sinceMs, untilMs: untilOf(body['until'], now, sinceMs) });
}

/** Reserves the credits of a replay, and charges them when it has started. Errors: 429 with too few. */
async function charged<T>(
  { charges }: RecoverRouteParts,
  projectId: string,
  credits: number,
  work: () => Promise<T>,
): Promise<T> {
  const charge = await charges?.reserve(projectId, { product: 'webhooks', credits, count: 1 });
  if (charge === null)
    throw new RequestError(429, `too few credits for this replay: it costs ${credits}`, { retryAfterS: 3_600 });
  let isStarted = false;
  try {
    const done = await work();
    isStarted = true;
    return done;
  } finally {
    charge?.finish(isStarted);
  }
}

function checkReplay(given: unknown): void {
  const body = objectOf(given);
  if (body['fromSlot'] !== undefined || body['toSlot'] !== undefined) {
    rangeOf(body);
    return;
  }
  statesOf(body);
  checkPeriod(body);
}

function statesOf(body: Readonly<Record<string, unknown>>): FinishedRange['states'] {
  const status = body['status'] ?? 'failed';
  const states = typeof status === 'string' && Object.hasOwn(STATES, status) ? STATES[status] : undefined;
  if (states === undefined) throw new RequestError(400, 'status: must be one of failed, discarded, all');
  return states;
}

/** Whether these are times; not, which ones. */
function checkPeriod(body: Readonly<Record<string, unknown>>): void {
  instantOf('since', body['since'], Number.POSITIVE_INFINITY);
  untilOf(body['until'], Number.POSITIVE_INFINITY, 0);
}

function rangeOf(body: Readonly<Record<string, unknown>>): ReplayRange {
  const { fromSlot, toSlot, force = false } = body;
  if (!isSlot(fromSlot) || !isSlot(toSlot)) throw new RequestError(400, 'fromSlot and toSlot must be slots');
  if (typeof force !== 'boolean') throw new RequestError(400, 'force must be a boolean');
  if (toSlot < fromSlot) throw new RequestError(400, 'toSlot must not be below fromSlot');
  return { fromSlot, toSlot, force };
}

const isSlot = (value: unknown): value is number =>
  typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;

function objectOf(body: unknown): Readonly<Record<string, unknown>> {
  if (typeof body === 'object' && body !== null && !Array.isArray(body)) return body as Record<string, unknown>;
  throw new RequestError(400, 'the body must be a JSON object');
}

const MAX_LIMIT = 100;

/** Ranges of slots whose transactions were not processed in time. They are the same for all projects. */
export function gapsRoute(records: GapRecords, processor: string): Route {
  return defineRoute({
    ...COMMON,
    method: 'GET',
    path: '/v0/webhooks/gaps',
    summary: 'List the ranges of slots that were passed over, newest first',
    price: FREE_PRICE,
    query: Type.Object({
      limit: Type.Integer({ minimum: 1, maximum: MAX_LIMIT, default: MAX_LIMIT, description: 'Gaps of a page' }),
      cursor: Type.Optional(
        Type.String({ pattern: '^\\d{1,15}$', description: '`nextCursor` of the page before', examples: ['6'] }),
      ),
      open: Type.Boolean({ default: false, description: 'Only those that are not filled' }),
    }),
    replies: {
      200: Type.Object(
        { data: Type.Array(gapReply, { description: 'Gaps, newest first' }), pagination: pageReply },
        { description: 'A page of gaps' },
      ),
      ...BAD_REPLIES,
    },
    async handler({ query: { limit, cursor, open } }) {
      const found = await records.list({
        processor,
        isOpen: open,
        limit: limit + 1,
        ...(cursor === undefined ? {} : { beforeId: Number(cursor) }),
      });
      const shown = found.slice(0, limit);
      const hasMore = found.length > limit;
      return json({
        data: shown.map(view),
        pagination: { hasMore, nextCursor: hasMore ? String(shown.at(-1)?.id) : null },
      });
    },
  });
}

const view = (gap: ChainGap) => ({
  id: String(gap.id),
  network: gap.chain,
  fromSlot: gap.fromSlot,
  toSlot: gap.toSlot,
  reason: gap.reason,
  detectedAt: isoTime(gap.detectedAt),
  status: gap.status,
  filledTo: gap.filledTo,
  trouble: gap.trouble,
});
