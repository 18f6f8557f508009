import { type ServiceToken, serviceToken } from './service.ts';
import type { Queries, StoreTx } from './store.ts';

/** The authenticated caller. The gate creates it; every handler receives it. */
export interface Caller {
  readonly projectId: string;
  /** Null for anonymous callers. */
  readonly keyId: string | null;
  readonly plan: string;
  /** Wallet of the member that the key was created for, or of the project's owner; base58, or null. */
  readonly wallet: string | null;
  /** Limits of the project for shared budgets; absent if no plan limits them. */
  readonly budgets?: Budgets;
}

/** Shared resources that one project could exhaust. The texts describe the limits to operators and to refused clients. */
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
  streams: 'open gRPC streams',
  streamFilters: 'filters of gRPC streams, where a cuckoo filter counts as 16',
  streamFilterBytes: 'bytes of requests and filters of gRPC streams',
  passedStreams: 'gRPC streams that are passed on to a Yellowstone server',
} as const;

export type BudgetName = keyof typeof BUDGETS;

/** The limits of one project; null: only the shared limit applies. */
export type Budgets = Readonly<Record<BudgetName, number | null>>;

/** An amount of a shared budget that a project holds until it is released. */
export interface Lease {
  readonly amount: number;
  /** Changes the amount. Throws like `take` if it cannot grow; the amount is then unchanged. */
  set(amount: number): void;
  /** Returns the whole amount. Further calls have no effect. */
  release(): void;
}

/** A holder of budgets: the project of a call, or the address of a client without a key. */
export interface Tenant {
  /** Must not be shown to others: it may be an address. */
  readonly id: string;
  /**
   * Throws GateRefusal: `budget` if the tenant would exceed the limit of its plan, `room` if the shared limit is reached and the tenant
   * holds more than its fair share.
   */
  take(name: BudgetName, amount: number): Lease;
  /** Like `take` without a lease, for hot paths: the holder must `give` back exactly the same amount. */
  hold(name: BudgetName, amount: number): void;
  give(name: BudgetName, amount: number): void;
  /** Counts without checking limits, for resources whose users wait instead of being refused. */
  count(name: BudgetName, amount: number): void;
  /** Counts a refusal and returns the error to throw. */
  refusal(name: BudgetName): Error;
  /** Limit of the plan; null: no limit. */
  limit(name: BudgetName): number | null;
}

/** The daemon itself, for work that no tenant asked for. Nothing limits it, and what it uses is not counted. */
export const OWN_WORK: Tenant = {
  id: '',
  take: (_name, amount) => ({ amount, set: () => undefined, release: () => undefined }),
  hold: () => undefined,
  give: () => undefined,
  count: () => undefined,
  refusal: (name) => new Error(`${name} of the daemon itself are not limited`),
  limit: () => null,
};

/** How much a project holds now, and how often it was refused. */
export interface BudgetUse {
  readonly budget: BudgetName;
  readonly used: number;
  readonly limit: number | null;
  readonly refused: number;
}

/** The amount that a project has stored, and the limit of its plan. */
export interface StoredUse {
  readonly used: number;
  readonly limit: number | null;
}

/** Budgets of stored data. The plugin that stores the data counts it in the database and reports it here. */
export interface StoredBudgets {
  /** `use` returns what a project has stored now. */
  provide(use: (projectId: string) => Promise<Partial<Record<BudgetName, StoredUse>>>): void;
  /** Reports that a project was refused. */
  refused(budget: BudgetName, projectId: string): void;
}

/** Offered by the kernel. */
export const storedBudgets: ServiceToken<StoredBudgets> = serviceToken('kernel.budgets');

/** The tenants of this process, for plugins with a listener of their own. */
export interface Tenants {
  tenantOf(caller: Caller | null, address: string): Tenant;
}

/** Offered by the kernel. */
export const kernelTenants: ServiceToken<Tenants> = serviceToken('kernel.tenants');

/** The project and key that the first start of a daemon creates. */
export interface FirstKey {
  readonly projectId: string;
  /** The API key in full: shown once, never stored. */
  readonly key: string;
}

