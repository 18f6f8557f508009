import { codeOf } from '../../lib/coded-error.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Store } from '../../ports/store.ts';
import type { MigrationScope } from './migration-scopes.ts';
import { refuseNewer } from './migrations.ts';

export interface SchemaWatchOptions {
  store(): Store;
  readonly scopes: readonly MigrationScope[];
  readonly clock: Clock;
  /** Ends the process. */
  fail(error: unknown): void;
}

export interface SchemaWatch {
  start(): void;
  stop(): void;
}

/** How long a process may go on after a newer one took a step that it cannot live with. */
const INTERVAL_MS = 1_000;

/** Looks whether a newer version has migrated the store meanwhile: after a breaking step this process must not write there any more. */
export function createSchemaWatch({ store, scopes, clock, fail }: SchemaWatchOptions): SchemaWatch {
  let cancel: (() => void) | null = null;
  const schedule = () => {
    cancel = clock.timeout(INTERVAL_MS, () => void look());
  };
  async function look(): Promise<void> {
    try {
      await refuseNewer(store(), scopes);
    } catch (error) {
      // Trouble of the store is told elsewhere, and looked through here.
      if (codeOf(error) === 'STORE_SCHEMA_NEWER') return fail(error);
    }
    if (cancel !== null) schedule();
  }
  return {
    start: schedule,
    stop() {
      cancel?.();
      cancel = null;
    },
  };
}
