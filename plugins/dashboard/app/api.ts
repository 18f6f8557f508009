/**
 * Calls of the dashboard's routes, with what they return. Times are unix milliseconds unless they are texts. What a route of the dashboard
 * answers has the type of the code that answers; of what it passes on from other plugins, the members that the pages show stand here
 * (`test/repository/page-types.test.ts` compares them with the schemas of the routes).
 */

import type { BudgetUse, UsageDay } from '../../../src/ports/access.ts';
import type { VerifiedSlot } from '../../../src/ports/chain.ts';
import type { AnsweredRequest, PluginView, ReadinessView, Setting } from '../../../src/ports/daemon-view.ts';
import type { ChainGap } from '../../../src/ports/following.ts';
import type { NamedOperator } from '../operators.ts';
import type { KeptRequest } from '../requests.ts';
import type { Login, Who } from '../routes/login.ts';
import type { LiveChain, LiveStatus, LiveUpstream, ShownAudit } from '../routes/operation.ts';
import type { ForkAnswer, Paid, PlaygroundView } from '../routes/playground.ts';
import type { Choices, ListedKey, Project, ProjectsAnswer } from '../routes/projects.ts';
import type { Series, SeriesPoint } from '../series.ts';

export type {
  AnsweredRequest,
  BudgetUse,
  ChainGap,
  Choices,
  ForkAnswer,
  KeptRequest,
  ListedKey as Key,
  LiveChain,
  LiveStatus,
  LiveUpstream,
  Login,
  NamedOperator,
  Paid,
  PlaygroundView,
  PluginView,
  Project,
  ProjectsAnswer,
  ReadinessView,
  Series,
  SeriesPoint,
  Setting,
  ShownAudit,
  UsageDay,
  VerifiedSlot,
  Who,
};

const BASE = '/dashboard/api';

