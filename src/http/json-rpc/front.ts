import type { Readable } from 'node:stream';
import type { CoreConfig } from '../../config/core.ts';
import type {
  Admission,
  ForwardedMethod,
  Gate,
  GateItem,
  RpcBatchSeat,
  RpcDispatch,
  RpcFallback,
  SocketCalls,
} from '../../plugin/host.ts';
import { type CallContext, GateRefusal, type Price, RpcError, type RpcMethod } from '../../plugin/plugin.ts';
import type { Caller, Lease } from '../../ports/access.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Log, Metrics } from '../../ports/telemetry.ts';
import { createDeadlines, isPromise } from '../../runtime/waiting.ts';
import { withoutMark } from '../body.ts';
import { type Fault, faultOf } from '../errors.ts';
import type { Chargeable } from '../exchange.ts';
import type { Validator } from '../validation.ts';
import { discardBody, joinBatch, runBatch } from './batch.ts';
import {
  createMethodTable,
  type Executed,
  failedCall,
  isErrorText,
  type MethodTable,
  rpcErrorText,
} from './execute.ts';
import {
  type Admitted,
  admitCalls,
  type CallParts,
  createRpcMetrics,
  demandRate,
  gateItem,
  type PreparedCall,
  payForRefusal,
  payRefused,
  prepare,
  rpcFault,
  runCall,
} from './prepare.ts';
import { recoverCall, scanRpcBody } from './scan.ts';

const MAX_DEPTH = 64;
/** Bytes of a body that are read to find the id for a refusal. */
const RECOVER_BYTES = 16_384;

export interface RpcFrontOptions {
  readonly methods: readonly RpcMethod[];
  readonly fallback: RpcFallback | null;
  readonly gate: Gate | null;
  readonly core: CoreConfig;
  readonly log: Log;
  /** Scoped to `rpc`. */
  readonly metrics: Metrics;
  readonly clock: Clock;
  readonly validator?: Validator;
}

export interface RpcFront {
  /** Answers a complete body, synchronously if nothing has to be awaited. Never throws. */
  handleHttp(body: Buffer, context: CallContext): RpcAnswer | Promise<RpcAnswer>;
  readonly dispatch: RpcDispatch;
  /** For a body whose key was refused: finds in its first bytes the id to echo, and whether the method needs no key. */
  recover(firstBytes: Buffer): { readonly id: string | undefined; readonly open: boolean };
  /** The calls of a body, as the gate admits them; empty if one of them cannot be run. */
  itemsOf(body: Buffer): readonly GateItem[];
  /** Reads an answer to its end. Throws RpcError when it is too large, or the error with which it broke off. */
  wholeOf(body: NonNullable<RpcAnswer['body']>): Promise<Buffer>;
  /** Whether any method may be called without a key. */
  readonly hasOpenMethods: boolean;
  readonly methods: readonly RpcMethod[];
  /** What is known of the methods that go upstream. */
  readonly forwarded: readonly ForwardedMethod[];
  /** The price of a method without params. */
  priceOf(method: string): Price | undefined;
}

interface FrontParts extends RpcFrontOptions, CallParts {
  readonly table: MethodTable;
}

