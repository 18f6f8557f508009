import { Type } from '@sinclair/typebox';
import { type Clock, codeOf, messageOf, type Route, type Store, type Tag } from '../../../src/plugin/plugin.ts';
import { RequestError, type RouteRequest } from '../../../src/plugin/request.ts';
import type { AccessAdmin, BudgetUse, Caller } from '../../../src/ports/access.ts';
import type { DaemonView } from '../../../src/ports/daemon-view.ts';
import type { DashboardConfig } from '../config.ts';
import type { Operators } from '../operators.ts';
import type { RecentRequests } from '../requests.ts';
import { actorOf, COOKIE_NAME, type Guard, type OwnerPace, type Session, type Sessions } from '../sessions.ts';
import type { AuditLog, OperatorToken, ProjectSecrets, Standings } from '../store.ts';

/** Dependencies of the page routes. */
export interface PageContext {
  readonly config: DashboardConfig;
  readonly access: AccessAdmin;
  /** Send the cookie only over https. */
  readonly isSecure: boolean;
  readonly daemon: DaemonView;
  /** Whether the daemon runs its local chain. */
  isLocalChain(): boolean;
  /** By chain; null: not known yet. Chains that are not configured are missing. */
  genesisHashes(): Readonly<Record<string, string | null>>;
  readonly sessions: Sessions;
  readonly guard: Guard;
  readonly pace: OwnerPace;
  readonly picturePace: OwnerPace;
  readonly requests: RecentRequests;
  /** Budgets that a project holds now, in all threads and processes. */
  budgets(projectId: string): Promise<readonly BudgetUse[]>;
  readonly store: Store;
  readonly audit: AuditLog;
  readonly secrets: ProjectSecrets;
  readonly operatorToken: OperatorToken;
  readonly operators: Operators;
  readonly standings: Standings;
  /** Informs all processes that a standing has changed; sessions of this process with this name (null: all) end at once. */
  endSessions(name: string | null): void;
  readonly clock: Clock;
}

export const API = '/dashboard/api';

const DASHBOARD: Tag = { name: 'Dashboard', description: 'Pages for operators and owners of projects' };

/** Properties of the routes that the pages call: they are on the admin listener. */
export const OPEN_ROUTE = { tag: DASHBOARD, auth: 'admin', errors: 'wallet' } as const satisfies Partial<Route>;

/** Like `OPEN_ROUTE`, for routes that need a login. */
export const PAGE_ROUTE = { ...OPEN_ROUTE, session: COOKIE_NAME } as const satisfies Partial<Route>;

const refusal = Type.Object({ error: Type.String(), code: Type.Integer(), details: Type.Optional(Type.String()) });
export const REFUSALS = { 400: refusal, 401: refusal, 403: refusal, 404: refusal } as const;

export const projectParams = Type.Object({ project: Type.String({ maxLength: 64 }) });

/** Runs an action with an audit log entry, at the pace of its user. Error codes of the access plugin become HTTP errors. */
export async function audited<T>(
  { audit, pace }: PageContext,
  request: Pick<RouteRequest, 'remoteAddress'>,
  session: Session,
  action: { readonly action: string; readonly target: string },
  work: () => Promise<T>,
): Promise<T> {
  pace(session.identity);
  const entry = { actor: actorOf(session), address: request.remoteAddress, ...action };
  return await audit.record(entry, () => withHttpErrors(work()));
}

/** Maps errors of projects, keys and operators to HTTP errors. */
export async function withHttpErrors<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    const code = codeOf(error) ?? '';
    if (/^(ACCESS_UNKNOWN_(PROJECT|KEY)|DASHBOARD_UNKNOWN_OPERATOR)$/.test(code))
      throw new RequestError(404, messageOf(error));
    if (/^(ACCESS_PROJECT_ENABLED|DASHBOARD_OPERATOR_EXISTS)$/.test(code))
      throw new RequestError(409, messageOf(error));
    if (/^(ACCESS_(BAD|UNKNOWN|TOO_MANY)_|DASHBOARD_BAD_OPERATOR$)/.test(code))
      throw new RequestError(400, messageOf(error));
    throw error;
  }
}

/** A project as the caller of a route of the API listener. Errors: 404. */
export async function sessionCallerOf(
  { access }: PageContext,
  projectId: string,
): Promise<{ readonly caller: Caller; readonly isDisabled: boolean }> {
  const project = (await withHttpErrors(access.projects())).find(({ id }) => id === projectId);
  if (project === undefined) throw new RequestError(404, 'there is no project with this id');
  const { plan, wallet, isDisabled } = project;
  return { caller: { projectId, keyId: null, plan, wallet }, isDisabled };
}

/** A part of the daemon that this configuration does not load. */
export const missing = (details: string): RequestError =>
  new RequestError(501, 'This is not available here', { details });
