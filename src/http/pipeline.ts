import type { IncomingMessage, ServerResponse } from 'node:http';
import type { BudgetLedger } from '../budgets.ts';
import type { CoreConfig } from '../config/core.ts';
import { maskKeys, maskMethod, maskPath, maskQuery, shortName } from '../lib/mask-keys.ts';
import type { Gate, Paywall } from '../plugin/host.ts';
import { type ErrorShape, GateRefusal, type Reply, RequestError, type Route } from '../plugin/plugin.ts';
import type { TapSeat } from '../ports/answer-tap.ts';
import type { Clock, Random } from '../ports/clock.ts';
import type { AnsweredRequest, Inject, RequestListener } from '../ports/daemon-view.ts';
import type { Log, Metrics, Tracer } from '../ports/telemetry.ts';
import { createProxyWatch, createRemoteAddress, type RemoteAddress } from '../runtime/network-address.ts';
import { createDeadlines, type Deadlines, isPromise } from '../runtime/waiting.ts';
import { BodyAborted, checkBodyEncoding } from './body.ts';
import { type ConnectionLimit, createConnectionLimit, createConnections } from './connections.ts';
import { faultOf, timeoutFault } from './errors.ts';
import { CLIENT_LEFT, createInFlight, Exchange, type InFlight } from './exchange.ts';
import type { RpcAnswer, RpcFront } from './json-rpc/front.ts';
import { createHttpMeter, type HttpMeter } from './meter.ts';
import { payForCalls, usePayment } from './payment.ts';
import { credentialsOf } from './query.ts';
import { checkHead, createResponder, JSON_TYPE, preflightHeaders, type Responder, shapeOfPath } from './respond.ts';
import { handleRest, injectCall, injectRpc, peekCall, takeBody } from './rest.ts';
import { compileRoute, createRouter, parseRequestTarget, type RouteMatch } from './router.ts';
import { beginTap } from './tapping.ts';
import { createValidator, type Validator } from './validation.ts';

interface PipelineOptions {
  readonly core: CoreConfig;
  readonly routes: readonly Route[];
  /** Answers `POST /`; null if that path is an ordinary one. */
  readonly rpc: RpcFront | null;
  readonly gate: Gate | null;
  /** Null or absent: every call needs a key. */
  readonly paywall?: Paywall | null;
  /** What a browser gets that opens `/`. */
  readonly home: Reply;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly clock: Clock;
  readonly random: Random;
  readonly cors: boolean;
  readonly validator?: Validator;
  readonly tracer?: Tracer | null;
  readonly chainLabel?: () => string | null;
  /** Budgets of the callers; null or absent: not counted. */
  readonly budgets?: BudgetLedger | null;
  /** Listeners for the answered requests of projects. */
  readonly answered?: ReadonlySet<RequestListener>;
  /** Sees a share of the requests with their answers. */
  readonly taps?: TapSeat;
  /** Called first for every request; throws to refuse it. */
  readonly guard?: (request: IncomingMessage) => void;
}

export interface Pipeline {
  handle(request: IncomingMessage, response: ServerResponse, expectsContinue: boolean): void;
  /** See `injectCall` and `injectRpc`. */
  readonly inject: Inject;
  /** From now on every answer closes its connection; `refuses`: new requests are answered with 503. */
  beginDrain(refuses: boolean): void;
  readonly draining: boolean;
  readonly inFlight: InFlight;
  readonly meter: HttpMeter;
  readonly connections: ConnectionLimit;
  readonly remoteAddress: RemoteAddress;
  /** See `ProxyWatch`. */
  readonly undeclaredProxy: () => string | null;
}

const ROOT_ALLOW = 'POST, OPTIONS';
/** Maximum pipelined requests of one connection; unread answers stay in memory. */
const MAX_PIPELINED = 100;
/** The deadline of the whole request is a little later than that of its slowest part, so that the caller gets the error of that part. */
const ROOT_GRACE_MS = 1_000;

