import { AsyncLocalStorage } from 'node:async_hooks';
import { EXIT } from '../../src/lib/coded-error.ts';
import type { HostContext } from '../../src/plugin/host.ts';
import { type Clock, CodedError, codeOf, type Log, type Metrics, type Random } from '../../src/plugin/plugin.ts';
import type { OutboundClient } from '../../src/ports/outbound.ts';
import type { Facts, Span, Tracer, Work } from '../../src/ports/telemetry.ts';
import { backoffMs } from '../../src/runtime/waiting.ts';
import { TRACES_ERRORS, type TracesConfig, tracesConfig } from './config.ts';

const DEFAULT_NAME = tracesConfig.properties.serviceName.default;

export function provision({
  config,
  version,
  roles,
  outbound,
  clock,
  random,
  log,
  metrics,
  host,
  onStop,
}: HostContext<TracesConfig>): void {
  const { endpoint, caFile } = config;
  if (!config.enabled) return;
  if (endpoint === null) throw new CodedError('TRACES_CONFIG', TRACES_ERRORS.TRACES_CONFIG, { exitCode: EXIT.config });
  const tracer = createTracer({ config, clock, random, take: (span) => exporter.take(span) });
  const facts = {
    'service.version': version,
    'parhelion.roles': [...roles].join(','),
    ...config.resourceAttributes,
    // The name of the key, or of the attribute where the key has its default.
    'service.name':
      config.serviceName === DEFAULT_NAME
        ? (config.resourceAttributes['service.name'] ?? DEFAULT_NAME)
        : config.serviceName,
  };
  // The operator chose the address: any network is allowed, and http too.
  const policy = { allowCidrs: ['0.0.0.0/0', '::/0'], allowHttp: true, allowPorts: null, caFile, maxConnections: 1 };
  const exporter = createExporter({
    config,
    endpoint,
    clock,
    log,
    metrics,
    untraced: tracer.untraced,
    resource: { facts, version },
    openClient: () => outbound.open(policy),
  });
  host.tracer(tracer);
  onStop(exporter.stop);
}

/** A finished span. */
export interface EndedSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string | null;
  readonly kind: Work['kind'];
  readonly name: string;
  /** Unix milliseconds with a fraction. */
  readonly startMs: number;
  readonly endMs: number;
  readonly ok: boolean;
  readonly facts: Facts;
}

interface TracerOptions {
  readonly config: {
    readonly sampleRatio: number;
    readonly propagation: boolean;
    readonly callersPerSecond: number;
    readonly background: boolean;
    readonly passToReceivers: boolean;
  };
  readonly clock: Clock;
  readonly random: Random;
  take(span: EndedSpan): void;
}

/** Position of the current work in its trace; the clocks are read together once, at the start of the trace. */
interface TracePosition extends TraceContext {
  readonly epochMs: number;
  /** Work that started the trace here; what it leaves running after its end is not part of the trace. */
  readonly root: { isOver: boolean };
}

interface ContextTracer extends Tracer {
  /** Calls `work` without tracing. */
  untraced<T>(work: () => T): T;
}

const OWN_TRACE: ReadonlySet<Work['kind']> = new Set(['request', 'job', 'block']);

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');

