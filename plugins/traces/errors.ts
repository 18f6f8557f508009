/** Coded errors of this plugin. */
export const TRACES_ERRORS = {
  TRACES_CONFIG: 'the plugin traces is switched on, but traces.endpoint names no collector',
} as const;

export type TracesErrorCode = keyof typeof TRACES_ERRORS;
