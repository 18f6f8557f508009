import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { type CodedError, codeOf, messageOf } from '../../../src/lib/coded-error.ts';
import { parseExact, stringify, withSortedMembers } from '../../../src/lib/json.ts';
import type { RpcErrorObject } from '../../../src/lib/json-rpc.ts';
import type { LocalChainOptions } from '../chain.ts';
import { RPC, rpcError, toErrorObject } from '../encode/params.ts';
import type { LocalNode, Methods } from './method.ts';

const BODY_LIMIT_BYTES = 1024 * 1024;
const GOODBYE_MS = 250;
const HOST = '127.0.0.1';
const JSON_TYPE = 'application/json; charset=utf-8';

export interface ServedCall {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** The parsed body. */
  readonly body: unknown;
}

/** Answers a whole HTTP call; the default is `answerPlainly`, and a fault layer may precede it. */
export type CallResponder = (call: ServedCall) => void | Promise<void>;

interface RpcServer {
  readonly server: Server;
  readonly port: number;
  stop(): Promise<void>;
}

/** Listens on loopback only; no option changes the address. */
export async function startRpcServer(
  port: number,
  respond: CallResponder,
  upgrade: (request: IncomingMessage, socket: Duplex, head: Buffer) => void,
): Promise<RpcServer> {
  const server = createServer((request, response) => {
    serve(request, response, respond).catch(() => response.destroy());
  });
  server.on('upgrade', upgrade);
  try {
    await listen(server, port);
  } catch (error) {
    // Another run may use the fixed port: a free one, which the caller prints, is better than no chain.
    if (port === 0 || codeOf(error) !== 'EADDRINUSE') throw error;
    await listen(server, 0);
  }
  const address = server.address() as { port: number };
  return {
    server,
    port: address.port,
    stop: () =>
      new Promise((resolve) => {
        // Calls in flight get their answer; a client that keeps its connection open does not delay the stop.
        const timer = setTimeout(() => server.closeAllConnections(), GOODBYE_MS);
        server.close(() => {
          clearTimeout(timer);
          resolve();
        });
      }),
  };
}

function listen(server: Server, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, HOST, () => {
      server.off('error', reject);
      resolve();
    });
  });
}

async function serve(request: IncomingMessage, response: ServerResponse, respond: CallResponder): Promise<void> {
  if (request.url?.split('?')[0] === '/health') return end(response, 200, 'ok', null);
  if (request.method === 'OPTIONS') return end(response, 200, '', JSON_TYPE);
  if (request.method !== 'POST') {
    return end(response, 405, 'Used HTTP Method is not allowed. POST or OPTIONS is required\n');
  }
  if (!/^application\/json\s*(;|$)/i.test(request.headers['content-type'] ?? '')) {
    return end(response, 415, 'Supplied content type is not allowed. Content-Type: application/json is required\n');
  }
  const text = await readBody(request);
  if (text === null) return end(response, 413, 'request body too large\n');
  const body = parseBody(text);
  if (body === undefined) return end(response, 200, `${stringify(failure(null, parseError()))}\n`, JSON_TYPE);
  await respond({ request, response, body });
}

/** The value of a body that is a call or a list of calls; undefined for anything else. */
export function parseBody(text: string): unknown {
  try {
    const body = parseExact(text);
    return (Array.isArray(body) ? body : [body]).every(isCall) ? body : undefined;
  } catch {
    return undefined;
  }
}

async function readBody(request: IncomingMessage): Promise<string | null> {
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of request as AsyncIterable<Buffer>) {
    bytes += part.length;
    if (bytes > BODY_LIMIT_BYTES) return null;
    parts.push(part);
  }
  return Buffer.concat(parts).toString('utf8');
}

export function end(
  response: ServerResponse,
  status: number,
  text: string,
  type: string | null = 'text/plain; charset=utf-8',
): void {
  const length = { 'content-length': Buffer.byteLength(text) };
  response.writeHead(status, type === null ? length : { 'content-type': type, ...length });
  response.end(text);
}

/** Sends the result of `answerBody`; an empty text when there is no response. */
export function endJson(response: ServerResponse, answers: RpcResponse | readonly RpcResponse[] | null): void {
  end(response, 200, answerText(answers), JSON_TYPE);
}

export function answerText(answers: RpcResponse | readonly RpcResponse[] | null): string {
  return answers === null ? '' : `${stringify(answers)}\n`;
}

