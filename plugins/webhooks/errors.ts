/** Coded errors of this plugin. */
export const WEBHOOKS_ERRORS = {
  WEBHOOKS_NO_OUTBOX: 'the kernel offers no outbox',
} as const;
