import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import { createManualClock } from '../../../../test/helpers/manual-clock.ts';
import { createMemoryLog } from '../../../../test/helpers/memory-log.ts';
import { createBudgets } from '../../../budgets.ts';
import { HandlerContext } from '../../../http/handler-context.ts';
import { tenantOf } from '../../../ports/access.ts';
import type { UpstreamPool, UpstreamRequest } from '../../../ports/upstream.ts';
import { LazySignal } from '../../../runtime/lazy-signal.ts';
import { createChainReader } from './reader.ts';

test('reads of a plugin with the signal of its call count for the tenant of that call', async () => {
  const asked: (string | undefined)[] = [];
  const pool = {
    candidates: () => [{ label: 'main-0' }],
    states: () => [],
    report: () => undefined,
    async send(_upstream: unknown, { tenant }: UpstreamRequest) {
      asked.push(tenant.id);
      return { status: 200, headers: {}, body: Readable.from([Buffer.from('{"jsonrpc":"2.0","id":1,"result":7}')]) };
    },
  } as unknown as UpstreamPool;
  const reader = createChainReader({
    chain: 'main',
    kind: 'rpc',
    pool,
    clock: createManualClock(),
    timeoutMs: 1_000,
    maxBytes: 10_000,
    random: { float: () => 0.5, bytes: (count) => new Uint8Array(count), uuid: () => 'u' },
    follower: { status: () => ({}), onReleased: () => () => undefined },
  });
  const caller = { projectId: 'p', keyId: 'k', plan: 'free', wallet: null };
  const outer = {
    requestId: 'r',
    caller,
    remoteAddress: '127.0.0.1',
    log: createMemoryLog(),
    signal: new LazySignal().signal,
    tenant: createBudgets().tenantOf(caller, '127.0.0.1'),
  };
  const whole = new HandlerContext(outer);
  const item = new HandlerContext(outer, new LazySignal(outer));
  for (const { tenant } of [whole, item]) assert.equal(await reader.call('getSlot', [], { tenant }), 7);
  for (const { signal } of [whole, item]) await reader.call('getSlot', [], { tenant: tenantOf(signal) });
  await reader.call('getSlot', [], { tenant: tenantOf(new AbortController().signal) });
  assert.deepEqual(asked, ['p', 'p', 'p', 'p', '']);
});
