/** Coded errors of this plugin. */
export const TRACES_ERRORS = {
  TRACES_CONFIG:
    'the plugin traces is switched on, but neither traces.endpoint nor OTEL_EXPORTER_OTLP_ENDPOINT names a collector',
} as const;

export type TracesErrorCode = keyof typeof TRACES_ERRORS;
