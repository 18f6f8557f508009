import type { Counter, Gauge, Histogram, Metrics } from '../ports/telemetry.ts';

const BUCKETS_S = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

/** Metrics of one route pattern, with label values resolved once. */
export interface RouteMeter {
  done(status: number, elapsedMs: number, bytesOut: number): void;
}

export interface HttpMeter {
  route(method: string, pattern: string): RouteMeter;
  /** Requests that matched no route. */
  readonly unmatched: RouteMeter;
  readonly inFlight: Gauge;
  readonly sockets: Gauge;
  /** New connections that were closed because `http.maxConnections` was reached and none was idle. */
  readonly dropped: Counter;
  /** Idle connections that were closed to make room for new ones. */
  readonly evicted: Counter;
  /** Requests that were answered 503 because `http.maxInFlight` was reached. */
  readonly overloaded: Counter;
  /** Requests that were answered 503 because `http.maxBodyBytesInFlight` was reached. */
  readonly bodiesRefused: Counter;
  /** Connections that were closed because `http.maxConnectionsPerAddress` was reached. */
  readonly crowded: Counter;
  /** Connections that were closed because their clients read too slowly. */
  readonly slowReaders: Counter;
  /** Connections with malformed HTTP, or whose requests did not arrive in time. */
  readonly malformed: Counter;
  /** Connections whose TLS handshake failed. */
  readonly handshakes: Counter;
}

export function createHttpMeter(metrics: Metrics): HttpMeter {
  const requests = metrics.counter('requests_total', 'requests by route and status', ['method', 'route', 'status']);
  const durations = metrics.histogram(
    'request_duration_seconds',
    'time from the request line to the last byte of the answer',
    BUCKETS_S,
    ['method', 'route'],
  );
  const bytes = metrics.counter('response_bytes_total', 'bytes of answer bodies', ['method', 'route']);
  const route = (method: string, pattern: string) =>
    routeMeter(requests, durations.with(method, pattern), bytes.with(method, pattern), method, pattern);
  return {
    route,
    unmatched: route('-', '-'),
    inFlight: metrics.gauge('requests_in_flight', 'requests in flight'),
    sockets: metrics.gauge('upgraded_sockets', 'open websockets'),
    dropped: metrics.counter('connections_dropped_total', 'new connections closed at http.maxConnections'),
    evicted: metrics.counter(
      'connections_evicted_total',
      'idle connections closed to make room at http.maxConnections',
    ),
    overloaded: metrics.counter('overloaded_total', 'requests refused at http.maxInFlight'),
    bodiesRefused: metrics.counter('bodies_refused_total', 'requests refused at http.maxBodyBytesInFlight'),
    crowded: metrics.counter('connections_crowded_total', 'connections closed at http.maxConnectionsPerAddress'),
    slowReaders: metrics.counter(
      'connections_slow_total',
      'connections closed because answers were read slower than http.minReadBytesPerSecond',
    ),
    malformed: metrics.counter('malformed_total', 'connections closed for a malformed or overdue request'),
    handshakes: metrics.counter('handshakes_failed_total', 'connections that failed their TLS handshake'),
  };
}

function routeMeter(
  requests: Counter,
  duration: Histogram,
  bytes: Counter,
  method: string,
  pattern: string,
): RouteMeter {
  const byStatus = new Map<number, Counter>();
  return {
    done: (status, elapsedMs, bytesOut) => {
      let counter = byStatus.get(status);
      if (counter === undefined) {
        counter = requests.with(method, pattern, String(status));
        byStatus.set(status, counter);
      }
      counter.add();
      duration.record(elapsedMs / 1000);
      bytes.add(bytesOut);
    },
  };
}
