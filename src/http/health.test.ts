import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createMemoryLog } from '../../test/helpers/memory-log.ts';
import { createSystemClock } from '../adapters/clock.ts';
import { createHealth } from './health.ts';

test('a daemon that fails while its checks run says so in the answer that calls it not ready', async () => {
  let release = (): void => undefined;
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  const health = createHealth({
    checks: [{ name: 'store', run: () => held.then(() => ({ ok: true, detail: 'it answers' })) }],
    chains: () => [],
    maxReadyLag: { slots: 1 } as never,
    version: '0',
    clock: createSystemClock(),
    log: createMemoryLog(),
  });
  health.setStarted();
  const asked = health.ready();
  health.setFailed(new Error('the disk is full'));
  health.setDraining();
  release();
  const { ready, checks } = await asked;
  assert.equal(ready, false);
  assert.deepEqual(
    checks.filter(({ ok }) => !ok).map(({ name }) => name),
    ['daemon'],
  );
});