export interface AccessBootstrap {
  /**
   * Creates the first project and key if no project exists yet; null otherwise. `key` is installed instead of a random one.
   * Safe when several processes start at once: exactly one creates the project.
   */
  ensureFirstProject(options?: { readonly key?: string }): Promise<FirstKey | null>;
}

export const accessBootstrap: ServiceToken<AccessBootstrap> = serviceToken('access.bootstrap');

/** Limits of a project's plan other than those of calls. */
export interface AccessPlans {
  /** Maximum number of webhooks of a project; null: no limit. `db` is that of the transaction that creates one. */
  maxWebhooks(db: Queries, projectId: string): Promise<number | null>;
  /** Maximum number of addresses of one webhook; null: unknown. */
  maxAddresses(db: Queries, projectId: string): Promise<number | null>;
  /** Limits of the project for shared budgets; null: unknown. */
  budgets(db: Queries, projectId: string): Promise<Budgets | null>;
}

export const accessPlans: ServiceToken<AccessPlans> = serviceToken('access.plans');

/** Credits reserved for work of a project. */
export interface Charge {
  /** Charges or returns the credits. Must be called exactly once. */
  finish(isCharged: boolean): void;
}

/** Charges data that is streamed to a project. */
export interface StreamMeter {
  /** Whether the credits known to this process cover so many bytes, and credits for other work. False until `refresh` was called once. */
  affords(bytes: number, credits?: number): boolean;
  /** Charges bytes that were sent, and credits for other work. */
  count(bytes: number, credits?: number): void;
  /** Reads the remaining credits. Throws the errors of the store. */
  refresh(): Promise<void>;
}

/** Charges for work outside of requests, such as deliveries. */
export interface AccessCharges {
  /**
   * Reserves `count` times `credits` of a project. Null: its credits are used up, or it is disabled. Work of a project that does not exist
   * costs nothing.
   */
  reserve(
    projectId: string,
    work: { readonly product: string; readonly credits: number; readonly count: number },
  ): Promise<Charge | null>;
  /** A project that does not exist pays nothing. */
  stream(projectId: string, price: { readonly product: string; readonly creditsPerByte: number }): StreamMeter;
  /** Remaining credits of the project; Infinity if credits are not limited, 0 while it is disabled. */
  left(projectId: string): Promise<number>;
  isDisabled(projectId: string): Promise<boolean>;
  /** Writes what this process has charged so far. Throws the errors of the store; what is not written is kept and tried again. */
  written(): Promise<void>;
}

export const accessCharges: ServiceToken<AccessCharges> = serviceToken('access.charges');

/** Deletes what other plugins store for a project. */
export interface AccessRemoval {
  /** `remove` is called in the transaction that deletes a project; what it throws prevents the deletion. */
  onDelete(remove: (tx: StoreTx, projectId: string) => Promise<void>): void;
}

export const accessRemoval: ServiceToken<AccessRemoval> = serviceToken('access.removal');

/** Creates projects and keys inside a transaction of the caller. */
export interface AccessAccounts {
  hasPlan(name: string): boolean;
  /** What a plan costs and gives; null: it has no price, or gives no credits. */
  priceOf(plan: string): { readonly usd: number; readonly credits: number } | null;
  /** `creditsLimit`: instead of that of the plan. Returns the id. Errors: ACCESS_UNKNOWN_PLAN, ACCESS_BAD_NAME, ACCESS_BAD_WALLET. */
  createProject(
    tx: StoreTx,
    project: { readonly name: string; readonly plan: string; readonly wallet: string; readonly creditsLimit?: number },
  ): Promise<string>;
  /** Installs `key`; only its hash is stored. Returns the id of the key. Errors: ACCESS_UNKNOWN_PROJECT, ACCESS_BAD_KEY, STORE_CONFLICT. */
  createKey(
    tx: StoreTx,
    key: { readonly projectId: string; readonly name: string; readonly key: string },
  ): Promise<string>;
  /** Adds prepaid credits. Errors: ACCESS_UNKNOWN_PROJECT, ACCESS_BAD_CREDITS. */
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
  /** Its keys do not work and its deliveries wait until it is enabled. */
  readonly isDisabled: boolean;
}

