import { CodedError, codeOf } from '../../../src/lib/coded-error.ts';
import type { Store } from '../../../src/ports/store.ts';
import { createLedgerProcessor } from '../../helpers/ledger-processor.ts';
import { createSfc32, type Sfc32 } from '../../helpers/sfc32.ts';
import { type FakeUpstream, honest } from './fake-node.ts';
import { createRig } from './rig.ts';
import { FIRST_SLOT } from './world.ts';

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
 * and the process restarts or is killed at any write,
 * a second processor comes later. Then the faults end, and the store has to hold what a replay of the chain would give.
 */
export async function randomRun(seed: number, store: Store): Promise<RunReport> {
  const draw = createSfc32(seed ^ 0x5bd1e995);
  const upstreams = Array.from({ length: 1 + draw.below(3) }, (_, index) => honest(`upstream-${index}`));
  const rig = await createRig(store, {
    seed,
    upstreams,
    follow: { window: 10 + draw.below(60), bufferBlocks: 4 + draw.below(16) },
  });
  const faults: Faults = { writes: 0, writesToLive: Number.POSITIVE_INFINITY, isDead: false };
  const flaky = flakyStore(store, draw, faults);
  const late = createLedgerProcessor({ name: 'late', startSlot: FIRST_SLOT });
  let processors = [createLedgerProcessor()];
  /** As a new process would begin after a stop, or after a kill at any write. */
  const restart = async () => {
    if (draw.float() < 0.3) processors = [createLedgerProcessor(), late];
    await rig.stop();
    Object.assign(faults, { writesToLive: Number.POSITIVE_INFINITY, isDead: false });
    await rig.start({ store: flaky, processors });
  };
  await rig.start({ store: flaky });
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const upstream of upstreams) misbehave(upstream, draw, rig.world.chain);
    faults.writes = draw.float() < 0.3 ? 0.15 : 0;
    const blocks = draw.below(7);
    for (let made = 0; made < blocks; made += 1) rig.world.grow(draw.float() < 0.2 ? draw.below(12) : 0);
    if (draw.float() < 0.35) rig.world.fork(1 + draw.below(9));
    if (draw.float() < 0.25) faults.writesToLive = draw.below(8);
    await rig.clock.advance(200 + draw.below(6_000));
    if (faults.isDead || draw.float() < 0.2) await restart();
  }
  for (const upstream of upstreams) Object.assign(upstream, { ...honest(upstream.label), lost: upstream.lost });
  for (const upstream of upstreams) upstream.lost.clear();
  faults.writes = 0;
  processors = [createLedgerProcessor(), late];
  await restart();
  // A branch shows itself only by a block above the cursor.
  const { highestSlot, slot } = rig.world;
  for (let made = 0; made < 14; made += 1) rig.world.grow(made === 0 ? 40 + highestSlot - slot : 0);
  await rig.settle();
  await rig.settle(300_000, 'late@1');
  const isRight = (await rig.isSettled()) && (await rig.isSettled('late@1'));
  const stalled = rig.follower.status().stalled;
  await rig.stop();
  const found = (await rig.ledger()).entries.length;
  return {
    seed,
    isRight,
    expected: rig.truth().entries.length,
    found,
    fatals: rig.fatals.filter((error) => codeOf(error) !== 'STORE_CLOSED').map(String),
    stalled,
  };
}

function misbehave(upstream: FakeUpstream, draw: Sfc32, chain: FakeUpstream['frozen']): void {
  const sometimes = (chance: number, most: number) => (draw.float() < chance ? draw.float() * most : 0);
  upstream.lag = draw.float() < 0.3 ? draw.below(5) : 0;
  upstream.failRate = sometimes(0.3, 0.7);
  upstream.unwellRate = sometimes(0.2, 0.5);
  upstream.brokenRate = sometimes(0.2, 0.3);
  upstream.wrongSkipRate = sometimes(0.4, 0.5);
  upstream.hideRate = sometimes(0.4, 0.6);
  upstream.notYetRate = sometimes(0.3, 0.5);
  upstream.lieRate = sometimes(0.25, 0.3);
  upstream.tipBackBy = draw.float() < 0.2 ? 1 + draw.below(50) : 0;
  upstream.frozen = draw.float() < 0.12 ? chain : null;
  upstream.lost.clear();
  if (draw.float() < 0.25) for (const { slot } of chain ?? []) if (draw.float() < 0.2) upstream.lost.add(slot);
}

interface Faults {
  /** Share of failing writes. */
  writes: number;
  /** How many more writes the process lives; it ends before, inside or after the commit of the last one. */
  writesToLive: number;
  isDead: boolean;
}

function flakyStore(store: Store, draw: Sfc32, faults: Faults): Store {
  const fails = () => draw.float() < faults.writes;
  const killed = new CodedError('STORE_CLOSED', 'the process was killed');
  return {
    ...store,
    async write(work) {
      if (faults.isDead) throw killed;
      faults.writesToLive -= 1;
      const diesAt = faults.writesToLive < 0 ? draw.below(3) : -1;
      if (diesAt >= 0) faults.isDead = true;
      if (diesAt === 0) throw killed;
      if (fails()) throw new CodedError('STORE_BUSY', 'the database was locked', { retryable: true });
      // Dies between the rows and the commit.
      const inside = fails();
      const result = await store.write(async (tx) => {
        const value = await work(tx);
        if (diesAt === 1) throw killed;
        if (inside) throw new CodedError('STORE_UNREACHABLE', 'the connection broke', { retryable: true });
        return value;
      });
      if (diesAt === 2) throw killed;
      // The commit happened, its answer is lost.
      if (fails()) throw new CodedError('STORE_UNREACHABLE', 'the connection broke', { retryable: true });
      return result;
    },
  };
}
