/** Which proxies may set X-Forwarded-For. */
import assert from 'node:assert/strict';
import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { createMemoryLog } from '../../test/helpers/memory-log.ts';
import { createProxyWatch, createRemoteAddress } from './network-address.ts';

const NETWORKS = ['10.0.0.0/8', '192.0.2.7', 'fd00::/8', '::1'];
const behind = createRemoteAddress(() => NETWORKS);
const request = (remoteAddress: string | undefined, forwarded?: string | string[]) =>
  ({ socket: { remoteAddress }, headers: { 'x-forwarded-for': forwarded } }) as unknown as IncomingMessage;

describe('the address of a client behind proxies', () => {
  const table: readonly (readonly [
    why: string,
    socket: string,
    forwarded: string | string[] | undefined,
    expected: string,
  ])[] = [
    ['an untrusted peer forges a trusted address', '203.0.113.9', '10.0.0.1', '203.0.113.9'],
    ['an untrusted peer forges a whole chain', '203.0.113.9', '1.1.1.1, 10.0.0.1, 10.0.0.2', '203.0.113.9'],
    ['an untrusted IPv6 peer', '2001:db8::9', '1.1.1.1', '2001:db8::9'],
    ['a neighbour of a trusted address', '192.0.2.8', '1.1.1.1', '192.0.2.8'],
    ['a client forges what stands left of it', '10.0.0.1', '127.0.0.1, 10.9.9.9, 198.51.100.1', '198.51.100.1'],
    ['a chain of trusted proxies', '::1', '198.51.100.1, 10.0.0.1, fd12::3, 192.0.2.7', '198.51.100.1'],
    ['several headers are one list', '10.0.0.1', ['6.6.6.6', '198.51.100.1, 10.0.0.2'], '198.51.100.1'],
    ['only trusted ones: the left-most', '10.0.0.1', '10.0.0.3, 10.0.0.2', '10.0.0.3'],
    ['no header', '10.0.0.1', undefined, '10.0.0.1'],
    ['an empty header', '10.0.0.1', '', '10.0.0.1'],
    ['an empty entry is where belief ends', '10.0.0.1', '198.51.100.1, ', '10.0.0.1'],
    ['"unknown" too', '10.0.0.1', '198.51.100.1, unknown, 10.0.0.2', '10.0.0.2'],
    ['a trusted proxy in IPv6 form', '::ffff:10.0.0.1', '198.51.100.1', '198.51.100.1'],
    ['a client in IPv6 form', '10.0.0.1', '::ffff:198.51.100.1', '198.51.100.1'],
    ['the same in capitals', '10.0.0.1', '::FFFF:198.51.100.1', '198.51.100.1'],
    ['the same in hexadecimal digits', '10.0.0.1', '::ffff:c633:6401', '198.51.100.1'],
    ['the same in full', '10.0.0.1', '0:0:0:0:0:ffff:198.51.100.1', '198.51.100.1'],
    ['a trusted one in hexadecimal digits is trusted', '10.0.0.1', '198.51.100.1, ::ffff:0a00:0002', '198.51.100.1'],
    ['IPv6 has one text', '10.0.0.1', '2001:0DB8:0:0:0:0:0:1', '2001:db8::1'],
    ['IPv6 with a port', '10.0.0.1', '[2001:db8::1]:443', '2001:db8::1'],
    ['IPv6 in brackets', '10.0.0.1', '[2001:db8::1]', '2001:db8::1'],
    ['half a bracket is nothing', '10.0.0.1', '[2001:db8::1', '10.0.0.1'],
    ['nor is what follows one', '10.0.0.1', '[2001:db8::1]x', '10.0.0.1'],
    ['a zone means nothing here', '10.0.0.1', 'fe80::1%eth0', '10.0.0.1'],
    ['IPv4 with a port', '10.0.0.1', '198.51.100.1:4711', '198.51.100.1'],
    ['numbers that are no address', '10.0.0.1', '198.51.100.256', '10.0.0.1'],
    ['other spellings of IPv4 are none', '10.0.0.1', '0x0a000001', '10.0.0.1'],
    ['names are none', '10.0.0.1', 'localhost', '10.0.0.1'],
  ];
  for (const [why, socket, forwarded, expected] of table)
    test(why, () => assert.equal(behind(request(socket, forwarded)), expected));

  test('without trusted proxies the header never counts', () => {
    const direct = createRemoteAddress(() => []);
    for (const [, socket, forwarded] of table)
      assert.equal(direct(request(socket, forwarded)), socket.replace('::ffff:', ''));
  });
  test('a socket that has gone has no address', () => assert.equal(behind(request(undefined, '1.1.1.1')), ''));
});

