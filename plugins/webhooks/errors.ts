/** Coded errors of this plugin. */
export const WEBHOOKS_ERRORS = {
  WEBHOOKS_NO_OUTBOX: 'the kernel offers no outbox',
  WEBHOOKS_OPERATIONAL_URL: 'webhooks.operational.url cannot be delivered to',
} as const;
