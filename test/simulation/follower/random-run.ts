import { CodedError } from '../../../src/lib/coded-error.ts';
import type { Store } from '../../../src/ports/store.ts';
import { createSfc32, type Sfc32 } from '../../helpers/sfc32.ts';
import { type FakeUpstream, honest } from './fake-source.ts';
import { createRig } from './rig.ts';

export interface RunReport {
  readonly seed: number;
  readonly isRight: boolean;
  readonly expected: number;
  readonly found: number;
  /** Empty unless it ended the follower for good. */
  readonly fatals: readonly string[];
  readonly stalled: string | null;
}

const ROUNDS = 14;

/**
 * One random life of a follower: the chain grows, skips and forks, upstreams lie and fail, writes fail before and after the commit,
 * and the process restarts. Then the faults end, and the store has to hold what a replay of the chain would give.
 */
export async function randomRun(seed: number, store: Store): Promise<RunReport> {
  const draw = createSfc32(seed ^ 0x5bd1e995);
  const upstreams = Array.from({ length: 1 + draw.below(3) }, (_, index) => honest(`upstream-${index}`));
  const rig = await createRig(store, {
    seed,
    upstreams,
    follow: { window: 10 + draw.below(60), bufferBlocks: 4 + draw.below(16) },
  });
  const faults = { writes: 0 };
  const flaky = flakyStore(store, draw, faults);
  await rig.start({ store: flaky });
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const upstream of upstreams) misbehave(upstream, draw, rig.world.chain);
    faults.writes = draw.float() < 0.3 ? 0.15 : 0;
    const blocks = draw.below(7);
    for (let made = 0; made < blocks; made += 1) rig.world.grow(draw.float() < 0.2 ? draw.below(12) : 0);
    if (draw.float() < 0.35) rig.world.fork(1 + draw.below(9));
    await rig.clock.advance(200 + draw.below(6_000));
    if (draw.float() < 0.2) await rig.restart({ store: flaky });
  }
  for (const upstream of upstreams) Object.assign(upstream, { ...honest(upstream.label), lost: upstream.lost });
  for (const upstream of upstreams) upstream.lost.clear();
  faults.writes = 0;
  // A branch shows itself only by a block above the cursor.
  for (let made = 0; made < 14; made += 1) rig.world.grow(made === 0 ? 40 : 0);
  await rig.settle();
  const isRight = await rig.isSettled();
  const stalled = rig.follower.status().stalled;
  await rig.stop();
  const found = (await rig.ledger()).entries.length;
  return { seed, isRight, expected: rig.truth().entries.length, found, fatals: rig.fatals.map(String), stalled };
}

function misbehave(upstream: FakeUpstream, draw: Sfc32, chain: FakeUpstream['frozen']): void {
  const sometimes = (chance: number, most: number) => (draw.float() < chance ? draw.float() * most : 0);
  upstream.lag = draw.float() < 0.3 ? draw.below(5) : 0;
  upstream.failRate = sometimes(0.3, 0.7);
  upstream.wrongSkipRate = sometimes(0.4, 0.5);
  upstream.hideRate = sometimes(0.4, 0.6);
  upstream.notYetRate = sometimes(0.3, 0.5);
  upstream.frozen = draw.float() < 0.12 ? chain : null;
  upstream.lost.clear();
  if (draw.float() < 0.25) for (const { slot } of chain ?? []) if (draw.float() < 0.2) upstream.lost.add(slot);
}

function flakyStore(store: Store, draw: Sfc32, faults: { writes: number }): Store {
  const fails = () => draw.float() < faults.writes;
  return {
    ...store,
    async write(work) {
      if (fails()) throw new CodedError('STORE_BUSY', 'the database was locked', { retryable: true });
      // Dies between the rows and the commit.
      const inside = fails();
      const result = await store.write(async (tx) => {
        const value = await work(tx);
        if (inside) throw new CodedError('STORE_UNREACHABLE', 'the connection broke', { retryable: true });
        return value;
      });
      // The commit happened, its answer is lost.
      if (fails()) throw new CodedError('STORE_UNREACHABLE', 'the connection broke', { retryable: true });
      return result;
    },
  };
}
