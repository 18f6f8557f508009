import { followerMigrations } from '../chain/tables.ts';
import { jobMigrations } from '../jobs/table.ts';
import type { MigrationScope } from '../ports/store.ts';
import { identityMigrations } from './chains.ts';
import type { ProvisionedPlugin } from './provision.ts';

/** All schemas of a daemon in migration order: the kernel first. */
export function migrationScopes(
  plugins: readonly Pick<ProvisionedPlugin, 'id' | 'definition'>[],
): readonly MigrationScope[] {
  return [
    { scope: 'kernel.follower', migrations: followerMigrations },
    { scope: 'kernel.identity', migrations: identityMigrations },
    { scope: 'kernel.jobs', migrations: jobMigrations },
    ...plugins.flatMap(({ id, definition }) =>
      definition.migrations === undefined ? [] : [{ scope: id, migrations: definition.migrations }],
    ),
  ];
}
