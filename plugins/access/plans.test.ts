import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { parse } from 'yaml';
import { findProjectRoot } from '../../test/helpers/project-root.ts';
import { PUBLISHED_PLANS } from './plans.ts';
import { loadPlans } from './plans-file.ts';

const dir = mkdtempSync(join(tmpdir(), 'parhelion-plans-'));
after(() => rmSync(dir, { recursive: true, force: true }));

const own = readFileSync(`${findProjectRoot()}config/plans.yaml`, 'utf8');
const withText = (text: string) => {
  const path = join(dir, 'plans.yaml');
  writeFileSync(path, text);
  return path;
};

test('the plans that come with the program have the published numbers', () => {
  const plans = loadPlans(null);
  assert.deepEqual(plans.names, ['free', 'agent', 'developer', 'business', 'professional', 'unlimited']);
  const numbers = plans.names.map((name) => {
    const limits = plans.limitsOf(name, null)!;
    const rate = (group: string) => limits.ratePerSecond.get(group) ?? null;
    return [
      limits.creditsLimit,
      limits.invoiced,
      limits.refusedWallet === null,
      ...['rpc', 'das', 'sendTransaction', 'sendBundle', 'simulateBundle', 'getProgramAccounts'].map(rate),
      ...['photon', 'getValidityProof', 'sender'].map(rate),
      limits.webhooks.max,
    ];
  });
  assert.deepEqual(numbers, [
    [1_000_000, false, false, 10, 2, 1, 0, 10, 5, 2, 1, 50, 5],
    [1_000_000, false, true, 10, 2, 1, 0, 10, 5, 2, 1, 50, 5],
    [10_000_000, true, true, 50, 10, 5, 0, 50, 25, 10, 5, 50, 50],
    [100_000_000, true, true, 200, 50, 50, 5, 200, 50, 50, 10, 50, 50],
    [200_000_000, true, true, 500, 100, 100, 5, 500, 75, 100, 20, 50, 50],
    [Number.MAX_SAFE_INTEGER, true, true, null, null, null, null, null, null, null, null, null, null],
  ]);
});

test('config/plans.yaml shows the published plans, and is a valid plans file', () => {
  assert.deepEqual(parse(own), PUBLISHED_PLANS);
  assert.deepEqual(loadPlans(withText(own)).names, loadPlans(null).names);
});

test('every plan allows as many subscriptions as one websocket may have', () => {
  const plans = loadPlans(null);
  for (const name of plans.names) {
    assert.ok((plans.limitsOf(name, null)!.budgets.subscriptions ?? Infinity) >= 1_000, name);
  }
});

test('values of a project lie over its plan one by one; null takes a limit away', () => {
  const limits = loadPlans(null).limitsOf(
    'free',
    JSON.stringify({
      ratePerSecond: { rpc: 20, das: null },
      features: { paidWallet: true },
      webhooks: { max: 7 },
      overageCredits: 500,
    }),
  )!;
  assert.equal(limits.ratePerSecond.get('rpc'), 20);
  assert.equal(limits.ratePerSecond.get('das'), undefined);
  assert.equal(limits.ratePerSecond.get('photon'), 2);
  assert.equal(limits.refusedWallet, null);
  assert.deepEqual(limits.webhooks, { max: 7, addressesPerWebhook: 100_000 });
  assert.deepEqual([limits.creditsLimit, limits.overageCredits], [1_000_000, 500]);
});

test('a plan that does not exist has no limits, whatever its name', () => {
  const plans = loadPlans(null);
  for (const name of ['gold', '', 'constructor', '__proto__', 'toString']) {
    assert.equal(plans.limitsOf(name, null), null);
    assert.equal(plans.has(name), false);
  }
});

test('all errors of the file are reported at once with their places, and exit code 78', () => {
  for (const [text, expected] of [
    ['plans: [', /: line 1, column 8: this \[ or \{ is never closed$/],
    [own.replace('burstFactor: 2', 'burstFactr: 2'), /unknown key "burstFactr".*|burstFactor/],
    [own.replace('creditsLimit: 1000000', 'creditsLimit: many'), /plans\.free\.creditsLimit/],
    [own.replace('rpc: 10', 'rpc: -1'), /plans\.free\.ratePerSecond\.rpc/],
    [own.replace('invoiced: false', 'invoicd: false'), /plans\.free: unknown key "invoicd"/],
    ['plans: {}\nburstFactor: 2\npaidWalletEndpoints: []', /plans/],
  ] as const)
    assert.throws(() => loadPlans(withText(text)), {
      code: 'ACCESS_PLANS_INVALID',
      exitCode: 78,
      message: expected,
    });
  assert.throws(() => loadPlans(join(dir, 'absent.yaml')), { code: 'ACCESS_PLANS_INVALID', exitCode: 78 });
  const both = own.replace('rpc: 10', 'rpc: -1').replace('burstFactor: 2', 'burstFactor: 0');
  assert.throws(() => loadPlans(withText(both)), { message: /ratePerSecond\.rpc.*burstFactor/s });
});
