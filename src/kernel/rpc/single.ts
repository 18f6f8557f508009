import { type Fault, faultOf } from '../calls/fault.ts';
import { isPromise } from '../calls/is-promise.ts';
import type { Admission, CallContext } from '../plugin.ts';
import { type RpcAnswer, refusal } from './answer.ts';
import { discard } from './batch.ts';
import { type Admitted, admitCalls, gateItem, type Prepared } from './prepare.ts';
import { type RunParts, runCall } from './run-call.ts';

/** Answers one call: admitted first, then run. */
export async function answerSingle(
  parts: RunParts,
  prepared: Prepared,
  body: Buffer,
  context: CallContext,
  whole: boolean,
): Promise<RpcAnswer> {
  const { call, name } = prepared;
  let admitted: Admitted;
  try {
    admitted = await admitCalls(parts.gate, [prepared], body, context);
  } catch (error) {
    return refused(parts, prepared, error, context);
  }
  const executed = await runCall(parts, prepared, body, context, whole);
  const rateHeaders = admitted.admission?.headers;
  const settle = (bytesOut: number) => admitted.admission?.settle([{ charged: executed.charged, bytesOut }]);
  if (call.id === undefined && executed.status === 200) {
    discard(executed.body);
    return { status: 204, headers: rateHeaders ?? {}, body: null, label: name, settle };
  }
  const headers = rateHeaders === undefined ? executed.headers : { ...rateHeaders, ...executed.headers };
  return { status: executed.status, headers, body: executed.body, label: name, settle };
}

/**
 * The answer that the fallback has at hand, without a promise where the gate needs none: most reads of a busy daemon end here.
 * Null when there is none; then nothing has happened yet.
 */
export function answerAtHand(
  parts: RunParts,
  prepared: Prepared,
  body: Buffer,
  context: CallContext,
): RpcAnswer | Promise<RpcAnswer> | null {
  const { call, destination, name } = prepared;
  const { gate, meter } = parts;
  const { caller } = context;
  if (prepared.fault !== null || destination.kind !== 'forward' || call.id === undefined) return null;
  if (gate === null || caller === null) return null;
  const reply = destination.fallback.atHand?.({ method: name, body, params: call.params, id: call.id }) ?? null;
  if (reply === null) return null;
  const finish = ({ headers, settle }: Admission): RpcAnswer => {
    meter.done(name, 'forward', reply.answered, 0);
    return {
      status: reply.status,
      headers: { ...headers, ...reply.headers },
      body: reply.body,
      label: name,
      settle: (bytesOut) => settle([{ charged: reply.answered, bytesOut }]),
    };
  };
  try {
    const admission = gate.admit(caller, [gateItem(prepared, body)]);
    if (!isPromise(admission)) return finish(admission);
    return admission.then(finish, (error: unknown) => refused(parts, prepared, error, context));
  } catch (error) {
    return refused(parts, prepared, error, context);
  }
}

/** Throws what is no refusal of the gate. */
function refused(parts: RunParts, { call, name }: Prepared, error: unknown, context: CallContext): RpcAnswer {
  const fault: Fault = faultOf(error, context.requestId);
  if (fault.unexpected) throw error;
  parts.meter.refused(name);
  return refusal(fault, call.id ?? 'null', name);
}
