import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CodedError } from '../../src/lib/coded-error.ts';
import type { RpcBatchSeat } from '../../src/plugin/host.ts';
import type { Clock, UpstreamPool } from '../../src/plugin/plugin.ts';
import { OWN_WORK } from '../../src/plugin/plugin.ts';
import type { Upstream } from '../../src/ports/upstream.ts';
import { createBatches } from './batch.ts';

test('a part that waited behind one that hung has what is left of its deadline', async () => {
  let now = 0;
  const clock = { monotonic: () => now, timeout: () => () => undefined } as unknown as Clock;
  const given: number[] = [];
  const pool = {
    candidates: () => [{}, {}],
    async send(_: Upstream, { timeoutMs }: { readonly timeoutMs: number }) {
      given.push(timeoutMs);
      now += 300;
      throw new CodedError('UPSTREAM_TIMEOUT', 'late');
    },
  } as unknown as UpstreamPool;
  const batches = createBatches(pool, clock);
  const listeners: (() => void)[] = [];
  const seat: RpcBatchSeat = { batch: {}, park: (told) => void listeners.push(told), resume: () => undefined };
  const upstream = { label: 'main-0' } as Upstream;
  const body = Buffer.alloc(20_000, 0x20);
  const signal = new AbortController().signal;
  const made = Array.from({ length: 6 }, (_, at) =>
    batches.attempt(
      upstream,
      {
        method: 'getX',
        body,
        id: String(at),
        upstream: upstream.label,
        sentAt: 0,
        timeoutMs: 400,
        maxBytes: 1_000_000,
        wholeBytes: 1_000_000,
        signal,
        tenant: OWN_WORK,
      },
      seat,
    ),
  );
  for (const listener of listeners) listener();
  assert.deepEqual(new Set((await Promise.all(made)).map(({ kind }) => kind)), new Set(['late']));
  assert.deepEqual(given, [400, 100]);
});
