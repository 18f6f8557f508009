import { type Static, Type } from '@sinclair/typebox';

const closed = { additionalProperties: false } as const;

const count = (value: number, description: string, minimum = 1) =>
  Type.Integer({ minimum, default: value, description });

export const tracesConfig = Type.Object(
  {
    endpoint: Type.Union([Type.String({ format: 'http-url', secret: true }), Type.Null()], {
      default: null,
      description: 'address to which spans are posted as OTLP JSON, such as http://127.0.0.1:4318/v1/traces',
    }),
    headers: Type.Record(Type.String(), Type.String({ secret: true }), {
      default: {},
      description: 'headers sent along, such as authorization',
    }),
    caFile: Type.Union([Type.String({ minLength: 1 }), Type.Null()], {
      default: null,
      description: 'PEM file with additional certificate authorities for the collector',
    }),
    serviceName: Type.String({ minLength: 1, maxLength: 255, default: 'parhelion', description: '`service.name`' }),
    sampleRatio: Type.Number({
      minimum: 0,
      maximum: 1,
      default: 1,
      description: 'share of the traces that is kept; a client that sends `traceparent` decides for its own requests',
    }),
    background: Type.Boolean({
      default: false,
      description: 'include requests to nodes that belong to no request and no job, such as those of the follower',
    }),
    passToReceivers: Type.Boolean({
      default: false,
      description: 'send `traceparent` with webhooks and other requests to addresses of users',
    }),
    queueSpans: count(8_192, 'spans of a role waiting for the collector; further ones are dropped and counted'),
    batchSpans: count(512, 'spans per request to the collector'),
    intervalMs: count(2_000, 'how long a span waits for others before it is sent', 10),
    timeoutMs: count(10_000, 'deadline of a request to the collector', 10),
  },
  {
    ...closed,
    default: {},
    description: 'OpenTelemetry traces; needs `traces` in the list of plugins, which is not there by default',
  },
);

export type TracesConfig = Static<typeof tracesConfig>;
