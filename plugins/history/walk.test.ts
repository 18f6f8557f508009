import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ChainReader } from '../../src/plugin/plugin.ts';
import { createNewestSlot } from './walk.ts';

test('the newest final slot never goes back when the follower knows less than the upstream reported', async () => {
  const caughtUp = { stalled: null, tipSlot: 140, cursorSlot: 140, finalizedSlot: 98 };
  let status: typeof caughtUp = { ...caughtUp, cursorSlot: 100 };
  const chain = { status: () => status, call: async () => 108 } as unknown as ChainReader;
  const newestSlot = createNewestSlot(chain);
  const { signal } = new AbortController();
  assert.equal(await newestSlot('finalized', signal), 108);
  status = caughtUp;
  assert.equal(await newestSlot('finalized', signal), 108);
  assert.equal(await newestSlot('confirmed', signal), 140);
  status = { ...caughtUp, finalizedSlot: 112 };
  assert.equal(await newestSlot('finalized', signal), 112);
});
