import fc from 'fast-check';
import type { FuzzBed } from './harness.ts';
import type { Hints } from './operations.ts';
import { oddText, webhookBody } from './values.ts';

const UUID = '8c6e0d7c-1111-4111-8111-111111111111';
/** Days of the calendar, days that look like some, and their edges. */
const day = fc.constantFrom(
  '2026-01-01',
  '2026-12-31',
  '2024-02-29',
  '2026-02-31',
  '2026-11-31',
  '0000-01-01',
  '9999-12-31',
);
const address = fc.constantFrom(
  '127.0.0.1',
  '10.0.0.0/8',
  '::1',
  '2001:db8::/32',
  '::ffff:1.2.3.4',
  '1.2.3.4/33',
  '',
  '\u0000',
);
const addresses = fc.option(fc.array(address, { maxLength: 4 }), { nil: null });
const cursor = fc.constantFrom('0', '1', '999999999999999', '000', '1-1', '999999999999999-9999999999');

/** Values with which pages of operators get past the first check. */
export function operatorHints({ known, plans }: FuzzBed): Hints {
  const projectId = fc.oneof(
    { weight: 4, arbitrary: fc.constant(known.project) },
    { weight: 1, arbitrary: fc.constantFrom(UUID, '__proto__') },
  );
  const call = fc.record(
    {
      method: fc.constantFrom('GET', 'POST', 'PUT', 'PATCH', 'DELETE'),
      path: fc.oneof(
        fc.constantFrom('/v0/webhooks', '/v0/webhooks?limit=1'),
        fc
          .constantFrom('/x', '/a/b/c/d', `/${UUID}`, `/${UUID}/deliveries?limit=0`)
          .map((rest) => `/v0/webhooks${rest}`),
        fc.constantFrom('/v0/webhooks/..', '/v0/webhooks/%2e%2e/admin', '/v0/webhooks//', '/v0/admin/wallets'),
      ),
      body: webhookBody,
    },
    { requiredKeys: ['method', 'path'] },
  );
  const name = fc.string({ unit: 'grapheme', maxLength: 20 });
  const expiresAt = fc.constantFrom(null, 0, 1, 4_102_444_800_000, Number.MAX_SAFE_INTEGER, 1e300);
  return {
    parameters: {
      project: projectId,
      key: fc.constantFrom(known.key, UUID),
      from: day,
      to: day,
      cursor,
      file: fc.constantFrom('app.js', 'style.css', 'icon.svg', 'index.html', '../index.ts', 'APP.JS', '.'),
    },
    bodies: {
      '/login': fc.oneof(
        fc.constantFrom(...known.logins),
        fc.record({ token: oddText }),
        fc.record({ project: projectId, secret: oddText }),
      ),
      '/projects': fc.record({ name, plan: fc.constantFrom(...plans, 'none', '__proto__') }),
      '/keys': fc.record({ name, ips: addresses, expiresAt }, { requiredKeys: [] }),
      '/ips': fc.record({ ips: addresses }),
      '/webhooks': call,
    },
  };
}
