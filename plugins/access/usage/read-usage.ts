import type { Queries } from '../../../src/ports/store.ts';
import { billingDayOf, cycleOf } from '../cycle.ts';
import { toMicro } from '../metering/amount.ts';
import type { Plans } from '../plans/plans.ts';
import { type ProjectRow, tables } from '../tables.ts';
import type { CycleUsage, ProductUsage } from './record.ts';

/** What a project used in the cycle that holds `nowMs`, as far as it is written. Null: its plan does not exist any more. */
export async function readUsage(
  read: Queries,
  project: ProjectRow,
  plans: Plans,
  nowMs: number,
): Promise<CycleUsage | null> {
  const limits = plans.limitsOf(project.plan, project.overrides);
  if (limits === null) return null;
  const cycle = cycleOf(project.billing_day ?? billingDayOf(project.created_at), nowMs);
  // One statement, so that all of it is of one moment.
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