/** Answers a body: one call, or a batch in the order of its items. Null when there is no response. */
export function answerBody(node: LocalNode, methods: Methods, body: unknown): RpcResponse | RpcResponse[] | null {
  if (!Array.isArray(body)) return answerItem(node, methods, body);
  const answers = body.flatMap((item) => answerItem(node, methods, item) ?? []);
  return answers.length === 0 ? null : answers;
}

/** Answers one call; null for a notification. */
export function answerItem(node: LocalNode, methods: Methods, item: unknown): RpcResponse | null {
  try {
    const request = readRpcRequest(item);
    const response = answer(node, methods, request);
    return request.isNotification ? null : response;
  } catch (error) {
    return failure(requestIdOf(item), error);
  }
}

export interface RpcRequest {
  readonly id: unknown;
  /** A request without an id: it has no response. */
  readonly isNotification: boolean;
  readonly method: string;
  /** A list, an object, or undefined without params. */
  readonly params: unknown;
}

export type RpcResponse = { readonly jsonrpc?: '2.0'; readonly id: unknown } & (
  | { readonly result: unknown }
  | { readonly error: RpcErrorObject }
);

const MEMBERS = new Set(['jsonrpc', 'id', 'method', 'params']);

/** Whether a body has the outer form of a call: a node reports anything else as a parse error. */
function isCall(value: unknown): boolean {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  const { id } = value as { id?: unknown };
  return id === undefined || id === null || ['string', 'number', 'bigint'].includes(typeof id);
}

/** Checks the form of one call. Throws -32600. */
export function readRpcRequest(value: unknown): RpcRequest {
  const call = (value ?? {}) as Record<string, unknown>;
  const { jsonrpc, method, params, id } = call;
  const badParams = params !== undefined && (typeof params !== 'object' || params === null) && params !== null;
  const known = Object.keys(call).every((key) => MEMBERS.has(key));
  const badVersion = jsonrpc !== undefined && jsonrpc !== null && jsonrpc !== '2.0';
  if (!isCall(value) || typeof method !== 'string' || badParams || !known || badVersion) {
    throw rpcError(RPC.invalidRequest, 'Invalid request');
  }
  if (jsonrpc !== '2.0') throw rpcError(RPC.invalidRequest, UNSUPPORTED_VERSION);
  return { id: id ?? null, isNotification: id === undefined, method, params: params ?? undefined };
}

const UNSUPPORTED_VERSION = 'Unsupported JSON-RPC protocol version';

/** Answers one request; never throws. */
export function answer(node: LocalNode, methods: Methods, request: RpcRequest): RpcResponse {
  const { id } = request;
  try {
    const method = Object.hasOwn(methods, request.method) ? methods[request.method] : undefined;
    if (method === undefined) throw rpcError(RPC.methodNotFound, 'Method not found');
    // Agave makes each result a map that is sorted by names.
    return { jsonrpc: '2.0', result: withSortedMembers(method(node, request.params)), id };
  } catch (error) {
    return failure(id, error);
  }
}

export function failure(id: unknown, thrown: unknown): RpcResponse {
  const error = toErrorObject(thrown);
  // A node that does not know the caller's version does not claim one.
  return error.message === UNSUPPORTED_VERSION ? { error, id } : { jsonrpc: '2.0', error, id };
}

/** The id of a malformed request, if it has one. */
export function requestIdOf(value: unknown): unknown {
  return isCall(value) ? ((value as { id?: unknown }).id ?? null) : null;
}

export function parseError(): CodedError {
  return rpcError(RPC.parse, 'Parse error');
}

/**
 * A second listener for WebSockets at port + 1 when the port is fixed: the default of web3.js.
 * A taken port is reported and otherwise harmless: `port` is null then.
 */
export async function startSocketPort(
  port: number,
  options: LocalChainOptions,
  upgrade: (request: IncomingMessage, socket: Duplex, head: Buffer) => void,
): Promise<{ readonly port: number | null; stop(): Promise<void> }> {
  const none = { port: null, stop: async () => undefined };
  if ((options.port ?? 0) === 0) return none;
  const server = createServer((_request, response) => end(response, 426, 'WebSocket only'));
  server.on('upgrade', upgrade);
  const problem = await new Promise<unknown>((resolve) => {
    server.once('error', resolve);
    server.listen(port + 1, '127.0.0.1', () => resolve(null));
  });
  if (problem !== null) {
    options.warn?.(`local chain: no WebSocket port at ${port + 1} (${messageOf(problem)}); use port ${port}`);
    return none;
  }
  return {
    port: port + 1,
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
