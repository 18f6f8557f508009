import type { Facts, Work } from '../../src/ports/tracing.ts';
import type { EndedSpan } from './tracer.ts';

/** `SpanKind` of OTLP. */
const KINDS: Readonly<Record<Work['kind'], number>> = { rpc: 1, request: 2, upstream: 3, outbound: 3, job: 5 };
const STATUS_UNSET = 0;
const STATUS_ERROR = 2;

export interface Resource {
  readonly facts: Facts;
  readonly version: string;
}

/** The body of `ExportTraceServiceRequest` in the JSON encoding of OTLP. */
export function otlpBody(spans: readonly EndedSpan[], { facts, version }: Resource): string {
  const scope = { name: 'parhelion', version };
  const resource = { attributes: attributes(facts) };
  return JSON.stringify({ resourceSpans: [{ resource, scopeSpans: [{ scope, spans: spans.map(otlpSpan) }] }] });
}

function otlpSpan({ traceId, spanId, parentSpanId, kind, name, startMs, endMs, ok, facts }: EndedSpan) {
  return {
    ...{ traceId, spanId, ...(parentSpanId === null ? {} : { parentSpanId }) },
    ...{ name, kind: KINDS[kind], startTimeUnixNano: nanoseconds(startMs), endTimeUnixNano: nanoseconds(endMs) },
    attributes: attributes(facts),
    status: { code: ok ? STATUS_UNSET : STATUS_ERROR },
  };
}

/** 64-bit numbers are strings there. A microsecond is what a double can tell of today. */
const nanoseconds = (ms: number): string => `${Math.round(ms * 1_000)}000`;

function attributes(facts: Facts) {
  return Object.entries(facts).map(([key, value]) => ({ key, value: anyValue(value) }));
}

function anyValue(value: string | number | boolean) {
  if (typeof value === 'string') return { stringValue: value };
  if (typeof value === 'boolean') return { boolValue: value };
  return Number.isSafeInteger(value) ? { intValue: String(value) } : { doubleValue: value };
}

/** How many spans a collector says it did not take, in an answer that is otherwise fine. */
export function rejectedSpans(body: Buffer): number {
  try {
    const answer = JSON.parse(body.toString()) as { partialSuccess?: { rejectedSpans?: unknown } } | null;
    const rejected = Number(answer?.partialSuccess?.rejectedSpans ?? 0);
    return Number.isSafeInteger(rejected) && rejected > 0 ? rejected : 0;
  } catch {
    return 0;
  }
}
