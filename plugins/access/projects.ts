import { sql } from 'kysely';
import { decode32 } from '../../src/lib/base58.ts';
import type { Hints } from '../../src/plugin/plugin.ts';
import type { AccessRemoval } from '../../src/ports/access.ts';
import type { Clock, Random } from '../../src/ports/clock.ts';
import type { ApiPeers } from '../../src/ports/processes.ts';
import type { Store, StoreTx } from '../../src/ports/store.ts';
import { usageError } from './config.ts';
import { type Overrides, overridesSchema, type Plans } from './plans.ts';
import { type ProjectRow, tables } from './tables.ts';

export interface NewProject {
  readonly name: string;
  readonly plan: string;
  readonly wallet?: string;
  /** Day of the month, 1 to 31, on which credit cycles begin; default today's. */
  readonly billingDay?: number;
  readonly overrides?: Overrides;
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
    async create(tx, { name, plan, wallet, billingDay, overrides }) {
      demandPlan(plan);
      checkName(name);
      if (wallet !== undefined) checkWallet(wallet);
      if (billingDay !== undefined && !(Number.isInteger(billingDay) && billingDay >= 1 && billingDay <= 31))
        throw usageError('ACCESS_BAD_BILLING_DAY');
      const createdAt = clock.now();
      return await tables(tx.db)
        .insertInto('projects')
        .values({
          id: random.uuid(),
          name,
          plan,
          wallet: wallet ?? null,
          ...(overrides === undefined ? {} : { overrides: JSON.stringify(overrides) }),
          created_at: createdAt,
          billing_day: billingDay ?? new Date(createdAt).getUTCDate(),
        })
        .returningAll()
        .executeTakeFirstOrThrow();
    },
    async change(tx, id, { name, plan, overrides, adminApi, isDisabled }) {
      if (name !== undefined) checkName(name);
      if (plan !== undefined) demandPlan(plan);
      const problems = overrides === undefined || overrides === null ? [] : await problemsOfOverrides(overrides);
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
      await changes.note(tx, id);
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
      await changes.note(tx, id);
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
        await changes.note(tx, id);
        return row;
      }
      const known = await findLiveProject(tx, id);
      throw usageError(known === undefined ? 'ACCESS_UNKNOWN_PROJECT' : 'ACCESS_BAD_CREDITS');
    },
  };
}

