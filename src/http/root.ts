import { maskMethod } from '../lib/mask-keys.ts';
import type { Gate } from '../plugin/host.ts';
import { GateRefusal } from '../plugin/plugin.ts';
import type { Deadlines } from '../runtime/deadline.ts';
import { isPromise } from '../runtime/is-promise.ts';
import { checkBodyEncoding } from './body.ts';
import { faultOf, timeoutFault } from './calls/fault.ts';
import type { Exchange } from './exchange.ts';
import type { InFlight } from './in-flight.ts';
import type { RpcAnswer, RpcFront } from './json-rpc/front.ts';
import { credentialsOf } from './query.ts';
import { JSON_TYPE, type Responder } from './respond.ts';
import { peekCall, takeBody } from './rest.ts';

/** Longer than any method. */
const MAX_LABEL = 512;

export interface RootParts {
  readonly rpc: RpcFront;
  readonly gate: Gate | null;
  readonly deadlines: Deadlines;
  readonly responder: Responder;
  readonly bodyLimitBytes: number;
  /** Of a whole request; single calls have their own, shorter ones. */
  readonly timeoutMs: number;
  readonly inFlight: Pick<InFlight, 'setBusy' | 'takeBytes'>;
}

/** `POST /`: key, body, JSON-RPC. Throws what the error mapper is to write with a null id. */
export async function handleRoot(parts: RootParts, exchange: Exchange): Promise<void> {
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
  body ??= await takeBody(parts, exchange, parts.bodyLimitBytes);
  const received = body;
  exchange.rpcId = () => rpc.recover(received).id ?? 'null';
  const given = rpc.handleHttp(body, exchange);
  const answer = isPromise(given) ? await beforeDeadline(parts, exchange, given) : given;
  exchange.rpcLabel = maskMethod(answer.label.slice(0, MAX_LABEL));
  exchange.onSettle((bytesOut) => answer.settle(bytesOut));
  responder.send(exchange, answer.status, answer.body === null ? null : JSON_TYPE, answer.headers, answer.body);
}

function beforeDeadline(parts: RootParts, exchange: Exchange, answer: Promise<RpcAnswer>): Promise<RpcAnswer> {
  exchange.cancelDeadline = parts.deadlines.watch(parts.timeoutMs, () => {
    parts.responder.sendFault(exchange, timeoutFault());
    exchange.lazy.abort('the time of the request is up');
  });
  return answer;
}
