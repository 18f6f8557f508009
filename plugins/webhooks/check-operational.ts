import { CodedError } from '../../src/plugin/plugin.ts';
import type { OutboundClient } from '../../src/ports/outbound.ts';
import type { WebhooksConfig } from './config.ts';
import { WEBHOOKS_ERRORS } from './errors.ts';

/** An operator's address that can never be reached is found at the start. Throws WEBHOOKS_OPERATIONAL_URL. */
export function checkOperational(
  operational: WebhooksConfig['operational'],
  client: Pick<OutboundClient, 'refusal'>,
): void {
  const reason = operational === null ? null : client.refusal(operational.url);
  if (reason === null) return;
  throw new CodedError('WEBHOOKS_OPERATIONAL_URL', `${WEBHOOKS_ERRORS.WEBHOOKS_OPERATIONAL_URL}: ${reason}`, {
    exitCode: EXIT_CONFIG,
  });
}

/** As for any other mistake in the configuration. */
const EXIT_CONFIG = 78;
