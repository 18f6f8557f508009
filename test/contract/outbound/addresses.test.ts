import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { createAddressPolicy, parseOutboundTarget } from '../../../src/adapters/outbound/resolver.ts';
import type { OutboundPolicy } from '../../../src/ports/outbound.ts';

const policy = (patch: Partial<OutboundPolicy> = {}): OutboundPolicy => ({
  allowCidrs: [],
  allowHttp: true,
  allowPorts: null,
  caFile: null,
  maxConnections: 4,
  section: 'webhooks',
  ...patch,
});
const refusal = (url: string, patch: Partial<OutboundPolicy> = {}): string | null => {
  const full = policy(patch);
  const parsed = parseOutboundTarget(url, full, createAddressPolicy(full.allowCidrs));
  return parsed.ok ? null : parsed.reason;
};

test('public addresses pass, special ones do not', () => {
  const { permits } = createAddressPolicy([]);
  for (const address of ['8.8.8.8', '1.1.1.1', '::ffff:8.8.8.8', '2606:4700::1111', '2001:4860:4860::8888']) {
    assert.equal(permits(address), true, address);
  }
  for (const address of [
    '127.0.0.1',
    '255.255.255.255',
    '100.64.0.1',
    '::',
    '::1',
    '::7f00:1',
    '::ffff:127.0.0.1',
    '::ffff:0:7f00:1',
    '64:ff9b::7f00:1',
    '2002:7f00:1::',
    'fd00:ec2::254',
    '2001:0:1::1',
    '10.1.2.3',
    '172.16.0.1',
    '172.31.255.255',
    '192.168.1.1',
    '169.254.169.254',
    '0.0.0.0',
    '224.0.0.1',
    '192.0.0.1',
    '198.18.0.1',
    'fe80::1%eth0',
    'ff02::1',
    '::ffff:a9fe:a9fe',
    '::FFFF:10.0.0.1',
    '0:0:0:0:0:ffff:7f00:1',
    '5f00::1',
    '3fff::1',
    '100::1',
    '64:ff9b:1::1',
  ]) {
    assert.equal(permits(address), false, address);
  }
});

test('instance metadata of clouds is unreachable in every notation', () => {
  const { permits } = createAddressPolicy([]);
  for (const address of [
    '168.63.129.16',
    '::ffff:a83f:8110',
    '::a83f:8110',
    '64:ff9b::a83f:8110',
    '2002:a83f:8110::1',
    '100.100.100.200',
    '192.0.0.192',
    '169.254.170.2',
    '169.254.0.23',
    'fd20:ce::254',
    'fd00:c1::a9fe:a9fe',
    'fd00:42::42',
  ])
    assert.equal(permits(address), false, address);
  assert.equal(permits('168.63.129.17'), true);
  assert.equal(refusal('http://168.63.129.16/machine?comp=goalstate', { allowHttp: true }) === null, false);
});

test('a client limited to some origins reaches no other', () => {
  const only = { allowCidrs: ['0.0.0.0/0', '::/0'], allowHttp: true, onlyOrigins: ['http://10.0.0.5:8080'] };
  assert.equal(refusal('http://10.0.0.5:8080/ipfs/a', only), null);
  for (const url of ['http://10.0.0.5/', 'http://10.0.0.5:5001/', 'https://10.0.0.5:8080/', 'http://8.8.8.8/'])
    assert.equal(refusal(url, only), 'the origin is not configured', url);
  const metadata = { ...only, onlyOrigins: ['http://169.254.169.254'] };
  assert.match(refusal('http://169.254.169.254/latest', metadata) ?? '', /not allowed/);
});

test('invalid addresses are refused', () => {
  const { permits } = createAddressPolicy(['0.0.0.0/0', '::/0']);
  for (const text of ['', 'localhost', '1.2.3', '1.2.3.4.5', '0x7f.0.0.1', ':::', '::ffff:1.2.3.256', '127.0.0.1/8']) {
    assert.equal(permits(text), false, text);
  }
});

test('any v4 address has the same verdict in its mapped spelling', () => {
  const { permits } = createAddressPolicy(['10.0.0.0/8']);
  fc.assert(
    fc.property(fc.ipV4(), (address) => {
      assert.equal(permits(`::ffff:${address}`), permits(address));
    }),
    { numRuns: 500 },
  );
});

