import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createElection } from '../../../src/chain/election.ts';
import { codeOf } from '../../../src/lib/coded-error.ts';
import type { Store } from '../../../src/ports/store.ts';
import { bySeed } from '../../helpers/run-part.ts';
import { createSfc32 } from '../../helpers/sfc32.ts';
import { eachStore } from '../../helpers/store.ts';
import { createRig } from './harness.ts';

const SEEDS = Number(process.env['PARHELION_LEADER_SEEDS'] ?? 6);
const ROUNDS = 7;
const LEASE_MS = 3_000;

/** A process that can be paused at any write: before it, or between its commit and the news of it. */
function pausable(store: Store) {
  let gate = Promise.resolve();
  let open = (): void => undefined;
  const write: Store['write'] = async (work) => {
    await gate;
    const result = await store.write(work);
    await gate;
    return result;
  };
  return {
    store: { ...store, write },
    pause() {
      gate = new Promise((resolve) => {
        open = resolve;
      });
    },
    resume: () => open(),
  };
}

/** Leaders that stop, or are paused and continue when another one leads, while the chain grows and forks. */
async function randomLife(seed: number, given: Store) {
  const draw = createSfc32(seed ^ 0x51ed270b);
  const rig = await createRig(given, { seed });
  const { store } = rig;
  const lost: unknown[] = [];
  let paused = 0;
  let before: { end(): Promise<void> } | null = null;
  for (let round = 0; round < ROUNDS; round += 1) {
    const held = pausable(store);
    const election = createElection({
      chain: 'main',
      store: held.store,
      name: `process-${round}`,
      leaseMs: LEASE_MS,
      clock: rig.clock,
      log: rig.log,
      lost: (error) => void lost.push(error),
    });
    let hasWon = false;
    const won = election.untilLeading().then((value) => {
      hasWon = value;
    });
    for (let waited = 0; !hasWon && waited < 200; waited += 1) await rig.clock.advance(250);
    assert.ok(hasWon, `nobody leads in round ${round}`);
    await won;
    const follower = await rig.start({ store: election.store });
    for (let step = 0; step < 4; step += 1) {
      for (let made = 0; made < 1 + draw.below(8); made += 1) rig.world.grow(draw.below(3), draw.below(3));
      if (draw.below(3) === 0) rig.world.fork(1 + draw.below(4));
      await rig.clock.advance(draw.below(2_000));
      // The one before wakes up when this one is at work, with whatever it was about to write.
      if (step === 2) await before?.end();
      if (step === 2) before = null;
    }
    const isLast = round === ROUNDS - 1;
    const isPaused = !isLast && draw.below(3) > 0;
    if (isPaused) {
      paused += 1;
      held.pause();
      before = {
        async end() {
          held.resume();
          await rig.clock.advance(LEASE_MS);
          await follower.stop();
          await election.resign();
        },
      };
      continue;
    }
    // A branch that is higher than all others were.
    if (isLast) rig.world.grow(40 + rig.world.highestSlot - rig.world.slot);
    if (isLast) await rig.settle();
    const report = { isRight: await rig.isSettled(), ledger: await rig.ledger(), truth: rig.truth() };
    await follower.stop();
    await election.resign();
    if (isLast)
      return { ...report, paused, errors: [...lost, ...rig.fatals].map(codeOf), epoch: election.leader()?.epoch };
  }
  throw new Error('no last round');
}

bySeed(SEEDS, (seeds) => {
  eachStore('random lives of leaders', ({ store, dialect }) => {
    for (const seed of dialect === 'sqlite' ? seeds : seeds.slice(0, 2))
      test(`seed ${seed}: whoever was paused writes nothing any more, and the store holds what a replay would give`, async (t) => {
        const { isRight, ledger, truth, paused, errors, epoch } = await randomLife(seed, await store(t));
        assert.deepEqual(ledger, truth);
        assert.ok(isRight);
        assert.equal(epoch, ROUNDS);
        assert.ok(paused === 0 || errors.length > 0, 'who was paused was told');
        assert.deepEqual(
          errors.filter((code) => code !== 'FOLLOW_FENCED'),
          [],
        );
      });
  });
});
