import { AsyncLocalStorage } from 'node:async_hooks';
import type { Clock, Random } from '../../src/plugin/plugin.ts';
import type { Facts, Span, Tracer, Work } from '../../src/ports/tracing.ts';

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
interface Place extends TraceContext {
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
  const places = new AsyncLocalStorage<Place>();
  const nowhere: Place = { traceId: '', spanId: '', sampled: false, epochMs: 0, root: { isOver: false } };

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
  function rootOf({ kind, traceparent }: Work): Place & { readonly parent: string | null } {
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
  function surroundings(work: Work): Place & { readonly parent: string | null } {
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
      const place: Place = { ...around, spanId: hex(random.bytes(8)) };
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