/** Work started inside other work is its child, across awaits. */
export function createTracer({ config, clock, random, take }: TracerOptions): ContextTracer {
  const places = new AsyncLocalStorage<TracePosition>();
  const nowhere: TracePosition = { traceId: '', spanId: '', sampled: false, epochMs: 0, root: { isOver: false } };

  /** Second of the clock, and the traces kept in it because their callers asked for it. */
  let second = Number.NEGATIVE_INFINITY;
  let kept = 0;

  function mayDecide(): boolean {
    const now = Math.floor(clock.monotonic() / 1_000);
    if (now !== second) kept = 0;
    second = now;
    kept += 1;
    return kept <= config.callersPerSecond;
  }

  /** Not derived from the trace id, because callers choose theirs. */
  const drawn = () => random.float() < config.sampleRatio;

  /** A caller that asks for no trace costs nothing; one that asks for a trace costs memory and bandwidth, so that is bounded. */
  function isSampled(kind: Work['kind'], given: TraceContext | null): boolean {
    if (given !== null && config.callersPerSecond > 0) return given.sampled && (mayDecide() || drawn());
    const isBackground = kind === 'upstream' || kind === 'outbound' || kind === 'block';
    return (!isBackground || config.background) && drawn();
  }

  /** Root of work that belongs to no other work. */
  function rootOf({ kind, traceparent }: Work): TracePosition & { readonly parent: string | null } {
    const given = config.propagation ? parseTraceparent(traceparent) : null;
    const sampled = isSampled(kind, given);
    return {
      traceId: given?.traceId ?? hex(random.bytes(16)),
      spanId: '',
      sampled,
      epochMs: clock.now() - clock.monotonic(),
      root: { isOver: false },
      parent: given?.spanId ?? null,
    };
  }

  /** Requests, jobs and blocks start their own trace: connections outlive requests, and a wakeup is not the cause of a job. */
  function surroundings(work: Work): TracePosition & { readonly parent: string | null } {
    const place = OWN_TRACE.has(work.kind) ? undefined : places.getStore();
    return place === undefined || place.root.isOver ? rootOf(work) : { ...place, parent: place.spanId };
  }

  return {
    untraced: (work) => places.run(nowhere, work),
    current() {
      const place = places.getStore();
      if (place === undefined || place.root.isOver || place.traceId === '') return null;
      return { traceId: place.traceId, spanId: place.spanId };
    },
    begin(work): Span {
      const { parent, ...around } = surroundings(work);
      const isRoot = around.root !== places.getStore()?.root;
      const place: TracePosition = { ...around, spanId: hex(random.bytes(8)) };
      const { traceId, spanId, sampled, epochMs, root } = place;
      const startMs = epochMs + clock.monotonic();
      return {
        run: (inside) => places.run(place, inside),
        ids: traceId === '' ? null : { traceId, spanId },
        traceparent: config.passToReceivers && place.traceId !== '' ? formatTraceparent(place) : null,
        end(ok, facts = {}) {
          if (isRoot) root.isOver = true;
          if (!sampled) return;
          const endMs = epochMs + clock.monotonic();
          const all = { ...work.facts, ...facts };
          const name = work.kind === 'request' ? `${work.name} ${all['http.route']}` : work.name;
          take({ traceId, spanId, parentSpanId: parent, kind: work.kind, name, startMs, endMs, ok, facts: all });
        },
      };
    },
  };
}

/** The trace and span that work belongs to. */
interface TraceContext {
  /** 32 hexadecimal digits. */
  readonly traceId: string;
  /** 16 hexadecimal digits: the parent of the next span. */
  readonly spanId: string;
  readonly sampled: boolean;
}

const FORM = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;

/** Reads a header of W3C Trace Context; null when invalid, which counts as no header. */
export function parseTraceparent(header: string | undefined): TraceContext | null {
  const [, version, traceId = '', spanId = '', flags = '', more] = FORM.exec(header ?? '') ?? [];
  if (version === undefined || version === 'ff') return null;
  // Later versions may append members; version 00 does not.
  if (version === '00' && more !== undefined) return null;
  if (/^0+$/.test(traceId) || /^0+$/.test(spanId)) return null;
  return { traceId, spanId, sampled: (Number.parseInt(flags, 16) & 1) === 1 };
}

export const formatTraceparent = ({ traceId, spanId, sampled }: TraceContext): string =>
  `00-${traceId}-${spanId}-0${sampled ? 1 : 0}`;

interface ExporterOptions {
  readonly config: {
    readonly headers: Readonly<Record<string, string>>;
    readonly queueSpans: number;
    readonly batchSpans: number;
    readonly intervalMs: number;
    readonly timeoutMs: number;
  };
  readonly endpoint: string;
  readonly resource: Resource;
  /** Opened with the first batch. */
  openClient(): OutboundClient;
  /** Calls `work` without tracing: spans of exports would cause further exports forever. */
  untraced<T>(work: () => T): T;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
}

interface Exporter {
  /** Never waits: a span that does not fit is dropped and counted. */
  take(span: EndedSpan): void;
  /** Sends the rest, within the time of one interval. */
  stop(signal: AbortSignal): Promise<void>;
}

/** Statuses after which OTLP allows the same batch to be sent again. */
const TEMPORARY = new Set([429, 502, 503, 504]);
const LONGEST_PAUSE_MS = 60_000;
const ANSWER_BYTES = 16_384;

type Answer = 'taken' | 'refused' | 'later';

