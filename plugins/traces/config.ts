import { type Static, Type } from '@sinclair/typebox';
import { reloadable } from '../../src/plugin/plugin.ts';

const closed = { additionalProperties: false } as const;

const count = (value: number, description: string, minimum = 1) =>
  Type.Integer({ minimum, default: value, description });

export const tracesConfig = Type.Object(
  {
    enabled: Type.Boolean({ default: true, description: 'whether spans are made; OTEL_SDK_DISABLED' }),
    endpoint: Type.Union([Type.String({ format: 'http-url', secret: true }), Type.Null()], {
      default: null,
      description:
        'address to which spans are posted as OTLP JSON, such as http://127.0.0.1:4318/v1/traces; OTEL_EXPORTER_OTLP_ENDPOINT',
    }),
    headers: reloadable(
      Type.Record(Type.String(), Type.String({ secret: true }), {
        default: {},
        description: 'headers sent along, such as authorization',
      }),
    ),
    caFile: Type.Union([Type.String({ format: 'file' }), Type.Null()], {
      default: null,
      description: 'PEM file with additional certificate authorities for the collector',
    }),
    serviceName: Type.String({
      minLength: 1,
      maxLength: 255,
      default: 'parhelion',
      description: '`service.name`; OTEL_SERVICE_NAME',
    }),
    resourceAttributes: Type.Record(Type.String(), Type.String(), {
      default: {},
      description: 'further attributes of the resource, such as deployment.environment; OTEL_RESOURCE_ATTRIBUTES',
    }),
    sampleRatio: reloadable(
      Type.Number({
        minimum: 0,
        maximum: 1,
        default: 1,
        description: 'share of the traces that is kept, of those for which no caller decides; OTEL_TRACES_SAMPLER',
      }),
    ),
    propagation: reloadable(
      Type.Boolean({
        default: true,
        description: 'continue the trace of a caller that sends `traceparent`; OTEL_PROPAGATORS',
      }),
    ),
    callersPerSecond: reloadable(
      Type.Integer({
        minimum: 0,
        default: 100,
        description:
          'traces per second and role that callers may have kept by the flag of their `traceparent`; sampleRatio decides for the others; 0 = callers never decide',
      }),
    ),
    background: reloadable(
      Type.Boolean({
        default: false,
        description:
          'include blocks, and requests to nodes that belong to no request and no job, such as those of the follower',
      }),
    ),
    passToReceivers: reloadable(
      Type.Boolean({
        default: false,
        description: 'send `traceparent` with webhooks and other requests to addresses of users',
      }),
    ),
    queueSpans: reloadable(
      count(8_192, 'spans of a role waiting for the collector; further ones are dropped and counted'),
    ),
    batchSpans: reloadable(count(512, 'spans per request to the collector')),
    intervalMs: reloadable(count(2_000, 'how long a span waits for others before it is sent', 10)),
    timeoutMs: reloadable(count(10_000, 'deadline of a request to the collector', 10)),
  },
  {
    ...closed,
    default: {},
    description: 'OpenTelemetry traces; needs `traces` in the list of plugins, which is not there by default',
  },
);

export type TracesConfig = Static<typeof tracesConfig>;
