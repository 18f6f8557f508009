import { serviceToken } from './service.ts';

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
export const accessAdmin = serviceToken<AccessAdmin>('access.admin');