export function createPipeline(options: PipelineOptions): Pipeline {
  const { core, clock, log, answered = NO_LISTENERS, taps = { tap: null } } = options;
  const meter = createHttpMeter(options.metrics);
  const { validator = createValidator() } = options;
  const router = createRouter(
    options.routes.map((route) => compileRoute(route, core.http, validator, meter)),
    core.http.targetLimitBytes,
  );
  const remoteAddress = createRemoteAddress(() => core.http.trustedProxies);
  const proxies = createProxyWatch(() => core.http.trustedProxies, log);
  const deadlines = createDeadlines(clock);
  const inFlight = createInFlight(meter.inFlight, () => core.http.maxBodyBytesInFlight, meter.bodiesRefused);
  options.metrics.observe('request_body_bytes', 'bytes of request bodies in memory', () => inFlight.bodyBytes);
  const rootMeter = meter.route('POST', '/');
  let draining = false;
  let refusing = false;
  const isLocalChain = () => options.chainLabel?.() === 'local';
  const responder = createResponder({
    clock,
    cors: options.cors,
    compression: () => core.http.compression,
    draining: () => draining,
    isLocalChain,
    answered: (exchange) => inFlight.setBusy(exchange, false),
  });
  const rest = { gate: options.gate, paywall: options.paywall ?? null, deadlines, responder, inFlight, taps };
  const connectionLimit = createConnectionLimit(core.http.maxConnections, meter);
  const connections = createConnections((exchange) => finish(exchange), connectionLimit);
  const slowestMethod = {
    timeoutMs: Math.max(0, ...(options.rpc?.methods ?? []).map(({ timeoutMs = 0 }) => timeoutMs)),
  };
  const root =
    options.rpc === null
      ? null
      : {
          ...rest,
          rpc: options.rpc,
          bodyLimitBytes: () => core.http.bodyLimitBytes,
          get timeoutMs() {
            return slowestMs(core, [slowestMethod]) + ROOT_GRACE_MS;
          },
        };

  const finish = (exchange: Exchange) => {
    if (!connections.leave(exchange)) return;
    inFlight.leave(exchange);
    const elapsedMs = clock.monotonic() - exchange.startedMs;
    conclude(exchange, meter, log, elapsedMs);
    if (answered.size > 0) notifyAnswered(answered, exchange, clock.now(), elapsedMs);
    exchange.body = null;
  };

  const route = (exchange: Exchange, pipelined: number): Promise<void> | null => {
    const { request, target } = exchange;
    // Before the error shape is known: an ambiguous request is refused as plain HTTP, not as a call.
    checkHead(request);
    const isRoot = root !== null && target.path === '/';
    const match = isRoot ? null : router.match(target);
    const compiled = match?.entry.methods.get(request.method ?? '');
    exchange.shape = isRoot
      ? request.method === 'POST'
        ? 'rpc'
        : 'plain'
      : (compiled?.route.errors ?? shapeOfEntry(match, target.path));
    options.guard?.(request);
    if (refusing) throw new RequestError(503, 'Service unavailable', { details: 'The service is shutting down' });
    if (pipelined > MAX_PIPELINED) {
      const details = `More than ${MAX_PIPELINED} requests of this connection wait for their answers`;
      throw new RequestError(503, 'Service unavailable', { details, headers: { Connection: 'close' } });
    }
    if (inFlight.busy > core.http.maxInFlight) {
      meter.overloaded.add();
      throw new RequestError(503, 'Service unavailable', { details: 'Too many requests are being handled' });
    }
    if ((request.url ?? '').length > core.http.targetLimitBytes) throw new RequestError(414, 'Request target too long');
    if (request.method === 'OPTIONS' && options.cors) {
      responder.send(exchange, 200, null, preflightHeaders, '');
      return null;
    }
    if (isBrowserAtRoot(request, target.path)) {
      exchange.route = '/';
      responder.sendReply(exchange, options.home);
      return null;
    }
    if (isRoot) {
      exchange.route = '/';
      if (request.method !== 'POST') throw notAllowed(ROOT_ALLOW);
      exchange.meter = rootMeter;
      return handleRoot(root, exchange);
    }
    if (!target.ok) throw new RequestError(400, 'Invalid path');
    if (match === null) throw new RequestError(404, 'invalid path');
    exchange.route = match.entry.pattern;
    if (compiled === undefined) throw notAllowed(match.entry.allow);
    exchange.meter = compiled.meter;
    return handleRest(rest, exchange, compiled, match.params);
  };

  const accept = (exchange: Exchange) => {
    try {
      route(exchange, connections.enter(exchange))?.catch((error: unknown) => fail(responder, exchange, error));
    } catch (error) {
      fail(responder, exchange, error);
    }
  };

  return {
    handle: (request, response, expectsContinue) => {
      proxies.see(request);
      const exchange = new Exchange({
        request,
        response,
        target: parseRequestTarget(request.url ?? '/'),
        requestId: options.random.uuid(),
        remoteAddress: remoteAddress(request),
        startedMs: clock.monotonic(),
        expectsContinue,
        log,
        budgets: options.budgets ?? null,
      });
      inFlight.enter(exchange);
      response.on('close', () => finish(exchange));
      if (options.tracer == null) accept(exchange);
      else beginTrace(options.tracer, exchange, accept);
    },
    inject: (call) =>
      options.rpc !== null && call.path === '/'
        ? injectRpc(options.rpc, options, call)
        : injectCall(router, options, call),
    beginDrain: (refuses) => {
      draining = true;
      refusing = refuses;
    },
    get draining() {
      return draining;
    },
    inFlight,
    meter,
    connections: connectionLimit,
    remoteAddress,
    undeclaredProxy: proxies.undeclared,
  };
}

