/** Turns a chosen request and its answer into single calls that can be asked of the reference. */
import { isPlainObject, parseVerbatim, stringify } from '../../src/lib/json.ts';
import { maskKeys } from '../../src/lib/mask-keys.ts';
import type { TappedRequest, WholeAnswer } from '../../src/ports/answer-tap.ts';
import type { AnswerText } from './compare.ts';

/** One call, and what was answered here. */
export interface ComparedCall {
  /** JSON-RPC method, or HTTP method and route pattern. */
  readonly name: string;
  readonly question: Question;
  readonly ours: AnswerText;
}

/** What is sent to the reference. */
export type Question =
  | { readonly kind: 'rpc'; readonly body: string }
  | { readonly kind: 'rest'; readonly method: 'GET' | 'POST'; readonly target: string; readonly body: Buffer | null };

export const RPC_NAME = 'POST /';

const ROUTES =
  /^(?:GET|POST) \/(?:v1\/wallet\/|v0\/transactions$|v0\/addresses\/|v0\/token-metadata$|v1\/parsed-events\/(?:transactions|transaction-history|scan)$)/;
/** Calls that change something, start a stream, or whose answer belongs to the server. */
const NEVER = /^(?:send|request|simulateBundle|getBundle|getInflight)|(?:Subscribe|Unsubscribe)$/;
/** Texts that only the server that wrote them can read: members of parameters, and of queries. */
const OWN_CURSORS = ['paginationKey', 'cursor'];
/** Statuses and codes of a refusal that is about the caller, not about the question. */
const REFUSED_STATUSES = new Set([401, 403, 429]);

/** Whether requests of a route can be compared. */
export const isComparedRoute = (name: string): boolean => name === RPC_NAME || ROUTES.test(name);

const isComparedMethod = (method: string): boolean => !NEVER.test(method);

/** The calls of a request with their answers; empty if none can be compared. */
export function callsOf(request: TappedRequest, answer: WholeAnswer): readonly ComparedCall[] {
  if (REFUSED_STATUSES.has(answer.status)) return [];
  const text = String(answer.body);
  if (request.name !== RPC_NAME) {
    const question = restQuestion(request);
    return question === null ? [] : [{ name: request.name, question, ours: { status: answer.status, text } }];
  }
  const sent = parsed(String(request.body ?? ''));
  if (!Array.isArray(sent)) {
    const call = rpcCallOf(sent);
    return call === null ? [] : [{ ...call, ours: { status: answer.status, text } }];
  }
  const answers = parsed(text);
  if (!Array.isArray(answers)) return [];
  const byId = new Map(answers.filter(isPlainObject).map((one) => [stringify(one['id']), one]));
  return sent.flatMap((item) => {
    const call = rpcCallOf(item);
    const own = isPlainObject(item) ? byId.get(stringify(item['id'])) : undefined;
    return call === null || own === undefined ? [] : [{ ...call, ours: { status: 200, text: stringify(own) } }];
  });
}

/** The question of a request that is one call; null if it is none that can be compared. */
export function questionOf(request: TappedRequest): { readonly name: string; readonly question: Question } | null {
  if (request.name === RPC_NAME) return rpcCallOf(parsed(String(request.body ?? '')));
  const question = restQuestion(request);
  return question === null ? null : { name: request.name, question };
}

function rpcCallOf(item: unknown): { readonly name: string; readonly question: Question } | null {
  if (!isPlainObject(item)) return null;
  const { method, id, params } = item;
  if (typeof method !== 'string' || id === undefined || id === null || !isComparedMethod(method)) return null;
  if (hasCursor(Array.isArray(params) ? params : [params])) return null;
  const call = params === undefined ? { jsonrpc: '2.0', id, method } : { jsonrpc: '2.0', id, method, params };
  return { name: method, question: { kind: 'rpc', body: stringify(call) } };
}

/** Null: a parameter may be a key, or a cursor that only this daemon understands. */
function restQuestion({ name, path, query, body }: TappedRequest): Question | null {
  const method = name.startsWith('POST ') ? 'POST' : 'GET';
  const names = new URLSearchParams(query);
  if (maskKeys(query) !== query || OWN_CURSORS.some((cursor) => names.has(cursor))) return null;
  const target = query === '' ? path : `${path}?${query}`;
  return { kind: 'rest', method, target, body };
}

const hasCursor = (params: readonly unknown[]): boolean =>
  params.some((one) => isPlainObject(one) && OWN_CURSORS.some((name) => one[name] !== undefined && one[name] !== null));

function parsed(text: string): unknown {
  try {
    return parseVerbatim(text);
  } catch {
    return undefined;
  }
}
