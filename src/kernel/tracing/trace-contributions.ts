import type { Tracer } from '../../ports/tracing.ts';
import type { JobKind, RpcFallback, RpcMethod } from '../plugin.ts';
import type { Merged } from '../plugins/merge-contributions.ts';
import { observe, shortName } from './observe.ts';

/** The same contributions; each call and each attempt is told to the tracer. Without one they are left as they are. */
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

const rpcWork = (method: string) =>
  ({
    kind: 'rpc',
    name: shortName(method),
    facts: { 'rpc.system': 'jsonrpc', 'rpc.method': shortName(method) },
  }) as const;

function traceMethod(method: RpcMethod, tracer: Tracer): RpcMethod {
  return { ...method, handler: (call) => observe(tracer, rpcWork(method.name), () => method.handler(call)) };
}

/** What is at hand is answered within the request, which tells the method too. */
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

function traceJobs(kind: JobKind, tracer: Tracer): JobKind {
  return {
    ...kind,
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
  };
}