export function createRpcFront(options: RpcFrontOptions): RpcFront {
  const table = createMethodTable(options.methods, options.fallback, options.core.rpc, options.validator);
  const shared: FrontParts = {
    ...options,
    table,
    deadlines: createDeadlines(options.clock),
    meter: createRpcMetrics(options.metrics, options.methods),
    get handlerTimeoutMs() {
      return options.core.http.handlerTimeoutMs;
    },
  };
  // A socket message is one frame, so its answer must be one buffer.
  const handle = (
    body: Buffer,
    context: CallContext,
    whole: boolean,
    calls?: SocketCalls,
  ): RpcAnswer | Promise<RpcAnswer> => {
    const broken = (error: unknown): RpcAnswer => {
      const fault = faultOf(error, context.requestId);
      if (fault.unexpected) context.log.error({ err: error }, 'the JSON-RPC front failed');
      return refusal(fault, 'null', 'none');
    };
    try {
      const given = answer(shared, withoutMark(body), context, whole, calls);
      return isPromise(given) ? given.catch(broken) : given;
    } catch (error) {
      return broken(error);
    }
  };
  return {
    handleHttp: (body, context) => handle(body, context, false),
    dispatch: async (message, context, calls) => {
      const refuse = (error: unknown) => {
        const fault = faultOf(error, context.requestId);
        if (fault.unexpected) throw error;
        return Buffer.from(rpcErrorText(fault.rpc, recoverCall(message).id ?? 'null'));
      };
      let held: Lease | undefined;
      try {
        held = context.tenant.take('requestBytes', message.length);
      } catch (error) {
        return refuse(error);
      }
      try {
        const reply = await handle(message, context, true, calls);
        let bytesOut = 0;
        try {
          const most = Math.min(options.core.rpc.maxUpstreamBytes, calls?.maxAnswerBytes ?? Number.POSITIVE_INFINITY);
          const bytes = reply.body === null ? null : await toBuffer(reply.body, most);
          // The sender counts it; here only its size is checked.
          if (bytes !== null) context.tenant.take('answerBytes', bytes.length).release();
          bytesOut = bytes?.length ?? 0;
          return bytes;
        } catch (error) {
          return refuse(error);
        } finally {
          reply.bill.charge(bytesOut);
        }
      } finally {
        held?.release();
      }
    },
    recover: (firstBytes) => {
      const { id, method } = recoverCall(firstBytes);
      const destination = method === undefined ? undefined : table.find(method);
      return { id, open: destination?.kind === 'local' && destination.local.method.auth === 'none' };
    },
    itemsOf(given) {
      const body = withoutMark(given);
      const { maxBatchItems } = options.core.rpc;
      const scanned = scanRpcBody(body, { maxDepth: MAX_DEPTH, maxItems: maxBatchItems });
      const calls = scanned.kind === 'single' ? [scanned.call] : scanned.kind === 'batch' ? scanned.calls : [];
      const prepared = calls.map((call) => prepare(call, table, SOMEBODY));
      const isWhole = scanned.kind === 'single' || (scanned.kind === 'batch' && scanned.count === calls.length);
      if (!isWhole || prepared.some(({ fault }) => fault !== null)) return [];
      return prepared.map((one) => gateItem(one, body));
    },
    wholeOf: (body) => toBuffer(body, options.core.rpc.maxUpstreamBytes),
    hasOpenMethods: table.hasOpen,
    methods: options.methods,
    forwarded: options.fallback?.methods ?? [],
    priceOf: (method) => options.fallback?.price(method, () => undefined),
  };
}

function answer(
  shared: FrontParts,
  body: Buffer,
  context: CallContext,
  whole: boolean,
  calls: SocketCalls | undefined,
): RpcAnswer | Promise<RpcAnswer> {
  const { gate, core } = shared;
  const { maxBatchItems } = core.rpc;
  const refuse = (fault: Fault, label: string): RpcAnswer => {
    try {
      payRefused(gate, context, body.length);
    } catch (error) {
      return refusal(faultOf(error, context.requestId), 'null', label);
    }
    return refusal(fault, 'null', label);
  };
  try {
    demandRate(gate, context, body.length);
  } catch (error) {
    return refusal(
      faultOf(error, context.requestId),
      recoverCall(body.subarray(0, RECOVER_BYTES)).id ?? 'null',
      'none',
    );
  }
  const scanned = scanRpcBody(body, { maxDepth: MAX_DEPTH, maxItems: maxBatchItems });
  const isTooLarge = calls !== undefined && body.length > core.http.bodyLimitBytes;
  if (scanned.kind === 'single') {
    const prepared = prepare(scanned.call, shared.table, context.caller, calls);
    // Only subscriptions may be larger than over HTTP; they have limits of their own.
    if (isTooLarge && prepared.destination.kind !== 'socket') {
      prepared.fault ??= rpcFault('invalidRequest', `a call has at most ${core.http.bodyLimitBytes} bytes`);
    }
    return answerSingle(shared, prepared, body, context, whole);
  }
  if (scanned.kind === 'syntax') return refuse(rpcFault('parse'), 'none');
  if (isTooLarge)
    return refuse(rpcFault('invalidRequest', `a call has at most ${core.http.bodyLimitBytes} bytes`), 'none');
  if (scanned.kind === 'invalid') return refuse(rpcFault('invalidRequest', scanned.reason), 'none');
  if (scanned.count === 0) return refuse(rpcFault('invalidRequest', 'the batch is empty'), 'batch(0)');
  if (scanned.count > maxBatchItems) {
    const reason = `a batch has at most ${maxBatchItems} items`;
    return refuse(rpcFault('invalidRequest', reason), `batch(${scanned.count})`);
  }
  const prepared = scanned.calls.map((call) => prepare(call, shared.table, context.caller, calls));
  return answerBatch(shared, body, prepared, context);
}

