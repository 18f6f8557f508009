import { Type } from '@sinclair/typebox';
import { defineRoute, type Route } from '../../../src/kernel/plugin.ts';
import { json } from '../../../src/kernel/request.ts';
import type { ChainGap, GapBook } from '../../../src/ports/gaps.ts';
import { isoTime } from '../model/view.ts';
import { BAD_REPLIES, COMMON, FREE_PRICE } from './common.ts';
import { gapReply } from './schemas.ts';

const MAX_LIMIT = 100;

/** The ranges of slots whose transactions no webhook has seen, or saw late. They are the same for all projects. */
export function gapsRoute(book: GapBook, processor: string): Route {
  return defineRoute({
    ...COMMON,
    method: 'GET',
    path: '/v0/webhooks/gaps',
    summary: 'List the ranges of slots that were passed over, newest first',
    price: FREE_PRICE,
    query: Type.Object({
      limit: Type.Integer({ minimum: 1, maximum: MAX_LIMIT, default: MAX_LIMIT }),
      cursor: Type.Optional(Type.String({ pattern: '^\\d{1,15}$', description: 'nextCursor of the page before' })),
      open: Type.Boolean({ default: false, description: 'only those that are not filled' }),
    }),
    replies: {
      200: Type.Object({
        data: Type.Array(gapReply),
        pagination: Type.Object({ hasMore: Type.Boolean(), nextCursor: Type.Union([Type.String(), Type.Null()]) }),
      }),
      ...BAD_REPLIES,
    },
    async handler({ query: { limit, cursor, open } }) {
      const found = await book.list({
        ...{ processor, isOpen: open, limit: limit + 1 },
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