/** Browsers name HTML in `Accept`; clients of the API that read `/` do not. */
function isBrowserAtRoot({ method, headers }: IncomingMessage, path: string): boolean {
  return path === '/' && (method === 'GET' || method === 'HEAD') && /\btext\/html\b/i.test(headers.accept ?? '');
}

function notAllowed(allow: string): RequestError {
  return new RequestError(405, 'Method not allowed', { headers: { Allow: allow } });
}

/**
 * All methods of a path have the same error shape, so any of them determines it. A request with an unsupported method on a JSON-RPC path
 * is not a call, so its refusal is plain.
 */
function shapeOfEntry(match: RouteMatch | null, path: string): ErrorShape {
  const shape = match?.entry.methods.values().next().value?.route.errors;
  return shape === 'rpc' ? 'plain' : (shape ?? shapeOfPath(path));
}

function fail(responder: Responder, exchange: Exchange, error: unknown): void {
  if (error instanceof BodyAborted) return;
  if (error instanceof RequestError && error.isCharged) exchange.isCharged = true;
  const fault = faultOf(error, exchange.requestId);
  if (fault.unexpected) exchange.log.error({ err: error, route: exchange.route }, 'a request failed');
  // A call that was paid for, or could be, is known by its id.
  const isOfPaid = fault.status === 402 || exchange.payment !== null;
  responder.sendFault(exchange, fault, isOfPaid && exchange.rpcId !== null ? { rpcId: exchange.rpcId() } : {});
}

/** The answer was sent, or the client disconnected. */
function conclude(exchange: Exchange, meter: HttpMeter, log: Log, elapsedMs: number): void {
  exchange.cancelDeadline?.();
  if (!exchange.over) {
    exchange.over = true;
    exchange.status = CLIENT_LEFT;
  }
  // A call is answered as a whole.
  if (exchange.isBroken && exchange.rpcLabel !== undefined) exchange.rpcFailed = Math.max(1, exchange.rpcFailed);
  // After a complete answer there is nothing to stop, and an abort is expensive.
  if (!exchange.response.writableFinished) exchange.lazy.abort('the client has gone');
  exchange.end();
  (exchange.meter ?? meter.unmatched).done(exchange.status, elapsedMs, exchange.bytesOut);
  logRequest(log, exchange, elapsedMs);
  endTrace(exchange);
}

const NO_LISTENERS: ReadonlySet<RequestListener> = new Set();

