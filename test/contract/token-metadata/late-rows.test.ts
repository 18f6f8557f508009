/** Facts are written a little after they were read: whatever the chain does meanwhile, none stays that is no longer so. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createMintStore, type KeptFacts, migrations } from '../../../plugins/token-metadata/store.ts';
import {
  createMintIndex,
  createQuietLook,
  createWatchProcessor,
  type QuietLook,
} from '../../../plugins/token-metadata/watch.ts';
import { createSystemRandom } from '../../../src/adapters/clock.ts';
import { encode32 } from '../../../src/lib/base58.ts';
import type { BlockHeader, ChainBlock } from '../../../src/ports/block.ts';
import type { ChainStatus } from '../../../src/ports/chain.ts';
import type { Store } from '../../../src/ports/store.ts';
import type { MintFacts } from '../../../src/ports/tokens.ts';
import { decodeBlock } from '../../../src/solana/decode/decode-block.ts';
import { migrate } from '../../../src/store/migrate.ts';
import { createManualClock } from '../../helpers/manual-clock.ts';
import { createMemoryLog } from '../../helpers/memory-log.ts';
import { blockOf, entryOf, sampleMessage } from '../../helpers/rpc-block.ts';
import { createSfc32 } from '../../helpers/sfc32.ts';
import { eachStore } from '../../helpers/store.ts';

const SLOT_MS = 400;
const SLOTS = 60;
const SEEDS = Number(process.env.PARHELION_LATE_SEEDS ?? 5);
/** So many that most are read a few times only: the first time is the one that matters. */
const MINTS = Array.from({ length: 60 }, (_, at) => at + 1);
const key = (byte: number): Uint8Array => new Uint8Array(32).fill(byte);
const name = (byte: number): string => encode32(key(byte));

/** A block in which one transaction writes to these mints. */
function blockWith(slot: number, written: readonly number[]): ChainBlock {
  const keys = [200, ...written, 201].map(key);
  const call = { program: keys.length - 1, accounts: Uint8Array.of(0), data: Uint8Array.of(1) };
  const message = sampleMessage({ header: [1, 0, 1], keys, instructions: [call] });
  return decodeBlock(slot, blockOf([entryOf({ message })], slot) as never);
}

/** What the chain holds, told by the version of each mint, as the symbol of its facts. */
async function live(store: Store, seed: number): Promise<{ readonly kept: number }> {
  const random = createSfc32(seed);
  const forks = random.below(2) === 0;
  const clock = createManualClock();
  await migrate(store, [{ scope: 'token-metadata', migrations }]);
  const mints = createMintStore({ store, clock, log: createMemoryLog(), maxMints: 100 });
  let quiet: QuietLook | null = null;
  const chain = { status: () => ({ cursorSlot: branch[applied - 1]?.block.slot ?? null }) as ChainStatus };
  const startProcess = () => {
    quiet?.stop();
    const index = createMintIndex({
      clock,
      random: createSystemRandom(),
      ttlMs: 100_000_000,
      maxMints: 100,
      slotMs: () => null,
    });
    quiet = createQuietLook({ mints: index, chain, store, clock, log: createMemoryLog() });
    quiet.start();
    return createWatchProcessor(index, () => null);
  };
  let processor = startProcess();
  let versions = 0;
  const branch: { readonly block: ChainBlock; readonly state: ReadonlyMap<number, number> }[] = [];
  const waiting: { readonly kept: KeptFacts; dueIn: number }[] = [];
  const stateAt = (at: number) => branch[at]?.state ?? new Map();

  const read = () => {
    const mint = MINTS[random.below(MINTS.length)]!;
    const at = branch.length - 1 - random.below(3);
    if (at < 0) return;
    const facts = { mint: name(mint), supply: 1n, symbol: String(stateAt(at).get(mint)) } as MintFacts;
    const kept = { mint: name(mint), facts, keys: [name(mint)], slot: branch[at]!.block.slot, readAtMs: clock.now() };
    waiting.push({ kept, dueIn: random.below(6) });
  };
  const write = async () => {
    for (const one of waiting.splice(0)) {
      if (one.dueIn-- > 0) waiting.push(one);
      else mints.save(one.kept);
    }
    await mints.flush();
  };
  const grow = async (slot: number, written: readonly number[]) => {
    const state = new Map(stateAt(branch.length - 1));
    for (const mint of written) state.set(mint, ++versions);
    branch.push({ block: blockWith(slot, written), state });
  };
  let applied = 0;
  const follow = async (to: number) => {
    for (; applied < to; applied += 1) {
      const { block } = branch[applied]!;
      await store.write((tx) => processor.apply(tx, block, 'main'));
    }
  };
  const fork = async () => {
    const depth = 1 + random.below(3);
    if (applied <= depth) return;
    const headers: BlockHeader[] = branch.slice(applied - depth, applied).map(({ block }) => block);
    branch.length = applied - depth;
    applied = branch.length;
    await store.write(async (tx) => {
      for (const header of headers.reverse()) await processor.revert(tx, header, 'main');
    });
  };

  for (let step = 0; step < SLOTS; step += 1) {
    const slot = (branch.at(-1)?.block.slot ?? 100) + 1;
    await grow(
      slot,
      MINTS.filter(() => random.below(4) === 0),
    );
    // Now and then so long that the index is made anew; facts do not wait that long to be written.
    await clock.advance(waiting.length === 0 && random.below(5) === 0 ? 700_000 : SLOT_MS);
    for (let reads = random.below(3); reads > 0; reads -= 1) read();
    if (random.below(2) === 0) await follow(branch.length - random.below(2));
    await write();
    // A process that ends forgets a fork of just now.
    if (!forks && random.below(15) === 0) processor = startProcess();
    if (forks && random.below(10) === 0) await fork();
  }
  const wrong = async () => {
    const newest = new Map([...stateAt(branch.length - 1)].map(([mint, version]) => [name(mint), String(version)]));
    const kept = await mints.load(MINTS.map(name), 0);
    return { kept: kept.length, wrong: kept.filter(({ mint, facts }) => facts?.symbol !== String(newest.get(mint))) };
  };
  // Some chains go on, others stand still from now on.
  const goesOn = random.below(2) === 0;
  await follow(branch.length);
  for (let step = 0; step < 8; step += 1) {
    await write();
    if (!goesOn) continue;
    await grow(branch.at(-1)!.block.slot + 1, []);
    await follow(branch.length);
  }
  let end = await wrong();
  // A look goes to a real store.
  for (let look = 0; look < 8 && !goesOn; look += 1) {
    await clock.advance(1_000);
    for (let round = 0; round < 20 && end.wrong.length > 0; round += 1, end = await wrong())
      await new Promise((resolve) => setTimeout(resolve, 10));
  }
  quiet!.stop();
  assert.deepEqual(end.wrong, [], `seed ${seed}`);
  return { kept: end.kept };
}

eachStore('facts that come late', (engine) => {
  test('none is kept that the chain has changed since it was read', async (t) => {
    let kept = 0;
    for (let seed = 1; seed <= SEEDS; seed += 1) kept += (await live(await engine.store(t), seed)).kept;
    assert.ok(kept > 0, 'something is kept');
  });
});
