import { type ServiceToken, serviceToken } from './service.ts';
import type { Queries, StoreTx } from './store.ts';

/** Who calls. Given by the gate, handed to every handler. */
export interface Caller {
  readonly projectId: string;
  /** Null for anonymous callers. */
  readonly keyId: string | null;
  readonly plan: string;
  /** Of the member that the key was made for, else of the project's owner; base58, or null. */
  readonly wallet: string | null;
  /** What its project may hold at most of what all projects share; absent where no plan limits it. */
  readonly budgets?: Budgets;
}

/** Everything that projects share and one of them could use up. The text describes the limit to operators and to whoever is refused. */
export const BUDGETS = {
  requestBytes: 'bytes of request bodies in memory',
  answerBytes: 'bytes of answers that clients have not read yet',
  upstreamCalls: 'calls in flight to one upstream',
  sockets: 'open websockets',
  subscriptions: 'websocket subscriptions',
  subscriptionBytes: 'bytes of subscription parameters',
  newWalletsPerMinute: 'wallets whose indexing starts, per minute',
  wallets: 'wallets that are indexed',
  walletTransactions: 'transactions stored for wallets',
  storedEvents: 'webhook events that are queued, held or failed',
  storedEventBytes: 'bytes of webhook events that are queued, held or failed',
  replays: 'replays in flight',
} as const;

export type BudgetName = keyof typeof BUDGETS;

/** The limits of one project; null: no limit of its own, only what all projects have together counts. */
export type Budgets = Readonly<Record<BudgetName, number | null>>;

/** Something that one project holds of what all share, until it is released. */
export interface Lease {
  readonly amount: number;
  /** Changes the amount. Throws as `take` when there is no room for more; then the lease keeps what it had. */
  set(amount: number): void;
  /** Gives everything back; again does nothing. */
  release(): void;
}

/** Who holds budgets: the project of a call, or the address of a client without a key. */
export interface Tenant {
  /** Never shown to others: it may be an address. */
  readonly id: string;
  /** Throws GateRefusal: `budget` when it would hold more than its plan allows, `room` when all together have too much and it more than its share. */
  take(name: BudgetName, amount: number): Lease;
  /** The same without a lease, for hot paths: whoever held gives exactly that much back. */
  hold(name: BudgetName, amount: number): void;
  give(name: BudgetName, amount: number): void;
  /** Counts without asking, where waiting takes the place of a refusal. */
  count(name: BudgetName, amount: number): void;
  /** Counts a refusal, and makes what is thrown for it. */
  refusal(name: BudgetName): Error;
  /** Of its plan; null: none. */
  limit(name: BudgetName): number | null;
}

/** What a project holds at this moment, and how often it was refused more. */
export interface BudgetUse {
  readonly budget: BudgetName;
  readonly used: number;
  readonly limit: number | null;
  readonly refused: number;
}

/** How much a project has stored of a budget, and the limit of its plan. */
export interface StoredUse {
  readonly used: number;
  readonly limit: number | null;
}

/** Budgets of what is stored. Whoever stores it counts it, in the database that all processes share, and reports it here. */
export interface StoredBudgets {
  /** `use` answers what a project has stored at this moment. */
  provide(use: (projectId: string) => Promise<Partial<Record<BudgetName, StoredUse>>>): void;
  /** A project was refused more. */
  refused(budget: BudgetName, projectId: string): void;
}

/** Offered by the kernel. */
export const storedBudgets: ServiceToken<StoredBudgets> = serviceToken('kernel.budgets');

/** What the first start of a daemon creates. */
export interface FirstKey {
  readonly projectId: string;
  /** The API key in full: shown once, never stored. */
  readonly key: string;
}

export interface AccessBootstrap {
  /**
   * Makes the first project and key when there is no project yet; null otherwise. `key` is installed instead of a random one.
   * Also safe when several processes start at once: one of them makes the project.
   */
  ensureFirstProject(options?: { readonly key?: string }): Promise<FirstKey | null>;
}

export const accessBootstrap: ServiceToken<AccessBootstrap> = serviceToken('access.bootstrap');

/** What the plan of a project allows beyond its calls. */
export interface AccessPlans {
  /** Webhooks of a project; null for no limit. `db` is that of the transaction that makes one. */
  maxWebhooks(db: Queries, projectId: string): Promise<number | null>;
  /** Addresses of one webhook; null where nobody knows. */
  maxAddresses(db: Queries, projectId: string): Promise<number | null>;
  /** What the project may hold of what all projects share; null where nobody knows. */
  budgets(db: Queries, projectId: string): Promise<Budgets | null>;
}

export const accessPlans: ServiceToken<AccessPlans> = serviceToken('access.plans');

/** Credits that were set aside for work of a project. */
export interface Charge {
  /** The work was done, or it was not: told once. Must not be forgotten. */
  settle(isCharged: boolean): void;
}

