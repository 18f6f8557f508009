import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { createRate } from '../../plugins/sender/routes.ts';
import { createManualClock } from '../../test/helpers/manual-clock.ts';
import type { CallContext } from '../plugin/plugin.ts';
import { networkOf } from './network-address.ts';

test('an IPv6 client is its /64 in every spelling; an IPv4 client its address; other texts stay', () => {
  const group = fc.integer({ min: 0, max: 0xffff });
  fc.assert(
    fc.property(
      fc.array(group, { minLength: 8, maxLength: 8 }),
      fc.array(group, { minLength: 4, maxLength: 4 }),
      (a, b) => {
        const full = a.map((one) => one.toString(16).padStart(4, '0')).join(':');
        const short = new URL(`http://[${full}]`).hostname.slice(1, -1);
        const neighbour = [...a.slice(0, 4), ...b]
          .map((one) => one.toString(16))
          .join(':')
          .toUpperCase();
        const isMapped = a.slice(0, 5).every((one) => one === 0) && a[5] === 0xffff;
        if (isMapped) return;
        assert.equal(networkOf(short), networkOf(full));
        assert.equal(networkOf(neighbour), networkOf(full));
        const other = [a[0]! ^ 1, ...a.slice(1)].map((one) => one.toString(16)).join(':');
        assert.notEqual(networkOf(other), networkOf(full));
      },
    ),
  );
  assert.equal(networkOf('::1'), networkOf('::2'));
  assert.equal(networkOf('2001:db8::1%eth0'), networkOf('2001:db8::2'));
  assert.equal(networkOf('64:ff9b::192.0.2.1'), networkOf('64:ff9b::1'));
  assert.equal(networkOf('::ffff:192.0.2.1'), '192.0.2.1');
  for (const text of ['192.0.2.1', '', 'no address', 'no:address']) assert.equal(networkOf(text), text);
});

test('the sender counts an IPv6 client by its /64', () => {
  const rate = createRate(createManualClock(), { ratePerSecond: 5, burstFactor: 2 });
  const call = (remoteAddress: string) => rate.take({ caller: null, remoteAddress } as CallContext);
  for (let n = 0; n < 10; n += 1) call(`2001:db8::${n}`);
  assert.throws(() => call('2001:db8::ffff'), { rpcCode: -32005 });
  call('2001:db8:0:1::1');
});
