import type { IncomingMessage } from 'node:http';
import type { Deadlines } from '../calls/deadlines.ts';
import { faultOf, timeoutFault } from '../calls/fault.ts';
import { type Gate, GateRefusal } from '../plugin.ts';
import type { RpcFront } from '../rpc/front.ts';
import { BodyAborted } from './body.ts';
import { credentialsOf } from './credentials.ts';
import type { Exchange } from './exchange.ts';
import { JSON_TYPE } from './headers.ts';
import type { InFlight } from './in-flight.ts';
import type { Responder } from './respond.ts';
import { takeBody } from './rest.ts';

/** How much of a body is read to find the id for the refusal of its key. */
const PEEK_BYTES = 16_384;
/** And for how long. */
const PEEK_MS = 1_000;

export interface RootParts {
  readonly rpc: RpcFront;
  readonly gate: Gate | null;
  readonly deadlines: Deadlines;
  readonly responder: Responder;
  readonly bodyLimitBytes: number;
  /** Of a whole request; single calls have their own, shorter ones. */
  readonly timeoutMs: number;
  readonly inFlight: Pick<InFlight, 'setBusy'>;
}

/** `POST /`: key, body, JSON-RPC. Throws what the error mapper is to write with a null id. */
export async function handleRoot(parts: RootParts, exchange: Exchange): Promise<void> {
  const { responder, rpc } = parts;
  let body: Buffer | null = null;
  try {
    if (parts.gate === null) throw new GateRefusal('no-key');
    const credentials = credentialsOf(exchange.target.query, exchange.request.headers);
    exchange.caller = await parts.gate.authenticate(credentials, exchange.remoteAddress);
  } catch (error) {
    const fault = faultOf(error, exchange.requestId);
    if (fault.refusal === undefined) throw error;
    parts.inFlight.setBusy(exchange, false);
    const peeked = await peek(exchange, parts.deadlines);
    parts.inFlight.setBusy(exchange, true);
    const recovered = rpc.recover(peeked.bytes.subarray(0, PEEK_BYTES));
    if (fault.refusal !== 'no-key' || !recovered.open || !peeked.complete) {
      responder.sendFault(exchange, fault, {
        rpcId: recovered.id ?? 'null',
        close: recovered.id === undefined || !peeked.complete,
      });
      return;
    }
    body = peeked.bytes;
  }
  body ??= await takeBody(parts, exchange, parts.bodyLimitBytes);
  exchange.cancelDeadline = parts.deadlines.watch(parts.timeoutMs, () => {
    responder.sendFault(exchange, timeoutFault());
    exchange.lazy.abort('the time of the request is up');
  });
  const answer = await rpc.handleHttp(body, exchange);
  exchange.rpcLabel = answer.label;
  exchange.settle = (bytesOut) => answer.settle(bytesOut);
  responder.send(exchange, answer.status, answer.body === null ? null : JSON_TYPE, answer.headers, answer.body);
}

/** Reads the first bytes of a body and no more, and does not wait long. The request stays paused when there are more. */
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
