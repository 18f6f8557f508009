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

test('a check that is not required is shown, and leaves the daemon ready', async () => {
  const health = createHealth({
    checks: [
      { name: 'store', run: async () => ({ ok: true, detail: 'it answers' }) },
      { name: 'sinks', required: false, run: async () => ({ ok: false, detail: 'a sink waits' }) },
    ],
    chains: () => [],
    maxReadyLag: { slots: 1 } as never,
    version: '0',
    clock: createSystemClock(),
    log: createMemoryLog(),
  });
  health.setStarted();
  const { ready, checks } = await health.ready();
  assert.equal(ready, true);
  assert.deepEqual(checks.at(-1), { name: 'sinks', ok: false, detail: 'a sink waits', required: false });
});