test('allowed networks open their addresses, metadata ranges only when listed', () => {
  const wide = createAddressPolicy(['0.0.0.0/0', '::/0', 'fd00::/8', '64:ff9b::/96']);
  for (const address of ['127.0.0.1', '10.0.0.1', '::1', '::ffff:192.168.0.1', 'fd12::1']) {
    assert.equal(wide.permits(address), true, address);
  }
  for (const address of [
    '169.254.169.254',
    '::ffff:169.254.169.254',
    'fd00:ec2::254',
    '64:ff9b::a9fe:a9fe',
    '2002:a9fe:a9fe::1',
    '168.63.129.16',
    '::ffff:168.63.129.16',
    '64:ff9b::a83f:8110',
    '2002:a83f:8110::1',
    '100.100.100.200',
    '192.0.0.192',
    'fd20:ce::254',
    'fd00:c1::a9fe:a9fe',
    'fd00:42::42',
    'fe80::a9fe:a9fe',
    'fd00:ec2::23',
    '64:ff9b:1::a9fe:a9fe',
    '64:ff9b:1:a9fe:a9:fe00::',
    '::169.254.169.254',
    '::ffff:0:a9fe:a9fe',
  ]) {
    assert.equal(wide.permits(address), false, address);
  }
  const exact = createAddressPolicy(['169.254.0.0/16', 'fd00:ec2::254/128']);
  assert.equal(exact.permits('169.254.169.254'), true);
  assert.equal(exact.permits('fd00:ec2::254'), true);
  const one = createAddressPolicy(['169.254.169.254']);
  assert.equal(one.permits('169.254.169.254'), true);
  assert.equal(one.permits('169.254.169.253'), false);
});

test('a malformed network is a configuration error', () => {
  for (const entry of [
    '127.0.0.1/33',
    '10.0.0.0/-1',
    'localhost',
    '::1/129',
    '10.0.0.0/8/8',
    '::ffff:10.0.0.0/8',
    '',
  ]) {
    assert.throws(() => createAddressPolicy([entry]), { code: 'CONFIG_INVALID' }, entry);
  }
});

const LOOPBACK_SPELLINGS = [
  '127.0.0.1',
  '127.1',
  '127.0.1',
  '2130706433',
  '0x7f000001',
  '0x7f.1',
  '0177.0.0.1',
  '017700000001',
  '127.0.0.1.',
  '１２７.０.０.１',
  '127。0。0。1',
  '[::1]',
  '[::ffff:127.0.0.1]',
  '[0:0:0:0:0:0:0:1]',
  '[::ffff:7f00:1]',
  '[::127.0.0.1]',
  '%31%32%37.0.0.1',
  'localhost',
  'LOCALHOST',
  'localhost.',
  'a.localhost',
];

test('every spelling of the local machine is refused, and allowed when its network is', () => {
  for (const host of LOOPBACK_SPELLINGS) {
    for (const url of [`http://${host}/`, `https://${host}:8443/x?y`, `http:\\\\${host}\\`]) {
      const reason = refusal(url);
      assert.match(reason ?? '', /not allowed; add its network to webhooks\.allowCidrs, such as \S+\/(32|128)$/, url);
      assert.equal(refusal(url, { allowCidrs: ['127.0.0.0/8', '::1/128', '::/96'] }), null, url);
    }
  }
  assert.equal(
    refusal('http://127.1/'),
    'address 127.0.0.1 is not allowed; add its network to webhooks.allowCidrs, such as 127.0.0.1/32',
  );
});

test('scheme, user info, port and form', () => {
  assert.match(refusal('ftp://example.com/') ?? '', /scheme/);
  assert.match(refusal('javascript:alert(1)') ?? '', /scheme/);
  assert.match(refusal('https://user@example.com/') ?? '', /user information/);
  assert.match(refusal('https://:pw@example.com/') ?? '', /user information/);
  assert.match(refusal('https://example.com:0/') ?? '', /port 0/);
  assert.match(refusal('https://example.com:8443/', { allowPorts: [443] }) ?? '', /port 8443/);
  assert.match(refusal('example.com/hook') ?? '', /valid URL/);
  assert.match(refusal('https://') ?? '', /valid URL/);
  assert.equal(refusal('https://example.com/?a=b'), null);
  assert.match(refusal('http://example.com/', { allowHttp: false }) ?? '', /http is not allowed/);
  assert.match(
    refusal('http://8.8.8.8/', { allowHttp: false, allowCidrs: ['10.0.0.0/8'] }) ?? '',
    /http is not allowed/,
  );
  assert.equal(refusal('http://10.0.0.1/', { allowHttp: false, allowCidrs: ['10.0.0.0/8'] }), null);
  assert.equal(refusal('http://example.com/', { allowHttp: false, allowCidrs: ['10.0.0.0/8'] }), null);
});
