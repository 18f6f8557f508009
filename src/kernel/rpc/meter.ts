import type { Counter, Histogram, Metrics } from '../../ports/metrics.ts';
import type { RpcMethod } from '../plugin.ts';
import type { Destination } from './methods.ts';

/** Forwarded names come from callers: only so many of them become label values, the rest counts as `other`. */
const MAX_FORWARDED_NAMES = 150;
const BUCKETS_S = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

export interface RpcMetrics {
  done(name: string, kind: Destination['kind'], ok: boolean, elapsedMs: number): void;
  /** The gate refused the call or the whole batch. */
  refused(name: string): void;
}

interface Row {
  readonly ok: Counter;
  readonly error: Counter;
  readonly duration: Histogram;
}

export function createRpcMetrics(metrics: Metrics, methods: readonly RpcMethod[]): RpcMetrics {
  const calls = metrics.counter('calls_total', 'JSON-RPC calls by method and outcome', ['method', 'outcome']);
  const durations = metrics.histogram('call_duration_seconds', 'time to answer a call', BUCKETS_S, ['method']);
  const refused = metrics.counter('refused_total', 'calls and batches that the gate refused');
  const makeRow = (name: string): Row => ({
    ok: calls.with(name, 'ok'),
    error: calls.with(name, 'error'),
    duration: durations.with(name),
  });
  const rows = new Map(methods.map((method) => [method.name, makeRow(method.name)]));
  const limit = rows.size + MAX_FORWARDED_NAMES;
  const other = makeRow('other');

  const rowOf = (name: string, kind: Destination['kind'], ok: boolean): Row => {
    const row = rows.get(name);
    if (row !== undefined) return row;
    // A name that no upstream answered is not worth a label.
    if (kind !== 'forward' || !ok || rows.size >= limit) return other;
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
