/** What this plugin does for others: projects, keys, and credits for work without a request. */

import type { Clock, Product, Store, StoreTx } from '../../src/plugin/plugin.ts';
import type {
  AccessAccounts,
  AccessAdmin,
  AccessBootstrap,
  AccessCharges,
  Charge,
  KeyLimitsChange,
  KeyView,
  ProjectView,
} from '../../src/ports/access.ts';
import { createSingleFlight } from '../../src/runtime/single-flight.ts';
import { affordable, type ProjectAccount, toCredits, toMicro, turnDay } from './account.ts';
import { PERMISSIONS, usageError } from './config.ts';
import type { Directory } from './directory.ts';
import { createAdmission } from './gate/index.ts';
import { type KeyLimits, type Keys, keyView, listApiKeys } from './keys.ts';
import type { Meter } from './meter.ts';
import type { Plans } from './plans.ts';
import { findProjectRow, listProjects, type Projects } from './projects.ts';
import { type ProjectRow, tables } from './tables.ts';
import { readRecentUse, readUsage, usageRecord } from './usage.ts';
import { countCall } from './write-batch.ts';

export interface AdminParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly plans: () => Plans;
  readonly projects: Projects;
  readonly keys: Keys;
  readonly meter: Pick<Meter, 'flush'>;
}

const DAY_MS = 86_400_000;
const MAX_DAYS = 400;
const MAX_KEYS = 1_000;

/** Access of the operator pages to projects and keys. */
export function createAdmin({ store, clock, plans, projects, keys, meter }: AdminParts): AccessAdmin {
  /** Selects a key of this project: an id alone must not reach a key of another project. */
  async function demandKey(projectId: string, id: string): Promise<void> {
    const rows = await listApiKeys(store, projectId);
    if (!rows.some((row) => row.id === id)) throw usageError('ACCESS_UNKNOWN_KEY');
  }
  /** Keys of the last day count although they are revoked: rows that one owner can make are bounded. Errors: ACCESS_TOO_MANY_KEYS. */
  async function demandRoom(tx: StoreTx, projectId: string): Promise<void> {
    const now = clock.now();
    const { count } = await tables(tx.db)
      .selectFrom('api_keys')
      .select((is) => is.fn.countAll().as('count'))
      .where('project_id', '=', projectId)
      .where((is) =>
        is.or([
          is('created_at', '>', now - DAY_MS),
          is.and([is('revoked_at', 'is', null), is.or([is('expires_at', 'is', null), is('expires_at', '>', now)])]),
        ]),
      )
      .executeTakeFirstOrThrow();
    if (Number(count) >= MAX_KEYS) throw usageError('ACCESS_TOO_MANY_KEYS');
  }
  return {
    planNames: () => plans().names,
    permissionNames: () => PERMISSIONS,
    projects: async () => (await listProjects(store)).map(projectView),
    async recentUse(projectId) {
      await meter.flush();
      return await readRecentUse(store.read, clock.now(), projectId ?? undefined);
    },
    createProject: async ({ name, plan }) =>
      projectView(await store.write((tx) => projects.create(tx, { name, plan }))),
    changeProject: async (id, change) => projectView(await store.write((tx) => projects.change(tx, id, change))),
    deleteProject: (id) => store.write((tx) => projects.remove(tx, id)),
    async keys(projectId) {
      await findProjectRow(store, projectId);
      const now = clock.now();
      return (await listApiKeys(store, projectId)).map((row): KeyView => {
        const { project: _project, successor: _successor, wallet: _wallet, ...view } = keyView(row, now);
        return view;
      });
    },
    async createKey({ projectId, name, expiresAt, ...limits }) {
      const { id, key } = await store.write(async (tx) => {
        await demandRoom(tx, projectId);
        const times = expiresAt === null ? {} : { expiresAt };
        return keys.create(tx, { projectId, name, ...columnsOf(limits), ...times });
      });
      return { id, key };
    },
    async revokeKey(projectId, id) {
      await demandKey(projectId, id);
      return store.write((tx) => keys.revoke(tx, id));
    },
    async limitKey(projectId, id, limits) {
      await demandKey(projectId, id);
      await store.write((tx) => keys.limit(tx, id, columnsOf(limits)));
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
      const first = new Date(Math.max(Date.parse(from), last - (MAX_DAYS - 1) * DAY_MS)).toISOString().slice(0, 10);
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
        day,
        product,
        requests,
        bytes,
        credits: toCredits(toMicro(credits, credits_micro)),
      }));
    },
  };
}