async function answerBatch(
  shared: FrontParts,
  body: Buffer,
  prepared: readonly PreparedCall[],
  context: CallContext,
): Promise<RpcAnswer> {
  const label = `batch(${prepared.length})`;
  let admitted: Admitted;
  try {
    const wrong = prepared.filter(({ fault }) => fault !== null).length;
    payRefused(shared.gate, context, wrong === prepared.length ? body.length : 0, wrong);
    admitted = await admitCalls(shared.gate, prepared, body, context);
  } catch (error) {
    const fault = faultOf(error, context.requestId);
    if (fault.unexpected) throw error;
    shared.meter.refused('batch');
    payForRefusal(shared.gate, context, body.length, error);
    if (!(error instanceof GateRefusal) || error.reason !== 'batch') return refusal(fault, 'null', label);
    // web3.js cannot read a single object as the answer to a batch, so every item contains the reason.
    const texts = prepared
      .filter(({ call }) => call.id !== undefined)
      .map(({ call }) => rpcErrorText(fault.rpc, call.id ?? 'null'));
    const refusals = `[${texts.join(',')}]`;
    return { status: 200, headers: {}, body: refusals, label, failed: prepared.length, bill: FREE };
  }
  const { batchConcurrency, maxBatchBytes } = shared.core.rpc;
  const tasks = prepared.map((one) => ({
    id: one.call.id,
    run: (seat: RpcBatchSeat) => runCall(shared, one, body, context, seat),
  }));
  const limits = { concurrency: batchConcurrency, maxBytes: maxBatchBytes };
  const items = await runBatch(tasks, limits, context.tenant);
  const failedCount = items.reduce((count, { ok, body: text }) => (ok && !isErrorText(text) ? count : count + 1), 0);
  const itemOf = new Map(prepared.map((one, i) => [one, items[i]]));
  const outcomes = admitted.calls.map((one) => {
    const item = itemOf.get(one);
    return { charged: item?.charged ?? false, bytesOut: item?.body?.length ?? 0, credits: item?.credits };
  });
  const joined = joinBatch(items);
  return {
    status: joined === null ? 204 : 200,
    headers: admitted.admission?.headers ?? {},
    body: joined,
    label,
    failed: failedCount,
    bill: admitted.admission === null ? FREE : new BatchBill(admitted.admission, outcomes),
  };
}

async function toBuffer(body: string | Buffer | Readable, maxBytes: number): Promise<Buffer> {
  const tooLarge = () => new RpcError('internal', { details: `the answer is larger than ${maxBytes} bytes` });
  if (typeof body === 'string' || Buffer.isBuffer(body)) {
    if (body.length > maxBytes) throw tooLarge();
    return typeof body === 'string' ? Buffer.from(body) : body;
  }
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of body) {
    size += (chunk as Buffer).length;
    if (size > maxBytes) throw tooLarge();
    chunks.push(chunk as Buffer);
  }
  return Buffer.concat(chunks, size);
}

/** Admits and runs one call. There is no promise if neither the gate nor the method needs one: most reads of a busy daemon end so. */
function answerSingle(
  parts: CallParts,
  prepared: PreparedCall,
  body: Buffer,
  context: CallContext,
  whole: boolean,
): RpcAnswer | Promise<RpcAnswer> {
  const run = ({ admission }: Admitted): RpcAnswer | Promise<RpcAnswer> => {
    const executed = runCall(parts, prepared, body, context, whole ? ALONE : null);
    return isPromise(executed)
      ? executed.then((done) => new SingleAnswer(prepared, done, admission))
      : new SingleAnswer(prepared, executed, admission);
  };
  const refuse = (error: unknown): RpcAnswer => {
    payForRefusal(parts.gate, context, body.length, error);
    return refused(parts, prepared, error, context);
  };
  let admitted: Admitted | Promise<Admitted>;
  try {
    if (prepared.fault !== null) payRefused(parts.gate, context, body.length);
    admitted = admitCalls(parts.gate, [prepared], body, context);
  } catch (error) {
    return refuse(error);
  }
  return isPromise(admitted) ? admitted.then(run, refuse) : run(admitted);
}

