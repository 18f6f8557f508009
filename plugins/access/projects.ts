import type { AccessAccounts, AccessBootstrap, AccessRemoval } from '../../src/ports/access.ts';
import type { Clock, Random } from '../../src/ports/clock.ts';
import type { Store, StoreTx } from '../../src/ports/store.ts';
import { usageError } from './errors.ts';
import type { Keys } from './keys.ts';
import { type Overrides, overridesSchema, type Plans, problemsOf } from './plans.ts';
import { type ProjectRow, tables } from './tables.ts';
import { checkWallet, findLiveProject, type ProjectChanges } from './wallets.ts';

export interface NewProject {
  readonly name: string;
  readonly plan: string;
  readonly wallet?: string;
  /** Day of the month, 1 to 31, on which credit cycles begin; default today's. */
  readonly billingDay?: number;
}

export interface ProjectChange {
  readonly name?: string;
  readonly plan?: string;
  readonly overrides?: Overrides | null;
  readonly adminApi?: boolean;
  readonly isDisabled?: boolean;
}

/** Writes of projects. All errors are ACCESS_… with exit code 64. */
export interface Projects {
  /** Errors: ACCESS_UNKNOWN_PLAN, ACCESS_BAD_NAME, ACCESS_BAD_WALLET, ACCESS_BAD_BILLING_DAY. */
  create(tx: StoreTx, project: NewProject): Promise<ProjectRow>;
  /**
   * Changes the name, the plan, the overrides (null: none), enables or disables the usage endpoint or the project; absent members stay
   * unchanged. Errors: ACCESS_UNKNOWN_PROJECT, ACCESS_UNKNOWN_PLAN, ACCESS_BAD_NAME, ACCESS_BAD_OVERRIDES.
   */
  change(tx: StoreTx, id: string, change: ProjectChange): Promise<ProjectRow>;
  /**
   * Deletes a disabled project: its keys, members and the data of other plugins. The row and the usage stay. Errors:
   * ACCESS_UNKNOWN_PROJECT, ACCESS_PROJECT_ENABLED.
   */
  remove(tx: StoreTx, id: string): Promise<void>;
  /** Adds prepaid credits; returns the total ever granted. Errors: ACCESS_UNKNOWN_PROJECT, ACCESS_BAD_CREDITS. */
  grant(tx: StoreTx, id: string, credits: number): Promise<ProjectRow>;
}

const MAX_NAME = 128;

export function createProjects(
  clock: Clock,
  random: Random,
  plans: () => Plans,
  changes: Pick<ProjectChanges, 'note'>,
  removal: Pick<Removal, 'run'> = createRemoval(),
): Projects {
  const demandPlan = (name: string) => {
    if (!plans().has(name)) throw usageError('ACCESS_UNKNOWN_PLAN', `${name}; there are ${plans().names.join(', ')}`);
  };
  return {
    async create(tx, { name, plan, wallet, billingDay }) {
      demandPlan(plan);
      checkName(name);
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
    async change(tx, id, { name, plan, overrides, adminApi, isDisabled }) {
      if (name !== undefined) checkName(name);
      if (plan !== undefined) demandPlan(plan);
      const problems = overrides === undefined || overrides === null ? [] : problemsOf(overridesSchema, overrides);
      if (problems.length > 0) throw usageError('ACCESS_BAD_OVERRIDES', problems.join('; '));
      const row = await tables(tx.db)
        .updateTable('projects')
        .set({
          // An UPDATE must set at least one column.
          id,
          ...(name === undefined ? {} : { name }),
          ...(plan === undefined ? {} : { plan }),
          ...(overrides === undefined ? {} : { overrides: overrides === null ? null : JSON.stringify(overrides) }),
          ...(adminApi === undefined ? {} : { admin_api: adminApi ? 1 : 0 }),
          ...(isDisabled === undefined ? {} : { disabled_at: isDisabled ? clock.now() : null }),
        })
        .where('id', '=', id)
        .where('deleted_at', 'is', null)
        .returningAll()
        .executeTakeFirst();
      if (row === undefined) throw usageError('ACCESS_UNKNOWN_PROJECT');
      changes.note(tx, id);
      return row;
    },
    async remove(tx, id) {
      const db = tables(tx.db);
      const row = await db
        .updateTable('projects')
        .set({ deleted_at: clock.now() })
        .where('id', '=', id)
        .where('deleted_at', 'is', null)
        .returning('disabled_at')
        .executeTakeFirst();
      if (row === undefined) throw usageError('ACCESS_UNKNOWN_PROJECT');
      if (row.disabled_at === null) throw usageError('ACCESS_PROJECT_ENABLED');
      await db.deleteFrom('api_keys').where('project_id', '=', id).execute();
      await db.deleteFrom('project_wallets').where('project_id', '=', id).execute();
      await removal.run(tx, id);
      changes.note(tx, id);
    },
    async grant(tx, id, credits) {
      if (!Number.isSafeInteger(credits) || credits < 1) throw usageError('ACCESS_BAD_CREDITS');
      const row = await tables(tx.db)
        .updateTable('projects')
        .set((eb) => ({ prepaid_granted: eb('prepaid_granted', '+', credits) }))
        .where('id', '=', id)
        .where('deleted_at', 'is', null)
        // The sum must stay a safe integer.
        .where('prepaid_granted', '<=', Number.MAX_SAFE_INTEGER - credits)
        .returningAll()
        .executeTakeFirst();
      if (row !== undefined) {
        changes.note(tx, id);
        return row;
      }
      const known = await findLiveProject(tx, id);
      throw usageError(known === undefined ? 'ACCESS_UNKNOWN_PROJECT' : 'ACCESS_BAD_CREDITS');
    },
  };
}

function checkName(name: string): void {
  if (name.length < 1 || name.length > MAX_NAME) throw usageError('ACCESS_BAD_NAME');
}

interface Removal extends AccessRemoval {
  run(tx: StoreTx, projectId: string): Promise<void>;
}

/** What plugins registered to delete with a project. */
export function createRemoval(): Removal {
  const all: Parameters<AccessRemoval['onDelete']>[0][] = [];
  return {
    onDelete: (remove) => void all.push(remove),
    async run(tx, projectId) {
      for (const remove of all) await remove(tx, projectId);
    },
  };
}

/** In order of creation; `withDeleted`: those of which only the usage is left too. */
export async function listProjects(store: Store, { withDeleted = false } = {}): Promise<ProjectRow[]> {
  return await tables(store.read)
    .selectFrom('projects')
    .selectAll()
    .$if(!withDeleted, (query) => query.where('deleted_at', 'is', null))
    .orderBy('created_at')
    .orderBy('id')
    .execute();
}

/** Also finds a deleted project, for its usage. Errors: ACCESS_UNKNOWN_PROJECT. */
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
