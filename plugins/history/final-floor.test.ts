import assert from 'node:assert/strict';
import { test } from 'node:test';
import { OWN_WORK } from '../../src/ports/access.ts';
import type { AskAgain } from '../../src/ports/address-history.ts';
import type { Clock } from '../../src/ports/clock.ts';
import { createFinalFloor } from './final-floor.ts';

const FINAL = 100;
const said = (sentAt: number, upstream = 'upstream-0') => ({ resultText: 'null', upstream, sentAt });
const NEWEST = { slot: Number.MAX_SAFE_INTEGER };

function createFloor() {
  const state = { now: 5_000, takesMs: 10, tip: FINAL, label: 'upstream-0' };
  const floor = createFinalFloor({
    joined: { heads: async () => ({ finalSlot: FINAL, newestSlot: FINAL }) },
    finalizedSlot: () => null,
    clock: { monotonic: () => state.now } as Clock,
  });
  const again: AskAgain = async () => {
    const sentAt = state.now;
    state.now += state.takesMs;
    return { resultText: String(state.tip), upstream: state.label, sentAt };
  };
  return { floor, again, state };
}

test('a denial rests only on tips from before the call, of the same upstream, and not for long', async () => {
  const { floor, again, state } = createFloor();
  assert.equal(floor.rests(NEWEST, said(5_000)), false);
  assert.equal(await floor.whyBehind('upstream-0', again, OWN_WORK), null);
  // The tips were asked for at 5,000, and there at 5,020.
  for (const [sentAt, rests] of [
    [5_019, false],
    [5_020, true],
    [6_000, true],
    [6_001, false],
  ] as const)
    assert.equal(floor.rests(NEWEST, said(sentAt)), rests, String(sentAt));
  assert.equal(floor.rests(NEWEST, said(5_020, 'upstream-1')), false);
  assert.equal(floor.rests({ slot: FINAL - 1 }, said(5_020)), false);
  assert.equal(floor.rests({ slot: FINAL }, said(5_020)), true);
  // Read so late that the node may be another one by now.
  state.takesMs = 600;
  assert.equal(await floor.whyBehind('upstream-0', again, OWN_WORK), null);
  assert.equal(floor.rests(NEWEST, said(state.now)), false);
});

test('an upstream below what was final is starting', async () => {
  const { floor, again, state } = createFloor();
  state.tip = FINAL - 1;
  assert.match(
    (await floor.whyBehind('upstream-0', again, OWN_WORK)) ?? '',
    /starting: it is at slot 99, and slot 100/,
  );
  assert.equal(floor.rests(NEWEST, said(6_000)), false);
});