/** A class: closures over a request that the exchange keeps let it live until the next major collection. */
class SingleAnswer implements RpcAnswer {
  readonly status: number;
  readonly headers: RpcAnswer['headers'];
  readonly body: RpcAnswer['body'];
  readonly label: string;
  readonly failed: number;
  readonly bill: RpcAnswer['bill'];

  constructor({ call, name }: PreparedCall, executed: Executed, admission: Admission | null) {
    const rates = admission?.headers ?? {};
    const isSilent = call.id === undefined && executed.status === 200;
    if (isSilent) discardBody(executed.body);
    this.status = isSilent ? 204 : executed.status;
    this.headers = isSilent ? rates : { ...rates, ...executed.headers };
    this.body = isSilent ? null : executed.body;
    this.label = name;
    this.failed = executed.ok ? 0 : 1;
    this.bill = admission === null ? FREE : new SingleBill(admission, executed);
  }
}

/** What one call costs. It is kept until the client has read the answer, and so must not hold the answer, only a stream of it. */
class SingleBill implements Chargeable {
  readonly #admission: Admission;
  readonly #charged: boolean;
  readonly #credits: number | undefined;
  readonly #stream: Readable | null;

  constructor(admission: Admission, { charged, credits, body }: Executed) {
    this.#admission = admission;
    this.#charged = charged;
    this.#credits = credits;
    this.#stream = typeof body === 'string' || Buffer.isBuffer(body) ? null : body;
  }

  isDue(): boolean {
    return this.#charged && (this.#stream === null || this.#stream.errored === null);
  }

  drop(): void {
    this.#admission.charge([{ charged: false, bytesOut: 0 }]);
  }

  charge(bytesOut: number): number {
    // A stream that broke off was no answer.
    const isBroken = this.#stream !== null && this.#stream.errored !== null;
    const outcome = { charged: this.#charged && !isBroken, bytesOut };
    const credits = this.#credits;
    return this.#admission.charge([credits === undefined ? outcome : { ...outcome, credits }]);
  }
}

type Outcomes = Parameters<Admission['charge']>[0];

/** What the calls of a batch cost, likewise. */
class BatchBill implements Chargeable {
  readonly #admission: Admission;
  readonly #outcomes: Outcomes;

  constructor(admission: Admission, outcomes: Outcomes) {
    this.#admission = admission;
    this.#outcomes = outcomes;
  }

  isDue(): boolean {
    return this.#outcomes.some(({ charged }) => charged);
  }

  drop(): void {
    this.#admission.charge(this.#outcomes.map(() => ({ charged: false, bytesOut: 0 })));
  }

  charge(): number {
    return this.#admission.charge(this.#outcomes);
  }
}

/** A caller with a key, for questions about calls that are not made. */
const SOMEBODY: Caller = { projectId: '', keyId: null, plan: '', wallet: null };

/** Seat of a call over a websocket: its answer is one frame of its own. */
const ALONE: RpcBatchSeat = { batch: null, park: () => undefined, resume: () => undefined };

const FREE: Chargeable = { charge: () => 0, isDue: () => false, drop: () => undefined };

/** Rethrows errors other than refusals of the gate. */
function refused(parts: CallParts, { call, name }: PreparedCall, error: unknown, context: CallContext): RpcAnswer {
  const fault: Fault = faultOf(error, context.requestId);
  if (fault.unexpected) throw error;
  parts.meter.refused(name);
  return refusal(fault, call.id ?? 'null', name);
}

/** A JSON-RPC answer, ready to be written. */
export interface RpcAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** Null: no body (status 204). */
  readonly body: string | Buffer | Readable | null;
  /** Method name or `batch(n)`; for log lines. */
  readonly label: string;
  /** Calls of it that were answered with an error. In an answer that is passed on as it arrives none is seen. */
  readonly failed: number;
  /** To be charged once, when the number of bytes is known. */
  readonly bill: Chargeable;
}

/** The answer to a request or call that was not run. `id` is raw JSON. */
function refusal(fault: Fault, id: string, label: string): RpcAnswer {
  const { status, headers, body } = failedCall(fault, id);
  return { status, headers, body, label, failed: 1, bill: FREE };
}
