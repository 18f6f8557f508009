import type { Admission, Gate, GateItem, RpcBatchSeat, SocketCalls } from '../../plugin/host.ts';
import { type CallContext, GateRefusal, type RateGroup, RpcError, type RpcMethod } from '../../plugin/plugin.ts';
import type { Caller } from '../../ports/access.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Counter, Histogram, Metrics } from '../../ports/telemetry.ts';
import type { Deadlines } from '../../runtime/waiting.ts';
import { isPromise } from '../../runtime/waiting.ts';
import { type Fault, faultOf } from '../errors.ts';
import {
  type Destination,
  type Executed,
  executeForward,
  executeLocal,
  executeSocket,
  failedCall,
  type MethodTable,
  paramsValue,
  priceOf,
} from './execute.ts';
import type { CallSpan } from './scan.ts';

/** A call with its destination; `fault` is set if it cannot be run. */
export interface PreparedCall {
  readonly call: CallSpan;
  readonly name: string;
  readonly destination: Destination;
  fault: Fault | null;
}

/** Checks the request object and finds its destination. */
export function prepare(
  call: CallSpan,
  methods: MethodTable,
  caller: CallContext['caller'],
  calls?: SocketCalls,
): PreparedCall {
  const name = call.method ?? '';
  if (call.problem !== null) {
    const none: Destination = { kind: 'none', fault: { code: 0, message: '', status: 200, details: undefined } };
    return { call, name: '', destination: none, fault: rpcFault('invalidRequest', call.problem) };
  }
  const destination = methods.find(name, calls);
  if (destination.kind === 'none')
    return { call, name, destination, fault: rpcFault('methodNotFound', destination.fault.details) };
  // A notification gets no answer, so its subscription could never be ended.
  if (destination.kind === 'socket' && call.id === undefined)
    return { call, name, destination, fault: rpcFault('invalidRequest', 'a subscription needs an id') };
  const refused = calls === undefined || destination.kind === 'socket' ? null : refusalOf(calls, name);
  if (refused !== null) return { call, name, destination, fault: refused };
  const open = destination.kind === 'local' && destination.local.method.auth === 'none';
  return { call, name, destination, fault: caller === null && !open ? rpcFault('unauthorized') : null };
}

/** Why the connection may not make this call now; null: it may. */
function refusalOf(calls: SocketCalls, method: string): Fault | null {
  try {
    calls.admit(method);
    return null;
  } catch (error) {
    return faultOf(error, '');
  }
}

export function rpcFault(name: ConstructorParameters<typeof RpcError>[0], details?: string): Fault {
  return faultOf(new RpcError(name, details === undefined ? {} : { details }), '');
}

/** Bodies above this size are parsed only while the caller has tokens left. */
const LARGE_BYTES = 16_384;
/** Bytes of a body per token. */
const BYTES_A_TOKEN = 65_536;
const SIZE_GROUP = 'rpc';

/** Throws `rate` for a large body of a caller without tokens: finding its error is work. */
export function demandRate(gate: Gate | null, { caller }: CallContext, bytes: number): void {
  if (caller !== null && bytes > LARGE_BYTES) gate?.spend?.(caller, SIZE_GROUP, 0);
}

/** Takes the tokens of an admitted body beyond its first part, which the call itself has paid. */
export function payForSize(
  gate: Gate | null,
  caller: Caller | null,
  bytes: number,
  group: RateGroup = SIZE_GROUP,
): void {
  if (caller !== null && bytes > BYTES_A_TOKEN) gate?.debit?.(caller, group, Math.ceil(bytes / BYTES_A_TOKEN) - 1);
}

/** Takes tokens for a request that is refused before admission, by its size or number of calls. Throws `rate` if no tokens are left. */
export function payRefused(gate: Gate | null, { caller }: CallContext, bytes: number, calls = 1): void {
  if (caller === null || calls === 0) return;
  gate?.spend?.(caller, SIZE_GROUP, Math.max(calls, Math.ceil(bytes / BYTES_A_TOKEN)));
}

/** Like `payRefused`, for requests that the gate refused for a reason other than the rate. Does not throw: they stay refused. */
export function payForRefusal(gate: Gate | null, context: CallContext, bytes: number, error: unknown): void {
  if (!(error instanceof GateRefusal) || error.reason === 'rate') return;
  try {
    payRefused(gate, context, bytes);
  } catch {
    // No tokens are left.
  }
}

export interface Admitted {
  readonly admission: Admission | null;
  /** The admitted calls, in the order of the admission's items. */
  readonly calls: readonly PreparedCall[];
}

/**
 * Admits all runnable calls together, without a promise if the gate needs none. The refusal of one item becomes the fault of that item and
 * the others are admitted again; any other refusal is thrown, or rejects.
 */
