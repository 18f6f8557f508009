import { type Static, Type } from '@sinclair/typebox';
import {
  type Clock,
  defineRoute,
  json,
  type Product,
  RequestError,
  type Route,
  type Store,
} from '../../src/plugin/plugin.ts';
import type { ProjectUse } from '../../src/ports/access.ts';
import type { Queries } from '../../src/ports/store.ts';
import { count, orNull, text } from '../../src/solana/schemas.ts';
import { billingDayOf, type Cycle, cycleOf, rounded, toMicro } from './account.ts';
import type { Meter } from './meter.ts';
import type { Limits, Plans } from './plans.ts';
import { type ProjectRow, tables } from './tables.ts';

const PRODUCTS = [
  'rpc',
  'enhancedApi',
  'walletApi',
  'das',
  'webhooks',
  'laserstreamGrpc',
  'laserstreamWebsocket',
  'preConfirmations',
  'archival',
  'photon',
  'other',
] as const satisfies readonly Product[];
const BYTE_PRODUCTS = ['laserstreamGrpc', 'laserstreamWebsocket'] as const;
const REQUEST_PRODUCTS = [
  'rpc',
  'enhancedApi',
  'walletApi',
  'das',
  'webhooks',
  'preConfirmations',
  'archival',
  'photon',
  'other',
] as const satisfies readonly Product[];

/** An older object that some clients read: the products that each of its members sums up. */
const OLD_USAGE: Readonly<Record<string, readonly Product[]>> = {
  api: ['enhancedApi', 'walletApi', 'other'],
  archival: ['archival'],
  das: ['das'],
  grpc: ['laserstreamGrpc'],
  grpcGeyser: [],
  photon: ['photon'],
  rpc: ['rpc'],
  stream: ['preConfirmations'],
  webhook: ['webhooks'],
  websocket: ['laserstreamWebsocket'],
};

const day = (description: string, example: string) => text(`${description}, YYYY-MM-DD, UTC`, example);
const span = (description: string) =>
  Type.Object({ start: day('First day', '2026-11-01'), end: day('First day after it', '2026-12-01') }, { description });
const counts = (names: readonly string[], what: string, description: string) =>
  Type.Object(Object.fromEntries(names.map((name) => [name, count(`${what} of ${name}`, 120)])), { description });

/** The usage record of a project. */
const usageReply = Type.Object(
  {
    creditsRemaining: count('Credits left in the cycle', 995_000),
    creditsUsed: count('Credits used in the cycle, regular and prepaid', 5_000),
    prepaidCreditsRemaining: count('Prepaid credits left', 0),
    prepaidCreditsUsed: count('Prepaid credits used in the cycle', 0),
    creditCycle: span('The cycle that credits belong to'),
    subscriptionDetails: Type.Object(
      {
        billingCycle: orNull(span('The cycle of invoices')),
        creditsLimit: count('Credits of a cycle', 1_000_000),
        plan: text('Name of the plan', 'free'),
      },
      { description: 'The plan' },
    ),
    credits: counts(PRODUCTS, 'Credits', 'Credits by product'),
    requests: counts(REQUEST_PRODUCTS, 'Requests', 'Requests by product'),
    dataTransfer: counts(BYTE_PRODUCTS, 'Bytes', 'Bytes by product'),
    usage: counts(Object.keys(OLD_USAGE), 'Credits', 'The same in an older form'),
  },
  { title: 'ProjectUsage', description: 'Usage of the project' },
);

export type UsageRecord = Static<typeof usageReply>;

/** Usage of a project in a cycle, not rounded. */
interface CycleUsage {
  readonly cycle: Cycle;
  readonly limits: Limits;
  /** Millionths of a credit. */
  readonly regular: bigint;
  readonly prepaid: bigint;
  readonly prepaidLeft: bigint;
  readonly products: ReadonlyMap<string, ProductUsage>;
}

interface ProductUsage {
  readonly micro: bigint;
  readonly requests: number;
  readonly bytes: number;
}

/** Every number is rounded once, independently. */
export function usageRecord({ cycle, limits, regular, prepaid, prepaidLeft, products }: CycleUsage): UsageRecord {
  const span = { start: cycle.start, end: cycle.end };
  const microOf = (names: readonly string[]) =>
    names.reduce((sum, name) => sum + (products.get(name)?.micro ?? 0n), 0n);
  const each = (names: readonly string[], value: (name: string) => number) =>
    Object.fromEntries(names.map((name) => [name, value(name)]));
  const left = toMicro(limits.creditsLimit, 0) - regular;
  return {
    creditsRemaining: left > 0n ? rounded(left) : 0,
    creditsUsed: rounded(regular + prepaid),
    prepaidCreditsRemaining: prepaidLeft > 0n ? rounded(prepaidLeft) : 0,
    prepaidCreditsUsed: rounded(prepaid),
    creditCycle: span,
    subscriptionDetails: {
      billingCycle: limits.invoiced ? span : null,
      creditsLimit: limits.creditsLimit,
      plan: limits.plan,
    },
    credits: each(PRODUCTS, (name) => rounded(microOf([name]))),
    requests: each(REQUEST_PRODUCTS, (name) => products.get(name)?.requests ?? 0),
    dataTransfer: each(BYTE_PRODUCTS, (name) => products.get(name)?.bytes ?? 0),
    usage: each(Object.keys(OLD_USAGE), (name) => rounded(microOf(OLD_USAGE[name] ?? []))),
  };
}

