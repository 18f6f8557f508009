import { type Static, Type } from '@sinclair/typebox';

const closed = { additionalProperties: false } as const;

const count = (value: number, description: string, minimum = 1) =>
  Type.Integer({ minimum, default: value, description });

export const tracesConfig = Type.Object(
  {
    endpoint: Type.Union([Type.String({ format: 'http-url', secret: true }), Type.Null()], {
      default: null,
      description: 'where spans are posted as OTLP JSON: http://127.0.0.1:4318/v1/traces',
    }),
    headers: Type.Record(Type.String(), Type.String({ secret: true }), {
      default: {},
      description: 'headers sent along, such as authorization',
    }),
    caFile: Type.Union([Type.String({ minLength: 1 }), Type.Null()], {
      default: null,
      description: 'PEM file with further certificate authorities for the collector',
    }),
    serviceName: Type.String({ minLength: 1, maxLength: 255, default: 'parhelion', description: '`service.name`' }),
    sampleRatio: Type.Number({
      minimum: 0,
      maximum: 1,
      default: 1,
      description: 'part of the traces that is kept; a client that sends `traceparent` decides itself for its requests',
    }),
    background: Type.Boolean({
      default: false,
      description: 'also requests to nodes that belong to no request and no job, such as those of the following',
    }),
    passToReceivers: Type.Boolean({
      default: false,
      description: 'send `traceparent` along with webhooks and whatever else is posted to addresses of users',
    }),
    queueSpans: count(8_192, 'spans of a role that wait for the collector at most; more are dropped and counted'),
    batchSpans: count(512, 'spans of one request to the collector'),
    intervalMs: count(2_000, 'how long a span waits for others', 10),
    timeoutMs: count(10_000, 'how long the collector may take', 10),
  },
  {
    ...closed,
    default: {},
    description: 'OpenTelemetry traces; in force only with `traces` in the list of plugins, where it is not by itself',
  },
);

export type TracesConfig = Static<typeof tracesConfig>;
