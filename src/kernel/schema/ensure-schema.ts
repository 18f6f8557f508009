import { CodedError } from '../../lib/coded-error.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Log } from '../../ports/log.ts';
import type { Store } from '../../ports/store.ts';
import type { CoreConfig } from '../config/core.ts';
import { EXIT } from '../errors.ts';
import type { MigrationScope } from './migration-scopes.ts';
import { migrate } from './migrations.ts';
import { refuseUnfinishedCopy } from './unfinished-copy.ts';

/**
 * Brings the schema up to date, or, where the configuration keeps that for `parhelion migrate`, refuses to run on an old one.
 * Errors: those of `migrate`; STORE_COPY; STORE_MIGRATION, exit 78, when steps wait.
 */
export async function ensureSchema(
  store: Store,
  scopes: readonly MigrationScope[],
  mode: CoreConfig['store']['migrate'],
  options: { readonly clock?: Clock; readonly log?: Log } = {},
): Promise<void> {
  await refuseUnfinishedCopy(store);
  const steps = await migrate(store, scopes, { ...options, dryRun: mode === 'manual' });
  if (mode === 'auto' || steps.length === 0) return;
  const names = steps.map(({ scope, version }) => `${scope} ${version}`).join(', ');
  throw new CodedError(
    'STORE_MIGRATION',
    `the schema waits for ${steps.length} steps (${names}): run parhelion migrate`,
    {
      exitCode: EXIT.config,
    },
  );
}
