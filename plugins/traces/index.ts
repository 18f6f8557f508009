import { API_VERSION, defineHostPlugin } from '../../src/plugin/host.ts';
import { readOtel, tracesConfig } from './config.ts';

/** OpenTelemetry traces of the daemon. Not in the default list of plugins; without it nothing is measured. */
export default defineHostPlugin({
  id: 'traces',
  apiVersion: API_VERSION,
  summary: 'sends traces of requests, calls and deliveries to an OpenTelemetry collector (OTLP over HTTP)',
  config: tracesConfig,
  environment: readOtel,
  provision: async (ctx) => (await import('./plugin.ts')).provision(ctx),
});
