// The signature of a delivery, as Standard Webhooks have it. A library does the same: https://www.standardwebhooks.com
import { createHmac, timingSafeEqual } from 'node:crypto';

const TOLERANCE_S = 300;

/** Whether the body was signed with the secret, less than five minutes ago. */
export function isSigned(secret, headers, body) {
  const { 'webhook-id': id, 'webhook-timestamp': time, 'webhook-signature': given = '' } = headers;
  if (Math.abs(Date.now() / 1000 - Number(time)) > TOLERANCE_S) return false;
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64');
  const expected = createHmac('sha256', key).update(`${id}.${time}.`).update(body).digest();
  // While a secret is being renewed there are two.
  return given.split(' ').some((one) => {
    const mac = Buffer.from(one.replace(/^v1,/, ''), 'base64');
    return mac.length === expected.length && timingSafeEqual(mac, expected);
  });
}
