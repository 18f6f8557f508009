import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ChainReader } from '../../../src/ports/chain.ts';
import type { UpstreamPool } from '../../../src/ports/upstream.ts';
import { createManualClock } from '../../../test/helpers/manual-clock.ts';
import { createChainIdentity } from './cached-ask.ts';

const MAINNET = '5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d';

/** Only the inputs of the identity: the slots of the upstreams and the genesis hash of the reader. */
function at(genesisHash: string | null) {
  const slots: (number | null)[] = [null];
  const pool = { states: () => slots.map((slot) => ({ slot })) } as unknown as UpstreamPool;
  const call = () => Promise.reject(new Error('no upstream answers'));
  const reader = { status: () => ({ genesisHash }), call } as unknown as ChainReader;
  let now = 0;
  // A result is cached briefly: each look-up here is later than that.
  const clock = { ...createManualClock(), monotonic: () => (now += 1_000) };
  return { slots, identity: createChainIdentity(pool, reader, clock) };
}

test('a chain that restarts from its beginning has another life', () => {
  const { slots, identity } = at('11111111111111111111111111111112');
  assert.equal(identity.current()?.life, 0);
  slots[0] = 5_000;
  assert.equal(identity.current()?.life, 0);
  slots[0] = 4_990;
  assert.equal(identity.current()?.life, 0, 'a node that is a little behind');
  slots[0] = 31;
  assert.equal(identity.current()?.life, 1);
  slots[0] = 40;
  assert.equal(identity.current()?.life, 1);
});

test('the best upstream decides, and silence changes nothing', () => {
  const { slots, identity } = at('11111111111111111111111111111112');
  slots.splice(0, 1, 5_000, 10);
  assert.equal(identity.current()?.life, 0);
  slots.splice(0, 2, null, null);
  assert.equal(identity.current()?.life, 0);
});

test('a public cluster has one life', () => {
  const { slots, identity } = at(MAINNET);
  slots[0] = 300_000_000;
  identity.current();
  slots[0] = 5;
  assert.deepEqual(identity.current(), { genesisHash: MAINNET, life: 0, isPublic: true });
});

test('an unknown chain has no identity', () => {
  assert.equal(at(null).identity.current(), null);
});
