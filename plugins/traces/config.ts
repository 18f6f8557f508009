import { type Static, Type } from '@sinclair/typebox';
import { reloadable } from '../../src/lib/reloadable.ts';
import type { Environment, EnvironmentReading } from '../../src/plugin/host.ts';

const closed = { additionalProperties: false } as const;

const count = (value: number, description: string, minimum = 1) =>
  Type.Integer({ minimum, default: value, description });

export const tracesConfig = Type.Object(
  {
    enabled: Type.Boolean({ default: true, description: 'create spans; OTEL_SDK_DISABLED' }),
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
        description: 'share of traces that is kept where no caller decides; OTEL_TRACES_SAMPLER',
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
          'traces per second and role that are kept because the `traceparent` of a caller asks for it; sampleRatio decides for the others; 0 = callers never decide',
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
    description: 'OpenTelemetry traces; needs `traces` in the list of plugins, which by default does not contain it',
  },
);

export type TracesConfig = Static<typeof tracesConfig>;

const KEY = 'traces';

/** Samplers of the specification that this plugin has: share of the traces, and whether callers decide for their own. */
const SAMPLERS: Readonly<Record<string, { readonly ratio: number | null; readonly byCaller: boolean }>> = {
  always_on: { ratio: 1, byCaller: false },
  always_off: { ratio: 0, byCaller: false },
  traceidratio: { ratio: null, byCaller: false },
  parentbased_always_on: { ratio: 1, byCaller: true },
  parentbased_always_off: { ratio: 0, byCaller: true },
  parentbased_traceidratio: { ratio: null, byCaller: true },
};

const NUMBERS = [
  ['OTEL_BSP_EXPORT_TIMEOUT', 'timeoutMs'],
  ['OTEL_EXPORTER_OTLP_TIMEOUT', 'timeoutMs'],
  ['OTEL_EXPORTER_OTLP_TRACES_TIMEOUT', 'timeoutMs'],
  ['OTEL_BSP_SCHEDULE_DELAY', 'intervalMs'],
  ['OTEL_BSP_MAX_QUEUE_SIZE', 'queueSpans'],
  ['OTEL_BSP_MAX_EXPORT_BATCH_SIZE', 'batchSpans'],
] as const;

/** Settings of exporters that this one lacks. */
const UNKNOWN = ['COMPRESSION', 'CLIENT_KEY', 'CLIENT_CERTIFICATE', 'INSECURE'];

const hasText = (text: string | undefined): text is string => text !== undefined && text.trim() !== '';

/**
 * The variables of the OpenTelemetry specification as values of the section `traces`. As the specification demands, an empty variable
 * counts as unset, and one that cannot be read is ignored with a warning; a transport that the exporter lacks is a problem, because no
 * span would arrive.
 */
