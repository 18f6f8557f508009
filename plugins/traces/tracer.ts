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

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');

/** Work started inside other work is its child, across awaits. */
export function createTracer({ config, clock, random, take }: TracerOptions): ContextTracer {
  const places = new AsyncLocalStorage<Place>();
  const nowhere: Place = { traceId: '', spanId: '', sampled: false, epochMs: 0, root: { isOver: false } };

  /** Root of work that belongs to no other work. */
  function rootOf({ kind, traceparent }: Work): Place & { readonly parent: string | null } {
    const given = parseTraceparent(traceparent);
    const isBackground = kind === 'upstream' || kind === 'outbound';
    const sampled = given?.sampled ?? ((!isBackground || config.background) && random.float() < config.sampleRatio);
    return {
      traceId: given?.traceId ?? hex(random.bytes(16)),
      spanId: '',
      sampled,
      epochMs: clock.now() - clock.monotonic(),
      root: { isOver: false },
      parent: given?.spanId ?? null,
    };
  }

  /** Requests and jobs start their own trace: connections outlive requests, and a wakeup is not the cause of a job. */
  function surroundings(work: Work): Place & { readonly parent: string | null } {
    const place = work.kind === 'request' || work.kind === 'job' ? undefined : places.getStore();
    return place === undefined || place.root.isOver ? rootOf(work) : { ...place, parent: place.spanId };
  }

  return {
    untraced: (work) => places.run(nowhere, work),
    begin(work): Span {
      const { parent, ...around } = surroundings(work);
      const isRoot = around.root !== places.getStore()?.root;
      const place: Place = { ...around, spanId: hex(random.bytes(8)) };
      const { traceId, spanId, sampled, epochMs, root } = place;
      const startMs = epochMs + clock.monotonic();
      return {
        run: (inside) => places.run(place, inside),
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
