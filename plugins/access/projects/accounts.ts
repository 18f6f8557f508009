import type { AccessAccounts } from '../../../src/ports/access.ts';
import type { Plans } from '../plans/plans.ts';
import type { Keys } from './keys.ts';
import type { Projects } from './projects.ts';

/** What other plugins may write. */
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