export function readOtel(env: Environment): EnvironmentReading {
  const overrides: { path: string[]; value: unknown; origin: string }[] = [];
  const problems: string[] = [];
  const warnings: string[] = [];
  const get = (name: string): string | null => (hasText(env[name]) ? env[name].trim() : null);
  const set = (key: string, value: unknown, origin: string) => overrides.push({ path: [KEY, key], value, origin });
  const ignore = (name: string, why: string) => warnings.push(`${name} is ignored: ${why}`);
  /** The variable for traces comes before the one for all signals. */
  const first = (end: string): readonly [string, string] | null => {
    for (const name of [`OTEL_EXPORTER_OTLP_TRACES_${end}`, `OTEL_EXPORTER_OTLP_${end}`]) {
      const text = get(name);
      if (text !== null) return [name, text];
    }
    return null;
  };

  function readSwitches(): void {
    const disabled = get('OTEL_SDK_DISABLED');
    if (disabled?.toLowerCase() === 'true') set('enabled', false, 'OTEL_SDK_DISABLED');
    else if (disabled !== null && disabled.toLowerCase() !== 'false')
      ignore('OTEL_SDK_DISABLED', 'it must be true or false');
    const exporter = get('OTEL_TRACES_EXPORTER');
    if (exporter === 'none') set('enabled', false, 'OTEL_TRACES_EXPORTER');
    else if (exporter !== null && exporter !== 'otlp')
      problems.push(`OTEL_TRACES_EXPORTER: "${exporter}" is not an exporter of parhelion; it has otlp, and none`);
  }

  function readExporter(): void {
    const endpoint = first('ENDPOINT');
    if (endpoint !== null) {
      const [name, text] = endpoint;
      const isWhole = name.includes('_TRACES_');
      set('endpoint', isWhole ? text : `${text.replace(/\/+$/, '')}/v1/traces`, name);
    }
    const headers = first('HEADERS');
    if (headers !== null) setPairs('headers', ...headers, (key) => key.toLowerCase());
    const certificate = first('CERTIFICATE');
    if (certificate !== null) set('caFile', certificate[1], certificate[0]);
    const protocol = first('PROTOCOL');
    if (protocol !== null) {
      const [name, text] = protocol;
      if (text === 'http/protobuf')
        warnings.push(`${name}: spans are sent as http/json, which collectors take at the same address`);
      else if (text !== 'http/json') problems.push(`${name}: "${text}" is not supported; parhelion sends http/json`);
    }
    for (const end of UNKNOWN) {
      const found = first(end);
      if (found !== null && !(end === 'COMPRESSION' && found[1] === 'none')) ignore(found[0], 'parhelion lacks it');
    }
    for (const [name, key] of NUMBERS) {
      const text = get(name);
      if (text === null) continue;
      if (/^\d{1,15}$/.test(text)) set(key, Number(text), name);
      else ignore(name, 'it must be a whole number');
    }
  }

  function setPairs(key: string, name: string, text: string, keyOf = (given: string) => given): void {
    const pairs = readPairs(text);
    // Headers contain secrets: the text is not quoted.
    if (pairs === null) ignore(name, 'it must have the form key=value,key=value, with other characters as %XX');
    else set(key, Object.fromEntries(pairs.map(([one, value]) => [keyOf(one), value])), name);
  }

  function readResource(): void {
    const name = 'OTEL_RESOURCE_ATTRIBUTES';
    const text = get(name);
    if (text !== null) setPairs('resourceAttributes', name, text);
    const service = get('OTEL_SERVICE_NAME');
    if (service !== null) set('serviceName', service, 'OTEL_SERVICE_NAME');
  }

  function readSampler(): void {
    const name = get('OTEL_TRACES_SAMPLER');
    const argument = get('OTEL_TRACES_SAMPLER_ARG');
    if (name === null) {
      if (argument !== null) ignore('OTEL_TRACES_SAMPLER_ARG', 'OTEL_TRACES_SAMPLER is not set');
      return;
    }
    const sampler = Object.hasOwn(SAMPLERS, name) ? SAMPLERS[name] : undefined;
    if (sampler === undefined) {
      ignore('OTEL_TRACES_SAMPLER', `"${name}" is not one of ${Object.keys(SAMPLERS).join(', ')}`);
      return;
    }
    const ratio = argument === null ? 1 : Number(argument);
    const isRatio = ratio >= 0 && ratio <= 1;
    if (!isRatio) ignore('OTEL_TRACES_SAMPLER_ARG', 'it must be a number from 0 to 1');
    set('sampleRatio', sampler.ratio ?? (isRatio ? ratio : 1), 'OTEL_TRACES_SAMPLER');
    if (!sampler.byCaller) set('callersPerSecond', 0, 'OTEL_TRACES_SAMPLER');
  }

  function readPropagators(): void {
    const name = 'OTEL_PROPAGATORS';
    const text = get(name);
    if (text === null) return;
    const names = [...new Set(text.split(',').map((one) => one.trim()))].filter((one) => one !== '');
    // Baggage has no effect: spans contain no data of callers.
    const strange = names.filter((one) => !['tracecontext', 'baggage', 'none'].includes(one));
    if (strange.length > 0) ignore(name, `parhelion lacks ${strange.join(', ')}; it has tracecontext, and none`);
    set('propagation', names.includes('tracecontext') && !names.includes('none'), name);
  }

  readSwitches();
  readExporter();
  readResource();
  readSampler();
  readPropagators();
  return { overrides, problems, warnings };
}

/** `key=value,key=value` with values as in URLs; null if it has another form. */
function readPairs(text: string): readonly (readonly [string, string])[] | null {
  const pairs: (readonly [string, string])[] = [];
  for (const part of text.split(',').map((one) => one.trim())) {
    if (part === '') continue;
    const at = part.indexOf('=');
    if (at < 1) return null;
    try {
      const [key, value] = [part.slice(0, at), part.slice(at + 1)].map((one) => decodeURIComponent(one.trim()));
      pairs.push([key!, value!]);
    } catch {
      return null;
    }
  }
  return pairs;
}

/** Coded errors of this plugin. */
export const TRACES_ERRORS = {
  TRACES_CONFIG:
    'the plugin traces is switched on, but neither traces.endpoint nor OTEL_EXPORTER_OTLP_ENDPOINT names a collector',
} as const;
