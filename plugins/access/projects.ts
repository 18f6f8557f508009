import type { AccessAccounts, AccessBootstrap } from '../../src/ports/access.ts';
import type { Clock, Random } from '../../src/ports/clock.ts';
import type { Store, StoreTx } from '../../src/ports/store.ts';
import { usageError } from './errors.ts';
import type { Keys } from './keys.ts';
import { type Overrides, overridesSchema, type Plans, problemsOf } from './plans.ts';
import { type ProjectRow, tables } from './tables.ts';
import { checkWallet, type ProjectChanges } from './wallets.ts';

export interface NewProject {
  readonly name: string;
  readonly plan: string;
  readonly wallet?: string;
  /** Day of the month, 1 to 31, on which credit cycles begin; default today's. */
  readonly billingDay?: number;
}

/** Writes of projects. All errors are ACCESS_… with exit code 64. */
export interface Projects {
  /** Errors: ACCESS_UNKNOWN_PLAN, ACCESS_BAD_NAME, ACCESS_BAD_WALLET, ACCESS_BAD_BILLING_DAY. */
  create(tx: StoreTx, project: NewProject): Promise<ProjectRow>;
  /**
   * Changes the plan, the overrides (null: none), or enables or disables the usage endpoint; absent members stay unchanged. Errors:
   * ACCESS_UNKNOWN_PROJECT, ACCESS_UNKNOWN_PLAN, ACCESS_BAD_OVERRIDES.
   */
  change(
    tx: StoreTx,
    id: string,
    change: { readonly plan?: string; readonly overrides?: Overrides | null; readonly adminApi?: boolean },
  ): Promise<ProjectRow>;
  /** Adds prepaid credits; returns the total ever granted. Errors: ACCESS_UNKNOWN_PROJECT, ACCESS_BAD_CREDITS. */
  grant(tx: StoreTx, id: string, credits: number): Promise<ProjectRow>;
}

const MAX_NAME = 128;

export function createProjects(
  clock: Clock,
  random: Random,
  plans: () => Plans,
  changes: Pick<ProjectChanges, 'note'>,
): Projects {
  const demandPlan = (name: string) => {
    if (!plans().has(name)) throw usageError('ACCESS_UNKNOWN_PLAN', `${name}; there are ${plans().names.join(', ')}`);
  };
  return {
    async create(tx, { name, plan, wallet, billingDay }) {
      demandPlan(plan);
      if (name.length < 1 || name.length > MAX_NAME) throw usageError('ACCESS_BAD_NAME');
      if (wallet !== undefined) checkWallet(wallet);
      if (billingDay !== undefined && !(Number.isInteger(billingDay) && billingDay >= 1 && billingDay <= 31))
        throw usageError('ACCESS_BAD_BILLING_DAY');
      const createdAt = clock.now();
      return await tables(tx.db)
        .insertInto('projects')
        .values({
          ...{ id: random.uuid(), name, plan, wallet: wallet ?? null, created_at: createdAt },
          billing_day: billingDay ?? new Date(createdAt).getUTCDate(),
        })
        .returningAll()
        .executeTakeFirstOrThrow();
    },
    async change(tx, id, { plan, overrides, adminApi }) {
      if (plan !== undefined) demandPlan(plan);
      const problems = overrides === undefined || overrides === null ? [] : problemsOf(overridesSchema, overrides);
      if (problems.length > 0) throw usageError('ACCESS_BAD_OVERRIDES', problems.join('; '));
      const row = await tables(tx.db)
        .updateTable('projects')
        .set({
          // An UPDATE must set at least one column.
          id,
          ...(plan === undefined ? {} : { plan }),
          ...(overrides === undefined ? {} : { overrides: overrides === null ? null : JSON.stringify(overrides) }),
          ...(adminApi === undefined ? {} : { admin_api: adminApi ? 1 : 0 }),
        })
        .where('id', '=', id)
        .returningAll()
        .executeTakeFirst();
      if (row === undefined) throw usageError('ACCESS_UNKNOWN_PROJECT');
      changes.note(tx, id);
      return row;
    },
    async grant(tx, id, credits) {
      if (!Number.isSafeInteger(credits) || credits < 1) throw usageError('ACCESS_BAD_CREDITS');
      const row = await tables(tx.db)
        .updateTable('projects')
        .set((eb) => ({ prepaid_granted: eb('prepaid_granted', '+', credits) }))
        .where('id', '=', id)
        // The sum must stay a safe integer.
        .where('prepaid_granted', '<=', Number.MAX_SAFE_INTEGER - credits)
        .returningAll()
        .executeTakeFirst();
      if (row !== undefined) {
        changes.note(tx, id);
        return row;
      }
      const known = await tables(tx.db).selectFrom('projects').select('id').where('id', '=', id).executeTakeFirst();
      throw usageError(known === undefined ? 'ACCESS_UNKNOWN_PROJECT' : 'ACCESS_BAD_CREDITS');
    },
  };
}

export async function listProjects(store: Store): Promise<ProjectRow[]> {
  return await tables(store.read).selectFrom('projects').selectAll().orderBy('created_at').orderBy('id').execute();
}

/** Errors: ACCESS_UNKNOWN_PROJECT. */
export async function findProjectRow(store: Store, id: string): Promise<ProjectRow> {
  const row = await tables(store.read).selectFrom('projects').selectAll().where('id', '=', id).executeTakeFirst();
  if (row === undefined) throw usageError('ACCESS_UNKNOWN_PROJECT');
  return row;
}

export interface BootstrapParts {
  readonly store: Store;
  readonly projects: Projects;
  readonly keys: Keys;
  /** Plan of the first project. */
  readonly plan: string;
}

/** Creates the first project of a store, exactly once even if several processes start together. */
export function createBootstrap({ store, projects, keys, plan }: BootstrapParts): AccessBootstrap {
  return {
    ensureFirstProject: (options = {}) =>
      store.write(async (tx) => {
        const some = await tables(tx.db).selectFrom('projects').select('id').limit(1).executeTakeFirst();
        if (some !== undefined) return null;
        const mine = await tx.insertMany('access_once', ['name'], [['first-project']], 'ignore');
        if (mine === 0) return null;
        const project = await projects.create(tx, { name: 'first project', plan });
        const { key } = await keys.create(tx, { projectId: project.id, name: 'first key', ...options });
        return { projectId: project.id, key };
      }),
  };
}

/** The service `AccessAccounts`. */
export function createAccounts(projects: Projects, keys: Keys, plans: () => Plans): AccessAccounts {
  return {
    hasPlan: (name) => plans().has(name),
    createProject: async (tx, project) => (await projects.create(tx, project)).id,
    createKey: async (tx, key) => (await keys.create(tx, key)).id,
    async grant(tx, projectId, credits) {
      await projects.grant(tx, projectId, credits);
    },
  };
}
