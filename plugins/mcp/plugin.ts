import type { JSONRPCMessage } from '@modelcontextprotocol/server';
import { isPlainObject } from '../../src/lib/json.ts';
import { rpcErrorReply } from '../../src/lib/json-rpc.ts';
import type { HostContext } from '../../src/plugin/host.ts';
import {
  defineRoute,
  JsonText,
  json,
  type Reply,
  RequestError,
  type Route,
  RpcError,
  type Tag,
  Type,
} from '../../src/plugin/plugin.ts';
import { kernelView } from '../../src/ports/daemon-view.ts';
import { createDeadlines } from '../../src/runtime/waiting.ts';
import { createCalls } from './calls.ts';
import type { McpConfig } from './config.ts';
import {
  answerMessage,
  answerModern,
  answerUsualModern,
  type CallHeaders,
  loadSdk,
  type Message,
  type Serving,
} from './server.ts';

const AGENTS: Tag = { name: 'Agents', description: 'The interface as tools for agents' };
const BODY_BYTES = 1_048_576;
/** Messages of one body: clients of the protocol of March 2025 may send several. */
const MAX_MESSAGES = 20;
/** The route ends a little later than its tools, so that the agent gets their error. */
const GRACE_MS = 2_000;

export function provision({ config, use, version, metrics, http, clock }: HostContext<McpConfig>): void {
  const daemon = use(kernelView);
  // A kernel without a view of itself has no listener either.
  if (daemon === undefined) return;
  const deadlines = createDeadlines(clock);
  const count = metrics.counter('messages_total', 'messages of agents, by method of the protocol', ['method']);
  http.route(
    mcpRoute(config.timeoutMs + GRACE_MS, async (request) => {
      const { caller, headers } = request;
      checkOrigin(headers, config.origins);
      if (caller === null) throw new RpcError('unauthorized');
      const serving: Serving = {
        version,
        config,
        deadlines,
        request,
        calls: (until) => createCalls(daemon, request, caller, until),
      };
      const body = messageOf(request.body);
      const messages = Array.isArray(body) ? body : [body];
      for (const message of messages) count.with(methodOf(message)).add();
      if (await isModern(headers, messages)) return await modernReply(serving, headers, body);
      const answers = (await Promise.all(messages.map((message) => answerOlder(serving, message)))).filter(
        (answer) => answer !== null,
      );
      if (answers.length === 0) return { status: 202 };
      return replyWith(Array.isArray(body) ? `[${answers.map(textOf).join(',')}]` : (answers[0] ?? ''));
    }),
  );
}

const MESSAGE = Type.Object({
  jsonrpc: Type.Literal('2.0', { description: 'Version of JSON-RPC' }),
  id: Type.Optional(
    Type.Union([Type.String(), Type.Integer()], { description: 'Id of the message; its answer has the same' }),
  ),
  method: Type.String({ description: 'Name of the method' }),
  params: Type.Optional(Type.Object({}, { additionalProperties: true, description: 'Its parameters' })),
});
const ANSWER = Type.Object({}, { additionalProperties: true });

const mcpRoute = (timeoutMs: number, handler: Route['handler']): Route =>
  defineRoute({
    method: 'POST',
    path: '/mcp',
    summary: 'The Model Context Protocol: tools, resources and prompts for agents',
    description:
      'Streamable HTTP without sessions: each request is answered with JSON. A tool uses the credits, rates and permissions of the key like the calls that it makes; the request itself costs no credits and counts in the rate `rpc`.',
    tag: AGENTS,
    auth: 'key',
    errors: 'rpc',
    // Every message takes a token, so that free ones are bounded too; what a tool needs is asked of the key by the calls that it makes.
    price: { product: 'other', credits: 0, groups: ['rpc'] },
    permission: null,
    bodyLimitBytes: BODY_BYTES,
    timeoutMs,
    rawBody: true,
    documented: {
      body: Type.Union([MESSAGE, Type.Array(MESSAGE, { minItems: 1, maxItems: MAX_MESSAGES })], {
        description: 'A message of the protocol; clients of 2025-03-26 may send several in an array',
        examples: [{ jsonrpc: '2.0', id: 1, method: 'tools/list', params: {} }],
      }),
    },
    replies: {
      200: Type.Union([ANSWER, Type.Array(ANSWER)], {
        description: 'The answer; an array answers an array of messages',
      }),
      202: Type.Null({ description: 'A notification was taken' }),
    },
    handler,
  });

