import type { Outbound, OutboundClient } from '../../ports/outbound.ts';
import type { Tracer } from '../../ports/tracing.ts';
import type { Upstream, UpstreamPool, UpstreamRequest } from '../../ports/upstream.ts';
import { failureFacts, observe } from './observe.ts';

/** Known once the plugins are provisioned, which is after pools and clients are handed to them. */
export interface TracerSlot {
  tracer: Tracer | null;
}

/** The same pool; while there is a tracer it is told about each request, which ends with the last byte of its answer. */
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
    const { status, body } = reply;
    body.once('close', () => span.end(status < 400 && body.errored === null, { 'http.response.status_code': status }));
    return reply;
  } catch (error) {
    span.end(false, failureFacts(error));
    throw error;
  }
}

/** The same client; while there is a tracer it is told about each request. Only what is posted carries `traceparent`. */
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
