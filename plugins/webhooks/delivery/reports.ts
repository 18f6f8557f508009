import type { Clock } from '../../../src/ports/clock.ts';
import type { Report } from './run.ts';

/** Reports of attempts on their way to the bookkeeping, by the id of the job. */
export interface Reports {
  get(jobId: number): Report | undefined;
  put(jobId: number, report: Report): void;
  take(jobId: number): Report | undefined;
}

/** Longer than the bookkeeping of an attempt takes, whatever goes wrong. */
const LOST_MS = 600_000;
const LOOK_AT = 1_024;

/** The outcome of a job that another process took over is never written: its report goes after a while, and the other one charges. */
export function createReports(clock: Clock): Reports {
  const reports = new Map<number, { readonly report: Report; readonly at: number }>();
  const forget = (jobId: number, wasWritten: boolean): void => {
    reports.get(jobId)?.report.charge?.settle(wasWritten);
    reports.delete(jobId);
  };
  return {
    get: (jobId) => reports.get(jobId)?.report,
    put(jobId, report) {
      // An attempt that is not the first one says that the one before was written, although nobody heard of it.
      forget(jobId, report.n > 1);
      const at = clock.monotonic();
      if (reports.size >= LOOK_AT) {
        for (const [id, other] of reports) if (at - other.at > LOST_MS) forget(id, false);
      }
      reports.set(jobId, { report, at });
    },
    take(jobId) {
      const found = reports.get(jobId)?.report;
      reports.delete(jobId);
      return found;
    },
  };
}
