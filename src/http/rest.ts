import type { IncomingMessage } from 'node:http';
import type { BudgetLedger } from '../budgets.ts';
import { stringify } from '../lib/json.ts';
import type { Admission, Gate, Paywall } from '../plugin/host.ts';
import {
  type CallContext,
  GateRefusal,
  JsonBytes,
  JsonText,
  type Reply,
  RequestError,
  type RouteRequest,
} from '../plugin/plugin.ts';
import { type Caller, OWN_WORK } from '../ports/access.ts';
import type { TapSeat } from '../ports/answer-tap.ts';
import type { InjectedCall, InjectedReply } from '../ports/daemon-view.ts';
import type { Deadlines } from '../runtime/waiting.ts';
import { BodyAborted, checkBodyEncoding, checkDeclaredLength, parseJsonBody, readBody } from './body.ts';
import { faultOf, timeoutFault } from './errors.ts';
import type { Chargeable, Exchange, InFlight } from './exchange.ts';
import { HandlerContext, InjectedContext } from './handler-context.ts';
import type { RpcFront } from './json-rpc/front.ts';
import { payForSize } from './json-rpc/prepare.ts';
import { recoverCall } from './json-rpc/scan.ts';
import { payForCalls, usePayment } from './payment.ts';
import { credentialsOf, parseQuery, typeQuery } from './query.ts';
import type { Responder } from './respond.ts';
import { type CompiledRoute, parseRequestTarget, type RequestTarget, type Router } from './router.ts';
import { beginTap } from './tapping.ts';

interface RestParts {
  readonly gate: Gate | null;
  readonly paywall: Paywall | null;
  readonly deadlines: Deadlines;
  readonly responder: Responder;
  readonly inFlight: Pick<InFlight, 'setBusy' | 'takeBytes'>;
  readonly taps: TapSeat;
}

/** Handles one REST request: gate, body, validation, handler, reply. Its errors are written by the caller. */
export async function handleRest(
  parts: RestParts,
  exchange: Exchange,
  compiled: CompiledRoute,
  params: Readonly<Record<string, string>>,
): Promise<void> {
  const { route } = compiled;
  if (route.auth === 'key' || route.auth === 'optional-key') {
    try {
      await admit(parts, exchange, compiled);
    } catch (error) {
      if (route.errors !== 'rpc' || !(await refuseCall(parts, exchange, error))) throw error;
      return;
    }
  }
  const takesBody = route.body !== undefined || route.rawBody === true;
  const rawBody = takesBody ? await takeBody(parts, exchange, compiled.bodyLimitBytes) : undefined;
  if (rawBody !== undefined) payForSize(parts.gate, exchange.caller, rawBody.length, route.price?.groups[0]);
  exchange.body = rawBody ?? null;
  beginTap(parts.taps, exchange, rawBody ?? null);
  const { headers, method = 'GET' } = exchange.request;
  const { target, admission } = exchange;
  const request = readRequest(exchange, { method, headers, target, rawBody, admission }, compiled, params);
  watchHandler(parts, exchange, compiled.timeoutMs);
  const reply = await (exchange.payment === null ? route.handler(request) : paidReply(route, request, exchange));
  if (reply.json instanceof JsonText) exchange.ownCredits = reply.json.credits;
  parts.responder.sendReply(exchange, reply);
}

/** The reply of a handler, after the payment is used up. An error that costs nothing leaves the payment as it is. */
async function paidReply(route: CompiledRoute['route'], request: RouteRequest, exchange: Exchange): Promise<Reply> {
  let reply: Reply;
  try {
    reply = await route.handler(request);
  } catch (error) {
    if (error instanceof RequestError && error.isCharged) exchange.isCharged = true;
    exchange.status = faultOf(error, exchange.requestId).status;
    await usePayment(exchange);
    throw error;
  }
  exchange.status = reply.status;
  if (reply.json instanceof JsonText) exchange.ownCredits = reply.json.credits;
  await usePayment(exchange);
  return reply;
}

// This and `chargeOf` are no closures of async functions: those, kept by the exchange, let every request live until the next major
// collection.
function watchHandler({ deadlines, responder }: RestParts, exchange: Exchange, timeoutMs: number): void {
  exchange.cancelDeadline = deadlines.watch(timeoutMs, () => {
    responder.sendFault(exchange, timeoutFault());
    exchange.lazy.abort('the deadline of the handler has passed');
  });
}

