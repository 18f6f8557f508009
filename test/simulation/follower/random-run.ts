import { CodedError, codeOf } from '../../../src/lib/coded-error.ts';
import type { Store } from '../../../src/ports/store.ts';
import { createLedgerProcessor } from '../../helpers/ledger-processor.ts';
import { createSfc32, type Sfc32 } from '../../helpers/sfc32.ts';
import { addHooks, createDeliveries, deliverSome, outboxFault } from './deliveries.ts';
import { type FakeUpstream, honest } from './fake-node.ts';
import { createRig } from './harness.ts';
import { FIRST_SLOT, type World } from './world.ts';

export interface RunReport {
  readonly seed: number;
  readonly isRight: boolean;
  /** What is wrong beside the rows of the processors, in words. */
  readonly fault: string | null;
  readonly expected: number;
  readonly found: number;
  /** Empty unless it ended the follower for good. */
  readonly fatals: readonly string[];
  readonly stalled: string | null;
}

/** Whether a life ended in the truth. */
export const isGood = ({ isRight, fault, fatals, stalled }: RunReport): boolean =>
  isRight && fault === null && fatals.length === 0 && stalled === null;

const MIN_ROUNDS = 4;
const MAX_ROUNDS = 14;

/**
 * One random life of a follower: the chain grows, skips and forks, upstreams lie and fail, writes fail before and after the commit,
 * and the process restarts or is killed at any write,
 * a second processor comes later. Then the faults end, and the store has to hold what a replay of the chain would give.
 */
export async function randomRun(seed: number, store: Store): Promise<RunReport> {
  const draw = createSfc32(seed ^ 0x5bd1e995);
  const mischief = createSfc32(seed ^ 0x2545f491);
  const era = createSfc32(seed ^ 0x1b873593);
  const upstreams = Array.from({ length: 1 + draw.below(3) }, (_, index) => honest(`upstream-${index}`));
  const rig = await createRig(store, {
    seed,
    upstreams,
    follow: { window: 10 + draw.below(60), bufferBlocks: 4 + draw.below(16) },
    finalityDepth: draw.float() < 0.3 ? 12 : 32,
    hasStream: draw.float() < 0.3,
    // Lower, the same or higher slots.
    otherFirstSlot: [1, FIRST_SLOT, FIRST_SLOT + 40][mischief.below(3)]!,
  });
  rig.world.sharesEmptyHashes = era.float() < 0.5;
  // A draw of its own, so that the other faults of a seed stay what they were.
  const forms = createSfc32(seed ^ 0x85ebca6b);
  rig.world.hasForms = forms.float() < 0.5;
  // Upstreams that fail and lag, but never say anything false: nobody may call them liars, whatever their blocks look like.
  const isHonest = forms.float() < 0.2;
  await addHooks(store);
  const faults: Faults = { writes: 0, writesToLive: Number.POSITIVE_INFINITY, isDead: false };
  const flaky = flakyStore(store, draw, faults);
  const late = createLedgerProcessor({ name: 'late', startSlot: FIRST_SLOT });
  const own = () => [createLedgerProcessor(), createDeliveries(flaky, rig.clock, rig.random)];
  let hasLate = false;
  let blamed: string | null = null;
  const noteBlame = async () => {
    blamed ??= /^parhelion_upstream_contradictions_total\{.*\} [1-9].*$/m.exec(await rig.metrics())?.[0] ?? null;
  };
  /** As a new process would begin after a stop, or after a kill at any write. */
  const restart = async () => {
    hasLate ||= draw.float() < 0.3;
    await noteBlame();
    await rig.stop();
    Object.assign(faults, { writesToLive: Number.POSITIVE_INFINITY, isDead: false });
    await rig.start({ store: flaky, processors: hasLate ? [...own(), late] : own() });
  };
  await rig.start({ store: flaky, processors: own() });
  const rounds = draw.between(MIN_ROUNDS, MAX_ROUNDS);
  for (let round = 0; round < rounds; round += 1) {
    for (const upstream of upstreams) misbehave(upstream, draw, rig.world);
    for (const upstream of upstreams) {
      upstream.wrongPruneRate = mischief.float() < 0.2 ? 0.3 : 0;
      upstream.elsewhere = mischief.float() < 0.12 ? rig.other : null;
      upstream.isDown = mischief.float() < 0.05;
      if (isHonest) onlyFails(upstream);
    }
    if (era.float() < 0.1) rig.world.migrate();
    for (const upstream of upstreams) {
      upstream.version = era.float() < 0.1 ? '4.2.1' : '4.4.0';
      upstream.lacksCertificate = era.float() < 0.2;
      upstream.refusesConfirmed = rig.world.genesisSlot !== null && era.float() < 0.2;
    }
    for (let made = mischief.below(12); made > 0; made -= 1) rig.other.grow(0, mischief.below(4));
    faults.writes = draw.float() < 0.3 ? 0.15 : 0;
    const blocks = draw.float() < 0.15 ? draw.below(40) : draw.below(7);
    for (let made = 0; made < blocks; made += 1) rig.world.grow(draw.float() < 0.2 ? draw.below(12) : 0);
    if (draw.float() < 0.35) rig.world.fork(1 + draw.below(draw.float() < 0.3 ? 31 : 9));
    if (draw.float() < 0.25) faults.writesToLive = draw.below(8);
    await rig.clock.advance(200 + draw.below(6_000));
    if (draw.float() < 0.3) await deliverSome(store, draw);
    if (faults.isDead || draw.float() < 0.2) await restart();
  }
  for (const upstream of upstreams) Object.assign(upstream, { ...honest(upstream.label), lost: upstream.lost });
  for (const upstream of upstreams) upstream.lost.clear();
  faults.writes = 0;
  hasLate = true;
  await restart();
  // A branch shows itself only by a block above the cursor.
  const { highestSlot, slot } = rig.world;
  for (let made = 0; made < 14; made += 1) rig.world.grow(made === 0 ? 40 + highestSlot - slot : 0);
  await rig.settle();
  await rig.settle(300_000, 'late@1');
  const isRight = (await rig.isSettled()) && (await rig.isSettled('late@1'));
  await noteBlame();
  const fault =
    (isHonest ? blamed : null) ?? (await outboxFault(store, rig.world)) ?? (await positionFault(store, rig.world, 4));
  const stalled = rig.follower.status().stalled;
  await rig.stop();
  const found = (await rig.ledger()).entries.length;
  return {
    seed,
    isRight,
    fault,
    expected: rig.truth().entries.length,
    found,
    fatals: rig.fatals.filter((error) => codeOf(error) !== 'STORE_CLOSED').map(String),
    stalled,
  };
}

