import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import type { Store } from '../../../src/ports/store.ts';
import { sqliteStore } from '../../helpers/store.ts';
import { createRig, type RigOptions } from './harness.ts';

export async function rigOf(t: TestContext, options: RigOptions = {}) {
  const store = await sqliteStore(t);
  const rig = await createRig(store, options);
  t.after(() => rig.stop());
  return { store, rig };
}

export function grow(rig: { world: { grow(skips?: number, transactions?: number): void } }, count: number): void {
  for (let made = 0; made < count; made += 1) rig.world.grow(0, made % 3);
}

export async function expectTruth(rig: Awaited<ReturnType<typeof createRig>>, owner?: string): Promise<void> {
  await rig.settle(300_000, owner);
  assert.deepEqual(await rig.ledger(owner), rig.truth());
  assert.deepEqual(rig.fatals, []);
}

/** Follows a short chain to its end and stops; then the chain goes on without it. */
export async function leaveBehind(rig: Awaited<ReturnType<typeof createRig>>, count: number): Promise<void> {
  grow(rig, 10);
  await rig.start();
  await expectTruth(rig);
  await rig.stop();
  grow(rig, count);
}

/** Of the whole chain (`*`), or of one processor. */
export const gapsOf = async (store: Store, processor = '*') =>
  await store.read
    .selectFrom('follow_gaps')
    .select(['from_slot', 'to_slot', 'reason', 'status'])
    .where('processor', '=', processor)
    .orderBy('from_slot')
    .execute();
