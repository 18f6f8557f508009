import { existsSync } from 'node:fs';
import { migrationScopes } from '../../daemon/migrations.ts';
import type { MigrationScope } from '../../ports/store.ts';
import { EXIT } from '../../runtime/errors.ts';
import { openStore, sqliteFile } from '../../store/index.ts';
import { type AppliedStep, migrate } from '../../store/migrate.ts';
import type { RunCommand } from '../command.ts';
import { loadCliConfig } from '../load-config.ts';
import { assembleOffline, needStoreDir } from '../offline.ts';

export const run: RunCommand = async (values, io) => {
  const config = await loadCliConfig(values, io);
  const { plugins } = await assembleOffline(config);
  const dryRun = values['dryRun'] === true;
  const scopes = migrationScopes(plugins);
  const dir = needStoreDir(config, config.core.dataDir);
  const file = sqliteFile(config.core.store.url, dir);
  // Opening an embedded database creates it; a dry run must not.
  const isNew = dryRun && file !== null && !existsSync(file);
  const steps = isNew ? allSteps(scopes) : await runSteps(config.core.store, dir, scopes, dryRun);
  if (values['json'] === true) io.out(JSON.stringify({ dryRun, steps }));
  else {
    for (const step of steps)
      io.out(`${dryRun ? 'would apply' : 'applied'} ${step.scope} ${step.version}: ${step.name}`);
    if (steps.length === 0) io.out('the schema is up to date');
  }
  return EXIT.ok;
};

async function runSteps(
  config: Parameters<typeof openStore>[0],
  dir: string,
  scopes: readonly MigrationScope[],
  dryRun: boolean,
): Promise<readonly AppliedStep[]> {
  const store = await openStore(config, dir);
  try {
    return await migrate(store, scopes, { dryRun });
  } finally {
    await store.close();
  }
}

const allSteps = (scopes: readonly MigrationScope[]): AppliedStep[] =>
  scopes.flatMap(({ scope, migrations }) =>
    migrations.map(({ version, name, breaking }) => ({ scope, version, name, breaking })),
  );
