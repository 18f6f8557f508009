import type { Bus } from '../../ports/bus.ts';
import type { Clock } from '../../ports/clock.ts';
import { insertJobs } from '../jobs/enqueue.ts';
import type { OutboxParts } from './assemble.ts';
import { TOPICS } from './topics.ts';

/** Stands for the job runner where none runs: jobs go into the store all the same, and whoever runs jobs is told. */
export function createRemoteRunner({ bus, clock }: { readonly bus: Bus; readonly clock: Clock }): OutboxParts {
  let isResting = false;
  let isOwed = false;
  /** Once a millisecond is enough, however many transactions commit; the last of them counts too. */
  const wake = () => {
    isOwed = true;
    if (isResting) return;
    isOwed = false;
    isResting = true;
    bus.publish(TOPICS.jobsDue, {});
    clock.timeout(1, () => {
      isResting = false;
      if (isOwed) wake();
    });
  };
  return {
    async enqueue(tx, jobs) {
      const added = await insertJobs(tx, jobs, clock.now());
      if (added > 0) tx.onCommit(wake);
      return added;
    },
    wake,
  };
}
