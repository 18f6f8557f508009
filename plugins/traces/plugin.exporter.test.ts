import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createSystemClock, createSystemRandom } from '../../src/adapters/clock.ts';
import type { Work } from '../../src/ports/telemetry.ts';
import { createTracer, type EndedSpan } from './plugin.ts';

const request = { kind: 'request', name: 'GET', facts: {} } as const;
const upstream = { kind: 'upstream', name: 'POST', facts: {} } as const;

function make(more: Partial<Parameters<typeof createTracer>[0]['config']> = {}) {
  const spans: EndedSpan[] = [];
  const config = {
    sampleRatio: 1,
    propagation: true,
    callersPerSecond: 100,
    background: false,
    passToReceivers: false,
    ...more,
  };
  const clock = createSystemClock();
  const tracer = createTracer({ config, clock, random: createSystemRandom(), take: (span) => void spans.push(span) });
  const once = (work: Work, inside: () => unknown = () => {}) => {
    const span = tracer.begin(work);
    span.run(inside);
    span.end(true, work.kind === 'request' ? { 'http.route': '/x' } : {});
  };
  return { spans, tracer, once };
}

test('work inside other work is its child across awaits; requests and jobs always start a trace', async () => {
  const { spans, tracer, once } = make();
  const outer = tracer.begin(request);
  await outer.run(async () => {
    await sleep(1);
    once(upstream);
    once({ ...request, name: 'PUT' });
    once({ kind: 'job', name: 'a.job', facts: {} }, () => once(upstream));
  });
  outer.end(true, { 'http.route': '/outer' });
  const [inner, other, ofJob, job, root] = spans;
  assert.deepEqual([root?.name, root?.parentSpanId], ['GET /outer', null]);
  assert.deepEqual([inner?.traceId, inner?.parentSpanId], [root?.traceId, root?.spanId]);
  assert.deepEqual([other?.name, other?.parentSpanId], ['PUT /x', null]);
  assert.equal(job?.parentSpanId, null);
  assert.deepEqual([ofJob?.traceId, ofJob?.parentSpanId], [job?.traceId, job?.spanId]);
  assert.equal(new Set([root?.traceId, other?.traceId, job?.traceId]).size, 3);
  assert.ok(inner!.startMs >= root!.startMs && inner!.endMs <= root!.endMs);
});

test('work after the end of a request is not part of it', async () => {
  const { spans, tracer, once } = make();
  const span = tracer.begin(request);
  const later = span.run(async () => {
    await sleep(5);
    once(upstream);
  });
  span.end(true, {});
  await later;
  assert.equal(spans.length, 1);
});

test('a share of the traces is kept completely; a client decides for its own', () => {
  const none = make({ sampleRatio: 0 });
  none.once(request, () => none.once(upstream));
  assert.equal(none.spans.length, 0);
  none.once({ ...request, traceparent: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01` }, () => none.once(upstream));
  assert.deepEqual(
    none.spans.map(({ traceId }) => traceId),
    ['a'.repeat(32), 'a'.repeat(32)],
  );
  const half = make({ sampleRatio: 0.5 });
  for (let i = 0; i < 400; i += 1) half.once(request, () => half.once(upstream));
  assert.ok(half.spans.length > 200 && half.spans.length < 600, String(half.spans.length));
  for (const { traceId } of half.spans) assert.equal(half.spans.filter((span) => span.traceId === traceId).length, 2);
});

test('only requests to nodes count as background; untraced work is never traced', () => {
  const quiet = make();
  quiet.once(upstream);
  assert.equal(quiet.spans.length, 0);
  const busy = make({ background: true });
  busy.once(upstream);
  assert.equal(busy.spans.length, 1);
  for (let i = 0; i < 3; i += 1) busy.tracer.untraced(() => busy.once(upstream));
  assert.equal(busy.spans.length, 1);
});

test('receivers get the header only when configured, also for traces that are not kept', () => {
  assert.equal(make().tracer.begin(request).traceparent, null);
  const form = /^00-[0-9a-f]{32}-[0-9a-f]{16}-0([01])$/;
  assert.equal(form.exec(make({ passToReceivers: true }).tracer.begin(request).traceparent ?? '')?.[1], '1');
  const unkept = make({ passToReceivers: true, sampleRatio: 0 });
  assert.equal(form.exec(unkept.tracer.begin(request).traceparent ?? '')?.[1], '0');
});

test('callers decide for a bounded number of traces per second, and for none where they may not', () => {
  const kept = (config: Parameters<typeof make>[0], flag: string) => {
    const { spans, once } = make({ sampleRatio: 0, ...config });
    for (let i = 0; i < 50; i += 1) once({ ...request, traceparent: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-${flag}` });
    return spans;
  };
  const bounded = kept({ callersPerSecond: 10 }, '01').length;
  // The loop may cross the end of a second.
  assert.ok(bounded >= 10 && bounded <= 20, String(bounded));
  assert.equal(kept({}, '00').length, 0);
  assert.equal(kept({ callersPerSecond: 0 }, '01').length, 0);
  const own = kept({ callersPerSecond: 0, sampleRatio: 1 }, '00');
  assert.equal(own.length, 50, 'the flag of a caller that may not decide has no effect');
  assert.equal(own[0]?.traceId, 'a'.repeat(32), 'its trace is continued');
  const alone = kept({ propagation: false, sampleRatio: 1 }, '00');
  assert.equal(alone.length, 50);
  assert.ok(alone.every(({ traceId, parentSpanId }) => traceId !== 'a'.repeat(32) && parentSpanId === null));
});

test('the ids of the current work are known inside it, and neither outside nor after its end', async () => {
  const { tracer, spans } = make();
  assert.equal(tracer.current(), null);
  const span = tracer.begin(request);
  let later: Promise<unknown> | undefined;
  span.run(() => {
    assert.deepEqual(tracer.current(), span.ids);
    later = sleep(5).then(() => tracer.current());
  });
  span.end(true, {});
  assert.deepEqual(span.ids, { traceId: spans[0]?.traceId, spanId: spans[0]?.spanId });
  assert.equal(await later, null);
  tracer.untraced(() => assert.equal(tracer.current(), null));
  const block = tracer.begin({ kind: 'block', name: 'block', facts: {} });
  assert.match(block.ids?.traceId ?? '', /^[0-9a-f]{32}$/);
  block.end(true);
  assert.equal(spans.length, 1, 'blocks count as background');
});
