import type { Clock, Store } from '../../src/plugin/plugin.ts';
import type { AccessAdmin, KeyView, ProjectView } from '../../src/ports/access.ts';
import { toCredits, toMicro } from './account.ts';
import { usageError } from './errors.ts';
import { type Keys, keyView, listKeys } from './keys.ts';
import type { Meter } from './meter.ts';
import type { Plans } from './plans.ts';
import { findProjectRow, listProjects, type Projects } from './projects.ts';
import { type ProjectRow, tables } from './tables.ts';
import { readUsage, usageRecord } from './usage.ts';

export interface AdminParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly plans: () => Plans;
  readonly projects: Projects;
  readonly keys: Keys;
  readonly meter: Pick<Meter, 'flush'>;
}

const DAY_MS = 86_400_000;
const MOST_DAYS = 400;

/** Access of the operator pages to projects and keys. */
export function createAdmin({ store, clock, plans, projects, keys, meter }: AdminParts): AccessAdmin {
  /** Selects a key of this project: an id alone must not reach a key of another project. */
  async function demandKey(projectId: string, id: string): Promise<void> {
    const rows = await listKeys(store, projectId);
    if (!rows.some((row) => row.id === id)) throw usageError('ACCESS_UNKNOWN_KEY');
  }
  return {
    planNames: () => plans().names,
    projects: async () => (await listProjects(store)).map(projectView),
    createProject: async ({ name, plan }) =>
      projectView(await store.write((tx) => projects.create(tx, { name, plan }))),
    async keys(projectId) {
      await findProjectRow(store, projectId);
      const now = clock.now();
      return (await listKeys(store, projectId)).map((row): KeyView => {
        const { id, prefix, name, state, createdAt, expiresAt, permissions, ips } = keyView(row, now);
        return { id, prefix, name, state, createdAt, expiresAt, permissions, ips };
      });
    },
    async createKey({ projectId, name, ips, expiresAt }) {
      const { id, key } = await store.write((tx) =>
        keys.create(tx, { projectId, name, cidrs: ips, ...(expiresAt === null ? {} : { expiresAt }) }),
      );
      return { id, key };
    },
    async revokeKey(projectId, id) {
      await demandKey(projectId, id);
      return store.write((tx) => keys.revoke(tx, id));
    },
    async limitKey(projectId, id, ips) {
      await demandKey(projectId, id);
      await store.write((tx) => keys.limit(tx, id, { cidrs: ips }));
    },
    async usage(projectId) {
      const project = await findProjectRow(store, projectId);
      await meter.flush();
      const usage = await readUsage(store.read, project, plans(), clock.now());
      if (usage === null) throw usageError('ACCESS_UNKNOWN_PLAN', project.plan);
      return usageRecord(usage);
    },
    async usageDays(projectId, from, to) {
      await findProjectRow(store, projectId);
      await meter.flush();
      const last = Date.parse(to);
      const first = new Date(Math.max(Date.parse(from), last - (MOST_DAYS - 1) * DAY_MS)).toISOString().slice(0, 10);
      const rows = await tables(store.read)
        .selectFrom('usage_days')
        .selectAll()
        .where('project_id', '=', projectId)
        .where('day', '>=', first)
        .where('day', '<=', to)
        .orderBy('day')
        .orderBy('product')
        .execute();
      return rows.map(({ day, product, credits, credits_micro, requests, bytes }) => ({
        ...{ day, product, requests, bytes },
        credits: toCredits(toMicro(credits, credits_micro)),
      }));
    },
  };
}

const projectView = ({ id, name, plan, wallet, created_at: createdAt }: ProjectRow): ProjectView => ({
  ...{ id, name, plan, wallet, createdAt },
});
