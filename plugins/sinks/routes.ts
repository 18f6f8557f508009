/** Sinks for operators: the pages of the dashboard, and scripts on the admin listener. */
import { type Clock, defineRoute, json, RequestError, type Route, type Store, Type } from '../../src/plugin/plugin.ts';
import type { ChainId } from '../../src/ports/block.ts';
import type { Sink } from './config.ts';
import { describeSinks } from './overview.ts';
import { setPaused } from './store.ts';

interface RouteParts {
  readonly targets: readonly Sink[];
  readonly store: () => Store;
  readonly clock: Clock;
  /** The newest final slot of the ledger; null: not known here. */
  readonly finalSlot: (chain: ChainId) => Promise<number | null>;
}

const TAG = { name: 'Operation', description: 'Health, metrics and state of the daemon' };
const orNull = (description: string) => Type.Union([Type.Integer(), Type.Null()], { description });
const task = Type.Object(
  {
    id: Type.String(),
    kind: Type.String({ description: '`backfill` or `verify`' }),
    from: Type.Integer({ description: 'First slot' }),
    to: Type.Integer({ description: 'Last slot' }),
    next: Type.Integer({ description: 'Everything below is done' }),
    createdAt: Type.Integer({ description: 'Unix milliseconds' }),
  },
  { title: 'SinkTask' },
);
const hole = Type.Object(
  {
    table: Type.String({ description: '`account_writes` or `deliveries`' }),
    from: Type.Integer({ description: 'First slot' }),
    to: Type.Integer({ description: 'Last slot' }),
  },
  { title: 'SinkHole' },
);
const sink = Type.Object(
  {
    name: Type.String(),
    kind: Type.String({ description: 'Kind of target' }),
    state: Type.String({
      description: '`running`, `waiting` (nothing is known of the target yet), `paused` or `failing`',
    }),
    firstSlot: orNull('First slot that the target has'),
    lastSlot: orNull('Last slot that it has'),
    lagSlots: orNull('Final slots that it does not have yet; null: not known'),
    error: Type.Union([Type.String(), Type.Null()], { description: 'Why it does not go on' }),
    tasks: Type.Array(task, { description: 'Backfills and comparisons that are not done' }),
    holes: Type.Array(hole, {
      description:
        'Slots whose rows the target lacks for ever: they were dropped at `sinks.keptBytes` before it took them',
    }),
  },
  { title: 'Sink' },
);
const refusal = Type.Object({ error: Type.String(), code: Type.Integer() });

export function sinkRoutes(parts: RouteParts): readonly Route[] {
  return [listRoute(parts), pauseRoute(parts, 'pause'), pauseRoute(parts, 'resume')];
}

function listRoute({ targets, store, finalSlot }: RouteParts): Route {
  return defineRoute({
    method: 'GET',
    path: '/v0/admin/sinks',
    summary: 'Sinks, where their targets stand, and what operators asked of them',
    tag: TAG,
    auth: 'admin',
    errors: 'plain',
    replies: { 200: Type.Object({ sinks: Type.Array(sink) }) },
    async handler() {
      const byName = new Map(targets.map((target) => [target.name, target]));
      const views = await describeSinks(store().read, targets);
      const sinks = [];
      for (const view of views) {
        const { kind, chain } = byName.get(view.name)!;
        const final = await finalSlot(chain);
        const lagSlots = final === null || view.lastSlot === null ? null : Math.max(0, final - view.lastSlot);
        sinks.push({ ...view, kind, lagSlots });
      }
      return json({ sinks });
    },
  });
}

function pauseRoute({ targets, store, clock }: RouteParts, act: 'pause' | 'resume'): Route {
  return defineRoute({
    method: 'POST',
    path: `/v0/admin/sinks/:name/${act}`,
    summary: act === 'pause' ? 'Stop writing a sink' : 'Write a paused sink again, from where it stands',
    tag: TAG,
    auth: 'admin',
    errors: 'plain',
    params: Type.Object({ name: Type.String({ maxLength: 64 }) }),
    body: Type.Unknown(),
    bodyOptional: true,
    replies: { 200: Type.Object({ name: Type.String(), paused: Type.Boolean() }), 404: refusal },
    async handler({ params: { name } }) {
      if (!targets.some((target) => target.name === name))
        throw new RequestError(404, 'There is no sink with this name');
      await setPaused(store(), name, act === 'pause', clock.now());
      return json({ name, paused: act === 'pause' });
    },
  });
}
