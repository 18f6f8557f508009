import type { AccessPlans } from '../../../src/ports/access.ts';
import type { Queries } from '../../../src/ports/store.ts';
import { tables } from '../tables.ts';
import type { Limits } from './limits.ts';
import type { Plans } from './plans.ts';

/** What other plugins may ask about the plan of a project. */
export function createAllowance(plans: () => Plans): AccessPlans {
  const limitsOf = async (db: Queries, projectId: string): Promise<Limits | null> => {
    const row = await tables(db)
      .selectFrom('projects')
      .select(['plan', 'overrides'])
      .where('id', '=', projectId)
      .executeTakeFirst();
    return row === undefined ? null : plans().limitsOf(row.plan, row.overrides);
  };
  return {
    maxWebhooks: async (db, projectId) => (await limitsOf(db, projectId))?.webhooks.max ?? null,
    maxAddresses: async (db, projectId) => (await limitsOf(db, projectId))?.webhooks.addressesPerWebhook ?? null,
  };
}
