import { defineHostPlugin } from '../../src/plugin/host.ts';
import { API_VERSION, CodedError } from '../../src/plugin/plugin.ts';
import { readOtel, TRACES_ERRORS, tracesConfig } from './config.ts';
import { createExporter, createTracer } from './exporter.ts';

const DEFAULT_NAME = tracesConfig.properties.serviceName.default;

/** OpenTelemetry traces of the daemon. Not in the default list of plugins; without it nothing is measured. */
export default defineHostPlugin({
  id: 'traces',
  apiVersion: API_VERSION,
  summary: 'sends traces of requests, calls and deliveries to an OpenTelemetry collector (OTLP over HTTP)',
  config: tracesConfig,
  environment: readOtel,
  provision({ config, version, roles, outbound, clock, random, log, metrics, host, onStop }) {
    const { endpoint, caFile } = config;
    if (!config.enabled) return;
    if (endpoint === null) throw new CodedError('TRACES_CONFIG', TRACES_ERRORS.TRACES_CONFIG, { exitCode: 78 });
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
      ...{ config, endpoint, clock, log, metrics, untraced: tracer.untraced },
      resource: { facts, version },
      openClient: () => outbound.open(policy),
    });
    host.tracer(tracer);
    onStop(exporter.stop);
  },
});
