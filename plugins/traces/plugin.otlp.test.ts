import assert from 'node:assert/strict';
import { test } from 'node:test';
import { otlpBody, rejectedSpans } from './plugin.ts';

test('a span in the JSON encoding of OTLP: identifiers in hexadecimal, 64-bit numbers as strings', () => {
  const span = {
    traceId: 'a'.repeat(32),
    spanId: 'b'.repeat(16),
    parentSpanId: null,
    kind: 'job' as const,
    name: 'webhooks.delivery',
    startMs: 1_700_000_000_000.25,
    endMs: 1_700_000_000_001.5,
    ok: false,
    facts: { text: 'x', whole: 7, half: 0.5, yes: true },
  };
  const body = otlpBody([span], { facts: { 'service.name': 'parhelion' }, version: '1.2.3' });
  assert.deepEqual(JSON.parse(body), {
    resourceSpans: [
      {
        resource: { attributes: [{ key: 'service.name', value: { stringValue: 'parhelion' } }] },
        scopeSpans: [
          {
            scope: { name: 'parhelion', version: '1.2.3' },
            spans: [
              {
                traceId: 'a'.repeat(32),
                spanId: 'b'.repeat(16),
                name: 'webhooks.delivery',
                kind: 5,
                startTimeUnixNano: '1700000000000250000',
                endTimeUnixNano: '1700000000001500000',
                attributes: [
                  { key: 'text', value: { stringValue: 'x' } },
                  { key: 'whole', value: { intValue: '7' } },
                  { key: 'half', value: { doubleValue: 0.5 } },
                  { key: 'yes', value: { boolValue: true } },
                ],
                status: { code: 2 },
              },
            ],
          },
        ],
      },
    ],
  });
});

test('the number of rejected spans is read from any answer of a collector', () => {
  assert.equal(rejectedSpans(Buffer.from('{"partialSuccess":{"rejectedSpans":"3","errorMessage":"x"}}')), 3);
  assert.equal(rejectedSpans(Buffer.from('{"partialSuccess":{"rejectedSpans":2}}')), 2);
  for (const text of [
    '',
    '{}',
    'null',
    '[]',
    '{"partialSuccess":null}',
    '{"partialSuccess":{"rejectedSpans":-1}}',
    'x',
  ])
    assert.equal(rejectedSpans(Buffer.from(text)), 0, text);
});