/** Requests of callers without a project are in the log only. Without spreads, which took 4 % of the CPU of a proxied call. */
function notifyAnswered(
  listeners: ReadonlySet<RequestListener>,
  exchange: Exchange,
  at: number,
  durationMs: number,
): void {
  const { caller } = exchange;
  if (caller === null) return;
  const answered: AnsweredRequest = {
    at,
    requestId: exchange.requestId,
    projectId: caller.projectId,
    keyId: caller.keyId,
    method: exchange.request.method ?? '',
    route: exchange.route,
    rpc: exchange.rpcLabel?.slice(0, MAX_RPC_LABEL) ?? null,
    rpcFailed: exchange.rpcFailed,
    status: exchange.status,
    durationMs,
    bytesOut: exchange.bytesOut,
    credits: exchange.credits,
  };
  for (const listener of listeners) listener(answered, exchange);
}

const MAX_RPC_LABEL = 64;
const MAX_PATH = 256;
const MAX_QUERY = 512;
const MAX_CLIENT = 128;
/** Masks before it cuts: the first half of a key would not be recognized. */
const MARGIN = 256;

let lastClient = '';
let lastName = '';

/** Consecutive requests mostly come from the same client, and masking takes longer than the rest of the line. */
function clientName(client: string): string {
  if (client !== lastClient) lastName = maskKeys(client).slice(0, MAX_CLIENT);
  lastClient = client;
  return lastName;
}

/** The log line of a request. Keys are masked everywhere; of the headers only the client's name is written. */
function logRequest(log: Log, exchange: Exchange, elapsedMs: number): void {
  const { request, target, status, caller } = exchange;
  const level = status >= 500 || exchange.isBroken ? 'warn' : 'info';
  if (log.isLevelEnabled?.(level) === false) return;
  const fields: Record<string, unknown> = {
    requestId: exchange.requestId,
    method: request.method,
    path: maskPath(target.path.slice(0, MAX_PATH + MARGIN), exchange.route).slice(0, MAX_PATH),
    route: exchange.route,
    status,
    ms: Math.round(elapsedMs * 1000) / 1000,
    bytesOut: exchange.bytesOut,
    remote: exchange.remoteAddress,
  };
  if (target.query !== '') fields['query'] = maskQuery(target.query.slice(0, MAX_QUERY + MARGIN)).slice(0, MAX_QUERY);
  if (exchange.rpcLabel !== undefined) fields['rpc'] = exchange.rpcLabel.slice(0, MAX_RPC_LABEL);
  if (exchange.rpcFailed > 0) fields['rpcFailed'] = exchange.rpcFailed;
  if (exchange.isBroken) fields['broken'] = true;
  if (caller !== null) {
    fields['projectId'] = caller.projectId;
    fields['keyId'] = caller.keyId;
  }
  if (exchange.span !== null) Object.assign(fields, exchange.span.ids);
  const { headers } = request;
  const client = headers['x-helius-client'] ?? headers['solana-client'] ?? headers['user-agent'];
  if (typeof client === 'string') fields['client'] = clientName(client.slice(0, MAX_CLIENT + MARGIN));
  log[level](fields, 'request');
}

/** Handles a request in a span. */
function beginTrace(tracer: Tracer, exchange: Exchange, handle: (exchange: Exchange) => void): void {
  const { headers, method = '' } = exchange.request;
  const { traceparent } = headers;
  exchange.span = tracer.begin({
    kind: 'request',
    name: method,
    facts: { 'http.request.method': method, 'parhelion.request_id': exchange.requestId },
    traceparent: typeof traceparent === 'string' ? traceparent : undefined,
  });
  exchange.span.run(() => handle(exchange));
}

/** The route is known only now. Client errors do not count as failures of the daemon. */
function endTrace({ span, status, route, rpcLabel, bytesOut }: Exchange): void {
  span?.end(status < 500, {
    'http.route': route,
    'http.response.status_code': status,
    'http.response.body.size': bytesOut,
    ...(rpcLabel === undefined ? {} : { 'rpc.method': shortName(rpcLabel) }),
  });
}

/** The longest deadline of any handler: timeouts that wait for an answer must be longer. */
export function slowestMs(core: CoreConfig, handlers: readonly { readonly timeoutMs?: number }[]): number {
  return handlers.reduce(
    (most, { timeoutMs = 0 }) => Math.max(most, timeoutMs),
    Math.max(core.http.handlerTimeoutMs, core.rpc.upstreamTimeoutMs),
  );
}