export function admitCalls(
  gate: Gate | null,
  calls: readonly PreparedCall[],
  body: Buffer,
  context: CallContext,
): Admitted | Promise<Admitted> {
  const { caller } = context;
  const rest = calls.filter((prepared) => prepared.fault === null);
  if (gate === null || caller === null || rest.length === 0) return { admission: null, calls: rest };
  const admitOthers = (error: unknown): Admitted | Promise<Admitted> => {
    const refused = error instanceof GateRefusal && error.item !== null ? rest[error.item] : undefined;
    if (refused === undefined) throw error;
    refused.fault = faultOf(error, context.requestId);
    payForRefusal(gate, context, rest.length === 1 ? body.length : 0, error);
    return admitCalls(gate, rest, body, context);
  };
  let admission: Admission | Promise<Admission>;
  try {
    const items = rest.map((prepared) => gateItem(prepared, body));
    admission = gate.admit(caller, items);
  } catch (error) {
    return admitOthers(error);
  }
  const admitted = (given: Admission): Admitted => {
    payForSize(gate, caller, body.length);
    return { admission: given, calls: rest };
  };
  return isPromise(admission) ? admission.then(admitted, admitOthers) : admitted(admission);
}

/** A call as the gate admits it. */
export function gateItem({ call, destination, name }: PreparedCall, body: Buffer): GateItem {
  return {
    name,
    price: priceOf(destination, name, () => paramsValue(body, call)),
    permission: destination.kind === 'local' ? destination.local.method.permission : undefined,
  };
}

/** Dependencies of running calls. */
export interface CallParts {
  readonly gate: Gate | null;
  readonly meter: RpcMetrics;
  readonly clock: Clock;
  readonly deadlines: Deadlines;
  /** Deadline of methods that do not define one. */
  readonly handlerTimeoutMs: number;
}

/** Runs an admitted call at its destination. Never throws or rejects, and makes no promise for an answer at hand. */
export function runCall(
  parts: CallParts,
  { call, destination, name, fault }: PreparedCall,
  body: Buffer,
  context: CallContext,
  seat: RpcBatchSeat | null,
): Executed | Promise<Executed> {
  const { meter, clock, deadlines, handlerTimeoutMs } = parts;
  const startedMs = clock.monotonic();
  const executed =
    fault !== null || destination.kind === 'none'
      ? failedCall(fault ?? rpcFault('methodNotFound'), call.id)
      : destination.kind === 'local'
        ? executeLocal(destination.local, body, call, context, deadlines, handlerTimeoutMs)
        : destination.kind === 'socket'
          ? executeSocket(destination.calls, name, body, call, context)
          : executeForward(destination.fallback, name, body, call, context, seat);
  const count = (done: Executed): Executed => {
    const { body: answer, ok } = done;
    if (typeof answer === 'string' || Buffer.isBuffer(answer))
      meter.done(name, destination.kind, ok, clock.monotonic() - startedMs);
    // Only its end shows whether it is an answer.
    else
      answer.once('close', () =>
        meter.done(name, destination.kind, ok && answer.errored === null, clock.monotonic() - startedMs),
      );
    return done;
  };
  return isPromise(executed) ? executed.then(count) : count(executed);
}

/** Names of forwarded methods and subscriptions come from callers: only so many become label values; the rest count as `other`. */
const MAX_FORWARDED_NAMES = 150;
const BUCKETS_S = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

interface RpcMetrics {
  done(name: string, kind: Destination['kind'], ok: boolean, elapsedMs: number): void;
  /** The gate refused the call or the whole batch. */
  refused(name: string): void;
}

interface MethodCounters {
  readonly ok: Counter;
  readonly error: Counter;
  readonly duration: Histogram;
}

export function createRpcMetrics(metrics: Metrics, methods: readonly RpcMethod[]): RpcMetrics {
  const calls = metrics.counter('calls_total', 'JSON-RPC calls by method and outcome', ['method', 'outcome']);
  const durations = metrics.histogram('call_duration_seconds', 'time to answer a call', BUCKETS_S, ['method']);
  const refused = metrics.counter('refused_total', 'calls and batches that the gate refused');
  const makeRow = (name: string): MethodCounters => ({
    ok: calls.with(name, 'ok'),
    error: calls.with(name, 'error'),
    duration: durations.with(name),
  });
  const rows = new Map(methods.map((method) => [method.name, makeRow(method.name)]));
  const limit = rows.size + MAX_FORWARDED_NAMES;
  const other = makeRow('other');

  const rowOf = (name: string, kind: Destination['kind'], ok: boolean): MethodCounters => {
    const row = rows.get(name);
    if (row !== undefined) return row;
    // A method that no upstream answered gets no label.
    if ((kind !== 'forward' && kind !== 'socket') || !ok || rows.size >= limit) return other;
    const made = makeRow(name);
    rows.set(name, made);
    return made;
  };
  return {
    done: (name, kind, ok, elapsedMs) => {
      const row = rowOf(name, kind, ok);
      (ok ? row.ok : row.error).add();
      row.duration.record(elapsedMs / 1000);
    },
    refused: () => refused.add(),
  };
}
