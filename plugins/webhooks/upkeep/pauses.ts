import type { AccessCharges } from '../../../src/ports/access.ts';
import type { Log } from '../../../src/ports/log.ts';
import type { Store } from '../../../src/ports/store.ts';
import type { DeliveryQueue } from '../delivery/queue.ts';
import { REASONS } from '../delivery/reasons.ts';
import { listHooks } from '../store/hooks.ts';
import { endPause, pausedProjects } from '../store/pauses.ts';
import type { Db } from '../store/tables.ts';

export interface PauseParts {
  readonly store: Store;
  readonly queue: DeliveryQueue;
  readonly charges: AccessCharges | null;
  readonly log: Log;
}

/** Deliveries of projects that have credits again go on. */
export async function endPauses({ store, queue, charges, log }: PauseParts): Promise<void> {
  for (const projectId of await pausedProjects(store.read)) {
    if (charges !== null && (await charges.left(projectId)) < 1) continue;
    await store.write(async (tx) => {
      await endPause(tx, projectId);
      for (const { id } of await listHooks(tx.db as Db, projectId)) await queue.releaseHeld(tx, id, REASONS.credits);
    });
    log.info({ project: projectId }, 'deliveries go on: the project has credits');
  }
}