export interface KeyView {
  readonly id: string;
  /** The first characters. */
  readonly prefix: string;
  readonly name: string;
  readonly state: 'active' | 'revoked' | 'expired';
  readonly createdAt: number;
  readonly expiresAt: number | null;
  readonly revokedAt: number | null;
  /** Products and named permissions; null: all. */
  readonly permissions: readonly string[] | null;
  /** Addresses and networks that may use the key; null: all. */
  readonly ips: readonly string[] | null;
  /** Pages that may use the key in a browser; null: all. */
  readonly origins: readonly string[] | null;
}

/** Lists that limit a key; null: no limit; absent: unchanged, for a new key no limit. */
export interface KeyLimitsChange {
  readonly ips?: readonly string[] | null;
  readonly permissions?: readonly string[] | null;
  readonly origins?: readonly string[] | null;
}

/** What a project used in the last seven days (UTC), today included. */
export interface ProjectUse {
  readonly requests: number;
  /** The last of these days with use, `YYYY-MM-DD`. */
  readonly lastDay: string;
}

/** Usage of a product on one day (UTC, `YYYY-MM-DD`). */
export interface UsageDay {
  readonly day: string;
  readonly product: string;
  readonly credits: number;
  readonly requests: number;
  readonly bytes: number;
}

/** Projects, keys and usage for the operator pages. Errors: the codes ACCESS_UNKNOWN_… and ACCESS_BAD_…. */
export interface AccessAdmin {
  planNames(): readonly string[];
  /** What a key can be limited to. */
  permissionNames(): readonly string[];
  /** Without deleted ones. */
  projects(): Promise<readonly ProjectView[]>;
  /** By id of the project, without those that used nothing; null: of all projects. */
  recentUse(projectId: string | null): Promise<ReadonlyMap<string, ProjectUse>>;
  createProject(project: { readonly name: string; readonly plan: string }): Promise<ProjectView>;
  /** Renames, disables or enables a project; absent members stay unchanged. */
  changeProject(id: string, change: { readonly name?: string; readonly isDisabled?: boolean }): Promise<ProjectView>;
  /** Deletes a disabled project with its keys and data; its usage stays. Errors: also ACCESS_PROJECT_ENABLED. */
  deleteProject(id: string): Promise<void>;
  keys(projectId: string): Promise<readonly KeyView[]>;
  /** `key` is returned only here. */
  createKey(
    key: { readonly projectId: string; readonly name: string; readonly expiresAt: number | null } & KeyLimitsChange,
  ): Promise<{ readonly id: string; readonly key: string }>;
  /** False if the key was already revoked. */
  revokeKey(projectId: string, id: string): Promise<boolean>;
  limitKey(projectId: string, id: string, limits: KeyLimitsChange): Promise<void>;
  /** The usage record of the billing cycle, as returned by the usage endpoint. */
  usage(projectId: string): Promise<unknown>;
  /** Days from `from` to `to`, both inclusive; at most 400 days. */
  usageDays(projectId: string, from: string, to: string): Promise<readonly UsageDay[]>;
}

/** Offered by the plugin `access`. */
export const accessAdmin: ServiceToken<AccessAdmin> = serviceToken('access.admin');

const TENANT = Symbol('tenant');
type TenantSignal = AbortSignal & { [TENANT]?: Tenant };

/**
 * Attaches the tenant to the signal of a call, for code that is given the signal only.
 * A property, not a WeakMap: WeakMap entries made by every request would live until the next major collection.
 */
export function assignTenant(signal: AbortSignal, tenant: Tenant): void {
  (signal as TenantSignal)[TENANT] = tenant;
}

/** The tenant of a call, or the daemon itself if the signal is not that of a call. */
export const tenantOf = (signal: AbortSignal): Tenant => (signal as TenantSignal)[TENANT] ?? OWN_WORK;
