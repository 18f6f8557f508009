import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { formatTraceparent, parseTraceparent } from './plugin.ts';

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const SPAN = '00f067aa0ba902b7';

test('a header of W3C Trace Context is read', () => {
  const context = { traceId: TRACE, spanId: SPAN, sampled: true };
  assert.deepEqual(parseTraceparent(`00-${TRACE}-${SPAN}-01`), context);
  assert.deepEqual(parseTraceparent(`00-${TRACE}-${SPAN}-00`), { ...context, sampled: false });
  assert.deepEqual(parseTraceparent(`00-${TRACE}-${SPAN}-ff`), context, 'other flags are left to those who know them');
  assert.deepEqual(parseTraceparent(`cc-${TRACE}-${SPAN}-01-what-comes-later`), context);
});

test('invalid headers are ignored', () => {
  for (const header of [
    undefined,
    '',
    'x',
    `ff-${TRACE}-${SPAN}-01`,
    `00-${TRACE}-${SPAN}-01-more`,
    `00-${TRACE.toUpperCase()}-${SPAN}-01`,
    `00-${'0'.repeat(32)}-${SPAN}-01`,
    `00-${TRACE}-${'0'.repeat(16)}-01`,
    `00-${TRACE}-${SPAN}`,
    `00-${TRACE}-${SPAN}-1`,
    `00-${TRACE}0-${SPAN}-01`,
  ]) {
    assert.equal(parseTraceparent(header), null, header);
  }
});

test('written headers are read back, and no input throws', () => {
  const digits = (length: number) =>
    fc.stringMatching(new RegExp(`^[0-9a-f]{${length}}$`)).filter((text) => !/^0+$/.test(text));
  const contexts = fc.record({ traceId: digits(32), spanId: digits(16), sampled: fc.boolean() });
  fc.assert(fc.property(contexts, (one) => assert.deepEqual(parseTraceparent(formatTraceparent(one)), { ...one })));
  fc.assert(fc.property(fc.string(), (text) => assert.equal(parseTraceparent(text), null)));
});
