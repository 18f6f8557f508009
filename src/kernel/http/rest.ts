import type { Deadlines } from '../calls/deadlines.ts';
import { faultOf, timeoutFault } from '../calls/fault.ts';
import { HandlerContext } from '../calls/handler-context.ts';
import { type Gate, GateRefusal, RequestError, type RouteRequest } from '../plugin.ts';
import { recoverCall } from '../rpc/recover.ts';
import { checkBodyHeaders, parseJsonBody, readBody } from './body.ts';
import type { CompiledRoute } from './compile.ts';
import { credentialsOf } from './credentials.ts';
import type { Exchange } from './exchange.ts';
import type { InFlight } from './in-flight.ts';
import { parseQuery, typeQuery } from './query.ts';
import { peekCall } from './refuse-call.ts';
import type { Responder } from './respond.ts';

export interface RestParts {
  readonly gate: Gate | null;
  readonly deadlines: Deadlines;
  readonly responder: Responder;
  readonly inFlight: Pick<InFlight, 'setBusy' | 'takeBytes'>;
}

/** Gate, body, validation, handler, reply of one REST request. Throws what the error mapper is to write. */
export async function handleRest(
  parts: RestParts,
  exchange: Exchange,
  compiled: CompiledRoute,
  params: Readonly<Record<string, string>>,
): Promise<void> {
  const { route } = compiled;
  if (route.auth === 'key' || route.auth === 'optional-key') {
    try {
      await admit(parts.gate, exchange, compiled);
    } catch (error) {
      if (route.errors !== 'rpc' || !(await refuseCall(parts, exchange, error))) throw error;
      return;
    }
  }
  const takesBody = route.body !== undefined || route.rawBody === true;
  const rawBody = takesBody ? await takeBody(parts, exchange, compiled.bodyLimitBytes) : undefined;
  const request = readRequest(exchange, compiled, params, rawBody);
  exchange.cancelDeadline = parts.deadlines.watch(compiled.timeoutMs, () => {
    parts.responder.sendFault(exchange, timeoutFault());
    exchange.lazy.abort('the time of the handler is up');
  });
  const reply = await route.handler(request);
  parts.responder.sendReply(exchange, reply);
}

/** Answers a refusal of the gate with the id of the call; false for any other error. */
async function refuseCall(parts: RestParts, exchange: Exchange, error: unknown): Promise<boolean> {
  const fault = faultOf(error, exchange.requestId);
  if (fault.refusal === undefined) return false;
  const { head, complete } = await peekCall(parts, exchange);
  const { id } = recoverCall(head);
  parts.responder.sendFault(exchange, fault, { rpcId: id ?? 'null', close: id === undefined || !complete });
  return true;
}

async function admit(gate: Gate | null, exchange: Exchange, compiled: CompiledRoute): Promise<void> {
  const { route } = compiled;
  const credentials = credentialsOf(exchange.target.query, exchange.request.headers);
  if (route.auth === 'optional-key' && !givesKey(credentials)) return;
  // Without a gate nobody can have a good key.
  if (gate === null) throw new GateRefusal('no-key');
  exchange.caller = await gate.authenticate(credentials, exchange.remoteAddress);
  const admission = await gate.admit(exchange.caller, compiled.items);
  exchange.admission = admission;
  exchange.onSettle((bytesOut) => {
    const { status } = exchange;
    const charged = (status >= 200 && status < 300) || (route.price?.chargedStatuses?.includes(status) ?? false);
    admission.settle([{ charged, bytesOut }]);
  });
}

function givesKey(credentials: ReturnType<typeof credentialsOf>): boolean {
  return [...credentials.query, credentials.header, credentials.bearer].some((key) => key !== undefined && key !== '');
}

/** Reads the body up to its limit, after what its headers tell. A client that takes its time takes no place from others. */
export async function takeBody(
  { inFlight }: Pick<RestParts, 'inFlight'>,
  exchange: Exchange,
  limitBytes: number,
): Promise<Buffer> {
  checkBodyHeaders(exchange.request, limitBytes);
  if (exchange.expectsContinue) exchange.response.writeContinue();
  inFlight.setBusy(exchange, false);
  const body = await readBody(exchange.request, limitBytes, (bytes) => inFlight.takeBytes(exchange, bytes));
  inFlight.setBusy(exchange, true);
  return body;
}

function readRequest(
  exchange: Exchange,
  compiled: CompiledRoute,
  params: Readonly<Record<string, string>>,
  rawBody: Buffer | undefined,
): RouteRequest {
  const body = rawBody === undefined ? undefined : checkedBody(compiled, rawBody);
  const wrongPath = compiled.checkParams?.(params) ?? null;
  if (wrongPath !== null) throw new RequestError(400, 'Invalid path parameter', { details: wrongPath });
  const query = compiled.queryKinds === null ? {} : typeQuery(parseQuery(exchange.target.query), compiled.queryKinds);
  const wrongQuery = compiled.checkQuery?.(query) ?? null;
  if (wrongQuery !== null) throw new RequestError(400, 'Invalid query parameter', { details: wrongQuery });
  const facts = {
    method: exchange.request.method ?? 'GET',
    path: exchange.target.path,
    params: params as Record<string, string>,
    query,
    headers: exchange.request.headers,
    body,
    ...(rawBody === undefined ? {} : { rawBody }),
  };
  return Object.assign(new HandlerContext(exchange), facts);
}

function checkedBody({ route, checkBody }: CompiledRoute, rawBody: Buffer): unknown {
  if (route.rawBody === true) return rawBody;
  if (rawBody.length === 0 && route.bodyOptional === true) return undefined;
  const body = parseJsonBody(rawBody);
  const problem = checkBody?.(body) ?? null;
  if (problem !== null) throw new RequestError(400, 'Invalid request body', { details: problem });
  return body;
}
