import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { codeOf } from '../../../../lib/coded-error.ts';
import { answer, failure, idOf, parseError, type RpcResponse, readRequest } from './dispatch.ts';
import { writeJson } from './json.ts';
import type { LocalNode, Methods } from './node.ts';
import { RPC, rpcError } from './rpc-error.ts';

const BODY_LIMIT_BYTES = 1024 * 1024;
const GOODBYE_MS = 250;
const HOST = '127.0.0.1';

export interface ServedCall {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** The parsed body. */
  readonly body: unknown;
}

/** Answers a whole HTTP call; the plain one is `answerPlainly`, and a fault layer may stand before it. */
export type Responder = (call: ServedCall) => void | Promise<void>;

export interface RpcServer {
  readonly server: Server;
  readonly port: number;
  stop(): Promise<void>;
}

/** Listens on loopback only; there is no option for another address. */
export async function startRpcServer(
  port: number,
  respond: Responder,
  upgrade: (request: IncomingMessage, socket: Duplex, head: Buffer) => void,
): Promise<RpcServer> {
  const server = createServer((request, response) => {
    serve(request, response, respond).catch(() => response.destroy());
  });
  server.on('upgrade', upgrade);
  try {
    await listen(server, port);
  } catch (error) {
    // Another run may hold the fixed port: a free one, which the caller shows, is better than no chain.
    if (port === 0 || codeOf(error) !== 'EADDRINUSE') throw error;
    await listen(server, 0);
  }
  const address = server.address() as { port: number };
  return {
    server,
    port: address.port,
    stop: () =>
      new Promise((resolve) => {
        // Calls in flight get their answer; a client that keeps one open does not hold up the end.
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

async function serve(request: IncomingMessage, response: ServerResponse, respond: Responder): Promise<void> {
  if (request.method === 'GET' && request.url?.split('?')[0] === '/health')
    return end(response, 200, 'ok', 'text/plain');
  if (request.method !== 'POST') return end(response, 405, 'Used HTTP Method is not allowed. POST is required');
  if (!/^application\/json\b/i.test(request.headers['content-type'] ?? '')) {
    return end(response, 415, 'Supplied content type is not allowed. Content-Type: application/json is required');
  }
  const text = await readBody(request);
  if (text === null) return end(response, 413, 'request body too large');
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    return end(response, 200, writeJson(failure(null, parseError())), 'application/json');
  }
  await respond({ request, response, body });
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

export function end(response: ServerResponse, status: number, text: string, type = 'text/plain'): void {
  response.writeHead(status, { 'content-type': type, 'content-length': Buffer.byteLength(text) });
  response.end(text);
}

/** Answers a parsed body: one request, or a batch in the order of its items. */
export function answerBody(node: LocalNode, methods: Methods, body: unknown): RpcResponse | RpcResponse[] {
  if (!Array.isArray(body)) return answerItem(node, methods, body);
  if (body.length === 0) return failure(null, rpcError(RPC.invalidRequest, 'Invalid request'));
  return body.map((item) => answerItem(node, methods, item));
}

export function answerItem(node: LocalNode, methods: Methods, item: unknown): RpcResponse {
  try {
    return answer(node, methods, readRequest(item));
  } catch (error) {
    return failure(idOf(item), error);
  }
}
