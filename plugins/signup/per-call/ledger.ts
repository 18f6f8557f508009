/** Rows of payments of calls, from the block to the answer. */
import type { Clock, Store, StoreTx } from '../../../src/plugin/plugin.ts';
import type { AccessAccounts } from '../../../src/ports/access.ts';
import { payerFor, withoutConflict } from '../checkout.ts';
import { type PaymentRow, tables } from '../tables.ts';

interface LedgerParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly accounts: AccessAccounts;
  readonly plan: string;
}

/** Names a payment: a transaction may move tokens of several wallets. */
export type PaymentId = Pick<PaymentRow, 'signature' | 'wallet'>;
export type CallPaymentRow = PaymentRow & { readonly credits: number };

export interface PaymentLedger {
  /** Undefined: not seen in a block. */
  find(id: PaymentId): Promise<CallPaymentRow | undefined>;
  /** Gives what a final payment has bought to the project of its wallet, once. Returns the project; null: the payment is not final. */
  give(id: PaymentId): Promise<string | null>;
  /** Notes that an answer is given for it. False: one was given before. */
  use(id: PaymentId): Promise<boolean>;
  /** Gives what nobody waits for. */
  giveOpen(): Promise<void>;
}

const MAX_OPEN = 100;

export function createLedger({ store, clock, accounts, plan }: LedgerParts): PaymentLedger {
  const find: PaymentLedger['find'] = async ({ signature, wallet }) =>
    (await tables(store.read)
      .selectFrom('signup_payments')
      .selectAll()
      .where('signature', '=', signature)
      .where('wallet', '=', wallet)
      .where('credits', 'is not', null)
      .executeTakeFirst()) as CallPaymentRow | undefined;

  /** The claim of the row and the credits are one transaction: whoever comes second finds no row to claim. */
  async function claim(tx: StoreTx, { signature, wallet }: PaymentId, credits: number): Promise<void> {
    const mine = tables(tx.db)
      .updateTable('signup_payments')
      .where('signature', '=', signature)
      .where('wallet', '=', wallet);
    const { numUpdatedRows } = await mine
      .set({ claimed_at: clock.now() })
      .where('is_final', '=', 1)
      .where('claimed_at', 'is', null)
      .where('credits', 'is not', null)
      .executeTakeFirst();
    if (Number(numUpdatedRows) === 0) return;
    const project_id = await payerFor(tx, { accounts, plan }, wallet);
    await accounts.grant(tx, project_id, credits);
    await mine.set({ project_id }).execute();
  }

  async function give(id: PaymentId): Promise<string | null> {
    const row = await find(id);
    if (row === undefined || row.is_final !== 1) return null;
    if (row.project_id !== null) return row.project_id;
    await withoutConflict(() => store.write((tx) => claim(tx, id, Number(row.credits))));
    return (await find(id))?.project_id ?? null;
  }

  return {
    find,
    give,
    async use({ signature, wallet }) {
      const { numUpdatedRows } = await store.write((tx) =>
        tables(tx.db)
          .updateTable('signup_payments')
          .set({ used_at: clock.now() })
          .where('signature', '=', signature)
          .where('wallet', '=', wallet)
          .where('used_at', 'is', null)
          .executeTakeFirst(),
      );
      return Number(numUpdatedRows) === 1;
    },
    async giveOpen() {
      const open = await tables(store.read)
        .selectFrom('signup_payments')
        .select(['signature', 'wallet'])
        .where('is_final', '=', 1)
        .where('claimed_at', 'is', null)
        .where('credits', 'is not', null)
        .limit(MAX_OPEN)
        .execute();
      for (const id of open) await give(id);
    },
  };
}