export function createExporter(options: ExporterOptions): Exporter {
  const { config, endpoint, clock, log, metrics } = options;
  const exported = metrics.counter('spans_exported_total', 'spans accepted by the collector');
  const dropped = metrics.counter('spans_dropped_total', 'dropped spans by reason', ['reason']);
  const counts = { full: dropped.with('full'), refused: dropped.with('refused') };
  const stopping = new AbortController();
  let queue: EndedSpan[] = [];
  let client: OutboundClient | null = null;
  let cancel: (() => void) | null = null;
  let sending: Promise<Answer> | null = null;
  let isDown = false;
  let isStopped = false;
  /** Consecutive batches that the collector did not accept. */
  let failures = 0;
  const pauseMs = () => backoffMs(failures + 1, null, { firstMs: config.intervalMs, longestMs: LONGEST_PAUSE_MS });
  metrics.observe('queue_spans', 'spans waiting for the collector', () => queue.length);

  async function post(batch: readonly EndedSpan[], signal: AbortSignal): Promise<Answer> {
    client ??= options.openClient();
    const body = Buffer.from(otlpBody(batch, options.resource));
    const headers = { ...config.headers, 'content-type': 'application/json' };
    const { timeoutMs } = config;
    const bounds = { timeoutMs, keepBytes: ANSWER_BYTES, maxBytes: ANSWER_BYTES, bodyOptional: true, signal };
    let reason: string;
    try {
      const response = await client.request({ method: 'POST', url: endpoint, headers, body, ...bounds });
      if (response.status >= 200 && response.status < 300) return accepted(batch, rejectedSpans(response.body));
      reason = `HTTP ${response.status}`;
      if (!TEMPORARY.has(response.status)) {
        counts.refused.add(batch.length);
        logFailure(reason);
        return 'refused';
      }
    } catch (error) {
      reason = codeOf(error) ?? 'failed';
    }
    logFailure(reason);
    return 'later';
  }

  function accepted(batch: readonly EndedSpan[], rejected: number): Answer {
    counts.refused.add(Math.min(rejected, batch.length));
    exported.add(batch.length - Math.min(rejected, batch.length));
    if (isDown) log.info({}, 'the collector accepts spans again');
    isDown = false;
    return 'taken';
  }

  /** Logs once until exports work again. */
  function logFailure(reason: string): void {
    if (!isDown) log.warn({ reason }, 'the collector does not accept spans');
    isDown = true;
  }

  /** Sends one batch; its outcome decides the next step. */
  async function flush(): Promise<void> {
    if (sending !== null || queue.length === 0) return;
    const batch = queue.slice(0, config.batchSpans);
    sending = options.untraced(() => post(batch, stopping.signal));
    const answer = await sending;
    sending = null;
    if (answer !== 'later') queue = queue.slice(batch.length);
    failures = answer === 'taken' ? 0 : failures + 1;
    if (queue.length > 0) schedule(answer === 'taken' && queue.length >= config.batchSpans ? 0 : pauseMs());
  }

  function schedule(ms: number): void {
    cancel?.();
    if (isStopped) return;
    cancel = clock.timeout(ms, () => {
      cancel = null;
      void flush();
    });
  }

  return {
    take(span) {
      if (queue.length >= config.queueSpans || isStopped) return counts.full.add();
      queue.push(span);
      if (sending !== null) return;
      if (cancel === null) schedule(isDown ? pauseMs() : config.intervalMs);
      else if (!isDown && queue.length === config.batchSpans) schedule(0);
    },
    async stop(signal) {
      isStopped = true;
      cancel?.();
      const giveUp = () => stopping.abort(new Error('the daemon is stopping'));
      const patience = clock.timeout(config.intervalMs, giveUp);
      signal.addEventListener('abort', giveUp, { once: true });
      await sending;
      while (queue.length > 0 && !isDown && !signal.aborted && !stopping.signal.aborted) await flush();
      patience();
      if (queue.length > 0) log.info({ spans: queue.length }, 'spans were not sent');
      await client?.close();
    },
  };
}

/** `SpanKind` of OTLP. */
const KINDS: Readonly<Record<Work['kind'], number>> = {
  rpc: 1,
  block: 1,
  request: 2,
  upstream: 3,
  outbound: 3,
  job: 5,
};
const STATUS_UNSET = 0;
const STATUS_ERROR = 2;

interface Resource {
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
    traceId,
    spanId,
    ...(parentSpanId === null ? {} : { parentSpanId }),
    name,
    kind: KINDS[kind],
    startTimeUnixNano: nanoseconds(startMs),
    endTimeUnixNano: nanoseconds(endMs),
    attributes: attributes(facts),
    status: { code: ok ? STATUS_UNSET : STATUS_ERROR },
  };
}

/** OTLP JSON has 64-bit numbers as strings. A double resolves the current time to a microsecond. */
const nanoseconds = (ms: number): string => `${Math.round(ms * 1_000)}000`;

function attributes(facts: Facts) {
  return Object.entries(facts).map(([key, value]) => ({ key, value: anyValue(value) }));
}

function anyValue(value: string | number | boolean) {
  if (typeof value === 'string') return { stringValue: value };
  if (typeof value === 'boolean') return { boolValue: value };
  return Number.isSafeInteger(value) ? { intValue: String(value) } : { doubleValue: value };
}

/** Number of spans that a collector rejected in an otherwise successful response. */
export function rejectedSpans(body: Buffer): number {
  try {
    const answer = JSON.parse(body.toString()) as { partialSuccess?: { rejectedSpans?: unknown } } | null;
    const rejected = Number(answer?.partialSuccess?.rejectedSpans ?? 0);
    return Number.isSafeInteger(rejected) && rejected > 0 ? rejected : 0;
  } catch {
    return 0;
  }
}
