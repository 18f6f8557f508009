/** What was compared, for the pages of the operator. */
import { type Clock, defineRoute, json, RequestError, type Route, type Store, Type } from '../../src/plugin/plugin.ts';
import { readReport } from './report.ts';
import { tables } from './tables.ts';

const TAG = { name: 'Operation', description: 'Health, metrics and state of the daemon' };
const MAX_GROUPS = 200;
const counts = {
  compared: Type.Integer({ description: 'Answers that were compared' }),
  equal: Type.Integer({ description: 'Equal in their normal form' }),
  explained: Type.Integer({ description: 'Different, with an explanation of each difference' }),
  different: Type.Integer({ description: 'Different without an explanation' }),
  unanswered: Type.Integer({ description: 'Requests that the reference did not answer' }),
};
const method = Type.Object({ method: Type.String(), product: Type.String(), ...counts }, { title: 'ShadowMethod' });
const group = Type.Object(
  {
    id: Type.String(),
    method: Type.String(),
    product: Type.String(),
    path: Type.String({ description: 'Member that differs; `[]` = any item of a list' }),
    kind: Type.String({ description: 'What differs, such as `number` or `missing-member`' }),
    reason: Type.Union([Type.String(), Type.Null()], { description: 'Explanation; null: none' }),
    count: Type.Integer({ description: 'Answers with it' }),
    firstAt: Type.Integer({ description: 'Unix milliseconds' }),
    lastAt: Type.Integer({ description: 'Unix milliseconds' }),
  },
  { title: 'ShadowGroup' },
);
const spent = Type.Object({ requests: Type.Integer(), credits: Type.Number(), bytes: Type.Integer() });
const difference = Type.Object(
  {
    id: Type.String(),
    at: Type.Integer({ description: 'Unix milliseconds' }),
    question: Type.String({ description: 'What was asked, with keys masked' }),
    ourValue: Type.String(),
    theirValue: Type.String(),
    ourStatus: Type.Integer(),
    theirStatus: Type.Integer(),
    ours: Type.String({ description: 'The answer here, cut off at `shadow.keep.bodyBytes`' }),
    theirs: Type.String({ description: 'The answer of the reference, likewise' }),
  },
  { title: 'ShadowDifference' },
);
const refusal = Type.Object({ error: Type.String(), code: Type.Integer() });

export interface ShadowRouteParts {
  readonly store: Store;
  readonly clock: Clock;
  /** Writes what this process has not stored yet. */
  flush(): Promise<void>;
}

export function shadowRoutes(parts: ShadowRouteParts): readonly Route[] {
  return [reportRoute(parts), groupRoute(parts)];
}

function reportRoute({ store, clock, flush }: ShadowRouteParts): Route {
  return defineRoute({
    method: 'GET',
    path: '/v0/admin/shadow',
    summary: 'Answers that were compared with the reference, and groups of differences',
    tag: TAG,
    auth: 'admin',
    errors: 'plain',
    query: Type.Object({ days: Type.Integer({ minimum: 1, maximum: 40, default: 7 }) }),
    replies: {
      200: Type.Object(
        {
          days: Type.Integer(),
          ...counts,
          differentShare: Type.Number({
            description: 'Share of the compared answers that differ without an explanation',
          }),
          spentToday: spent,
          methods: Type.Array(method),
          groups: Type.Array(group),
        },
        { description: 'The report', title: 'ShadowReport' },
      ),
    },
    async handler({ query }) {
      await flush();
      return json(await readReport(store.read, { now: clock.now(), days: query.days, limit: MAX_GROUPS }));
    },
  });
}

function groupRoute({ store }: ShadowRouteParts): Route {
  return defineRoute({
    method: 'GET',
    path: '/v0/admin/shadow/groups/:id',
    summary: 'The newest differences of a group with both answers',
    tag: TAG,
    auth: 'admin',
    errors: 'plain',
    params: Type.Object({ id: Type.String({ pattern: '^[0-9a-f]{24}$' }) }),
    replies: {
      200: Type.Object({ differences: Type.Array(difference) }, { description: 'Newest first' }),
      404: refusal,
    },
    async handler({ params }) {
      const db = tables(store.read);
      const known = await db.selectFrom('shadow_groups').select('id').where('id', '=', params.id).executeTakeFirst();
      if (known === undefined) throw new RequestError(404, 'There is no group with this id');
      const rows = await db
        .selectFrom('shadow_differences')
        .selectAll()
        .where('group_id', '=', params.id)
        .orderBy('at', 'desc')
        .orderBy('id')
        .execute();
      return json({
        differences: rows.map((row) => ({
          id: row.id,
          at: Number(row.at),
          question: row.question,
          ourValue: row.our_value,
          theirValue: row.their_value,
          ourStatus: row.our_status,
          theirStatus: row.their_status,
          ours: row.ours,
          theirs: row.theirs,
        })),
      });
    },
  });
}
