import { Readable } from 'node:stream';
import { Type } from '@sinclair/typebox';
import { isLagBeyond, lagSeconds } from '../../../src/lib/slot-length.ts';
import type { HostContext } from '../../../src/plugin/host.ts';
import { type ChainId, type Clock, defineRoute, type Route } from '../../../src/plugin/plugin.ts';
import { JsonText, json, RequestError } from '../../../src/plugin/request.ts';
import type { ChainStatus } from '../../../src/ports/chain.ts';
import type { GapRecords } from '../../../src/ports/following.ts';
import type { UpstreamState } from '../../../src/ports/upstream.ts';
import { finalityAlarmText } from '../../../src/runtime/finality-text.ts';
import { readSeries, SERIES_RANGES } from '../series.ts';
import { demandOperator } from '../sessions.ts';
import type { AuditRow, Position } from '../store.ts';
import { API, audited, PAGE_ROUTE, type PageContext, REFUSALS } from './common.ts';

/** An entry of the audit log as it is shown. */
export type ShownAudit = Omit<AuditRow, 'seq'>;

const MAX_ENTRIES = 200;
const MAX_GAPS = 50;

/** Operator routes about the daemon itself. */
export function operationRoutes(context: PageContext, gaps: GapRecords | undefined): readonly Route[] {
  return [
    healthRoute(context),
    seriesRoute(context),
    pluginsRoute(context),
    configRoute(context),
    auditRoute(context),
    gapsRoute(context, gaps),
    treesRoute(context),
    walletsRoute(context),
    shadowRoute(context),
    failingRoute(context),
    sinksRoute(context),
    ...(['pause', 'resume'] as const).map((act) => steerSinkRoute(context, act)),
  ];
}

function healthRoute({ daemon, guard }: PageContext): Route {
  return defineRoute({
    ...PAGE_ROUTE,
    method: 'GET',
    path: `${API}/health`,
    summary: 'What /readyz answers',
    replies: {
      200: Type.Object({ ready: Type.Boolean(), draining: Type.Boolean(), checks: Type.Array(Type.Unknown()) }),
      ...REFUSALS,
    },
    async handler(request) {
      demandOperator(guard.enter(request));
      return json(await daemon.readiness());
    },
  });
}

function seriesRoute({ clock, guard, store }: PageContext): Route {
  return defineRoute({
    ...PAGE_ROUTE,
    method: 'GET',
    path: `${API}/series`,
    summary: 'Time series of all threads and processes',
    query: Type.Object({ range: Type.Union(SERIES_RANGES.map((range) => Type.Literal(range))) }),
    replies: { 200: Type.Object({ stepMs: Type.Integer(), points: Type.Array(Type.Unknown()) }), ...REFUSALS },
    async handler(request) {
      demandOperator(guard.enter(request));
      return json(await readSeries(store, clock, request.query.range));
    },
  });
}

function gapsRoute({ guard }: PageContext, gaps: GapRecords | undefined): Route {
  return defineRoute({
    ...PAGE_ROUTE,
    method: 'GET',
    path: `${API}/gaps`,
    summary: 'Ranges of slots that were passed over or requested, newest first, with the progress of filling',
    query: Type.Object({ cursor: Type.Optional(Type.String({ pattern: '^\\d{1,15}$' })) }),
    replies: {
      200: Type.Object({ gaps: Type.Array(Type.Unknown()), nextCursor: Type.Union([Type.String(), Type.Null()]) }),
      ...REFUSALS,
    },
    async handler(request) {
      demandOperator(guard.enter(request));
      const { cursor } = request.query;
      const page = { limit: MAX_GAPS + 1, ...(cursor === undefined ? {} : { beforeId: Number(cursor) }) };
      const found = (await gaps?.list(page)) ?? [];
      const shown = found.slice(0, MAX_GAPS);
      return json({ gaps: shown, nextCursor: found.length > MAX_GAPS ? String(shown.at(-1)?.id) : null });
    },
  });
}

function pluginsRoute({ daemon, guard }: PageContext): Route {
  return defineRoute({
    ...PAGE_ROUTE,
    method: 'GET',
    path: `${API}/plugins`,
    summary: 'Running plugins and their contributions',
    replies: { 200: Type.Object({ plugins: Type.Array(Type.Unknown()) }), ...REFUSALS },
    handler(request) {
      demandOperator(guard.enter(request));
      return json({ plugins: daemon.plugins() });
    },
  });
}

function configRoute({ daemon, guard }: PageContext): Route {
  return defineRoute({
    ...PAGE_ROUTE,
    method: 'GET',
    path: `${API}/config`,
    summary: 'The effective configuration and the default of each key, with secrets masked',
    replies: { 200: Type.Object({ config: Type.Unknown(), settings: Type.Array(Type.Unknown()) }), ...REFUSALS },
    handler(request) {
      demandOperator(guard.enter(request));
      return json({ config: daemon.config(), settings: daemon.settings() });
    },
  });
}

