import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Store } from '../../../src/ports/store.ts';
import { bySeed, seedsOf } from '../../helpers/run-part.ts';
import { quickStore } from '../follower/quick-store.ts';
import { clear, Life, pollingLife, preparePolling, SOL } from './polling-life.ts';
import { deedOf } from './wallet-world.ts';

const SEEDS = 200;
/**
 * A wallet whose past is read while the follower is behind what is final; a list that a node behind the other one goes on with; a list that
 * begins at a transaction which is not final yet; a cursor whose place nobody knew when it was looked up.
 */
const NAMED = [108_605, 120_953, 204_579, 215_665, 216_331];

bySeed(SEEDS, (seeds) => {
  test(`clients that poll a history see everything once, whatever blocks and upstreams do: ${SEEDS} seeds`, async (t) => {
    const { store, remove } = await quickStore();
    t.after(remove);
    await preparePolling(store);
    let shown = 0;
    for (const seed of [...seeds, ...seedsOf(NAMED)]) {
      const report = await pollingLife(seed, store);
      assert.equal(
        report.fault,
        null,
        `repeat with: npm run simulate -- --polling --from ${seed} --seeds 1\n${report.fault}`,
      );
      shown += report.shown;
    }
    assert.ok(shown > seeds.length * 10, String(shown));
  });
});

test('"no such data" of a wallet is cached until a block brings it', async (t) => {
  const { store, remove } = await quickStore();
  t.after(remove);
  await preparePolling(store);
  const life = await lifeWithoutFunding(store);
  const questions = [
    () => life.ask('fundedBy', {}),
    () => life.get('history', { limit: 10, tokenAccounts: 'none' }),
    () => life.get('transfers', { limit: 10 }),
    () => life.ask('balanceAt', { mint: SOL, slot: life.world.slot }),
  ];
  const askAll = async () => {
    for (const ask of questions) await ask();
    await life.work();
    life.world.grow(0, 0);
    await life.apply();
  };
  // It is indexed, and its blocks come.
  for (let turn = 0; turn < 4; turn += 1) await askAll();
  for (const ask of questions) {
    const before = life.calls;
    const answer = await ask();
    assert.equal(life.calls - before, 0, String(ask));
    if (ask === questions[0]) assert.equal(answer, 'unknown');
  }
  // The first block with a payment shows at once.
  while (!life.world.chain.at(-1)?.signatures.some((one) => deedOf(one).isNamed)) life.world.grow(0, 1);
  while (life.applied.at(-1)?.slot !== life.world.slot) await life.apply();
  const found = await life.ask('fundedBy', {});
  assert.ok(typeof found !== 'string');
  const { signature, amountRaw } = found.json as { signature: string; amountRaw: string };
  assert.deepEqual([deedOf(signature).isNamed, amountRaw], [true, '7']);
});

/** A quiet world with one honest node, in which nothing was paid to the wallet yet. */
async function lifeWithoutFunding(store: Store): Promise<Life> {
  for (let seed = 1; ; seed += 1) {
    const life = new Life(seed, store);
    life.isQuiet = true;
    for (const node of life.kind.nodes) Object.assign(node, { lag: 0, isDown: false });
    const isFunded = life.truth().length > 0;
    if (isFunded || life.kind.index !== 'full') continue;
    for (let count = 20; count > 0; count -= 1) life.world.grow(0, 0);
    await clear(store);
    while (life.applied.at(-1)?.slot !== life.world.slot) await life.apply();
    return life;
  }
}
