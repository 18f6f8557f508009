import { resolve } from 'node:path';
import { openStore } from '../../adapters/store/index.ts';
import { EXIT } from '../../kernel/errors.ts';
import { migrationScopes } from '../../kernel/schema/migration-scopes.ts';
import { migrate } from '../../kernel/schema/migrations.ts';
import type { RunCommand } from '../command.ts';
import { loadCliConfig } from '../load-config.ts';
import { assembleOffline } from '../offline.ts';

export const run: RunCommand = async (values, io) => {
  const config = await loadCliConfig(values, io);
  const { plugins } = await assembleOffline(config);
  const dryRun = values['dryRun'] === true;
  const store = await openStore(config.core.store, resolve(io.cwd, config.core.dataDir));
  try {
    const steps = await migrate(store, migrationScopes(plugins), { dryRun });
    if (values['json'] === true) io.out(JSON.stringify({ dryRun, steps }));
    else {
      for (const step of steps)
        io.out(`${dryRun ? 'would apply' : 'applied'} ${step.scope} ${step.version}: ${step.name}`);
      if (steps.length === 0) io.out('the schema is up to date');
    }
  } finally {
    await store.close();
  }
  return EXIT.ok;
};