function auditRoute({ audit, guard }: PageContext): Route {
  return defineRoute({
    ...PAGE_ROUTE,
    method: 'GET',
    path: `${API}/audit`,
    summary: 'The audit log, newest first',
    query: Type.Object({
      limit: Type.Integer({ minimum: 1, maximum: MAX_ENTRIES, default: 50 }),
      cursor: Type.Optional(
        Type.String({ pattern: '^\\d{1,15}-\\d{1,10}$', description: 'nextCursor of the page before' }),
      ),
    }),
    replies: {
      200: Type.Object({ entries: Type.Array(Type.Unknown()), nextCursor: Type.Union([Type.String(), Type.Null()]) }),
      ...REFUSALS,
    },
    async handler(request) {
      demandOperator(guard.enter(request));
      const { limit, cursor } = request.query;
      const found = await audit.list({ limit: limit + 1, before: cursor === undefined ? null : positionOf(cursor) });
      const shown = found.slice(0, limit);
      const last = found.length > limit ? shown.at(-1) : undefined;
      return json({
        entries: shown.map(({ seq: _seq, ...entry }): ShownAudit => entry),
        nextCursor: last === undefined ? null : `${last.at}-${last.seq}`,
      });
    },
  });
}

function positionOf(cursor: string): Position {
  const [at = 0, seq = 0] = cursor.split('-').map(Number);
  return { at, seq };
}

/** Returns the answer of an operator route of another plugin, or `empty` without that plugin. */
function passedOn(
  { daemon, guard }: PageContext,
  route: { readonly path: string; readonly from: string; readonly summary: string; readonly empty: object },
): Route {
  return defineRoute({
    ...PAGE_ROUTE,
    method: 'GET',
    path: `${API}/${route.path}`,
    summary: route.summary,
    query: Type.Object({
      cursor: Type.Optional(Type.String({ pattern: '^\\d{1,15}$' })),
      group: Type.Optional(Type.String({ pattern: '^[0-9a-f]{24}$' })),
    }),
    replies: { 200: Type.Unknown(), ...REFUSALS },
    async handler(request) {
      demandOperator(guard.enter(request));
      const { requestId, log, signal, remoteAddress, query } = request;
      const { cursor, group } = query;
      const path = `${route.from}${group === undefined ? '' : `/groups/${group}`}${cursor === undefined ? '' : `?cursor=${cursor}`}`;
      try {
        const call = { method: 'GET', path, caller: null, requestId, log, signal, remoteAddress };
        return json(new JsonText((await daemon.call(call)).text));
      } catch (error) {
        if (error instanceof RequestError && error.status === 404) return json(route.empty);
        throw error;
      }
    },
  });
}

function treesRoute(context: PageContext): Route {
  return passedOn(context, {
    path: 'trees',
    from: '/v0/admin/compression/trees',
    empty: { slot: 0, trees: [] },
    summary: 'State of the Merkle trees; empty without the plugin compression',
  });
}

function walletsRoute(context: PageContext): Route {
  return passedOn(context, {
    path: 'wallets',
    from: '/v0/admin/wallets',
    empty: { wallets: [], nextCursor: null },
    summary: 'Indexed wallets; empty without the plugin wallet',
  });
}

function shadowRoute(context: PageContext): Route {
  return passedOn(context, {
    path: 'shadow',
    from: '/v0/admin/shadow',
    empty: { isOff: true, methods: [], groups: [], differences: [] },
    summary: 'Answers compared with the reference, or the differences of a group; empty without the plugin shadow',
  });
}

function failingRoute(context: PageContext): Route {
  return passedOn(context, {
    path: 'failing-webhooks',
    from: '/v0/admin/webhooks/failing',
    empty: { webhooks: [] },
    summary: 'Webhooks of all projects that are failing; empty without the plugin webhooks',
  });
}

function sinksRoute(context: PageContext): Route {
  return passedOn(context, {
    path: 'sinks',
    from: '/v0/admin/sinks',
    empty: { isOff: true, sinks: [] },
    summary: 'Sinks and where they stand; empty without the plugin sinks',
  });
}

function steerSinkRoute(context: PageContext, act: 'pause' | 'resume'): Route {
  const { daemon, guard } = context;
  return defineRoute({
    ...PAGE_ROUTE,
    method: 'POST',
    path: `${API}/sinks/:sink/${act}`,
    summary: act === 'pause' ? 'Pause a sink' : 'Resume a sink',
    params: Type.Object({ sink: Type.String({ maxLength: 64 }) }),
    body: Type.Unknown(),
    bodyOptional: true,
    replies: { 200: Type.Unknown(), ...REFUSALS },
    async handler(request) {
      const session = guard.change(request);
      demandOperator(session);
      const { requestId, log, signal, remoteAddress, params } = request;
      const path = `/v0/admin/sinks/${encodeURIComponent(params.sink)}/${act}`;
      const call = { method: 'POST', path, caller: null, requestId, log, signal, remoteAddress };
      const action = { action: `sinks.${act}`, target: params.sink };
      const { text } = await audited(context, request, session, action, () => daemon.call(call));
      return json(new JsonText(text));
    },
  });
}

