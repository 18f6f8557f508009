import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { LiveChain, LiveStatus, LiveUpstream, ReadinessView, SeriesPoint, ShownFailingHook } from './app/api.ts';
import { troublesOf } from './app/trouble.ts';

const chain: LiveChain = {
  chain: 'main',
  kind: 'rpc',
  cluster: 'mainnet',
  genesisHash: null,
  tipSlot: 100,
  cursorSlot: 100,
  finalizedSlot: 60,
  lagSlots: 0,
  slotMs: 400,
  lagSeconds: 0,
  isLate: false,
  stalled: null,
  openGaps: 0,
  finalityAlarm: null,
};
const upstream = (label: string, reason: string | null): LiveUpstream => ({
  chain: 'main',
  label,
  healthy: reason === null,
  reason,
  slot: 100,
  inFlight: 0,
});
const live = (chains: readonly LiveChain[], upstreams: readonly LiveUpstream[]): LiveStatus => ({
  at: 0,
  chains,
  upstreams,
});
const healthy: ReadinessView = {
  ready: true,
  draining: false,
  checks: [{ name: 'store', ok: true, detail: 'takes writes' }],
};
const point = (sums: Readonly<Record<string, number>>): SeriesPoint => ({ at: 0, sums, peaks: {}, latency: null });
const titles = (...given: Parameters<typeof troublesOf>) =>
  troublesOf(...given).map(({ tone, title }) => `${tone}: ${title}`);

test('a daemon in good order has no troubles', () => {
  assert.deepEqual(titles(healthy, live([chain], [upstream('a', null)]), [point({ 'requests.rpc': 1_000 })]), []);
  assert.deepEqual(titles(null, null, []), []);
});

test('one upstream of two is a warning, all of them are worse, and the worst comes first', () => {
  const one = live([{ ...chain, openGaps: 2 }], [upstream('a', null), upstream('b', 'no answer')]);
  assert.deepEqual(titles(healthy, one, []), [
    'warn: 1 upstream of 2 of main does not work (b: no answer)',
    'warn: 2 ranges of slots of mainnet are missing',
  ]);
  const all = live([{ ...chain, stalled: 'no upstream' }], [upstream('a', 'no answer')]);
  const found = titles(healthy, all, []);
  assert.match(found[0] as string, /^bad: No upstream of main works/);
  assert.match(found[1] as string, /^bad: Following mainnet is stalled: no upstream/);
});

test('a certificate that does not hold is a trouble', () => {
  const alarm = 'the certificate of slot 99 does not prove it final: too little stake signed it';
  assert.deepEqual(titles(healthy, live([{ ...chain, finalityAlarm: alarm }], []), []), [`bad: On mainnet, ${alarm}`]);
});

test('a failed check is said once, and a daemon that is not ready always has a reason', () => {
  const store: ReadinessView = {
    ready: false,
    draining: false,
    checks: [{ name: 'store', ok: false, detail: 'the disk is full' }],
  };
  assert.deepEqual(titles(store, null, []), ['bad: Store: the disk is full']);
  const unsaid: ReadinessView = {
    ready: false,
    draining: false,
    checks: [{ name: 'chain main', ok: false, detail: 'late' }],
  };
  assert.deepEqual(titles(unsaid, null, []), ['bad: Not ready: chain main: late']);
});

test('many errors are a trouble, a few calls are not', () => {
  const many = [point({ 'requests.rpc': 30, 'requests.wallet': 10, 'errors.wallet': 10, 'deliveries.done': 3 })];
  assert.deepEqual(titles(healthy, null, many), ['warn: 25 % of the requests of the last minutes failed']);
  assert.deepEqual(titles(healthy, null, [point({ 'requests.rpc': 3, 'errors.rpc': 3 })]), []);
});

const failingHook: ShownFailingHook = {
  webhookID: 'w',
  project: 'p',
  name: 'Deposits',
  host: 'example.org',
  succeeded: 10,
  failed: 30,
  disabledReason: null,
  disabledAt: null,
};

test('each failing webhook is named, with the page where it is mended', () => {
  const many = Array.from({ length: 7 }, (_, at) => ({ ...failingHook, webhookID: `w${at}`, name: null }));
  assert.deepEqual(titles(healthy, null, [], [failingHook]), [
    'warn: Webhook Deposits: 30 of 40 attempts of the last hour failed',
  ]);
  assert.deepEqual(troublesOf(healthy, null, [], [failingHook])[0]?.link?.path, ['p', 'p', 'webhooks', 'w']);
  const found = titles(healthy, null, [], many);
  assert.deepEqual(
    [found.length, found[0], found.at(-1)],
    [
      6,
      'warn: Webhook example.org: 30 of 40 attempts of the last hour failed',
      'warn: 2 more webhooks fail or were switched off',
    ],
  );
});

test('a webhook that the daemon switched off is a trouble, and who sees several projects reads whose it is', () => {
  const off = { ...failingHook, succeeded: 0, failed: 0, disabledAt: '2026-12-01T00:00:00.000Z' };
  const hooks: readonly ShownFailingHook[] = [
    { ...off, disabledReason: 'failure_rate' },
    { ...off, project: '0123456789', name: null, disabledReason: 'gone' },
    failingHook,
  ];
  assert.deepEqual(titles(healthy, null, [], hooks, [{ id: 'p', name: 'Shop' }]), [
    'warn: Webhook Deposits was switched off: its deliveries failed',
    'warn: Webhook example.org was switched off: its receiver is gone',
    'warn: Webhook Deposits: 30 of 40 attempts of the last hour failed',
  ]);
  const several = [
    { id: 'p', name: 'Shop' },
    { id: '0123456789', name: '' },
  ];
  assert.deepEqual(titles(healthy, null, [], hooks, several), [
    'warn: Webhook Deposits of Shop was switched off: its deliveries failed',
    'warn: Webhook example.org of 01234567 was switched off: its receiver is gone',
    'warn: Webhook Deposits of Shop: 30 of 40 attempts of the last hour failed',
  ]);
});
