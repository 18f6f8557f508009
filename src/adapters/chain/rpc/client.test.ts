import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import { createManualClock } from '../../../../test/helpers/manual-clock.ts';
import { CodedError } from '../../../lib/coded-error.ts';
import { OWN_WORK } from '../../../ports/access.ts';
import type { Upstream, UpstreamPool, UpstreamRequest } from '../../../ports/upstream.ts';
import { createBlockRequest } from './block-request.ts';
import { createRpcClient, readReply } from './client.ts';

/** Upstreams that each take `tookMs` to fail. */
function failingPool(count: number, tookMs: number) {
  const clock = createManualClock();
  const asked: { readonly label: string; readonly timeoutMs: number }[] = [];
  const pool = {
    size: count,
    candidates: () => Array.from({ length: count }, (_, i) => ({ label: `main-${i}` }) as Upstream),
    report: () => undefined,
    async send({ label }: Upstream, { timeoutMs }: UpstreamRequest) {
      asked.push({ label, timeoutMs });
      await clock.advance(tookMs);
      throw new CodedError('UPSTREAM_FAILED', 'made to fail');
    },
  } as unknown as UpstreamPool;
  const random = { float: () => 0.5, bytes: (length: number) => new Uint8Array(length), uuid: () => 'u' };
  return { asked, clock, client: createRpcClient(pool, clock, random) };
}

test('a call has one deadline over all upstreams that it tries: each gets the remaining time', async () => {
  const { asked, client } = failingPool(5, 400);
  const request = { method: 'getSlot', params: [], tenant: OWN_WORK, timeoutMs: 1_000, maxBytes: 1_000 };
  await assert.rejects(client.ask(request), { code: 'CHAIN_TIMEOUT' });
  assert.deepEqual(
    asked.map(({ timeoutMs }) => timeoutMs),
    [1_000, 600, 200],
  );
});

test('a caller that leaves gets no answer, and no further upstream is asked', async () => {
  const { asked, client } = failingPool(5, 0);
  const controller = new AbortController();
  const request = {
    method: 'getSlot',
    params: [],
    tenant: OWN_WORK,
    timeoutMs: 1_000,
    maxBytes: 1_000,
    signal: controller.signal,
  };
  const asking = client.ask(request);
  controller.abort(new Error('the caller left'));
  await assert.rejects(asking, /the caller left/);
  assert.equal(asked.length, 1);
});

test('a node that always asks for a higher transaction version is given up', async () => {
  let asked = 0;
  const client = {
    async ask() {
      asked += 1;
      if (asked > 1_000) throw new Error('without end');
      return { upstream: { label: 'main-0' } as Upstream, error: { code: -32_015, message: 'unsupported version' } };
    },
  };
  const askBlock = createBlockRequest({
    client,
    limits: { requestTimeoutMs: 1_000, maxBodyBytes: 1_000 },
    maxVersion: 1,
  });
  await assert.rejects(askBlock(7, { commitment: 'confirmed', signal: new AbortController().signal }), {
    code: 'CHAIN_BAD_BLOCK',
  });
});

test('an upstream may ask for a pause, up to a limit', async () => {
  for (const [header, pauseMs] of [
    ['7', 7_000],
    ['999999', 300_000],
    ['9999999', 300_000],
    ['tomorrow', null],
    ['-1', null],
  ] as const) {
    const send = async () => ({
      status: 429,
      headers: { 'retry-after': header },
      whole: null,
      body: Readable.from([]),
    });
    const { outcome } = await readReply(
      { send },
      { tenant: OWN_WORK, body: '{}', timeoutMs: 1_000, maxBytes: 1_000 },
      'getSlot',
    );
    assert.deepEqual(outcome, { kind: 'limited', retryAfterMs: pauseMs }, header);
  }
});