const columnsOf = ({ ips, permissions, origins }: KeyLimitsChange): KeyLimits => ({
  ...(ips === undefined ? {} : { cidrs: ips }),
  ...(permissions === undefined ? {} : { permissions }),
  ...(origins === undefined ? {} : { origins }),
});

const projectView = ({ id, name, plan, wallet, ...row }: ProjectRow): ProjectView => ({
  id,
  name,
  plan,
  wallet,
  createdAt: row.created_at,
  isDisabled: row.disabled_at !== null,
});

export interface BootstrapParts {
  readonly store: Store;
  readonly projects: Projects;
  readonly keys: Keys;
  /** Plan of the first project. */
  readonly plan: string;
}

/** Creates the first project of a store, exactly once even if several processes start together. */
export function createBootstrap({ store, projects, keys, plan }: BootstrapParts): AccessBootstrap {
  return {
    ensureFirstProject: (options = {}) =>
      store.write(async (tx) => {
        const some = await tables(tx.db).selectFrom('projects').select('id').limit(1).executeTakeFirst();
        if (some !== undefined) return null;
        const mine = await tx.insertMany('access_once', ['name'], [['first-project']], 'ignore');
        if (mine === 0) return null;
        const project = await projects.create(tx, { name: 'first project', plan });
        const { key } = await keys.create(tx, { projectId: project.id, name: 'first key', ...options });
        return { projectId: project.id, key };
      }),
  };
}

/** The service `AccessAccounts`. */
export function createAccessAccounts(projects: Projects, keys: Keys, plans: () => Plans): AccessAccounts {
  return {
    hasPlan: (name) => plans().has(name),
    priceOf: (name) => plans().priceOf(name),
    createProject: async (tx, { creditsLimit, ...project }) =>
      (
        await projects.create(tx, {
          ...project,
          ...(creditsLimit === undefined ? {} : { overrides: { creditsLimit } }),
        })
      ).id,
    createKey: async (tx, key) => (await keys.create(tx, key)).id,
    async grant(tx, projectId, credits) {
      await projects.grant(tx, projectId, credits);
    },
  };
}

export interface ChargesParts {
  readonly directory: Pick<Directory, 'project'>;
  readonly meter: Pick<Meter, 'note' | 'flush'>;
  readonly clock: Clock;
}

const FREE: Charge = { finish: () => undefined };

/** Credits for work without a request: reserved, counted and written like those of requests. */
export function createCharges({ directory, meter, clock }: ChargesParts): AccessCharges {
  /** Lookups in flight: many deliveries of a project start at once. */
  const asking = createSingleFlight<string, ProjectAccount | null>();

  function accountOf(projectId: string): ProjectAccount | null | Promise<ProjectAccount | null> {
    const running = asking.get(projectId);
    if (running !== undefined) return running;
    const found = directory.project(projectId);
    if (!(found instanceof Promise)) return found;
    return asking.run(projectId, () => found);
  }

  return {
    async reserve(projectId, { product, credits, count }) {
      const account = await accountOf(projectId);
      if (account === null) return FREE;
      turnDay(account, clock.now());
      const reserved = credits * count;
      if (account.isDisabled || reserved > affordable(account)) return null;
      const price = { product: product as Product, credits, groups: [] };
      const items = Array.from({ length: count }, () => ({ name: product, price, permission: undefined }));
      const ticket = { account, items, headers: {}, reserved, isWaived: false };
      const admission = createAdmission(ticket, clock.now, meter.note);
      return {
        finish: (charged) => admission.charge(items.map(() => ({ charged, bytesOut: 0 }))),
      };
    },
    stream(projectId, { product, creditsPerByte }) {
      /** Undefined: not read yet. Null: the project does not exist. */
      let account: ProjectAccount | null | undefined;
      return {
        affords(bytes, credits = 0) {
          if (account === undefined || account === null) return account === null;
          turnDay(account, clock.now());
          const cost = bytes * creditsPerByte + credits;
          return !account.isDisabled && (cost === 0 || cost <= affordable(account));
        },
        count(bytes, credits = 0) {
          if (account === undefined || account === null) return;
          turnDay(account, clock.now());
          countCall(account, product as Product, {
            credits: bytes * creditsPerByte + credits,
            bytes,
            isRequest: false,
          });
          meter.note(account);
        },
        async refresh() {
          account = await accountOf(projectId);
        },
      };
    },
    async isDisabled(projectId) {
      return (await accountOf(projectId))?.isDisabled ?? false;
    },
    written: () => meter.flush(),
    async left(projectId) {
      const account = await accountOf(projectId);
      if (account === null) return Number.POSITIVE_INFINITY;
      turnDay(account, clock.now());
      return account.isDisabled ? 0 : Math.max(0, affordable(account));
    },
  };
}