/** Imported here: the Ajv that it uses is of no use to the other threads. */
async function problemsOfOverrides(overrides: Overrides): Promise<readonly string[]> {
  const { problemsOf } = await import('./plans-file.ts');
  return problemsOf(overridesSchema, overrides);
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

/** The wallets of the members of a project. All errors are ACCESS_… with exit code 64. */
export interface Wallets {
  /** False if it was already a member. Errors: ACCESS_UNKNOWN_PROJECT, ACCESS_BAD_WALLET, ACCESS_TOO_MANY_WALLETS. */
  add(tx: StoreTx, projectId: string, wallet: string): Promise<boolean>;
  /** Also revokes its keys, and returns their number; null if it was not a member. Errors: ACCESS_UNKNOWN_PROJECT, ACCESS_BAD_WALLET. */
  remove(tx: StoreTx, projectId: string, wallet: string): Promise<number | null>;
}

const MAX_WALLETS = 1_000;

export function createWallets(clock: Clock, changes: Pick<ProjectChanges, 'note'>): Wallets {
  return {
    async add(tx, projectId, wallet) {
      checkWallet(wallet);
      await demandProject(tx, projectId);
      const db = tables(tx.db);
      const { count } = await db
        .selectFrom('project_wallets')
        .select((eb) => eb.fn.countAll<number | string | bigint>().as('count'))
        .where('project_id', '=', projectId)
        .executeTakeFirstOrThrow();
      if (Number(count) >= MAX_WALLETS) throw usageError('ACCESS_TOO_MANY_WALLETS');
      const { numInsertedOrUpdatedRows } = await db
        .insertInto('project_wallets')
        .values({ project_id: projectId, wallet, added_at: clock.now() })
        .onConflict((conflict) => conflict.doNothing())
        .executeTakeFirst();
      return Number(numInsertedOrUpdatedRows ?? 0) > 0;
    },
    async remove(tx, projectId, wallet) {
      checkWallet(wallet);
      await demandProject(tx, projectId);
      const db = tables(tx.db);
      const { numDeletedRows } = await db
        .deleteFrom('project_wallets')
        .where('project_id', '=', projectId)
        .where('wallet', '=', wallet)
        .executeTakeFirst();
      if (Number(numDeletedRows) === 0) return null;
      const { numUpdatedRows } = await db
        .updateTable('api_keys')
        .set({ revoked_at: clock.now() })
        .where('project_id', '=', projectId)
        .where('wallet', '=', wallet)
        .where('revoked_at', 'is', null)
        .executeTakeFirst();
      await changes.note(tx, projectId);
      return Number(numUpdatedRows);
    },
  };
}

/** Errors: ACCESS_BAD_WALLET. */
function checkWallet(wallet: string): void {
  if (decode32(wallet) === null) throw usageError('ACCESS_BAD_WALLET');
}

/** Errors: ACCESS_NOT_A_MEMBER. The owner counts as a member. */
export async function demandMember(tx: StoreTx, projectId: string, wallet: string): Promise<void> {
  const db = tables(tx.db);
  const member = await db
    .selectFrom('project_wallets')
    .select('wallet')
    .where('project_id', '=', projectId)
    .where('wallet', '=', wallet)
    .executeTakeFirst();
  if (member !== undefined) return;
  const owner = await db.selectFrom('projects').select('wallet').where('id', '=', projectId).executeTakeFirst();
  if (owner?.wallet !== wallet) throw usageError('ACCESS_NOT_A_MEMBER');
}

export async function listWallets(store: Store, projectId: string): Promise<string[]> {
  const rows = await tables(store.read)
    .selectFrom('project_wallets')
    .select('wallet')
    .where('project_id', '=', projectId)
    .orderBy('added_at')
    .orderBy('wallet')
    .execute();
  return rows.map(({ wallet }) => wallet);
}

/** Locks the row of the project, so that it is not deleted and counts stay valid until the commit. Errors: ACCESS_UNKNOWN_PROJECT. */
export async function demandProject(tx: StoreTx, id: string): Promise<void> {
  if ((await findLiveProject(tx, id)) === undefined) throw usageError('ACCESS_UNKNOWN_PROJECT');
}

/** The row, locked; undefined for an unknown or deleted project. */
async function findLiveProject(tx: StoreTx, id: string): Promise<{ readonly id: string } | undefined> {
  let query = tables(tx.db).selectFrom('projects').select('id').where('id', '=', id).where('deleted_at', 'is', null);
  if (tx.dialect === 'postgres') query = query.forUpdate();
  return await query.executeTakeFirst();
}

/** Informs the gates of all threads and processes that a project or one of its keys has changed. */
export interface ProjectChanges {
  /** Numbers the change, and publishes it when the transaction commits. */
  note(tx: StoreTx, projectId: string): Promise<void>;
  /** The returned function unsubscribes. */
  listen(forget: (projectId: string) => void): () => void;
}

/** Held until the commit, so that numbers become visible in their order: a reader misses none. */
const NUMBER_LOCK = 7_036_874_419;

async function numberChange({ db, dialect }: StoreTx, projectId: string): Promise<void> {
  if (dialect === 'postgres')
    // The row first, as all do who change a project: nobody waits for a row while others wait for the number.
    await sql`select pg_advisory_xact_lock(${NUMBER_LOCK})
      from (select from projects where id = ${projectId} for no key update) as project`.execute(db);
  await tables(db)
    .updateTable('projects')
    .set({ change_number: sql<number>`(select max(change_number) + 1 from projects)` })
    .where('id', '=', projectId)
    .execute();
}

const TOPIC = 'project';
/** A write does not wait longer for a process of the API that does not answer. */
const HEARD_MS = 1_000;

/** If `peers` is set, a write returns after all API processes have dropped what they cached, or after `HEARD_MS`. */
export function createProjectChanges(hints: Hints, peers: ApiPeers | null, clock: Clock): ProjectChanges {
  let forgetOwn: (projectId: string) => void = () => undefined;

  async function tell(projectId: string): Promise<void> {
    // At once, not when the bus comes round: whoever wrote may use the project next.
    forgetOwn(projectId);
    const heard = peers?.askOthers(TOPIC, projectId);
    hints.publish(TOPIC, { projectId });
    if (heard === undefined) return;
    const late = new AbortController();
    await Promise.race([heard, clock.sleep(HEARD_MS, late.signal)]).catch(() => undefined);
    late.abort();
  }
  return {
    async note(tx, projectId) {
      await numberChange(tx, projectId);
      tx.onCommit(() => tell(projectId));
    },
    listen(forget) {
      forgetOwn = forget;
      peers?.answer(TOPIC, (projectId) => forget(String(projectId)));
      return hints.subscribe(TOPIC, (message) => {
        const { projectId } = message as { readonly projectId?: unknown };
        if (typeof projectId === 'string') forget(projectId);
      });
    },
  };
}
