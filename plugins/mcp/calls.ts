import { parseVerbatim } from '../../src/lib/json.ts';
import { type RpcErrorObject, rpcReplyOf } from '../../src/lib/json-rpc.ts';
import type { CallContext } from '../../src/plugin/request.ts';
import type { Caller } from '../../src/ports/access.ts';
import type { DaemonView, InjectedCall, InjectedReply } from '../../src/ports/daemon-view.ts';
import type { Log } from '../../src/ports/telemetry.ts';
import { type Calls, ToolError } from './tool.ts';

type Request = Pick<InjectedCall, 'method' | 'path' | 'body'>;
type From = Pick<CallContext, 'requestId' | 'log' | 'remoteAddress'>;

/** A call with the key of a request. A class, because the log of a request is made when it is read. */
class OwnCall implements InjectedCall {
  readonly method: string;
  readonly path: string;
  readonly body: unknown;
  readonly caller: Caller;
  readonly signal: InjectedCall['signal'];
  readonly requestId: string;
  readonly remoteAddress: string;
  readonly asAdmitted = true;
  readonly isCharged = true;
  readonly faults = 'answered';
  readonly #from: From;

  constructor({ method, path, body }: Request, from: From, caller: Caller, signal: InjectedCall['signal']) {
    this.method = method;
    this.path = path;
    this.body = body;
    this.caller = caller;
    this.signal = signal;
    this.requestId = from.requestId;
    this.remoteAddress = from.remoteAddress;
    this.#from = from;
  }

  get log(): Log {
    return this.#from.log;
  }
}

/** The interface, called on behalf of the key of a request. `signal` ends calls that still run. */
export function createCalls(
  daemon: Pick<DaemonView, 'call'>,
  from: From,
  caller: Caller,
  signal: InjectedCall['signal'],
): Calls {
  async function replyOf(request: Request): Promise<InjectedReply> {
    const reply = await daemon.call(new OwnCall(request, from, caller, signal));
    if (reply.fault !== undefined) throw refusalOf(reply);
    if (reply.status >= 400) throw new ToolError(`refused with HTTP ${reply.status}: ${reply.text}`, reply.status);
    return reply;
  }
  const answerOf = async (request: Request): Promise<unknown> => {
    const { text } = await replyOf(request);
    return text === '' ? null : parseVerbatim(text);
  };
  return {
    projectId: caller.projectId,
    get: (path, query = {}) => answerOf({ method: 'GET', path: path + queryOf(query) }),
    send: (method, path, body) => answerOf({ method, path, body }),
    text: async (path) => (await replyOf({ method: 'GET', path })).text,
    async bytes(path) {
      const reply = await replyOf({ method: 'GET', path });
      return reply.bytes ?? Buffer.from(reply.text);
    },
    async rpc(method, params) {
      const body = { jsonrpc: '2.0', id: 1, method, params };
      const reply = rpcReplyOf(await answerOf({ method: 'POST', path: '/', body }));
      if (reply === null) throw new ToolError(`${method} got a wrong answer from an upstream`, 502);
      if ('result' in reply) return reply.result;
      throw rpcRefusalOf(method, reply.error);
    },
  };
}

function queryOf(query: Readonly<Record<string, unknown>>): string {
  let text = '';
  for (const [name, value] of Object.entries(query))
    if (value !== undefined) text += `${text === '' ? '?' : '&'}${name}=${encodeURIComponent(String(value))}`;
  return text;
}

function refusalOf({ status, fault }: InjectedReply): ToolError {
  const { message = '', details, retryAfterS } = fault ?? {};
  // The path is one of ours: only a plugin that is not loaded leaves it without a route.
  if (status === 404 && message === 'invalid path')
    return new ToolError('this daemon does not load the plugin that answers this', status);
  const wait = retryAfterS === undefined ? '' : ` Not ready: call again in ${retryAfterS} s.`;
  return new ToolError(`refused (HTTP ${status}): ${sentenceOf(message, details)}${wait}`, status);
}

const RPC_NOT_FOUND = -32000;

function rpcRefusalOf(method: string, { code, message, data }: RpcErrorObject): ToolError {
  const { details, retryAfterS } = (typeof data === 'object' && data !== null ? data : {}) as Record<string, unknown>;
  const wait = typeof retryAfterS === 'number' ? ` Not ready: call again in ${retryAfterS} s.` : '';
  const text = sentenceOf(message, typeof details === 'string' ? details : undefined);
  return new ToolError(`${method} failed (${code}): ${text}${wait}`, code === RPC_NOT_FOUND ? 404 : null);
}

const sentenceOf = (message: string, details: string | undefined): string =>
  details === undefined || details === message ? `${message}.` : `${message}: ${details}.`;
