/** All schema steps of the kernel and of the built-in plugins, those too that are not among the usual ones. */

import { builtInDir } from '../../src/cli/package-files.ts';
import { migrationScopes } from '../../src/daemon/migrations.ts';
import { findPlugins } from '../../src/daemon/registry.ts';
import type { MigrationScope } from '../../src/ports/store.ts';
import { findProjectRoot } from './project-root.ts';

/** The newest step of each scope that some version has. */
export type SchemaVersions = Readonly<Record<string, number>>;

export async function allScopes(): Promise<readonly MigrationScope[]> {
  const root = findProjectRoot();
  return migrationScopes(await findPlugins([], { builtInDir, baseDir: root, packageDirs: [root] }));
}

/** The scopes as an older version had them; one that it did not have has no steps. */
export const scopesOf = (scopes: readonly MigrationScope[], versions: SchemaVersions): readonly MigrationScope[] =>
  scopes.map(({ scope, migrations }) => ({ scope, migrations: migrations.slice(0, versions[scope] ?? 0) }));

export const newestVersions = (scopes: readonly MigrationScope[]): SchemaVersions =>
  Object.fromEntries(scopes.map(({ scope, migrations }) => [scope, migrations.length]));