/** Another way to be wrong for every round. */
export function misbehave(upstream: FakeUpstream, draw: Sfc32, { chain, finalizedSlot }: World): void {
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
  upstream.frozen = draw.float() < 0.12 ? { chain, finalizedSlot } : null;
  upstream.lost.clear();
  if (draw.float() < 0.25) for (const { slot } of chain) if (draw.float() < 0.2) upstream.lost.add(slot);
}

/** Takes back what is a lie; what an honest node may do as well stays. */
function onlyFails(upstream: FakeUpstream): void {
  const { lag, failRate, unwellRate, notYetRate, isDown } = upstream;
  Object.assign(upstream, {
    ...honest(upstream.label),
    lost: upstream.lost,
    lag,
    failRate,
    unwellRate,
    notYetRate,
    isDown,
  });
  upstream.lost.clear();
}

/** Headers and cursors (so many, where that is known) are those of a replay of the chain. */
export async function positionFault(store: Store, { chain }: World, count?: number): Promise<string | null> {
  const tip = chain.at(-1)!;
  const cursors = await store.read.selectFrom('follow_cursors').select(['processor', 'slot', 'blockhash']).execute();
  const astray = cursors.find(({ slot, blockhash }) => slot !== tip.slot || blockhash !== tip.blockhash);
  if (astray !== undefined || cursors.length !== (count ?? cursors.length))
    return `${cursors.length} cursors, astray: ${JSON.stringify(astray)}`;
  const headers = await store.read.selectFrom('follow_headers').selectAll().orderBy('slot').execute();
  const told = headers.map((row) => [row.slot, row.parent_slot, row.blockhash, row.block_height, row.block_time]);
  const wanted = chain.map((block) => [
    block.slot,
    block.parentSlot,
    block.blockhash,
    block.blockHeight,
    block.blockTime,
  ]);
  return JSON.stringify(told) === JSON.stringify(wanted) ? null : 'the stored headers are not those of the chain';
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