/** `status` 0: the daemon could not be reached. */
export class ApiError extends Error {
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** Of the portal, see portal.ts; empty: not opened yet; null: this is not the portal, and the session is in a cookie. */
let portalSession: string | null = null;
let csrfToken = '';
/** Number of log-ins on this page. */
let logins = 0;
let askLogin: () => Promise<void> = () => Promise.reject(new ApiError(401, 'Log in first'));
let setReachable: (isReachable: boolean) => void = () => {};

/** `login` resolves when the user has logged in again; `reachable` hears whether the last call got an answer. */
export function onSession(login: () => Promise<void>, reachable: (isReachable: boolean) => void): void {
  askLogin = login;
  setReachable = reachable;
}

async function send(method: string, path: string, body: unknown): Promise<Response> {
  try {
    const response = await fetch(BASE + path, {
      method,
      credentials: portalSession === null ? 'same-origin' : 'omit',
      headers: {
        ...(portalSession === null || portalSession === '' ? {} : { 'X-Portal-Session': portalSession }),
        ...(method === 'GET' ? {} : { 'X-CSRF-Token': csrfToken }),
        ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    setReachable(true);
    return response;
  } catch {
    setReachable(false);
    throw new ApiError(0, 'The daemon cannot be reached');
  }
}

type Reviver = (name: string, value: unknown, context?: { readonly source?: string }) => unknown;

/** Keeps an integer that a double rounds as the text that was written. Browsers before 2024 pass no context: there it is rounded. */
const exactIntegers: Reviver = (_, value, context) =>
  typeof value === 'number' && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source ?? '')
    ? context?.source
    : value;

async function read<T>(response: Response, reviver?: Reviver): Promise<T> {
  const text = await response.text();
  let value: unknown = null;
  try {
    value = text === '' ? null : JSON.parse(text, reviver);
  } catch {
    if (response.ok) throw new ApiError(response.status, 'The answer is not JSON');
  }
  if (response.ok) return value as T;
  const { error, details } = (value ?? {}) as { readonly error?: string; readonly details?: string };
  throw new ApiError(response.status, [error ?? `Error ${response.status}`, details].filter(Boolean).join(': '));
}

/**
 * The answer to a call of this session. When the session has ended, the user logs in over the page and the call is made again, so that no form
 * is lost.
 */
async function answer(method: string, path: string, body?: unknown): Promise<Response> {
  const loginsBefore = logins;
  const response = await send(method, path, body);
  if (response.status !== 401) return response;
  // What was asked before the last log-in says nothing about this session.
  if (logins === loginsBefore) await askLogin();
  return await send(method, path, body);
}

async function call<T>(method: string, path: string, body?: unknown, reviver?: Reviver): Promise<T> {
  return await read<T>(await answer(method, path, body), reviver);
}

export const get = <T>(path: string): Promise<T> => call('GET', path);
/** What is not JSON. */
export async function getText(path: string): Promise<string> {
  const response = await answer('GET', path);
  return response.ok ? await response.text() : await read<never>(response);
}
export const post = <T>(path: string, body: unknown = {}): Promise<T> => call('POST', path, body);
export const patch = <T>(path: string, body: unknown): Promise<T> => call('PATCH', path, body);
export const remove = <T>(path: string): Promise<T> => call('DELETE', path);
export const put = <T>(path: string, body: unknown): Promise<T> => call('PUT', path, body);

/** From now on calls are made with this session of the portal, and with no cookie of the browser. */
export function callAsPortal(session: string): void {
  portalSession = session;
}

/** The session that a link opens; null: it has expired or was opened before. */
export async function openLink(token: string): Promise<string | null> {
  const response = await send('POST', '/portal', { token });
  return response.status === 401 ? null : (await read<{ readonly session: string }>(response)).session;
}

/** The logged-in user, or null. */
export async function session(): Promise<Who | null> {
  const response = await send('GET', '/session', undefined);
  return response.status === 401 ? null : keep(await read<Who>(response));
}

export const login = async (body: Login): Promise<Who> => keep(await read<Who>(await send('POST', '/login', body)));

/** Host of the identity provider by which operators can log in; null: none, or the daemon does not answer. */
export const provider = async (): Promise<string | null> => {
  const response = await send('GET', '/login', undefined).catch(() => null);
  return response?.ok === true ? (await read<{ readonly provider: string | null }>(response)).provider : null;
};
export const providerAddress = `${BASE}/oidc`;

export const logout = (): Promise<unknown> => post('/logout');

/** Ends sessions, including this one: as operator those of all users, as viewer the own ones, as owner those of the project. */
export const endSessions = (): Promise<unknown> => post('/sessions/end');

function keep(who: Who): Who {
  logins += 1;
  csrfToken = who.csrfToken;
  return who;
}

/** A webhook route on behalf of a project; `path` is below `/v0/webhooks`. */
export const hookCall = <T>(project: string, method: string, path: string, body?: unknown): Promise<T> =>
  post(`/projects/${project}/webhooks`, {
    method,
    path: `/v0/webhooks${path}`,
    ...(body === undefined ? {} : { body }),
  });

/** A route for interfaces on behalf of a project; `path` is below `/v1/parsed-events/idls`. */
export const interfaceCall = <T>(project: string, method: string, path: string, body?: unknown): Promise<T> =>
  post(`/projects/${project}/interfaces`, {
    method,
    path: `/v1/parsed-events/idls${path}`,
    ...(body === undefined ? {} : { body }),
  });

/** The answer to a look-up, and proofs of the pictures that it names, by URI. */
export interface PicturedAnswer<T> {
  readonly result: T;
  readonly pictures: Readonly<Record<string, string>>;
}

/** A call of the API on behalf of a project, at its credits. Numbers that others wrote into documents are exact. */
export const lookUp = <T>(project: string, wanted: object): Promise<PicturedAnswer<T>> =>
  call('POST', `/projects/${project}/look-up`, wanted, exactIntegers);

/** Where the daemon serves the picture behind a URI; null without a proof, and in the portal: pictures are loaded with a cookie or not at all. */
export function pictureAddress(
  uri: string | null | undefined,
  proofs: PicturedAnswer<unknown>['pictures'],
): string | null {
  const proof = uri ? proofs[uri] : undefined;
  return uri && proof !== undefined && portalSession === null
    ? `${BASE}/picture?${new URLSearchParams({ uri, proof })}`
    : null;
}

export const liveAddress = `${BASE}/live`;

export interface Usage {
  readonly cycle: {
    readonly creditsUsed: number;
    readonly creditsRemaining: number;
    readonly prepaidCreditsRemaining: number;
    readonly creditCycle: { readonly start: string; readonly end: string };
    readonly subscriptionDetails: { readonly plan: string; readonly creditsLimit: number };
  };
  readonly days: readonly UsageDay[];
}

/** What one instruction of a transaction has to have. */
export interface ParsedFilterInput {
  readonly programs?: readonly string[];
  readonly instructionNames?: readonly string[];
  readonly accounts?: { readonly include?: readonly string[]; readonly roles?: Readonly<Record<string, string>> };
  readonly includeFailed?: boolean;
  readonly includeCpi?: boolean;
}

/** How the deliveries of a webhook go. */
export interface HookHealth {
  readonly webhookID: string;
  readonly state: 'working' | 'failing' | 'idle' | 'off';
  readonly attempts: { readonly succeeded: number; readonly failed: number };
  /** Share of the last 24 hours, 0 to 1. */
  readonly successRate: number | null;
  readonly lastDeliveredAt: string | null;
  readonly waiting: number;
  readonly held: number;
  readonly nextAttemptAt: string | null;
  readonly days: readonly { readonly day: string; readonly succeeded: number; readonly failed: number }[];
}

/** A webhook of any project that the daemon switched off lately, or whose attempts of the last hour mostly failed. */
export interface ShownFailingHook {
  readonly webhookID: string;
  readonly project: string;
  readonly name: string | null;
  readonly host: string;
  readonly succeeded: number;
  readonly failed: number;
  /** Null: it is on. */
  readonly disabledReason: 'failure_rate' | 'gone' | null;
  readonly disabledAt: string | null;
}

export interface ShownWebhook {
  readonly webhookID: string;
  readonly name?: string;
  readonly description?: string;
  readonly webhookURL: string;
  readonly webhookType: string;
  readonly transactionTypes: readonly string[];
  readonly accountAddresses: readonly string[];
  readonly addressCount: number;
  readonly authHeader: string;
  readonly active: boolean;
  readonly txnStatus: string;
  readonly matchTokenOwners: boolean;
  readonly retryPreset: string;
  readonly batchSize: number;
  readonly ordered: boolean;
  readonly onInactive: string;
  /** Null for other types than `parsed`. */
  readonly parsedFilter?: ParsedFilterInput | null;
  readonly parsedDetails?: string | null;
  readonly disabledReason?: string;
  readonly disabledAt?: string;
  readonly graceUntil?: string;
  readonly signingSecret?: string;
}

export interface ShownAttempt {
  readonly attempt: number;
  readonly at: string;
  readonly durationMs: number;
  readonly statusCode: number | null;
  readonly failure: string | null;
  readonly responseBody: string | null;
  readonly responseHeaders?: Readonly<Record<string, string>>;
  readonly requestHeaders?: Readonly<Record<string, string>>;
}

export type DeliveryState = 'pending' | 'delivered' | 'failed' | 'discarded';

export interface ShownDelivery {
  readonly deliveryId: string;
  readonly status: DeliveryState;
  readonly signature: string;
  readonly slot: number;
  readonly type?: string | null;
  readonly createdAt: string;
  readonly nextAttemptAt: string | null;
  readonly reason: string | null;
  readonly attempts: readonly ShownAttempt[];
  readonly body?: unknown;
}

export interface ListedDeliveries {
  readonly data: readonly ShownDelivery[];
  readonly missed: readonly {
    readonly fromSlot: number;
    readonly toSlot: number;
    readonly events: number;
    readonly reason: string;
  }[];
  readonly pagination: { readonly hasMore: boolean; readonly nextCursor: string | null };
}

/** A range of slots and how far it is filled. */
export interface FilledRange extends Pick<ChainGap, 'fromSlot' | 'toSlot' | 'filledTo'> {
  readonly status: string;
}

export interface Tree {
  readonly tree: string;
  readonly type: number;
  readonly size: number;
  readonly state: string;
  readonly reason: string | null;
  readonly lag: number | null;
  /** The range of slots that is read again for it. */
  readonly reading: FilledRange | null;
}

export interface Wallet {
  readonly address: string;
  readonly state: string;
  readonly trouble: string | null;
  readonly followed: boolean;
  readonly pinned: boolean;
  readonly fromSlot: number | null;
  readonly toSlot: number | null;
  readonly transactions: number;
}

/** The members that the pages show, of what the asset API returns; a stranger may have written them. */
export interface PageAsset {
  readonly id: string;
  readonly interface: string;
  readonly content?: {
    readonly json_uri?: string;
    readonly files?: readonly { readonly uri?: unknown; readonly mime?: unknown }[];
    readonly links?: { readonly image?: unknown };
    readonly metadata?: Readonly<Record<string, unknown>>;
  };
  readonly authorities?: readonly { readonly address: string }[];
  readonly creators?: readonly { readonly address: string; readonly share: number; readonly verified: boolean }[];
  readonly grouping?: readonly {
    readonly group_key: string;
    readonly group_value?: string | null;
    readonly verified?: boolean;
  }[];
  readonly compression?: {
    readonly compressed?: boolean;
    readonly tree?: string;
    readonly leaf_id?: number;
    readonly asset_hash?: string;
  };
  readonly ownership?: {
    readonly owner?: string;
    readonly delegate?: string | null;
    readonly frozen?: boolean;
  };
  readonly royalty?: { readonly basis_points?: number };
  readonly token_info?: {
    readonly supply?: number;
    readonly decimals?: number;
    readonly token_program?: string;
    readonly mint_authority?: string;
    readonly freeze_authority?: string;
    readonly price_info?: { readonly price_per_token?: number };
  };
  readonly mutable?: boolean;
  readonly burnt?: boolean;
  readonly last_indexed_slot?: number;
}

export interface AssetPage {
  readonly items: readonly PageAsset[];
  readonly limit: number;
}

export interface AssetProof {
  readonly leaf: string;
  readonly root: string;
  /** Whether its hashes lead from the leaf to the root. */
  readonly isProven: boolean;
}

export interface Balances {
  readonly balances: readonly {
    readonly mint: string;
    readonly symbol: string | null;
    readonly name: string | null;
    readonly balance: number;
    readonly pricePerToken: number | null;
    readonly usdValue: number | null;
    readonly logoUri: string | null;
    readonly tokenProgram: string;
  }[];
  readonly totalUsdValue: number;
  readonly pagination: { readonly page: number; readonly hasMore: boolean };
}

export interface AddressTransaction {
  readonly signature: string;
  readonly slot: number;
  readonly blockTime?: number | null;
  readonly err: unknown;
}

/** A page of parsed transactions, newest first. */
export interface WordsPage {
  readonly data: readonly {
    readonly signature: string;
    readonly parsed?: PageTransaction | null;
  }[];
  readonly paginationToken?: string | null;
}

/** What the newest transactions of a wallet changed; SOL is the mint `SOL`. */
export interface BalanceChanges {
  readonly data: readonly {
    readonly timestamp: number | null;
    readonly balanceChanges: readonly { readonly mint: string; readonly amount: number }[];
  }[];
  readonly pagination: { readonly hasMore: boolean };
}

export interface LargestAccounts {
  readonly value: readonly { readonly address: string; readonly amount: string; readonly decimals: number }[];
}

/** Accounts as a node reads them; null in the place of one that is not there. */
export interface ParsedAccounts {
  readonly value: readonly ({
    readonly data?: { readonly parsed?: { readonly info?: { readonly owner?: unknown } } };
  } | null)[];
}

export interface ShownAssetChanges {
  readonly items: readonly (readonly [signature: string, operation: string])[];
}

/** An instruction of a parsed transaction; strangers wrote the names and the arguments. */
export interface ShownInstruction {
  readonly instructionIndex: number;
  readonly innerInstructionIndex: number | null;
  readonly stackHeight: number | null;
  readonly programId: string;
  readonly rawAccounts: readonly string[];
  readonly rawData: string;
  readonly summary: { readonly description: string } | null;
  readonly programName: string | null;
  readonly instructionName: string | null;
  readonly decoded: {
    readonly args: unknown;
    readonly accounts: readonly {
      readonly name: string;
      readonly pubkey: string;
      readonly isSigner: boolean;
      readonly isWritable: boolean;
    }[];
  } | null;
}

export interface PageTransaction {
  readonly slot: number;
  readonly blockTime: number | null;
  readonly fee: number;
  readonly feePayer: string | null;
  readonly transactionStatus: 'OK' | 'ERROR';
  readonly error?: unknown;
  readonly decodedError?: {
    readonly instructionIndex: number;
    readonly programId: string;
    readonly programName: string;
    readonly code: number;
    readonly name: string;
    readonly msg: string | null;
  };
  readonly nativeTransfers: readonly {
    readonly fromUserAccount: string | null;
    readonly toUserAccount: string | null;
    readonly amount: number;
  }[];
  readonly tokenTransfers: readonly {
    readonly fromUserAccount: string | null;
    readonly toUserAccount: string | null;
    readonly rawTokenAmount: number;
    readonly decimals: number;
    readonly mint: string;
  }[];
  readonly summary: { readonly type: string; readonly description: string } | null;
  readonly instructions: readonly ShownInstruction[];
}

export interface TransactionAnswer {
  readonly parsed?: PageTransaction;
  readonly parserError?: { readonly code: string; readonly message: string };
  readonly rawTransaction?: unknown;
}

/** An interface that the project has uploaded. */
export interface UploadedInterface {
  readonly programId: string;
  readonly version: number;
  readonly fromSlot: number;
  readonly name: string | null;
  readonly bytes: number;
  readonly createdAt: string;
}

export interface KnownInterface {
  readonly source: 'project' | 'folder' | 'builtIn' | 'chain';
  readonly fromSlot: number;
  readonly toSlot: number | null;
  readonly name: string | null;
  readonly instructions: readonly string[] | null;
}