/** Longer than any HTTP method. */
const MAX_LABEL = 512;

export interface RootParts {
  readonly rpc: RpcFront;
  readonly gate: Gate | null;
  readonly paywall: Paywall | null;
  readonly deadlines: Deadlines;
  readonly responder: Responder;
  readonly bodyLimitBytes: () => number;
  /** Deadline of a whole request; single calls have shorter ones. */
  readonly timeoutMs: number;
  readonly inFlight: Pick<InFlight, 'setBusy' | 'takeBytes'>;
  readonly taps: TapSeat;
}

/** `POST /`: key, body, JSON-RPC. Its errors are answered with a null id. */
async function handleRoot(parts: RootParts, exchange: Exchange): Promise<void> {
  const { responder, rpc } = parts;
  let body: Buffer | null = null;
  try {
    if (parts.gate === null) throw new GateRefusal('no-key');
    const credentials = credentialsOf(exchange.target.query, exchange.request.headers);
    const caller = parts.gate.authenticate(credentials, exchange.remoteAddress);
    exchange.caller = isPromise(caller) ? await caller : caller;
  } catch (error) {
    const fault = faultOf(error, exchange.requestId);
    if (fault.refusal === undefined) throw error;
    const peeked = await peekCall(parts, exchange);
    const recovered = rpc.recover(peeked.head);
    if (fault.refusal === 'no-key' && parts.paywall !== null && peeked.complete && !recovered.open) {
      exchange.rpcId = () => recovered.id ?? 'null';
      checkBodyEncoding(exchange.request, peeked.bytes);
      if (await payForCalls(parts, exchange, error, rpc.itemsOf(peeked.bytes))) {
        await answerRoot(parts, exchange, peeked.bytes);
        return;
      }
    }
    if (fault.refusal !== 'no-key' || !recovered.open || !peeked.complete) {
      responder.sendFault(exchange, fault, {
        rpcId: recovered.id ?? 'null',
        close: recovered.id === undefined || !peeked.complete,
      });
      return;
    }
    body = peeked.bytes;
    checkBodyEncoding(exchange.request, body);
  }
  body ??= await takeBody(parts, exchange, parts.bodyLimitBytes());
  await answerRoot(parts, exchange, body);
}

async function answerRoot(parts: RootParts, exchange: Exchange, body: Buffer): Promise<void> {
  const { responder, rpc } = parts;
  exchange.rpcId = idReader(rpc, body);
  exchange.body = body;
  beginTap(parts.taps, exchange, body);
  const given = rpc.handleHttp(body, exchange);
  const answer = isPromise(given) ? await beforeDeadline(parts, exchange, given) : given;
  exchange.rpcLabel = maskMethod(answer.label.slice(0, MAX_LABEL));
  exchange.rpcFailed = answer.failed;
  if (answer.failed > 0) exchange.noteFailure(answer.body);
  // The bill without the answer: what waits for the client is counted once.
  exchange.onEnd(answer.bill);
  const content = exchange.payment === null ? answer.body : await paidBody(rpc, exchange, answer.body);
  responder.send(exchange, answer.status, content === null ? null : JSON_TYPE, answer.headers, content);
}

/** The whole body, after the payment is used up: a stream that breaks off is no answer, and costs nothing. */
async function paidBody(rpc: RpcFront, exchange: Exchange, body: RpcAnswer['body']): Promise<string | Buffer | null> {
  const whole = body === null ? null : await rpc.wholeOf(body);
  await usePayment(exchange);
  return whole;
}

/**
 * Made outside of the async function: a closure over its variables, kept by the exchange, lets every request live until the next major
 * collection, which costs as much as half of a cached answer.
 */
const idReader = (rpc: RpcFront, body: Buffer) => () => rpc.recover(body).id ?? 'null';

function beforeDeadline(parts: RootParts, exchange: Exchange, answer: Promise<RpcAnswer>): Promise<RpcAnswer> {
  exchange.cancelDeadline = parts.deadlines.watch(parts.timeoutMs, () => {
    parts.responder.sendFault(exchange, timeoutFault());
    exchange.lazy.abort('the deadline of the request has passed');
  });
  return answer;
}
