import { defineRoute, json, type Route, type Store, Type } from '../../../src/plugin/plugin.ts';
import type { Db } from '../store/tables.ts';
import { walletView } from '../store/wallets.ts';

const MOST = 500;
const slot = Type.Union([Type.Integer(), Type.Null()]);

const walletReply = Type.Object({
  address: Type.String(),
  state: Type.String({ description: 'in words' }),
  followed: Type.Boolean(),
  pinned: Type.Boolean(),
  fromSlot: slot,
  toSlot: slot,
  complete: Type.Boolean(),
  prunedBelow: slot,
  transactions: Type.Integer(),
  trouble: Type.Union([Type.String(), Type.Null()]),
});

/** `GET /v0/admin/wallets`: the wallets that are indexed, in the order in which they were first asked for. */
export function walletsRoute(store: Store): Route {
  return defineRoute({
    method: 'GET',
    path: '/v0/admin/wallets',
    summary: 'Wallets that are indexed, and how far',
    tag: 'Operation',
    auth: 'admin',
    errors: 'plain',
    query: Type.Object({
      limit: Type.Integer({ minimum: 1, maximum: MOST, default: 100 }),
      cursor: Type.Optional(Type.String({ pattern: '^\\d{1,15}$', description: 'nextCursor of the page before' })),
    }),
    replies: {
      200: Type.Object({ wallets: Type.Array(walletReply), nextCursor: Type.Union([Type.String(), Type.Null()]) }),
    },
    async handler({ query: { limit, cursor } }) {
      const rows = await (store.read as Db)
        .selectFrom('wallet_wallets')
        .selectAll()
        .where('id', '>', cursor === undefined ? -1 : Number(cursor))
        .orderBy('id')
        .limit(limit + 1)
        .execute();
      const shown = rows.slice(0, limit);
      const last = rows.length > limit ? shown.at(-1) : undefined;
      return json({ wallets: shown.map(walletView), nextCursor: last === undefined ? null : String(last.id) });
    },
  });
}
