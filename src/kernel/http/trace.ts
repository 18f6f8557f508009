import type { Tracer } from '../../ports/tracing.ts';
import { shortName } from '../tracing/observe.ts';
import type { Exchange } from './exchange.ts';

/** Tells the tracer of a request, and handles it in its sight. */
export function beginTrace(tracer: Tracer, exchange: Exchange, handle: (exchange: Exchange) => void): void {
  const { headers, method = '' } = exchange.request;
  const { traceparent } = headers;
  exchange.span = tracer.begin({
    kind: 'request',
    name: method,
    facts: { 'http.request.method': method, 'parhelion.request_id': exchange.requestId },
    traceparent: typeof traceparent === 'string' ? traceparent : undefined,
  });
  exchange.span.run(() => handle(exchange));
}

/** The route is known only now. What a client asked for wrongly is no failure of the daemon. */
export function endTrace({ span, status, route, rpcLabel, bytesOut }: Exchange): void {
  span?.end(status < 500, {
    'http.route': route,
    'http.response.status_code': status,
    'http.response.body.size': bytesOut,
    ...(rpcLabel === undefined ? {} : { 'rpc.method': shortName(rpcLabel) }),
  });
}
