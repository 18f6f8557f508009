import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readOtel } from './config.ts';

/** What the variables set, by key, and how many of them are refused or ignored. */
function read(env: Record<string, string>) {
  const { overrides, problems, warnings = [] } = readOtel(env);
  const values: Record<string, unknown> = {};
  for (const { path, value } of overrides) values[path[1] as string] = value;
  return { values, problems, warnings };
}
const valuesOf = (env: Record<string, string>) => {
  const { values, problems, warnings } = read(env);
  assert.deepEqual([problems, warnings], [[], []]);
  return values;
};

test('the address of traces is taken as it is, that of all signals gets the path', () => {
  assert.deepEqual(valuesOf({ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://c:4318/' }), {
    endpoint: 'http://c:4318/v1/traces',
  });
  assert.deepEqual(valuesOf({ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://c/otel' }), { endpoint: 'http://c/otel/v1/traces' });
  const both = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://c', OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://t/x' };
  assert.deepEqual(valuesOf(both), { endpoint: 'http://t/x' });
  assert.deepEqual(valuesOf({ OTEL_EXPORTER_OTLP_ENDPOINT: ' ' }), {}, 'empty counts as unset');
});

test('headers and attributes are pairs with values as in URLs', () => {
  const env = {
    OTEL_EXPORTER_OTLP_HEADERS: 'Api-Key=a%20b, x=1=2',
    OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment=prod,team=a%2Cb',
    OTEL_SERVICE_NAME: 'edge',
  };
  assert.deepEqual(valuesOf(env), {
    headers: { 'api-key': 'a b', x: '1=2' },
    resourceAttributes: { 'deployment.environment': 'prod', team: 'a,b' },
    serviceName: 'edge',
  });
  const broken = read({ OTEL_EXPORTER_OTLP_HEADERS: 'secret-without-a-sign', OTEL_RESOURCE_ATTRIBUTES: 'a=%zz' });
  assert.deepEqual(broken.values, {});
  assert.equal(broken.warnings.length, 2);
  assert.doesNotMatch(broken.warnings.join(), /secret-without/);
});

test('each sampler of the specification that exists here', () => {
  const sampler = (OTEL_TRACES_SAMPLER: string, more = {}) => valuesOf({ OTEL_TRACES_SAMPLER, ...more });
  const quarter = { OTEL_TRACES_SAMPLER_ARG: '0.25' };
  assert.deepEqual(sampler('always_on'), { sampleRatio: 1, callersPerSecond: 0 });
  assert.deepEqual(sampler('always_off'), { sampleRatio: 0, callersPerSecond: 0 });
  assert.deepEqual(sampler('traceidratio', quarter), { sampleRatio: 0.25, callersPerSecond: 0 });
  assert.deepEqual(sampler('parentbased_always_on'), { sampleRatio: 1 });
  assert.deepEqual(sampler('parentbased_always_off'), { sampleRatio: 0 });
  assert.deepEqual(sampler('parentbased_traceidratio', quarter), { sampleRatio: 0.25 });
  assert.deepEqual(sampler('parentbased_traceidratio'), { sampleRatio: 1 });
  for (const name of ['jaeger_remote', 'constructor', 'ALWAYS_ON']) {
    const { values, warnings } = read({ OTEL_TRACES_SAMPLER: name });
    assert.deepEqual(values, {});
    assert.match(warnings.join(), new RegExp(`OTEL_TRACES_SAMPLER is ignored: "${name}"`));
  }
  assert.match(read({ OTEL_TRACES_SAMPLER: 'traceidratio', OTEL_TRACES_SAMPLER_ARG: '2' }).warnings.join(), /0 to 1/);
});

test('batches and timeouts; the deadline of the exporter comes before that of the processor', () => {
  const env = {
    OTEL_BSP_SCHEDULE_DELAY: '700',
    OTEL_BSP_MAX_QUEUE_SIZE: '10',
    OTEL_BSP_MAX_EXPORT_BATCH_SIZE: '5',
    OTEL_BSP_EXPORT_TIMEOUT: '30000',
    OTEL_EXPORTER_OTLP_TIMEOUT: '9000',
  };
  assert.deepEqual(valuesOf(env), { intervalMs: 700, queueSpans: 10, batchSpans: 5, timeoutMs: 9_000 });
  assert.match(read({ OTEL_BSP_SCHEDULE_DELAY: '5s' }).warnings.join(), /whole number/);
});

test('settings with which no span is sent are refused; settings without effect are ignored with a warning', () => {
  for (const protocol of ['grpc', 'x'])
    assert.match(read({ OTEL_EXPORTER_OTLP_PROTOCOL: protocol }).problems.join(), /sends http\/json/);
  assert.deepEqual(valuesOf({ OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json' }), {});
  assert.match(read({ OTEL_EXPORTER_OTLP_PROTOCOL: 'http/protobuf' }).warnings.join(), /http\/json/);
  assert.match(read({ OTEL_TRACES_EXPORTER: 'zipkin' }).problems.join(), /zipkin/);
  assert.match(read({ OTEL_EXPORTER_OTLP_COMPRESSION: 'gzip' }).warnings.join(), /COMPRESSION is ignored/);
  assert.match(read({ OTEL_PROPAGATORS: 'b3,tracecontext' }).warnings.join(), /lacks b3/);
});

test('switches: the whole plugin, and the header of callers', () => {
  assert.deepEqual(valuesOf({ OTEL_SDK_DISABLED: 'TRUE' }), { enabled: false });
  assert.deepEqual(valuesOf({ OTEL_SDK_DISABLED: 'false' }), {});
  assert.match(read({ OTEL_SDK_DISABLED: '1' }).warnings.join(), /true or false/);
  assert.deepEqual(valuesOf({ OTEL_TRACES_EXPORTER: 'none' }), { enabled: false });
  assert.deepEqual(valuesOf({ OTEL_PROPAGATORS: 'tracecontext,baggage' }), { propagation: true });
  assert.deepEqual(valuesOf({ OTEL_PROPAGATORS: 'none' }), { propagation: false });
});
