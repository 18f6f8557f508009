import { sha256Hex } from '../../src/lib/signup-message.ts';
import { type Clock, codeOf, type Store, type StoreTx } from '../../src/plugin/plugin.ts';
import type { AccessAccounts } from '../../src/ports/access.ts';
import type { SignupConfig } from './config.ts';
import { type PaymentRow, tables } from './store.ts';

export interface Claim {
  readonly wallet: string;
  readonly payment: string;
  readonly key: string;
}

export type ClaimOutcome =
  /** Also told again to whoever repeats the same claim. */
  | { readonly kind: 'given'; readonly projectId: string }
  /** Seen, and its block may still be taken back. */
  | { readonly kind: 'waiting'; readonly slot: number }
  /** Another key was given for it. */
  | { readonly kind: 'spent' }
  | { readonly kind: 'unknown' };

export interface ClaimParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly accounts: AccessAccounts;
  readonly config: Pick<SignupConfig, 'plan' | 'credits'>;
}

/** Gives a key for a payment, once. Whose the payment is has been proven before. Error: STORE_CONFLICT, somebody has this key. */
export function createClaims({ store, clock, accounts, config }: ClaimParts): (claim: Claim) => Promise<ClaimOutcome> {
  /** The wallet's project, made by its first payment. */
  async function projectOf(tx: StoreTx, wallet: string): Promise<string> {
    const db = tables(tx.db);
    const known = await db
      .selectFrom('signup_projects')
      .select('project_id')
      .where('wallet', '=', wallet)
      .executeTakeFirst();
    if (known !== undefined) return known.project_id;
    const project_id = await accounts.createProject(tx, { name: `sign-up ${wallet}`, plan: config.plan, wallet });
    // Two first payments of a wallet at once: the later one meets this row.
    await db.insertInto('signup_projects').values({ wallet, project_id }).execute();
    return project_id;
  }

  /** Null when the payment cannot be spent: somebody has, or it is not final. */
  async function spend(tx: StoreTx, { wallet, payment, key }: Claim): Promise<string | null> {
    const db = tables(tx.db);
    const { numUpdatedRows } = await db
      .updateTable('signup_payments')
      .set({ claimed_at: clock.now(), key_hash: sha256Hex(key) })
      .where('signature', '=', payment)
      .where('wallet', '=', wallet)
      .where('is_final', '=', 1)
      .where('claimed_at', 'is', null)
      .executeTakeFirst();
    if (Number(numUpdatedRows) === 0) return null;
    const projectId = await projectOf(tx, wallet);
    await accounts.createKey(tx, { projectId, name: `sign-up ${payment.slice(0, 8)}`, key });
    if (config.credits > 0) await accounts.grant(tx, projectId, config.credits);
    await db
      .updateTable('signup_payments')
      .set({ project_id: projectId })
      .where('signature', '=', payment)
      .where('wallet', '=', wallet)
      .execute();
    return projectId;
  }

  const look = ({ wallet, payment }: Claim): Promise<PaymentRow | undefined> =>
    tables(store.read)
      .selectFrom('signup_payments')
      .selectAll()
      .where('signature', '=', payment)
      .where('wallet', '=', wallet)
      .executeTakeFirst();

  return async (claim) => {
    // A look first: those who wait for their block must not take turns at writing.
    const row = await look(claim);
    if (row === undefined) return { kind: 'unknown' };
    if (row.claimed_at === null && row.is_final !== 1) return { kind: 'waiting', slot: row.slot };
    if (row.claimed_at === null) {
      const write = () => store.write((tx) => spend(tx, claim));
      const projectId = await write().catch((error: unknown) => {
        if (codeOf(error) !== 'STORE_CONFLICT') throw error;
        return write();
      });
      if (projectId !== null) return { kind: 'given', projectId };
    }
    const now = row.claimed_at === null ? await look(claim) : row;
    if (now?.project_id != null && now.key_hash === sha256Hex(claim.key))
      return { kind: 'given', projectId: now.project_id };
    return { kind: 'spent' };
  };
}