/** Answers a refusal of the gate with the id of the call; returns false for any other error. */
async function refuseCall(parts: RestParts, exchange: Exchange, error: unknown): Promise<boolean> {
  const fault = faultOf(error, exchange.requestId);
  if (fault.refusal === undefined) return false;
  const { head, complete } = await peekCall(parts, exchange);
  const { id } = recoverCall(head);
  parts.responder.sendFault(exchange, fault, { rpcId: id ?? 'null', close: id === undefined || !complete });
  return true;
}

async function admit({ gate, paywall }: RestParts, exchange: Exchange, compiled: CompiledRoute): Promise<void> {
  const { route } = compiled;
  const credentials = credentialsOf(exchange.target.query, exchange.request.headers);
  if (route.auth === 'optional-key' && !givesKey(credentials)) return;
  // Without a gate no key is valid.
  if (gate === null) throw new GateRefusal('no-key');
  try {
    exchange.caller = await gate.authenticate(credentials, exchange.remoteAddress);
  } catch (error) {
    if (!(await payForCalls({ gate, paywall }, exchange, error, compiled.items))) throw error;
  }
  const admission = await gate.admit(exchange.caller as Caller, compiled.items);
  exchange.admission = admission;
  exchange.onEnd(chargeOf(exchange, compiled, admission));
}

function chargeOf(exchange: Exchange, compiled: CompiledRoute, admission: Admission): Chargeable {
  return {
    isDue: () => isCharged(compiled, exchange.status) || exchange.isCharged,
    drop: () => void admission.charge([{ charged: false, bytesOut: 0 }]),
    charge(bytesOut) {
      const isOrdinary = isCharged(compiled, exchange.status);
      const charged = isOrdinary || exchange.isCharged;
      const credits = isOrdinary ? exchange.ownCredits : compiled.route.price?.refusedCredits;
      return admission.charge([{ charged, bytesOut, ...(credits === undefined ? {} : { credits }) }]);
    },
  };
}

function isCharged({ route }: CompiledRoute, status: number): boolean {
  return (status >= 200 && status < 300) || (route.price?.chargedStatuses?.includes(status) ?? false);
}

function givesKey(credentials: ReturnType<typeof credentialsOf>): boolean {
  return [...credentials.query, credentials.header, credentials.bearer].some((key) => key !== undefined && key !== '');
}

/** Reads the body up to its limit, after checking its headers. While it waits for a slow client, the request does not count as busy. */
export async function takeBody(
  { inFlight }: Pick<RestParts, 'inFlight'>,
  exchange: Exchange,
  limitBytes: number,
): Promise<Buffer> {
  checkDeclaredLength(exchange.request, limitBytes);
  if (exchange.expectsContinue) exchange.response.writeContinue();
  inFlight.setBusy(exchange, false);
  const body = await readBody(exchange.request, limitBytes, (bytes) => inFlight.takeBytes(exchange, bytes));
  inFlight.setBusy(exchange, true);
  checkBodyEncoding(exchange.request, body);
  return body;
}

interface Received {
  readonly method: string;
  readonly target: RequestTarget;
  readonly headers: RouteRequest['headers'];
  readonly rawBody: Buffer | undefined;
  readonly admission: Admission | null;
}

/** The request of a handler. Throws 400 for what the route does not accept. */
function readRequest(
  context: CallContext,
  { method, target, headers, rawBody, admission }: Received,
  compiled: CompiledRoute,
  params: Readonly<Record<string, string>>,
): RouteRequest {
  const body = rawBody === undefined ? undefined : checkedBody(compiled, rawBody);
  const wrongPath = compiled.checkParams?.(params) ?? null;
  if (wrongPath !== null) throw new RequestError(400, 'Invalid path parameter', { details: wrongPath });
  const query = compiled.queryKinds === null ? {} : typeQuery(parseQuery(target.query), compiled.queryKinds);
  const wrongQuery = compiled.checkQuery?.(query) ?? null;
  if (wrongQuery !== null) throw new RequestError(400, 'Invalid query parameter', { details: wrongQuery });
  const facts = {
    method,
    path: target.path,
    params: params as Record<string, string>,
    query,
    headers,
    body,
    ...(rawBody === undefined ? {} : { rawBody }),
    ...(admission?.isWaived === true ? { isUnpaid: true } : {}),
  };
  return Object.assign(new HandlerContext(context), facts);
}

