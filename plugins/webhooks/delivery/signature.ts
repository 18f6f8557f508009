import { createHmac, hash } from 'node:crypto';
import type { Random } from '../../../src/ports/clock.ts';

const PREFIX = 'whsec_';
const SECRET_BYTES = 32;
const ID_DIGITS = 32;

/** A signing secret of the Standard Webhooks form. */
export function newSecret(random: Random): string {
  return PREFIX + Buffer.from(random.bytes(SECRET_BYTES)).toString('base64');
}

/** The HMAC key inside a secret. */
export function secretKey(secret: string): Buffer {
  return Buffer.from(secret.startsWith(PREFIX) ? secret.slice(PREFIX.length) : secret, 'base64');
}

/** The receiver's key for leaving out duplicates: the same over attempts, restarts, forks and resends. */
export function messageId(webhookId: string, signature: string): string {
  return `msg_${hash('sha256', `${webhookId}:${signature}`, 'hex').slice(0, ID_DIGITS)}`;
}

/**
 * Value of `webhook-signature`: one `v1` signature per key, newest first. `timestamp` is in unix seconds, and `body` the very
 * bytes that are sent.
 */
export function signBody(keys: readonly Buffer[], id: string, timestamp: number, body: Uint8Array): string {
  const prefix = `${id}.${timestamp}.`;
  return keys.map((key) => `v1,${createHmac('sha256', key).update(prefix).update(body).digest('base64')}`).join(' ');
}