const LOOPBACK = /^https?:\/\/(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d+)?$/;

/**
 * A web page of a stranger must not use this address through the browser of somebody who can reach it, also not under a name of its own that
 * it lets point here. Programs send no `Origin`.
 */
function checkOrigin({ origin }: CallHeaders, allowed: readonly string[]): void {
  if (origin === undefined || LOOPBACK.test(String(origin)) || allowed.includes(String(origin))) return;
  throw new RequestError(403, 'Forbidden', { details: 'This web page may not call /mcp: see mcp.origins' });
}

/** The body, one message or several. Throws RpcError. */
function messageOf(bytes: unknown): unknown {
  let body: unknown;
  try {
    body = JSON.parse(String(bytes));
  } catch {
    throw new RpcError('parse');
  }
  const messages: readonly unknown[] = Array.isArray(body) ? body : [body];
  if (messages.length === 0 || !messages.every(isPlainObject)) throw new RpcError('invalidRequest');
  if (messages.length > MAX_MESSAGES)
    throw new RpcError('invalidRequest', { details: `a request has at most ${MAX_MESSAGES} messages` });
  return body;
}

const METHODS: ReadonlySet<unknown> = new Set([
  'initialize',
  'notifications/initialized',
  'ping',
  'server/discover',
  'tools/list',
  'tools/call',
  'resources/list',
  'resources/templates/list',
  'resources/read',
  'prompts/list',
  'prompts/get',
  'completion/complete',
]);

/** Name of a method for the metric: strangers do not choose its labels. */
const methodOf = (message: unknown): string => {
  const method = isPlainObject(message) ? message['method'] : undefined;
  return METHODS.has(method) ? String(method) : 'other';
};

/**
 * Whether a client of the generation of 2026 sent it: each of its messages names its version. A version in the header that we do not know is
 * for the package to refuse.
 */
async function isModern(headers: CallHeaders, messages: readonly unknown[]): Promise<boolean> {
  const { PROTOCOL_VERSION_META_KEY, SUPPORTED_PROTOCOL_VERSIONS } = await loadSdk();
  const version = headers['mcp-protocol-version'];
  if (version !== undefined && !SUPPORTED_PROTOCOL_VERSIONS.includes(String(version))) return true;
  return messages.some((message) => {
    const params = isPlainObject(message) ? message['params'] : null;
    const meta = isPlainObject(params) ? params['_meta'] : null;
    return isPlainObject(meta) && PROTOCOL_VERSION_META_KEY in meta;
  });
}

async function modernReply(serving: Serving, headers: CallHeaders, body: unknown): Promise<Reply> {
  const usual = await answerUsualModern(serving, headers, body);
  if (usual !== null) return replyWith(usual);
  const passed = Object.entries(headers).filter(
    ([name, value]) => /^(accept|content-type|mcp-)/.test(name) && typeof value === 'string',
  );
  const response = await answerModern(serving, passed as [string, string][], body);
  const bytes = Buffer.from(await response.arrayBuffer());
  if (bytes.length === 0) return { status: response.status };
  return { status: response.status, bytes, contentType: response.headers.get('content-type') ?? 'application/json' };
}

const isId = (id: unknown) => id === undefined || typeof id === 'string' || typeof id === 'number';

const textOf = (message: Message): string =>
  typeof message === 'string' ? message : Buffer.concat(message.pieces).toString();

const replyWith = (message: Message): Reply => json(typeof message === 'string' ? new JsonText(message) : message);

/** The answer to a message of the generation of 2025; null for notifications, and for answers to requests that we never sent. */
async function answerOlder(serving: Serving, message: unknown): Promise<Message | null> {
  const { jsonrpc, id, method } = message as Record<string, unknown>;
  if (jsonrpc !== '2.0' || !isId(id) || (method !== undefined && typeof method !== 'string'))
    return rpcErrorReply('{"code":-32600,"message":"Invalid Request"}', 'null');
  return await answerMessage(serving, message as JSONRPCMessage);
}