/** Data that is streamed to a project. */
export interface StreamMeter {
  /** Whether the credits suffice for so many bytes, as far as this process knows. False until `refresh` was called once. */
  affords(bytes: number): boolean;
  /** Charges bytes that were sent. */
  count(bytes: number): void;
  /** Reads the credits that are left. Throws what the store throws. */
  refresh(): Promise<void>;
}

/** Work that no request pays for, such as a delivery. */
export interface AccessCharges {
  /**
   * Sets credits of a project aside, `count` times those of one piece of work. Null: they are used up. Work of a project that does not
   * exist costs nothing.
   */
  reserve(
    projectId: string,
    work: { readonly product: string; readonly credits: number; readonly count: number },
  ): Promise<Charge | null>;
  /** A project that does not exist pays nothing. */
  stream(projectId: string, price: { readonly product: string; readonly creditsPerByte: number }): StreamMeter;
  /** Credits that the project may still spend; infinite where nobody counts. */
  left(projectId: string): Promise<number>;
}

export const accessCharges: ServiceToken<AccessCharges> = serviceToken('access.charges');

/** Makes projects and keys inside a transaction of the caller's. */
export interface AccessAccounts {
  hasPlan(name: string): boolean;
  /** Gives the id. Errors: ACCESS_UNKNOWN_PLAN, ACCESS_BAD_NAME, ACCESS_BAD_WALLET. */
  createProject(
    tx: StoreTx,
    project: { readonly name: string; readonly plan: string; readonly wallet: string },
  ): Promise<string>;
  /** `key` is installed and stored as its hash. Gives the key's id. Errors: ACCESS_UNKNOWN_PROJECT, ACCESS_BAD_KEY, STORE_CONFLICT. */
  createKey(
    tx: StoreTx,
    key: { readonly projectId: string; readonly name: string; readonly key: string },
  ): Promise<string>;
  /** Prepaid credits. Errors: ACCESS_UNKNOWN_PROJECT, ACCESS_BAD_CREDITS. */
  grant(tx: StoreTx, projectId: string, credits: number): Promise<void>;
}

export const accessAccounts: ServiceToken<AccessAccounts> = serviceToken('access.accounts');

/** Times are unix milliseconds. */
export interface ProjectView {
  readonly id: string;
  readonly name: string;
  readonly plan: string;
  readonly wallet: string | null;
  readonly createdAt: number;
}

export interface KeyView {
  readonly id: string;
  /** The first characters. */
  readonly prefix: string;
  readonly name: string;
  readonly state: 'active' | 'revoked' | 'expired';
  readonly createdAt: number;
  readonly expiresAt: number | null;
  readonly permissions: readonly string[] | null;
  /** Addresses and networks that may use it; null: all. */
  readonly ips: readonly string[] | null;
}

/** What was used of a product on a day (UTC, `YYYY-MM-DD`). */
export interface UsageDay {
  readonly day: string;
  readonly product: string;
  readonly credits: number;
  readonly requests: number;
  readonly bytes: number;
}

/** Projects, keys and usage for pages of operators. Errors: the codes ACCESS_UNKNOWN_… and ACCESS_BAD_…. */
export interface AccessAdmin {
  planNames(): readonly string[];
  projects(): Promise<readonly ProjectView[]>;
  createProject(project: { readonly name: string; readonly plan: string }): Promise<ProjectView>;
  keys(projectId: string): Promise<readonly KeyView[]>;
  /** `key` is told this once. */
  createKey(key: {
    readonly projectId: string;
    readonly name: string;
    readonly ips: readonly string[] | null;
    readonly expiresAt: number | null;
  }): Promise<{ readonly id: string; readonly key: string }>;
  /** False when it was revoked before. */
  revokeKey(projectId: string, id: string): Promise<boolean>;
  limitKey(projectId: string, id: string, ips: readonly string[] | null): Promise<void>;
  /** The usage record of the cycle, as the usage endpoint answers it. */
  usage(projectId: string): Promise<unknown>;
  /** Days from `from` to `to`, both included; at most 400 of them. */
  usageDays(projectId: string, from: string, to: string): Promise<readonly UsageDay[]>;
}

/** Offered by the plugin `access`. */
export const accessAdmin: ServiceToken<AccessAdmin> = serviceToken('access.admin');

const TENANT = Symbol('tenant');
type TenantSignal = AbortSignal & { [TENANT]?: Tenant };

/**
 * The signal of a call also says whose call it is: whatever is asked of an upstream with it counts as the tenant's, so that no plugin can
 * forget. A property and not a WeakMap: entries of one that every request changes would live until the next major collection.
 */
export function assignTenant(signal: AbortSignal, tenant: Tenant): void {
  (signal as TenantSignal)[TENANT] = tenant;
}

/** Undefined: the daemon itself. */
export const tenantOf = (signal: AbortSignal | undefined): Tenant | undefined =>
  (signal as TenantSignal | undefined)?.[TENANT];