function checkedBody({ route, checkBody }: CompiledRoute, rawBody: Buffer): unknown {
  if (route.rawBody === true) return rawBody;
  if (rawBody.length === 0 && route.bodyOptional === true) return undefined;
  const body = parseJsonBody(rawBody);
  const problem = checkBody?.(body) ?? null;
  if (problem !== null) throw new RequestError(400, 'Invalid request body', { details: problem });
  return body;
}

/** Calls `POST /` without a socket. Errors of the call are in its answer. Throws GateRefusal for a project that cannot call. */
export async function injectRpc(
  rpc: RpcFront,
  { gate, budgets }: InjectParts,
  call: InjectedCall,
): Promise<InjectedReply> {
  if (call.method !== 'POST') throw new RequestError(405, 'Method not allowed');
  const caller = call.caller === null || call.asAdmitted === true ? call.caller : await projectOf(gate, call.caller);
  const known = caller === null ? budgets?.tenantOf(null, call.remoteAddress) : budgets?.tenantOfProject(caller);
  const answer = await rpc.dispatch(
    Buffer.from(stringify(call.body)),
    new InjectedContext(call, caller, known ?? OWN_WORK),
  );
  return { status: 200, text: answer?.toString() ?? '' };
}

interface InjectParts {
  readonly gate: Gate | null;
  /** Null if budgets are not counted. */
  readonly budgets?: BudgetLedger | null;
}

/** The project of a call with the limits of its plan. Throws GateRefusal for one that cannot call. */
const projectOf = async (gate: Gate | null, caller: Caller): Promise<Caller> =>
  gate?.callerOf === undefined ? caller : await gate.callerOf(caller.projectId);

/** Like `projectOf`. A page may look at a project that cannot call: then the caller as it is. */
async function visibleProject(gate: Gate | null, caller: Caller): Promise<Caller> {
  try {
    return await projectOf(gate, caller);
  } catch (error) {
    if (error instanceof GateRefusal) return caller;
    throw error;
  }
}

/**
 * Calls a route without a socket: the same routes and checks as over HTTP, without authentication. Calls that change data of a project,
 * and those with `isCharged`, pass the gate like calls with its key. Throws the errors of the handler, GateRefusal, and RequestError 400,
 * 404 and 405.
 */
export async function injectCall(router: Router, parts: InjectParts, call: InjectedCall): Promise<InjectedReply> {
  if (call.faults !== 'answered') return await callRoute(router, parts, call);
  try {
    return await callRoute(router, parts, call);
  } catch (error) {
    const { status, message, details, retryAfterS, unexpected } = faultOf(error, call.requestId);
    if (unexpected) call.log.error({ err: error, path: call.path }, 'a call from inside the daemon failed');
    return { status, text: '', fault: { message, details, retryAfterS } };
  }
}

async function callRoute(router: Router, { gate, budgets }: InjectParts, call: InjectedCall): Promise<InjectedReply> {
  const target = parseRequestTarget(call.path);
  if (!target.ok) throw new RequestError(400, 'Invalid path');
  const match = router.match(target);
  if (match === null) throw new RequestError(404, 'invalid path');
  const compiled = match.entry.methods.get(call.method);
  if (compiled === undefined) throw new RequestError(405, 'Method not allowed');
  const { route } = compiled;
  const admission = await admitInjected(gate, compiled, call);
  let status = 500;
  let ownCredits: number | undefined;
  let isChargedError = false;
  try {
    const takesBody = route.body !== undefined || route.rawBody === true;
    const rawBody = takesBody ? Buffer.from(call.body === undefined ? '' : stringify(call.body)) : undefined;
    if (rawBody !== undefined && admission !== null)
      payForSize(gate, call.caller, rawBody.length, route.price?.groups[0]);
    const received = { method: call.method, target, headers: {}, rawBody, admission };
    // What the route asks of upstreams counts for the project, also for a page that only reads.
    const { caller } = call;
    const tenant =
      caller === null || budgets == null
        ? OWN_WORK
        : budgets.tenantOfProject(call.asAdmitted === true ? caller : await visibleProject(gate, caller));
    const reply = await route.handler(
      readRequest(new InjectedContext(call, caller, tenant), received, compiled, match.params),
    );
    status = reply.status;
    if (reply.json instanceof JsonText) ownCredits = reply.json.credits;
    return injectedReply(reply);
  } catch (error) {
    if (error instanceof RequestError && error.isCharged) isChargedError = true;
    throw error;
  } finally {
    const isOrdinary = isCharged(compiled, status);
    const credits = isOrdinary ? ownCredits : route.price?.refusedCredits;
    const outcome = { charged: isOrdinary || isChargedError, bytesOut: 0 };
    admission?.charge([credits === undefined ? outcome : { ...outcome, credits }]);
  }
}

