import { serviceToken } from './service.ts';
import type { Queries, StoreTx } from './store.ts';

/** Who calls. Given by the gate, handed to every handler. */
export interface Caller {
  readonly projectId: string;
  /** Null for anonymous callers. */
  readonly keyId: string | null;
  readonly plan: string;
  /** Of the member that the key was made for, else of the project's owner; base58, or null. */
  readonly wallet: string | null;
}

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

export const accessBootstrap = serviceToken<AccessBootstrap>('access.bootstrap');

/** What the plan of a project allows beyond its calls. */
export interface AccessPlans {
  /** Webhooks of a project; null for no limit. `db` is that of the transaction that makes one. */
  maxWebhooks(db: Queries, projectId: string): Promise<number | null>;
  /** Addresses of one webhook; null where nobody knows. */
  maxAddresses(db: Queries, projectId: string): Promise<number | null>;
}

export const accessPlans = serviceToken<AccessPlans>('access.plans');

/** Credits that were set aside for work of a project. */
export interface Charge {
  /** The work was done, or it was not: told once. Must not be forgotten. */
  settle(isCharged: boolean): void;
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
  /** Credits that the project may still spend; infinite where nobody counts. */
  left(projectId: string): Promise<number>;
}

export const accessCharges = serviceToken<AccessCharges>('access.charges');

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

export const accessAccounts = serviceToken<AccessAccounts>('access.accounts');
