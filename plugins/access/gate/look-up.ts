import { timingSafeEqual } from 'node:crypto';
import { sql } from 'kysely';
import { CodedError } from '../../../src/lib/coded-error.ts';
import type { Queries, Store } from '../../../src/ports/store.ts';
import { billingDayOf } from '../cycle.ts';
import { ACCESS_ERRORS } from '../errors.ts';
import type { ProjectState } from '../metering/account.ts';
import { toMicro } from '../metering/amount.ts';
import type { Plans } from '../plans/plans.ts';
import { type AccessTables, tables } from '../tables.ts';
import { type KeyRules, readRules } from './key-rules.ts';

/** What the store says about a key that is not revoked. */
export interface FoundKey {
  readonly keyId: string;
  readonly expiresAt: number | null;
  readonly rules: KeyRules;
  /** Of the member it was made for, else of the project's owner. */
  readonly wallet: string | null;
  readonly project: FoundProject;
}

export interface FoundProject {
  readonly wallet: string | null;
  readonly state: ProjectState;
}

/** One query. Null for an unknown and for a revoked key. */
export async function findKey(store: Store, plans: Plans, hash: Buffer): Promise<FoundKey | null> {
  const row = await withProject(tables(store.read))
    .innerJoin('api_keys', 'api_keys.project_id', 'projects.id')
    .select([
      'api_keys.id as key_id',
      'api_keys.hash',
      'api_keys.expires_at',
      'api_keys.permissions',
      'api_keys.cidrs',
      'api_keys.origins',
      'api_keys.wallet as member',
    ])
    .where('api_keys.hash', '=', hash)
    .where('api_keys.revoked_at', 'is', null)
    .executeTakeFirst();
  if (row === undefined || !timingSafeEqual(row.hash, hash)) return null;
  const project = readProject(row, plans);
  const wallet = row.member ?? project.wallet;
  return { keyId: row.key_id, expiresAt: row.expires_at, rules: readRules(row), wallet, project };
}

export async function findProject(store: Store, plans: Plans, id: string): Promise<FoundProject | null> {
  const row = await withProject(tables(store.read)).where('projects.id', '=', id).executeTakeFirst();
  return row === undefined ? null : readProject(row, plans);
}

function withProject(db: Queries<AccessTables>) {
  return db
    .selectFrom('projects')
    .leftJoin('usage_cycles', (join) =>
      join
        .onRef('usage_cycles.project_id', '=', 'projects.id')
        .on(
          'usage_cycles.cycle_start',
          '=',
          sql<string>`(select max(cycle_start) from usage_cycles as newest where newest.project_id = projects.id)`,
        ),
    )
    .select([
      'projects.id',
      'projects.plan',
      'projects.overrides',
      'projects.wallet',
      'projects.created_at',
      'projects.billing_day',
      'projects.prepaid_granted',
      'projects.prepaid_used',
      'projects.prepaid_used_micro',
      'usage_cycles.cycle_start',
      'usage_cycles.regular',
      'usage_cycles.regular_micro',
      'usage_cycles.prepaid',
      'usage_cycles.prepaid_micro',
    ]);
}

type Row = NonNullable<Awaited<ReturnType<ReturnType<typeof withProject>['executeTakeFirst']>>>;

function readProject(row: Row, plans: Plans): FoundProject {
  const limits = plans.limitsOf(row.plan, row.overrides);
  if (limits === null)
    throw new CodedError('ACCESS_UNKNOWN_PLAN', ACCESS_ERRORS.ACCESS_UNKNOWN_PLAN, { facts: { plan: row.plan } });
  const spent = {
    regular: toMicro(row.regular ?? 0, row.regular_micro ?? 0),
    prepaid: toMicro(row.prepaid ?? 0, row.prepaid_micro ?? 0),
    prepaidLeft: toMicro(row.prepaid_granted, 0) - toMicro(row.prepaid_used, row.prepaid_used_micro),
  };
  const billingDay = row.billing_day ?? billingDayOf(row.created_at);
  return {
    wallet: row.wallet,
    state: { projectId: row.id, limits, billingDay, cycleStart: row.cycle_start ?? '', spent },
  };
}
