import { decode32 } from '../../src/lib/base58.ts';
import type { Hints, StoreTx } from '../../src/plugin/plugin.ts';
import type { Clock } from '../../src/ports/clock.ts';
import type { ApiPeers } from '../../src/ports/processes.ts';
import type { Store } from '../../src/ports/store.ts';
import { usageError } from './errors.ts';
import { tables } from './tables.ts';

/** The wallets of the members of a project. All errors are ACCESS_… with exit code 64. */
export interface Wallets {
  /** False if it was already a member. Errors: ACCESS_UNKNOWN_PROJECT, ACCESS_BAD_WALLET, ACCESS_TOO_MANY_WALLETS. */
  add(tx: StoreTx, projectId: string, wallet: string): Promise<boolean>;
  /** Also revokes its keys, and returns their number; null if it was not a member. Errors: ACCESS_UNKNOWN_PROJECT, ACCESS_BAD_WALLET. */
  remove(tx: StoreTx, projectId: string, wallet: string): Promise<number | null>;
}

const MOST_WALLETS = 1_000;

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
      if (Number(count) >= MOST_WALLETS) throw usageError('ACCESS_TOO_MANY_WALLETS');
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
      changes.note(tx, projectId);
      return Number(numUpdatedRows);
    },
  };
}

/** Errors: ACCESS_BAD_WALLET. */
export function checkWallet(wallet: string): void {
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
export async function findLiveProject(tx: StoreTx, id: string): Promise<{ readonly id: string } | undefined> {
  let query = tables(tx.db).selectFrom('projects').select('id').where('id', '=', id).where('deleted_at', 'is', null);
  if (tx.dialect === 'postgres') query = query.forUpdate();
  return await query.executeTakeFirst();
}

/** Informs the gates of all threads and processes that a project or one of its keys has changed. */
export interface ProjectChanges {
  /** Publishes the change when the transaction commits. */
  note(tx: StoreTx, projectId: string): void;
  /** The returned function unsubscribes. */
  listen(forget: (projectId: string) => void): () => void;
}

const TOPIC = 'project';
/** A write does not wait longer for a process of the API that does not answer. */
const HEARD_MS = 1_000;

/** With `peers`, a write returns when all processes of the API have heard of it: none of them answers by what was before. */
export function createProjectChanges(hints: Hints, peers: ApiPeers | null, clock: Clock): ProjectChanges {
  async function tell(projectId: string): Promise<void> {
    const heard = peers?.askOthers(TOPIC, projectId);
    hints.publish(TOPIC, { projectId });
    if (heard === undefined) return;
    const late = new AbortController();
    await Promise.race([heard, clock.sleep(HEARD_MS, late.signal)]).catch(() => undefined);
    late.abort();
  }
  return {
    note: (tx, projectId) => tx.onCommit(() => tell(projectId)),
    listen(forget) {
      peers?.answer(TOPIC, (projectId) => forget(String(projectId)));
      return hints.subscribe(TOPIC, (message) => {
        const { projectId } = message as { readonly projectId?: unknown };
        if (typeof projectId === 'string') forget(projectId);
      });
    },
  };
}
