import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createSingleSignOn, identityOf } from './single-sign-on.ts';

const lists = {
  operators: ['ann@example.com', 'group:sre', 'sub:7'],
  viewers: ['*@example.com', 'group:support'],
  groupsClaim: 'groups',
};
const roleOf = (claims: Record<string, unknown>) => identityOf({ sub: '1', ...claims }, lists)?.role ?? null;
const mail = (email: string, email_verified: unknown = true) => roleOf({ email, email_verified });

test('a role comes from a verified address, its domain, a group or the subject; the first list counts', () => {
  assert.equal(mail('ann@example.com'), 'operator');
  assert.equal(mail('Ann@Example.COM'), 'operator');
  assert.equal(mail('bob@example.com'), 'viewer');
  assert.equal(roleOf({ groups: ['staff', 'sre'] }), 'operator');
  assert.equal(roleOf({ groups: 'support' }), 'viewer');
  assert.equal(roleOf({ sub: '7' }), 'operator');
  assert.deepEqual(identityOf({ sub: '7' }, lists), { role: 'operator', name: 'sub:7' });
});

test('an address that the provider has not verified, or that only looks like one of the domain, gives no role', () => {
  for (const isVerified of [false, 'true', null, 1]) assert.equal(mail('ann@example.com', isVerified), null);
  assert.equal(roleOf({ email: 'ann@example.com' }), null);
  for (const email of ['ann@example.com.evil', 'x@evil.com', 'ann@evil@sub.example.com', '@example.org', ''])
    assert.equal(mail(email), null, email);
  assert.equal(roleOf({ email: ['ann@example.com'], email_verified: true }), null);
  assert.equal(roleOf({ groups: { sre: true } }), null);
  assert.equal(roleOf({ email: 'sub:7', email_verified: true }), null);
  assert.equal(
    identityOf({ email: 'ann@example.com', email_verified: true }, lists),
    null,
    'a token names its subject',
  );
});

test('a configuration that lacks a part, or would send the secret over a network unencrypted, is refused', () => {
  const whole = {
    issuer: 'https://id.example',
    clientId: 'a',
    clientSecret: 'b',
    publicUrl: 'https://ops.example',
    scope: 'openid email',
    groupsClaim: 'groups',
    operators: ['ann@example.com'],
    viewers: [],
  };
  assert.equal(createSingleSignOn({ oidc: { ...whole, issuer: null } }), null);
  assert.equal(createSingleSignOn({ oidc: whole })?.provider, 'id.example');
  assert.notEqual(createSingleSignOn({ oidc: { ...whole, issuer: 'http://127.0.0.1:9000' } }), null);
  for (const [change, reason] of [
    [{ clientId: null }, /clientId/],
    [{ clientSecret: null }, /clientSecret/],
    [{ publicUrl: null }, /publicUrl/],
    [{ operators: [] }, /nobody/],
    [{ issuer: 'http://id.example' }, /https/],
  ] as const)
    assert.throws(
      () => createSingleSignOn({ oidc: { ...whole, ...change } as typeof whole }),
      (error: { code?: string; message: string }) => error.code === 'DASHBOARD_OIDC' && reason.test(error.message),
    );
});