const untrusted = fc.oneof(
  fc.ipV4().filter((address) => !address.startsWith('10.') && address !== '192.0.2.7'),
  fc.nat(0xffff).map((part) => `2001:db8::1:${part.toString(16)}`),
);
const proxy = fc.oneof(
  fc.tuple(fc.nat(255), fc.nat(255)).map(([a, b]) => `10.0.${a}.${b}`),
  fc.nat(0xffff).map((part) => `fd00::1:${part.toString(16)}`),
  fc.constantFrom('::1', '192.0.2.7'),
);
/** A client may send anything, including the addresses of proxies. */
const forged = fc.array(
  fc.oneof(
    untrusted,
    proxy,
    fc.string({ maxLength: 20 }).filter((text) => !text.includes('\n')),
  ),
  {
    maxLength: 5,
  },
);

describe('whatever a client sends', () => {
  test('honest proxies report its address', () => {
    fc.assert(
      fc.property(untrusted, fc.array(proxy, { minLength: 1, maxLength: 4 }), forged, (client, proxies, lies) => {
        // Each proxy adds the address it saw; the last proxy is the peer of the socket.
        const seen = [client, ...proxies.slice(0, -1)];
        const header = [...lies, ...seen].join(', ');
        assert.equal(behind(request(proxies.at(-1)!, header)), client);
      }),
      { numRuns: 2_000 },
    );
  });
  test('no other header is trusted, and the result is an address', () => {
    fc.assert(
      fc.property(untrusted, proxy, forged, (client, trusted, lies) => {
        assert.equal(behind(request(client, lies.join(','))), client);
        assert.notEqual(isIP(behind(request(trusted, lies.join(',')))), 0);
      }),
      { numRuns: 2_000 },
    );
  });
});

test('a proxy that is not declared is reported once: one address, all with X-Forwarded-For, and not a trusted one', () => {
  const log = createMemoryLog();
  const see = (watch: ReturnType<typeof createProxyWatch>, remoteAddress: string, count: number, forwarded = true) => {
    const headers = forwarded ? { 'x-forwarded-for': '192.0.2.1' } : {};
    for (let n = 0; n < count; n += 1) watch.see({ socket: { remoteAddress }, headers } as never);
  };
  const watch = createProxyWatch(() => ['10.0.0.0/8'], log);
  see(watch, '10.0.0.1', 1_000);
  see(watch, '::ffff:10.0.0.2', 1_000);
  see(watch, '198.51.100.1', 1_000, false);
  assert.equal(watch.undeclared(), null);
  for (let n = 0; n < 50; n += 1) {
    see(watch, '198.51.100.1', 20);
    see(watch, '198.51.100.2', 20);
  }
  assert.equal(watch.undeclared(), null, 'clients of their own');
  see(watch, '198.51.100.1', 250);
  see(watch, '198.51.100.1', 10, false);
  assert.equal(watch.undeclared(), '198.51.100.1');
  see(watch, '198.51.100.2', 1, false);
  assert.equal(watch.undeclared(), null, 'another client has come by itself');
  see(watch, '198.51.100.1', 250);
  assert.equal(log.lines.filter(({ level }) => level === 'warn').length, 1);
});
