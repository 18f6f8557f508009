import type { TraceBlock } from '../chain/run.ts';
import { CodedError } from '../lib/coded-error.ts';
import { maskMethod, shortName } from '../lib/mask-keys.ts';
import type { RpcFallback } from '../plugin/host.ts';
import type { JobKind, RpcMethod } from '../plugin/plugin.ts';
import type { ChainId } from '../ports/chain.ts';
import type { Outbound, OutboundClient } from '../ports/outbound.ts';
import type { Facts, Span, Tracer, Work } from '../ports/telemetry.ts';
import type { Upstream, UpstreamPool, UpstreamRequest } from '../ports/upstream.ts';
import type { Merged } from './provision.ts';

/** Runs work in a span. `outcome` classifies the result; a throw counts as a failure. */
async function observe<T>(
  tracer: Tracer,
  work: Work,
  run: (span: Span) => T | Promise<T>,
  outcome: (result: T) => { readonly ok: boolean; readonly facts?: Facts } = () => ({ ok: true }),
): Promise<T> {
  const span = tracer.begin(work);
  let result: T;
  try {
    result = await span.run(() => run(span));
  } catch (error) {
    span.end(false, failureFacts(error));
    throw error;
  }
  const { ok, facts } = outcome(result);
  span.end(ok, facts);
  return result;
}

/** The code or class of an error; never its message, which may contain secrets. */
function failureFacts(error: unknown): Facts {
  if (error instanceof CodedError) return { 'error.type': error.code };
  return { 'error.type': error instanceof Error ? error.name : typeof error };
}

/** Longer than any real method; clients choose the names. */
const MAX_METHOD = 512;

/** Wraps the contributions so that each call and attempt has a span. Without a tracer they stay unchanged. */
export function traceContributions(merged: Merged): Merged {
  const { tracer, rpcFallback } = merged;
  if (tracer === null) return merged;
  return {
    ...merged,
    rpc: merged.rpc.map((method) => traceMethod(method, tracer)),
    rpcFallback: rpcFallback === null ? null : traceFallback(rpcFallback, tracer),
    jobs: merged.jobs.map((kind) => traceJobs(kind, tracer)),
  };
}

const rpcWork = (method: string) => {
  const name = shortName(maskMethod(method.slice(0, MAX_METHOD)));
  return { kind: 'rpc', name, facts: { 'rpc.system': 'jsonrpc', 'rpc.method': name } } as const;
};

function traceMethod(method: RpcMethod, tracer: Tracer): RpcMethod {
  return withMembers(method, {
    handler: (call) => observe(tracer, rpcWork(method.name), () => method.handler(call)),
  });
}

/** Cached answers are given within the span of the request, which also names the method. */
function traceFallback(fallback: RpcFallback, tracer: Tracer): RpcFallback {
  return {
    ...fallback,
    forward: (call) =>
      observe(
        tracer,
        rpcWork(call.method),
        () => fallback.forward(call),
        ({ answered }) => ({ ok: answered }),
      ),
  };
}

/** A copy with other members. Getters stay getters: they read keys that a reload changes. */
function withMembers<T extends object>(of: T, members: Partial<T>): T {
  const all = { ...Object.getOwnPropertyDescriptors(of), ...Object.getOwnPropertyDescriptors(members) };
  return Object.defineProperties({}, all) as T;
}

function traceJobs(kind: JobKind, tracer: Tracer): JobKind {
  return withMembers(kind, {
    run: (job, prepared, signal) =>
      observe(
        tracer,
        {
          kind: 'job',
          name: job.kind,
          facts: { 'parhelion.job.group': shortName(job.group), 'parhelion.job.attempt': job.attempts + 1 },
        },
        () => kind.run(job, prepared, signal),
        (outcome) => ({ ok: outcome.kind === 'done', facts: { 'parhelion.job.outcome': outcome.kind } }),
      ),
  });
}

/** Runs the release of a block in a span; a failure is reported within it, so that its log line names the trace. */
export function traceBlocks(tracer: Tracer, chain: ChainId): TraceBlock {
  return async (slot, work, failed) => {
    const facts = { 'parhelion.chain': chain, 'parhelion.slot': slot };
    const span = tracer.begin({ kind: 'block', name: 'block', facts });
    return await span.run(async () => {
      try {
        const result = await work();
        span.end(true);
        return result;
      } catch (error) {
        const result = failed(error);
        span.end(false, failureFacts(error));
        return result;
      }
    });
  };
}

/** Set once the plugins are provisioned, which is after they received pools and clients. */
export interface TracerSlot {
  tracer: Tracer | null;
}

/** Wraps a pool: with a tracer, each request has a span that ends with the last byte of the answer. */
export function tracePool(pool: UpstreamPool, slot: TracerSlot): UpstreamPool {
  return {
    ...pool,
    send: (upstream, request) =>
      slot.tracer === null ? pool.send(upstream, request) : sendTraced(slot.tracer, pool, upstream, request),
  };
}

async function sendTraced(tracer: Tracer, pool: UpstreamPool, upstream: Upstream, request: UpstreamRequest) {
  const span = tracer.begin({
    kind: 'upstream',
    name: 'POST',
    facts: {
      'http.request.method': 'POST',
      'parhelion.pool': pool.label,
      'parhelion.upstream': upstream.label,
    },
  });
  try {
    const reply = await span.run(() => pool.send(upstream, request));
    const { status } = reply;
    const end = (isFine: boolean) => span.end(status < 400 && isFine, { 'http.response.status_code': status });
    if (reply.whole !== null) end(true);
    else {
      const { body } = reply;
      body.once('close', () => end(body.errored === null));
    }
    return reply;
  } catch (error) {
    span.end(false, failureFacts(error));
    throw error;
  }
}

/** Wraps a client: with a tracer, each request has a span. Only POST requests carry `traceparent`. */
export function traceOutbound(outbound: Outbound, slot: TracerSlot): Outbound {
  return { open: (policy) => traceClient(outbound.open(policy), slot) };
}

function traceClient(client: OutboundClient, slot: TracerSlot): OutboundClient {
  return {
    ...client,
    request(request) {
      const { tracer } = slot;
      if (tracer === null) return client.request(request);
      const { method } = request;
      return observe(
        tracer,
        { kind: 'outbound', name: method, facts: { 'http.request.method': method } },
        ({ traceparent }) =>
          client.request(
            traceparent === null || method === 'GET'
              ? request
              : { ...request, headers: { ...request.headers, traceparent } },
          ),
        ({ status }) => ({ ok: status < 400, facts: { 'http.response.status_code': status } }),
      );
    },
  };
}
