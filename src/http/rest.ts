import type { IncomingMessage } from 'node:http';
import type { Gate } from '../plugin/host.ts';
import { GateRefusal, RequestError, type RouteRequest } from '../plugin/plugin.ts';
import type { Deadlines } from '../runtime/deadline.ts';
import { BodyAborted, checkBodyEncoding, checkDeclaredLength, parseJsonBody, readBody } from './body.ts';
import { faultOf, timeoutFault } from './errors.ts';
import type { Exchange } from './exchange.ts';
import type { InFlight } from './in-flight.ts';
import { recoverCall } from './json-rpc/scan.ts';
import { HandlerContext } from './lazy-signal.ts';
import { credentialsOf, parseQuery, typeQuery } from './query.ts';
import type { Responder } from './respond.ts';
import type { CompiledRoute } from './router.ts';

interface RestParts {
  readonly gate: Gate | null;
  readonly deadlines: Deadlines;
  readonly responder: Responder;
  readonly inFlight: Pick<InFlight, 'setBusy' | 'takeBytes'>;
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
    exchange.lazy.abort('the deadline of the handler has passed');
  });
  const reply = await route.handler(request);
  parts.responder.sendReply(exchange, reply);
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

async function admit(gate: Gate | null, exchange: Exchange, compiled: CompiledRoute): Promise<void> {
  const { route } = compiled;
  const credentials = credentialsOf(exchange.target.query, exchange.request.headers);
  if (route.auth === 'optional-key' && !givesKey(credentials)) return;
  // Without a gate no key is valid.
  if (gate === null) throw new GateRefusal('no-key');
  exchange.caller = await gate.authenticate(credentials, exchange.remoteAddress);
  const admission = await gate.admit(exchange.caller, compiled.items);
  exchange.admission = admission;
  exchange.onSettle((bytesOut) => {
    const { status } = exchange;
    const isAnswer = (status >= 200 && status < 300) || (route.price?.chargedStatuses?.includes(status) ?? false);
    const charged = isAnswer || exchange.isCharged;
    admission.settle([{ charged, bytesOut }]);
  });
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