/** Throws GateRefusal. Null: the call is free. */
async function admitInjected(
  gate: Gate | null,
  compiled: CompiledRoute,
  { caller, method, asAdmitted, isCharged = method !== 'GET' }: InjectedCall,
): Promise<Admission | null> {
  // Pages are polled; reads must not use up the credits of the project.
  if (gate?.callerOf === undefined || caller === null || !isCharged) return null;
  return await gate.admit(asAdmitted === true ? caller : await gate.callerOf(caller.projectId), compiled.items);
}

function injectedReply({ status, json, jsonBytes, bytes = jsonBytes }: Reply): InjectedReply {
  if (json instanceof JsonText) return { status, text: json.text };
  if (json instanceof JsonBytes) return new BytesReply(status, Buffer.concat(json.pieces));
  if (json !== undefined) return { status, text: stringify(json) };
  return bytes === undefined ? { status, text: '' } : new BytesReply(status, bytes);
}

/** Its text is made when it is read: a page of the guide takes longer to decode than to find. */
class BytesReply implements InjectedReply {
  readonly status: number;
  readonly bytes: Uint8Array;

  constructor(status: number, bytes: Uint8Array) {
    this.status = status;
    this.bytes = bytes;
  }

  get text(): string {
    const { buffer, byteOffset, byteLength } = this.bytes;
    return Buffer.from(buffer, byteOffset, byteLength).toString();
  }
}

/** Bytes of a body that are read to find the id for the refusal of its key. */
const PEEK_BYTES = 16_384;
/** Time limit of that read. */
const PEEK_MS = 1_000;

interface PeekParts {
  readonly deadlines: Deadlines;
  readonly inFlight: Pick<InFlight, 'setBusy'>;
}

interface Peeked {
  readonly bytes: Buffer;
  /** Whether `bytes` is the whole body. */
  readonly complete: boolean;
  /** The part that is searched for an id. */
  readonly head: Buffer;
}

/**
 * Reads only the first bytes of a body, with a short time limit: a refusal echoes the id of the call if possible. The request stays
 * paused if there are more bytes. Throws BodyAborted when the client disconnects.
 */
export async function peekCall({ deadlines, inFlight }: PeekParts, exchange: Exchange): Promise<Peeked> {
  inFlight.setBusy(exchange, false);
  const peeked = await peek(exchange, deadlines);
  inFlight.setBusy(exchange, true);
  return { ...peeked, head: peeked.bytes.subarray(0, PEEK_BYTES) };
}

function peek(
  exchange: Exchange,
  deadlines: Deadlines,
): Promise<{ readonly bytes: Buffer; readonly complete: boolean }> {
  const { request, response } = exchange;
  if (exchange.expectsContinue) response.writeContinue();
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    const done = (complete: boolean) => {
      stop();
      resolve({ bytes: Buffer.concat(chunks, size), complete });
    };
    const onData = (chunk: Buffer) => {
      chunks.push(chunk);
      size += chunk.length;
      if (size < PEEK_BYTES) return;
      request.pause();
      done(isComplete(request));
    };
    const onEnd = () => done(true);
    const onClose = () => {
      stop();
      reject(new BodyAborted());
    };
    const cancel = deadlines.watch(PEEK_MS, () => {
      request.pause();
      done(false);
    });
    const stop = () => {
      cancel();
      request.off('data', onData);
      request.off('end', onEnd);
      request.off('close', onClose);
    };
    request.on('data', onData);
    request.on('end', onEnd);
    request.on('close', onClose);
  });
}

function isComplete(request: IncomingMessage): boolean {
  return request.complete && request.readableLength === 0;
}
