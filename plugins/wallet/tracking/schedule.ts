import type { NewJob, StoreTx } from '../../../src/kernel/plugin.ts';
import type { Outbox } from '../../../src/ports/outbox.ts';
import { JOB_KIND } from './job-kind.ts';

/** Lets a wallet (by number) be indexed further; one that is being indexed goes on. Happens in the transaction. */
export type Schedule = (tx: StoreTx, id: number) => Promise<void>;

/** A wallet has one job, which becomes due again: so nothing is ever read twice at once. */
export function createSchedule(
  outbox: Pick<Outbox, 'requeue'>,
  enqueue: (tx: StoreTx, jobs: readonly NewJob[]) => Promise<number>,
): Schedule {
  return async (tx, id) => {
    const key = String(id);
    const added = await enqueue(tx, [{ kind: JOB_KIND, key, group: key, payload: {} }]);
    if (added === 0) await outbox.requeue(tx, { kind: JOB_KIND, keys: [key] });
  };
}