export interface LiveRoute {
  readonly route: Route;
  /** Ends all streams, which would delay the stop of the daemon. */
  close(): void;
}

/** Values of the stream, each of which replaces the one before. */
export interface LiveStatus {
  readonly at: number;
  readonly chains: readonly LiveChain[];
  readonly upstreams: readonly LiveUpstream[];
}

export interface LiveChain extends ChainStatus {
  readonly lagSeconds: number | null;
  readonly isLate: boolean;
  /** What is wrong with a recent certificate; null: nothing. */
  readonly finalityAlarm: string | null;
}

export interface LiveUpstream extends Pick<UpstreamState, 'label' | 'healthy' | 'reason' | 'slot' | 'inFlight'> {
  readonly chain: ChainId;
}

const CHAINS: readonly ChainId[] = ['main', 'devnet'];

const maxLagOf = ({ follow }: HostContext['core']) => ({
  seconds: follow.maxReadyLagSeconds,
  slots: follow.maxReadyLagSlots,
});

/** The thread that follows the chain finds out who lies; each thread knows only the answers that it got itself. */
function withDistrust(state: UpstreamState, distrusted: readonly string[]): UpstreamState {
  const line = distrusted.find((one) => one.startsWith(`${state.label} `));
  if (line === undefined || !state.healthy) return state;
  return { ...state, healthy: false, reason: line.slice(state.label.length + 1) };
}

/** Server-sent events with live values: positions of the chains, and the upstreams. */
export function createLive(
  context: PageContext,
  ctx: Pick<HostContext, 'chain' | 'upstreams' | 'clock' | 'core'>,
): LiveRoute {
  const { config, guard } = context;
  const streams = new Set<Readable>();
  let isClosed = false;

  const snapshot = (): LiveStatus => ({
    at: ctx.clock.now(),
    chains: CHAINS.flatMap((id) => {
      const status = ctx.chain(id)?.status();
      return status === undefined
        ? []
        : [
            {
              ...status,
              lagSeconds: lagSeconds(status),
              isLate: isLagBeyond(status, maxLagOf(ctx.core)),
              finalityAlarm: finalityAlarmText(status.finality, ctx.clock.now()),
            },
          ];
    }),
    upstreams: CHAINS.flatMap((id) => {
      const distrusted = ctx.chain(id)?.status().distrusted ?? [];
      return (ctx.upstreams(id)?.states() ?? []).map((state) => ({ chain: id, ...withDistrust(state, distrusted) }));
    }),
  });

  const route = defineRoute({
    ...PAGE_ROUTE,
    method: 'GET',
    path: `${API}/live`,
    summary: 'Live values as server-sent events',
    replies: { 200: Type.String({ contentMediaType: 'text/event-stream' }), ...REFUSALS },
    handler(request) {
      const session = guard.enter(request);
      demandOperator(session);
      const { ended } = session;
      if (isClosed || streams.size >= config.maxLiveStreams) throw new RequestError(503, 'Too many live pages');
      const stream = makeStream(ctx.clock, config.liveIntervalMs, ended, () => {
        guard.enter(request);
        return `event: status\ndata: ${JSON.stringify(snapshot())}\n\n`;
      });
      streams.add(stream);
      stream.once('close', () => streams.delete(stream));
      return { status: 200, stream, contentType: 'text/event-stream; charset=utf-8' };
    },
  });
  return {
    route,
    close() {
      isClosed = true;
      for (const stream of streams) stream.destroy();
    },
  };
}

/** Sends a text at once and at every interval, except to a client that does not read. Ends with the connection or the session. */
function makeStream(clock: Clock, everyMs: number, ended: AbortSignal, next: () => string): Readable {
  let cancel = (): void => {};
  let isOver = false;
  const stream = new Readable({
    read() {
      cancel();
      cancel = clock.timeout(started ? everyMs : 0, push);
      started = true;
    },
    destroy(_error, done) {
      cancel();
      ended.removeEventListener('abort', push);
      done(null);
    },
  });
  let started = false;
  ended.addEventListener('abort', push, { once: true });
  function push(): void {
    cancel();
    if (isOver || stream.destroyed) return;
    let text: string | null = null;
    try {
      text = next();
    } catch {
      // The session has ended.
    }
    isOver = text === null;
    stream.push(text);
  }
  return stream;
}
