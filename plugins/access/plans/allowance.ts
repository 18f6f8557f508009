import type { AccessPlans } from '../../../src/ports/access.ts';
import { tables } from '../tables.ts';
import type { Plans } from './plans.ts';

/** What other plugins may ask about the plan of a project. */
export function createAllowance(plans: () => Plans): AccessPlans {
  return {
    async maxWebhooks(db, projectId) {
      const row = await tables(db)
        .selectFrom('projects')
        .select(['plan', 'overrides'])
        .where('id', '=', projectId)
        .executeTakeFirst();
      const limits = row === undefined ? null : plans().limitsOf(row.plan, row.overrides);
      return limits === null ? null : limits.webhooks.max;
    },
  };
}
