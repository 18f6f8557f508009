/** Coded errors of this plugin. */
export const WEBHOOKS_ERRORS = {
  WEBHOOKS_NO_OUTBOX: 'the kernel offers no outbox',
  WEBHOOKS_LISTEN: 'the address of `webhooks listen` cannot be listened on',
  WEBHOOKS_TEST_FAILED: 'the receiver did not accept a test event',
  WEBHOOKS_USAGE: 'a command of webhooks was called with values that make no sense',
  WEBHOOKS_OPERATIONAL_URL: 'webhooks.operational.url cannot be delivered to',
} as const;
