import type { Queries } from '../../../src/ports/store.ts';

/** An action of somebody who was logged in, or tried to be. */
export interface AuditRow {
  id: string;
  /** Orders what happens within one millisecond. */
  seq: number;
  /** Unix milliseconds. */
  at: number;
  /** `operator`, `project:<id>`, `command line` or `nobody`. */
  actor: string;
  address: string;
  /** Area and verb, such as `keys.revoke`. */
  action: string;
  /** What it was done to, without secrets. */
  target: string;
  /** `begun`: the process ended before it could tell. */
  outcome: 'begun' | 'done' | 'failed';
}

export interface ProjectSecretRow {
  project_id: string;
  /** SHA-256; the secret itself is stored nowhere. */
  hash: Uint8Array;
  created_at: number;
}

export interface OperatorRow {
  id: number;
  /** SHA-256; the token itself is stored nowhere. */
  hash: Uint8Array;
  created_at: number;
}

interface DashboardTables {
  dashboard_audit: AuditRow;
  dashboard_secrets: ProjectSecretRow;
  dashboard_operator: OperatorRow;
}

/** Narrows the open handle of the store to the tables of this plugin. */
export const tables = (db: Queries): Queries<DashboardTables> => db as Queries<DashboardTables>;
