import { followerMigrations } from '../chain/tables.ts';
import { jobMigrations } from '../jobs/table.ts';
import type { MigrationScope } from '../ports/store.ts';
import { identityMigrations } from './chains.ts';
import type { FoundPlugin } from './registry.ts';

/** All schemas of a daemon in migration order: the kernel first. */
export async function migrationScopes(
  plugins: readonly Pick<FoundPlugin, 'id' | 'definition'>[],
): Promise<readonly MigrationScope[]> {
  const scopes: MigrationScope[] = [];
  for (const { id, definition } of plugins) {
    const { migrations } = definition;
    if (migrations !== undefined)
      scopes.push({ scope: id, migrations: typeof migrations === 'function' ? await migrations() : migrations });
  }
  return [
    { scope: 'kernel.follower', migrations: followerMigrations },
    { scope: 'kernel.identity', migrations: identityMigrations },
    { scope: 'kernel.jobs', migrations: jobMigrations },
    ...scopes,
  ];
}
