import type { AccessBootstrap } from '../../../src/ports/access.ts';
import type { Store } from '../../../src/ports/store.ts';
import { tables } from '../tables.ts';
import type { Keys } from './keys.ts';
import type { Projects } from './projects.ts';

export interface BootstrapParts {
  readonly store: Store;
  readonly projects: Projects;
  readonly keys: Keys;
  /** Plan of the first project. */
  readonly plan: string;
}

/** Makes the first project of a store, exactly once however many processes start together. */
export function createBootstrap({ store, projects, keys, plan }: BootstrapParts): AccessBootstrap {
  return {
    ensureFirstProject: (options = {}) =>
      store.write(async (tx) => {
        const some = await tables(tx.db).selectFrom('projects').select('id').limit(1).executeTakeFirst();
        if (some !== undefined) return null;
        const mine = await tx.insertMany('access_once', ['what'], [['first-project']], 'ignore');
        if (mine === 0) return null;
        const project = await projects.create(tx, { name: 'first project', plan });
        const { key } = await keys.create(tx, { projectId: project.id, name: 'first key', ...options });
        return { projectId: project.id, key };
      }),
  };
}
