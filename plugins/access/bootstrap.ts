import type { AccessBootstrap } from '../../src/ports/access.ts';
import type { Store } from '../../src/ports/store.ts';
import { DEFAULT_PLAN } from './plans.ts';
import type { Projects } from './projects.ts';
import { tables } from './tables.ts';

/** Makes the first project of a store, exactly once however many processes start together. */
export function createBootstrap(store: Store, projects: Projects): AccessBootstrap {
  return {
    ensureFirstProject: (options = {}) =>
      store.write(async (tx) => {
        const some = await tables(tx.db).selectFrom('projects').select('id').limit(1).executeTakeFirst();
        if (some !== undefined) return null;
        const mine = await tx.insertMany('access_once', ['what'], [['first-project']], 'ignore');
        if (mine === 0) return null;
        const project = await projects.create(tx, { name: 'first project', plan: DEFAULT_PLAN });
        const { key } = await projects.createKey(tx, { projectId: project.id, name: 'first key', ...options });
        return { projectId: project.id, key };
      }),
  };
}