/** Written usage of a project in the cycle that contains `nowMs`. Null: its plan no longer exists. */
export async function readUsage(
  read: Queries,
  project: ProjectRow,
  plans: Plans,
  nowMs: number,
): Promise<CycleUsage | null> {
  const limits = plans.limitsOf(project.plan, project.overrides);
  if (limits === null) return null;
  const cycle = cycleOf(project.billing_day ?? billingDayOf(project.created_at), nowMs);
  // One statement, for a consistent snapshot.
  const rows = await tables(read)
    .selectFrom('projects')
    .leftJoin('usage_cycles', (join) =>
      join.onRef('usage_cycles.project_id', '=', 'projects.id').on('usage_cycles.cycle_start', '=', cycle.start),
    )
    .leftJoin('usage_days', (join) =>
      join
        .onRef('usage_days.project_id', '=', 'projects.id')
        .on('usage_days.day', '>=', cycle.start)
        .on('usage_days.day', '<', cycle.end),
    )
    .select(['prepaid_granted', 'prepaid_used', 'prepaid_used_micro'])
    .select(['regular', 'regular_micro', 'prepaid', 'prepaid_micro'])
    .select(['product', 'credits', 'credits_micro', 'requests', 'bytes'])
    .where('projects.id', '=', project.id)
    .execute();
  const [first] = rows;
  if (first === undefined) return null;
  const products = new Map<string, ProductUsage>();
  for (const { product, credits, credits_micro, requests, bytes } of rows) {
    if (product === null) continue;
    const before = products.get(product);
    products.set(product, {
      micro: toMicro(credits ?? 0, credits_micro ?? 0) + (before?.micro ?? 0n),
      requests: (requests ?? 0) + (before?.requests ?? 0),
      bytes: (bytes ?? 0) + (before?.bytes ?? 0),
    });
  }
  return {
    cycle,
    limits,
    regular: toMicro(first.regular ?? 0, first.regular_micro ?? 0),
    prepaid: toMicro(first.prepaid ?? 0, first.prepaid_micro ?? 0),
    prepaidLeft: toMicro(first.prepaid_granted, 0) - toMicro(first.prepaid_used, first.prepaid_used_micro),
    products,
  };
}

/** Days that count as recent, today (UTC) included. */
export const RECENT_DAYS = 7;

/** Written use of each project in the last days; a project without any is absent. `projectId`: only of this one. */
export async function readRecentUse(
  read: Queries,
  nowMs: number,
  projectId?: string,
): Promise<ReadonlyMap<string, ProjectUse>> {
  const first = new Date(nowMs - (RECENT_DAYS - 1) * 86_400_000).toISOString().slice(0, 10);
  // From the projects, so that the days of each are found by the primary key and not all days are read.
  const rows = await tables(read)
    .selectFrom('projects')
    .innerJoin('usage_days', (join) =>
      join.onRef('usage_days.project_id', '=', 'projects.id').on('usage_days.day', '>=', first),
    )
    .select(['projects.id'])
    .select((is) => [is.fn.max('usage_days.day').as('last'), is.fn.sum('usage_days.requests').as('requests')])
    .$if(projectId !== undefined, (query) => query.where('projects.id', '=', projectId ?? ''))
    .groupBy('projects.id')
    .execute();
  return new Map(rows.map(({ id, last, requests }) => [id, { lastDay: last, requests: Number(requests) }]));
}

export interface UsageRouteParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly plans: () => Plans;
  readonly meter: Pick<Meter, 'flush'>;
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const errorReply = Type.Object({ statusCode: Type.Integer(), message: Type.String(), error: Type.String() });

/** `GET /v0/admin/projects/{id}/usage`: only for the project of the key. */
export function usageRoute({ store, clock, plans, meter }: UsageRouteParts): Route {
  return defineRoute({
    method: 'GET',
    path: '/v0/admin/projects/:id/usage',
    summary: "Credits, requests and bytes of the key's project in its credit cycle",
    tag: { name: 'Usage', description: 'Credits, requests and bytes of a project' },
    auth: 'key',
    errors: 'admin',
    permission: 'admin',
    price: { product: 'other', credits: 0, groups: ['admin'] },
    params: Type.Object({ id: Type.String() }),
    documented: {
      params: { id: text("Id of the key's own project", 'b5a3e1c2-7d64-4c0a-9e39-2f1f5a0d8c11', { format: 'uuid' }) },
    },
    replies: { 200: usageReply, 400: errorReply, 401: errorReply, 403: errorReply, 429: errorReply },
    async handler({ params, caller }) {
      const id = params.id.toLowerCase();
      if (!UUID.test(id) || id !== caller?.projectId.toLowerCase()) throw new RequestError(400, 'Invalid project id');
      // The answer includes all calls that were answered before.
      await meter.flush();
      const project = await tables(store.read)
        .selectFrom('projects')
        .selectAll()
        .where('id', '=', caller.projectId)
        .executeTakeFirst();
      if (project === undefined) throw new RequestError(400, 'Invalid project id');
      if (project.admin_api === 0) throw new RequestError(403, 'Admin API not enabled for this project');
      const usage = await readUsage(store.read, project, plans(), clock.now());
      if (usage === null) throw new Error(`the plan ${project.plan} does not exist`);
      return json(usageRecord(usage));
    },
  });
}
