import assert from 'node:assert/strict';
import { BlockList } from 'node:net';
import { test } from 'node:test';
import fc from 'fast-check';
import { createAddressPolicy } from '../adapters/outbound/resolver.ts';
import { createRemoteAddress, parseCidr } from '../runtime/network-address.ts';
import { TEXT_FORMATS } from './formats.ts';

const holds = (format: string, text: string) => TEXT_FORMATS.get(format)!.holds(text);

test('networks: all code that uses networks accepts the same texts', () => {
  const octet = fc.oneof(fc.integer({ min: 0, max: 255 }), fc.integer({ min: -1, max: 300 })).map(String);
  const four = fc.array(octet, { minLength: 3, maxLength: 5 }).map((parts) => parts.join('.'));
  const six = fc.oneof(
    fc.ipV6(),
    four.map((text) => `::ffff:${text}`),
    fc.constant('fe80::1%eth0'),
  );
  const size = fc.oneof(fc.integer({ min: -1, max: 140 }).map(String), fc.constantFrom('', ' 8', '8 ', '1e1', '0x8'));
  const text = fc.oneof(
    fc.tuple(fc.oneof(four, six), size).map((parts) => parts.join('/')),
    fc.oneof(four, six, fc.string()),
  );
  fc.assert(
    fc.property(text, (cidr) => {
      if (!holds('cidr', cidr)) {
        assert.throws(() => createAddressPolicy([cidr]), { code: 'CONFIG_INVALID' });
        assert.throws(() => createRemoteAddress(() => [cidr]), { code: 'CONFIG_INVALID', exitCode: 78 });
        return;
      }
      createAddressPolicy([cidr]);
      createRemoteAddress(() => [cidr]);
      const { address, family, prefix } = parseCidr(cidr)!;
      const list = new BlockList();
      list.addSubnet(address, prefix, family === 4 ? 'ipv4' : 'ipv6');
      assert.ok(list.check(address, family === 4 ? 'ipv4' : 'ipv6'));
    }),
    { numRuns: 2_000 },
  );
  for (const good of ['10.0.0.0/8', '0.0.0.0/0', '::/0', '127.0.0.1', 'fd00::/8', '::1/128'])
    assert.ok(holds('cidr', good), good);
  for (const bad of ['10.0.0.0/', '10.0.0.0/33', '::/129', '10.0.0/8', '', '/8', '10.0.0.0/8/8', '10.0.0.0/-1'])
    assert.equal(holds('cidr', bad), false, bad);
});

test('addresses: the scheme must be an allowed one, and a host is required', () => {
  const table: readonly [format: string, good: readonly string[], bad: readonly string[]][] = [
    [
      'http-url',
      ['http://a', 'https://u:p@a:1/x?k=1', 'HTTP://A', 'http://[::1]:8899'],
      ['ftp://a', 'a', '', 'localhost:8899', 'http://', 'http://h u/', '//a', 'http://[x', 'ws://a'],
    ],
    ['ws-url', ['ws://a', 'wss://a/x'], ['http://a', 'a', '']],
    ['uuid', ['0a1b2c3d-0000-4000-8000-000000000001'], ['nope', '', '0A1B2C3D-0000-4000-8000-000000000001']],
    [
      'store-url',
      [
        'sqlite:',
        'sqlite:/a/b.db',
        'sqlite:///a',
        'postgres://u:p@h:5432/db',
        'postgresql:///db?host=/run/pg',
        'postgres://h',
      ],
      ['mysql://h/db', 'sqlite', '/a/b.db', '', 'postgres:db', 'http://h', 'mongodb://h'],
    ],
  ];
  for (const [format, good, bad] of table) {
    for (const text of good) assert.ok(holds(format, text), `${format} ${text}`);
    for (const text of bad) assert.equal(holds(format, text), false, `${format} ${text}`);
  }
});
