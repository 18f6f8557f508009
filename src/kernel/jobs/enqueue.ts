import type { SqlValue, StoreTx } from '../../ports/store.ts';
import type { NewJob } from '../plugin.ts';

const COLUMNS = [
  'kind',
  'key',
  'grp',
  'payload',
  'slot',
  'position',
  'state',
  'lane',
  'attempts',
  'claims',
  'lost',
  'run_at',
  'created_at',
  'error',
] as const;

/** Adds jobs to the running transaction; those whose (kind, key) exists are left out. Returns how many were added. */
export async function insertJobs(tx: StoreTx, jobs: readonly NewJob[], now: number): Promise<number> {
  const rows = jobs.map((job): SqlValue[] => [
    job.kind,
    job.key,
    job.group,
    JSON.stringify(job.payload) ?? 'null',
    job.slot ?? null,
    job.position ?? null,
    job.held === undefined ? 'pending' : 'held',
    0,
    0,
    0,
    0,
    Math.trunc(job.runAt ?? now),
    now,
    job.held ?? null,
  ]);
  return await tx.insertMany('outbox', COLUMNS, rows, 'ignore');
}
