import type { Readable } from 'node:stream';
import type { Clock } from '../../ports/clock.ts';
import type { Log } from '../../ports/log.ts';
import type { Metrics } from '../../ports/metrics.ts';
import { createDeadlines } from '../calls/deadlines.ts';
import { faultOf } from '../calls/fault.ts';
import { isPromise } from '../calls/is-promise.ts';
import type { Validator } from '../calls/validation.ts';
import type { CoreConfig } from '../config/core.ts';
import { withoutMark } from '../http/body.ts';
import {
  type CallContext,
  type Gate,
  GateRefusal,
  type RpcDispatch,
  type RpcFallback,
  type RpcMethod,
} from '../plugin.ts';
import { type RpcAnswer, refusal } from './answer.ts';
import { joinBatch, runBatch } from './batch.ts';
import { rpcErrorText } from './envelope.ts';
import { createRpcMetrics } from './meter.ts';
import { createMethodTable, type MethodTable } from './methods.ts';
import { type Admitted, admitCalls, prepare, rpcFault } from './prepare.ts';
import { recoverCall } from './recover.ts';
import { type RunParts, runCall } from './run-call.ts';
import { type CallSpan, scanRpcBody } from './scan.ts';
import { answerAtHand, answerSingle } from './single.ts';

const MAX_DEPTH = 64;

export type { RpcAnswer } from './answer.ts';

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
  /** Answers a complete body, at once where nothing has to be waited for. Never throws. */
  handleHttp(body: Buffer, context: CallContext): RpcAnswer | Promise<RpcAnswer>;
  readonly dispatch: RpcDispatch;
  /** What the first bytes of a body tell when its key was refused: the id to echo, and whether its method needs no key. */
  recover(firstBytes: Buffer): { readonly id: string | undefined; readonly open: boolean };
  /** Whether any method may be called without a key. */
  readonly hasOpenMethods: boolean;
  readonly methods: readonly RpcMethod[];
}

interface Shared extends RpcFrontOptions, RunParts {
  readonly table: MethodTable;
}

export function createRpcFront(options: RpcFrontOptions): RpcFront {
  const table = createMethodTable(options.methods, options.fallback, options.core.rpc, options.validator);
  const shared: Shared = {
    ...options,
    table,
    deadlines: createDeadlines(options.clock),
    meter: createRpcMetrics(options.metrics, options.methods),
    handlerTimeoutMs: options.core.http.handlerTimeoutMs,
  };
  // A socket message is one frame: its answer has to come in one piece.
  const handle = (body: Buffer, context: CallContext, whole: boolean): RpcAnswer | Promise<RpcAnswer> => {
    const broken = (error: unknown): RpcAnswer => {
      const fault = faultOf(error, context.requestId);
      if (fault.unexpected) context.log.error({ err: error }, 'the JSON-RPC front failed');
      return refusal(fault, 'null', 'none');
    };
    try {
      const given = answer(shared, withoutMark(body), context, whole);
      return isPromise(given) ? given.catch(broken) : given;
    } catch (error) {
      return broken(error);
    }
  };
  return {
    handleHttp: (body, context) => handle(body, context, false),
    dispatch: async (message, context) => {
      const reply = await handle(message, context, true);
      let bytesOut = 0;
      try {
        const bytes = reply.body === null ? null : await toBuffer(reply.body, options.core.rpc.maxUpstreamBytes);
        bytesOut = bytes?.length ?? 0;
        return bytes;
      } finally {
        reply.settle(bytesOut);
      }
    },
    recover: (firstBytes) => {
      const { id, method } = recoverCall(firstBytes);
      const destination = method === undefined ? undefined : table.find(method);
      return { id, open: destination?.kind === 'local' && destination.local.method.auth === 'none' };
    },
    hasOpenMethods: table.hasOpen,
    methods: options.methods,
  };
}

function answer(shared: Shared, body: Buffer, context: CallContext, whole: boolean): RpcAnswer | Promise<RpcAnswer> {
  const { maxBatchItems } = shared.core.rpc;
  const scanned = scanRpcBody(body, { maxDepth: MAX_DEPTH, maxItems: maxBatchItems });
  if (scanned.kind === 'single') {
    const prepared = prepare(scanned.call, shared.table, context.caller);
    return answerAtHand(shared, prepared, body, context) ?? answerSingle(shared, prepared, body, context, whole);
  }
  if (scanned.kind === 'syntax') return refusal(rpcFault('parse'), 'null', 'none');
  if (scanned.kind === 'invalid') return refusal(rpcFault('invalidRequest', scanned.reason), 'null', 'none');
  if (scanned.count === 0) return refusal(rpcFault('invalidRequest', 'the batch is empty'), 'null', 'batch(0)');
  if (scanned.count > maxBatchItems) {
    const reason = `a batch has at most ${maxBatchItems} items`;
    return refusal(rpcFault('invalidRequest', reason), 'null', `batch(${scanned.count})`);
  }
  return answerBatch(shared, body, scanned.calls, context);
}

async function answerBatch(
  shared: Shared,
  body: Buffer,
  calls: readonly CallSpan[],
  context: CallContext,
): Promise<RpcAnswer> {
  const label = `batch(${calls.length})`;
  const prepared = calls.map((call) => prepare(call, shared.table, context.caller));
  let admitted: Admitted;
  try {
    admitted = await admitCalls(shared.gate, prepared, body, context);
  } catch (error) {
    const fault = faultOf(error, context.requestId);
    if (fault.unexpected) throw error;
    shared.meter.refused('batch');
    if (!(error instanceof GateRefusal) || error.reason !== 'batch') return refusal(fault, 'null', label);
    // web3.js cannot read a single object as the answer to a batch: every item says why.
    const texts = calls
      .filter((call) => call.id !== undefined)
      .map((call) => rpcErrorText(fault.rpc, call.id ?? 'null'));
    return { status: 200, headers: {}, body: `[${texts.join(',')}]`, label, settle: () => {} };
  }
  const { batchConcurrency, maxBatchBytes } = shared.core.rpc;
  const tasks = prepared.map((one) => ({ id: one.call.id, run: () => runCall(shared, one, body, context, true) }));
  const items = await runBatch(tasks, { concurrency: batchConcurrency, maxBytes: maxBatchBytes });
  const joined = joinBatch(items);
  const itemOf = new Map(prepared.map((one, i) => [one, items[i]]));
  const settle = () =>
    admitted.admission?.settle(
      admitted.calls.map((one) => {
        const item = itemOf.get(one);
        return { charged: item?.charged ?? false, bytesOut: item?.body?.length ?? 0 };
      }),
    );
  return {
    status: joined === null ? 204 : 200,
    headers: admitted.admission?.headers ?? {},
    body: joined,
    label,
    settle,
  };
}

async function toBuffer(body: string | Buffer | Readable, maxBytes: number): Promise<Buffer> {
  if (typeof body === 'string') return Buffer.from(body);
  if (Buffer.isBuffer(body)) return body;
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of body) {
    size += (chunk as Buffer).length;
    if (size > maxBytes) throw new Error('the answer is larger than rpc.maxUpstreamBytes');
    chunks.push(chunk as Buffer);
  }
  return Buffer.concat(chunks, size);
}
