import { type Fault, faultOf } from '../calls/fault.ts';
import { type Admission, type CallContext, type Gate, type GateItem, GateRefusal, RpcError } from '../plugin.ts';
import { paramsValue } from './execute.ts';
import { type Destination, type MethodTable, priceOf } from './methods.ts';
import type { CallSpan } from './scan.ts';

/** A call that knows where it goes; `fault` is set when it goes nowhere. */
export interface Prepared {
  readonly call: CallSpan;
  readonly name: string;
  readonly destination: Destination;
  fault: Fault | null;
}

/** Checks the request object and finds its destination. */
export function prepare(call: CallSpan, methods: MethodTable, caller: CallContext['caller']): Prepared {
  const name = call.method ?? '';
  if (call.problem !== null) {
    const none: Destination = { kind: 'none', fault: { code: 0, message: '', status: 200, details: undefined } };
    return { call, name: '', destination: none, fault: rpcFault('invalidRequest', call.problem) };
  }
  const destination = methods.find(name);
  if (destination.kind === 'none')
    return { call, name, destination, fault: rpcFault('methodNotFound', destination.fault.details) };
  const open = destination.kind === 'local' && destination.local.method.auth === 'none';
  return { call, name, destination, fault: caller === null && !open ? rpcFault('unauthorized') : null };
}

export function rpcFault(name: ConstructorParameters<typeof RpcError>[0], details?: string): Fault {
  return faultOf(new RpcError(name, details === undefined ? {} : { details }), '');
}

export interface Admitted {
  readonly admission: Admission | null;
  /** The calls that the admission is about, in its order. */
  readonly calls: readonly Prepared[];
}

/**
 * Asks the gate for all runnable calls together. A refusal of one item becomes that item's fault and the rest is asked again;
 * any other refusal is thrown.
 */
export async function admitCalls(
  gate: Gate | null,
  calls: readonly Prepared[],
  body: Buffer,
  context: CallContext,
): Promise<Admitted> {
  const { caller } = context;
  let rest = calls.filter((prepared) => prepared.fault === null);
  if (gate === null || caller === null) return { admission: null, calls: rest };
  while (rest.length > 0) {
    try {
      return {
        admission: await gate.admit(
          caller,
          rest.map((prepared) => gateItem(prepared, body)),
        ),
        calls: rest,
      };
    } catch (error) {
      const refused = error instanceof GateRefusal && error.item !== null ? rest[error.item] : undefined;
      if (refused === undefined) throw error;
      refused.fault = faultOf(error, context.requestId);
      rest = rest.filter((prepared) => prepared !== refused);
    }
  }
  return { admission: null, calls: rest };
}

export function gateItem({ call, destination, name }: Prepared, body: Buffer): GateItem {
  return {
    name,
    price: priceOf(destination, name, () => paramsValue(body, call)),
    permission: destination.kind === 'local' ? destination.local.method.permission : undefined,
  };
}
