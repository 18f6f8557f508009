import { CodedError } from '../../../src/lib/coded-error.ts';
import type { Store } from '../../../src/ports/store.ts';
import type { AccessConfig } from '../config.ts';
import { ACCESS_ERRORS } from '../errors.ts';
import { tables } from '../tables.ts';
import type { Plans } from './plans.ts';

const CONFIG = 78;

/** Every plan that configuration and projects name has to exist. Errors: ACCESS_UNKNOWN_PLAN, exit 78. */
export async function checkStoredPlans(store: Store, plans: Plans, config: AccessConfig): Promise<void> {
  const used = await tables(store.read).selectFrom('projects').select('plan').distinct().execute();
  const missing = [config.defaultPlan, ...used.map(({ plan }) => plan)].filter((plan) => !plans.has(plan));
  if (missing.length === 0) return;
  throw new CodedError(
    'ACCESS_UNKNOWN_PLAN',
    `${ACCESS_ERRORS.ACCESS_UNKNOWN_PLAN}: ${[...new Set(missing)].join(', ')}`,
    {
      exitCode: CONFIG,
    },
  );
}
