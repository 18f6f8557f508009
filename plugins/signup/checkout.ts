import type { Clock, Random, Store, StoreTx } from '../../src/plugin/plugin.ts';
import { codeOf, RequestError } from '../../src/plugin/plugin.ts';
import type { AccessAccounts, AccessAdmin } from '../../src/ports/access.ts';
import type { SignupConfig } from './config.ts';
import type { HostedParts } from './hosted.ts';
import { tables } from './tables.ts';

export interface GiverParts {
  readonly clock: Clock;
  readonly accounts: AccessAccounts;
  readonly config: Pick<SignupConfig, 'plan' | 'credits'>;
}

/** The project of a wallet, made by its first payment. Throws STORE_CONFLICT when another transaction makes it. */
export async function projectFor(tx: StoreTx, { accounts, config }: GiverParts, wallet: string): Promise<string> {
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

/** The project of a wallet that paid calls, likewise: it has no credits but those that were paid. */
export async function payerFor(
  tx: StoreTx,
  { accounts, plan }: { readonly accounts: AccessAccounts; readonly plan: string },
  wallet: string,
): Promise<string> {
  const db = tables(tx.db);
  const known = await db
    .selectFrom('signup_payers')
    .select('project_id')
    .where('wallet', '=', wallet)
    .executeTakeFirst();
  if (known !== undefined) return known.project_id;
  const name = `calls of ${wallet}`;
  const project_id = await accounts.createProject(tx, { name, plan, wallet, creditsLimit: 0 });
  await db.insertInto('signup_payers').values({ wallet, project_id }).execute();
  return project_id;
}

/** Runs a write again once that met the row of another one. */
export async function withoutConflict<T>(write: () => Promise<T>): Promise<T> {
  try {
    return await write();
  } catch (error) {
    if (codeOf(error) !== 'STORE_CONFLICT') throw error;
    return await write();
  }
}

/** Active keys of a project from which on no key is added. */
const MAX_KEYS = 20;
const MAX_OPEN = 100;
const SECRET_BYTES = 32;

interface CheckoutParts extends GiverParts {
  readonly store: Store;
  readonly random: Random;
  readonly admin: AccessAdmin;
}

/** The key of tokens, checkouts and orders: made once, the same in all processes and after a restart. */
export function readSecret({ store, random }: Pick<CheckoutParts, 'store' | 'random'>): () => Promise<Buffer> {
  let secret: Promise<Buffer> | undefined;

  async function read(): Promise<Buffer> {
    const look = () => tables(store.read).selectFrom('signup_secret').select('secret').executeTakeFirst();
    const made = Buffer.from(random.bytes(SECRET_BYTES)).toString('hex');
    if ((await look()) === undefined)
      await store.write((tx) =>
        tables(tx.db)
          .insertInto('signup_secret')
          .values({ id: 1, secret: made })
          .onConflict((conflict) => conflict.doNothing())
          .execute(),
      );
    return Buffer.from((await look())?.secret ?? made, 'hex');
  }

  return () => {
    secret ??= read().catch((error: unknown) => {
      secret = undefined;
      throw error;
    });
    return secret;
  };
}

/** What the hosted wire does with payments, projects and keys. */
export function checkoutActions(
  parts: CheckoutParts,
): Pick<HostedParts, 'secret' | 'settle' | 'openMemos' | 'project' | 'addKey'> {
  const { store, clock, random, accounts, admin, config } = parts;
  const secret = readSecret({ store, random });

  /** False: somebody was faster. */
  async function give(tx: StoreTx, wallet: string, payment: { readonly signature: string; readonly wallet: string }) {
    const mine = tables(tx.db)
      .updateTable('signup_payments')
      .where('signature', '=', payment.signature)
      .where('wallet', '=', payment.wallet);
    const { numUpdatedRows } = await mine
      .set({ claimed_at: clock.now() })
      .where('is_final', '=', 1)
      .where('claimed_at', 'is', null)
      .where('credits', 'is', null)
      .executeTakeFirst();
    if (Number(numUpdatedRows) === 0) return;
    const projectId = await projectFor(tx, parts, wallet);
    if (config.credits > 0) await accounts.grant(tx, projectId, config.credits);
    await mine.set({ project_id: projectId }).execute();
  }

  return {
    secret,
    async settle(wallet, memo) {
      const rows = await tables(store.read)
        .selectFrom('signup_payments')
        .select(['signature', 'wallet', 'is_final', 'claimed_at'])
        .where('memo', '=', memo)
        .where('credits', 'is', null)
        .limit(MAX_OPEN)
        .execute();
      // Who pays a checkout twice gets its credits twice.
      const due = rows.filter(({ is_final, claimed_at }) => is_final === 1 && claimed_at === null);
      for (const row of due) await withoutConflict(() => store.write((tx) => give(tx, wallet, row)));
      if (rows.some(({ is_final }) => is_final === 1)) return 'given';
      return rows.length > 0 ? 'waiting' : 'unpaid';
    },
    async openMemos(wallet) {
      const rows = await tables(store.read)
        .selectFrom('signup_payments')
        .select('memo')
        .where('wallet', '=', wallet)
        .where('is_final', '=', 1)
        .where('claimed_at', 'is', null)
        .where('credits', 'is', null)
        .where('memo', 'is not', null)
        .limit(MAX_OPEN)
        .execute();
      return rows.flatMap(({ memo }) => (memo === null ? [] : [memo]));
    },
    async project(wallet) {
      const row = await tables(store.read)
        .selectFrom('signup_projects')
        .select('project_id')
        .where('wallet', '=', wallet)
        .executeTakeFirst();
      const found = row && (await admin.projects()).find(({ id }) => id === row.project_id);
      return found === undefined ? null : { id: found.id, name: found.name, createdAt: found.createdAt };
    },
    async addKey(projectId) {
      const active = (await admin.keys(projectId)).filter(({ state }) => state === 'active');
      if (active.length >= MAX_KEYS)
        throw new RequestError(409, `The project has ${MAX_KEYS} keys: ask the operator to revoke some`);
      const key = random.uuid();
      await store.write((tx) => accounts.createKey(tx, { projectId, name: 'sign-up', key }));
      return key;
    },
  };
}
