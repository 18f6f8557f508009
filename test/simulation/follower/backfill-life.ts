import { CodedError, codeOf } from '../../../src/lib/coded-error.ts';
import type { Store } from '../../../src/ports/store.ts';
import { createOrderFreeLedger } from '../../helpers/order-free-ledger.ts';
import { createSfc32, type Sfc32 } from '../../helpers/sfc32.ts';
import { gapsOf } from './case-kit.ts';
import { type FakeUpstream, honest } from './fake-node.ts';
import { createRig } from './harness.ts';
import type { World } from './world.ts';

const ROUNDS = 8;

/**
 * Long stops, forks, pruning, lies, lost blocks, failing writes and restarts; at last every block can be had, and every gap has to
 * close. Returns what is wrong then: nothing but the number of gaps when all is well.
 */
export async function backfillLife(seed: number, given: Store) {
  const draw = createSfc32(seed ^ 0x2545f491);
  const upstreams = Array.from({ length: 1 + draw.below(2) }, (_, index) => honest(`upstream-${index}`));
  const follow = {
    window: 10 + draw.below(40),
    maxCatchupSlots: 15 + draw.below(20),
    maxGapSlots: 5 + draw.below(40),
    ...({ holePolicy: draw.float() < 0.5 ? 'gap' : 'wait', holeTimeoutSeconds: 20 } as const),
  };
  const rig = await createRig(given, { seed, upstreams, follow, processors: [createOrderFreeLedger()] });
  const { store } = rig;
  const faults = { rate: 0 };
  const flaky = flakyStore(store, draw, faults);
  await rig.start({ store: flaky });
  for (let round = 0; round < ROUNDS; round += 1) {
    const isStopped = draw.float() < 0.5;
    if (isStopped) await rig.stop();
    const blocks = draw.below(isStopped ? 50 : 8);
    for (let made = 0; made < blocks; made += 1) rig.world.grow(draw.float() < 0.2 ? draw.below(6) : 0);
    if (draw.float() < 0.3) rig.world.fork(1 + draw.below(6));
    const prunable = await prunableBelow(rig.world, store);
    for (const upstream of upstreams) misbehave(upstream, draw, rig.world, prunable);
    faults.rate = draw.float() < 0.4 ? 0.1 : 0;
    if (isStopped) await rig.start({ store: flaky });
    await rig.clock.advance(1_000 + draw.below(60_000));
  }
  for (const upstream of upstreams) {
    upstream.lost.clear();
    Object.assign(upstream, honest(upstream.label), { lost: upstream.lost });
  }
  faults.rate = 0;
  await rig.restart({ store });
  rig.world.grow(40 + rig.world.highestSlot - rig.world.slot);
  await rig.clock.advance(5_000);
  // What was passed over last becomes final.
  for (let made = 0; made < 60; made += 1) rig.world.grow();
  await rig.settle(1_200_000);
  // One without blocks closes without a change of rows. The chain goes on meanwhile: one that makes no block is stalled.
  let records: Awaited<ReturnType<typeof gapsOf>>;
  let tries = 0;
  do {
    rig.world.grow();
    await rig.clock.advance(5_000);
    records = await gapsOf(store);
    tries += 1;
  } while (tries < 200 && records.some(({ status }) => status !== 'filled'));
  const report = {
    isRight: await rig.isSettled(),
    left: records.filter(({ status }) => status !== 'filled'),
    stalled: rig.follower.status().stalled,
    fatals: rig.fatals.filter((error) => codeOf(error) !== 'STORE_CLOSED').map(String),
  };
  await rig.stop();
  return { ...report, gaps: records.length };
}

/**
 * Nodes drop final blocks only. What was forked away and can be seen by nobody any more, because all above it was dropped before the
 * follower looked, is for an operator: that does not happen here.
 */
async function prunableBelow({ finalizedSlot, blockAt }: World, store: Store): Promise<number> {
  const headers = await store.read.selectFrom('follow_headers').select(['slot', 'blockhash']).execute();
  const astray = headers.filter(({ slot, blockhash }) => blockAt(slot)?.blockhash !== blockhash);
  return Math.min(finalizedSlot, ...astray.map(({ slot }) => slot));
}

function misbehave(upstream: FakeUpstream, draw: Sfc32, { chain }: World, prunable: number): void {
  const wanted = draw.float() < 0.5 ? (chain.at(-1 - draw.below(40))?.slot ?? 0) : 0;
  upstream.prunedBelow = Math.min(wanted, prunable);
  upstream.lieRate = draw.float() < 0.3 ? 0.3 : 0;
  upstream.wrongSkipRate = draw.float() < 0.3 ? 0.4 : 0;
  upstream.hideRate = draw.float() < 0.3 ? 0.5 : 0;
  upstream.failRate = draw.float() < 0.3 ? 0.4 : 0;
  upstream.lost.clear();
  if (draw.float() < 0.3) for (const { slot } of chain) if (draw.float() < 0.1) upstream.lost.add(slot);
}

function flakyStore(store: Store, draw: Sfc32, faults: { readonly rate: number }): Store {
  const broken = () => new CodedError('STORE_UNREACHABLE', 'the connection broke', { retryable: true });
  return {
    ...store,
    async write(work) {
      const dies = draw.float() < faults.rate ? draw.below(3) : -1;
      if (dies === 0) throw broken();
      const result = await store.write(async (tx) => {
        const value = await work(tx);
        if (dies === 1) throw broken();
        return value;
      });
      if (dies === 2) throw broken();
      return result;
    },
  };
}
