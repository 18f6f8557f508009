import { messageOf } from '../../lib/coded-error.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Log } from '../../ports/log.ts';
import type { Store, StoreTx } from '../../ports/store.ts';
import type { JobKind } from '../plugin.ts';
import { type ClaimedJob, claimRows } from './claim.ts';
import { change, createParameters } from './statement.ts';

export interface RenewerOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly kinds: ReadonlyMap<string, JobKind>;
  /** What runs now. */
  readonly running: Iterable<ClaimedJob>;
}

/** Renews the leases of long jobs whose kind has short ones: what a process leaves behind that ends is then soon taken up by another. */
export interface Renewer {
  start(): void;
  stop(): void;
}

/** A lease is renewed so many times before it would run out. */
const TIMES = 3;

export function createRenewer({ store, clock, log, kinds, running }: RenewerOptions): Renewer {
  const short = new Map([...kinds].flatMap(([name, { leaseMs }]) => (leaseMs === undefined ? [] : [[name, leaseMs]])));
  const pauseMs = Math.floor(Math.min(...short.values()) / TIMES);
  let cancel = (): void => undefined;

  async function renewAll(): Promise<void> {
    const jobs = [...running].filter(({ job }) => short.has(job.kind));
    if (jobs.length === 0) return;
    await store.write(async (tx) => {
      for (const [kind, leaseMs] of short) {
        const ofKind = jobs.filter(({ job }) => job.kind === kind);
        if (ofKind.length > 0) await renew(tx, ofKind, clock.now() + leaseMs);
      }
    });
  }

  function next(): void {
    cancel = clock.timeout(pauseMs, () => {
      renewAll().catch((error: unknown) => log.warn({ error: messageOf(error) }, 'leases could not be renewed'));
      next();
    });
  }

  return {
    start: () => (short.size > 0 ? next() : undefined),
    stop: () => cancel(),
  };
}

/** Those that another process has taken meanwhile stay its own. */
async function renew(tx: StoreTx, jobs: readonly ClaimedJob[], until: number): Promise<void> {
  const parameters = createParameters(tx.dialect);
  const text = `with v(id, claims) as (values ${claimRows(jobs, parameters)})
    update outbox set lease_until = cast(${parameters.add(until)} as bigint)
    from v where outbox.id = v.id and outbox.claims = v.claims and outbox.state = 'running'`;
  await change(tx.db, text, parameters);
}
