import type { Counter, Metrics } from '../../src/ports/metrics.ts';

/** Counters per project. Projects are named by their ids, never by names or keys. */
export interface ProjectMetrics {
  /** An answered HTTP request; a status from 500 on is an error of the daemon or its upstreams. */
  answered(projectId: string, status: number): void;
  rateLimited(projectId: string): void;
  charged(projectId: string, credits: number): void;
}

interface Counters {
  readonly requests: Counter;
  readonly errors: Counter;
  readonly credits: Counter;
  readonly rateLimited: Counter;
}

/** Label of all projects beyond the first `most`; ids of projects are UUIDs. */
const OTHER = 'other';
const NOTHING: ProjectMetrics = { answered() {}, rateLimited() {}, charged() {} };

/** The first `most` projects that this thread sees have series of their own until it ends; further ones share `other`. */
export function createProjectMetrics(metrics: Metrics, most: number): ProjectMetrics {
  if (most === 0) return NOTHING;
  const labels = ['project'];
  const requests = metrics.counter('project_requests_total', 'answered HTTP requests by project', labels);
  const errors = metrics.counter('project_errors_total', 'requests answered with 5xx by project', labels);
  const credits = metrics.counter('project_credits_total', 'credits charged by project', labels);
  const rateLimited = metrics.counter('project_rate_limited_total', 'calls refused by a rate, by project', labels);
  const known = new Map<string, Counters>();
  const make = (label: string): Counters => ({
    requests: requests.with(label),
    errors: errors.with(label),
    credits: credits.with(label),
    rateLimited: rateLimited.with(label),
  });
  let other: Counters | null = null;

  function of(projectId: string): Counters {
    const found = known.get(projectId);
    if (found !== undefined) return found;
    if (known.size >= most) {
      other ??= make(OTHER);
      return other;
    }
    const made = make(projectId);
    known.set(projectId, made);
    return made;
  }

  return {
    answered(projectId, status) {
      const counters = of(projectId);
      counters.requests.add();
      if (status >= 500) counters.errors.add();
    },
    rateLimited: (projectId) => of(projectId).rateLimited.add(),
    charged: (projectId, amount) => of(projectId).credits.add(amount),
  };
}
