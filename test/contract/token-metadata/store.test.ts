import assert from 'node:assert/strict';
import { test } from 'node:test';
import { shapeDocument } from '../../../plugins/token-metadata/document-shape.ts';
import { createDocumentStore, createMintStore, migrations } from '../../../plugins/token-metadata/store.ts';
import { createChanges, createMintIndex, createWatchProcessor } from '../../../plugins/token-metadata/watch.ts';
import { createSystemRandom } from '../../../src/adapters/clock.ts';
import { encode32 } from '../../../src/lib/base58.ts';
import type { BlockHeader, ChainBlock } from '../../../src/ports/block.ts';
import type { ChainReader } from '../../../src/ports/chain.ts';
import type { Store } from '../../../src/ports/store.ts';
import type { MintFacts } from '../../../src/ports/tokens.ts';
import { decodeBlock } from '../../../src/solana/decode/decode-block.ts';
import { migrate } from '../../../src/store/migrate.ts';
import { createManualClock } from '../../helpers/manual-clock.ts';
import { createMemoryLog } from '../../helpers/memory-log.ts';
import { blockOf, entryOf, sampleMessage } from '../../helpers/rpc-block.ts';
import { eachStore } from '../../helpers/store.ts';

const key = (byte: number): Uint8Array => new Uint8Array(32).fill(byte);
const name = (byte: number): string => encode32(key(byte));

const facts = (mint: string): MintFacts => ({
  mint,
  program: name(99),
  decimals: 6,
  supply: 2n ** 63n,
  name: 'n',
  symbol: null,
  uri: null,
  logoUri: null,
  tokenStandard: null,
  collection: { key: name(98), verified: true },
  isNft: false,
  scale: { kind: 'multiplier', multiplier: 1.5, newMultiplier: 2, newFrom: 5 },
  transferFee: {
    older: { epoch: 1n, maximum: 2n ** 64n - 1n, basisPoints: 5 },
    newer: { epoch: 2n, maximum: 3n, basisPoints: 6 },
  },
});

/** A block in which one transaction names these keys: the first signs, the last is only read. */
function blockWith(slot: number, keys: readonly number[], error: unknown = null): ChainBlock {
  const message = sampleMessage({
    header: [1, 0, 1],
    keys: keys.map(key),
    instructions: [{ program: keys.length - 1, accounts: Uint8Array.of(0), data: Uint8Array.of(1) }],
  });
  return decodeBlock(slot, blockOf([entryOf({ message, meta: { err: error } })], slot) as never);
}

async function prepare(store: Store) {
  await migrate(store, [{ scope: 'token-metadata', migrations }]);
  const clock = createManualClock();
  const log = createMemoryLog();
  const parts = { store, clock, log };
  const documents = createDocumentStore({ ...parts, maxKept: 3 });
  const mints = createMintStore({ ...parts, maxMints: 3 });
  const index = createMintIndex({
    clock,
    random: createSystemRandom(),
    ttlMs: 1_000_000,
    maxMints: 100,
    slotMs: () => null,
  });
  const processor = createWatchProcessor(index, () => null);
  const apply = (block: ChainBlock) => store.write((tx) => processor.apply(tx, block, 'main'));
  return { clock, log, documents, mints, processor, apply };
}

eachStore('token metadata', (engine) => {
  test('documents come back until they are too old, and the oldest of too many go', async (t) => {
    const store = await engine.store(t);
    const { clock, documents, log } = await prepare(store);
    const document = shapeDocument(
      JSON.stringify({ name: 'A\u0000\ud800', image: 'i', seller_fee_basis_points: 1, properties: { files: [] } }),
    )!;
    const uri = (number: number): string => `https://example.com/${'x'.repeat(5_000)}${number}`;
    for (let i = 1; i <= 5; i++)
      documents.save(
        uri(i),
        i === 5 ? { document: null, error: 'TIMEOUT' } : { document, error: '' },
        clock.now() + i * 1_000,
      );
    documents.save('data:application/json,{}', { document, error: '' }, clock.now() + 1_000);
    await documents.flush();
    const all = [1, 2, 3, 4, 5].map(uri);
    const found = await documents.load([...all, 'data:application/json,{}', 'elsewhere']);
    assert.deepEqual([...found.keys()].sort(), all);
    assert.deepEqual(found.get(uri(1)), { answer: { document, error: '' }, untilMs: clock.now() + 1_000 });
    assert.deepEqual(found.get(uri(5))?.answer, { document: null, error: 'TIMEOUT' });

    documents.save(uri(5), { document, error: '' }, clock.now() + 9_000);
    await documents.flush();
    assert.equal((await documents.load([uri(5)])).get(uri(5))?.answer.error, '');
    await clock.advance(1_000);
    assert.equal((await documents.load(all)).size, 4);
    await documents.prune();
    assert.deepEqual([...(await documents.load(all)).keys()].sort(), [3, 4, 5].map(uri));
    assert.deepEqual(log.lines, []);
  });

  test('stored facts are unchanged when read; a written mint is dropped and reported', async (t) => {
    const store = await engine.store(t);
    const { clock, mints, processor, apply } = await prepare(store);
    const told: string[] = [];
    let released = (_header: BlockHeader): void => {};
    const chain = {
      onReleased(listener: typeof released) {
        released = listener;
        return () => {};
      },
    } as Partial<ChainReader> as ChainReader;
    const onChanged = (changed: readonly string[], slot: number) =>
      void told.push(...changed.map((mint) => `${mint} ${slot}`));
    const changes = createChanges({ chain, store, clock, log: createMemoryLog(), onChanged });
    await changes.start();
    const hear = async (count: number) => {
      released({} as BlockHeader);
      await clock.advance(100);
      // The look-up goes to a real database.
      for (const until = Date.now() + 60_000; told.length < count && Date.now() < until; )
        await new Promise((resolve) => setTimeout(resolve, 10));
      return told.splice(0);
    };

    const keep = async (byte: number, slot: number, keys = [name(byte), name(byte + 100)]) => {
      mints.save({ mint: name(byte), facts: facts(name(byte)), keys, slot, readAtMs: clock.now() });
      await mints.flush();
    };
    const known = async () => (await mints.load([1, 2, 3].map(name), 0)).map(({ mint }) => mint).sort();
    for (const byte of [1, 2, 3]) await keep(byte, 19);
    assert.deepEqual(await mints.load([name(1), name(50)], 0), [
      { mint: name(1), facts: facts(name(1)), keys: [name(1), name(101)], slot: 19, readAtMs: clock.now() },
    ]);
    assert.deepEqual(await mints.load([name(1)], clock.now()), []);

    // Read only, failed, and somebody else's.
    await apply(blockWith(20, [200, 201, 1]));
    await apply(blockWith(21, [200, 1, 201], { InstructionError: [0, 'Custom'] }));
    await apply(blockWith(22, [200, 201, 202]));
    assert.deepEqual(await known(), [1, 2, 3].map(name));
    assert.deepEqual(await hear(0), []);
    // Its own account, and that of its metadata.
    await apply(blockWith(23, [200, 1, 202]));
    await apply(blockWith(24, [200, 102, 202]));
    assert.deepEqual(await known(), [name(3)]);
    assert.deepEqual(await hear(2), [`${name(1)} 23`, `${name(2)} 24`]);

    // A node that has not seen the change yet tells nothing new.
    await keep(1, 22);
    assert.deepEqual(await known(), [name(3)]);
    await keep(1, 23);
    assert.deepEqual(await known(), [name(1), name(3)].sort());

    const header = { slot: 23 } as BlockHeader;
    await store.write((tx) => processor.revert(tx, header, 'main'));
    assert.deepEqual(await known(), [name(3)]);
    assert.deepEqual(await hear(1), [`${name(1)} 23`]);
    await keep(1, 30);
    await apply(blockWith(31, [1, 202]));
    assert.deepEqual(await known(), [name(3)]);

    await store.write((tx) => processor.finalized!(tx, 5_000, 'main'));
    await keep(1, 0);
    assert.deepEqual(await known(), [name(1), name(3)].sort());
    changes.stop();
  });

  test('the oldest of too many mints go', async (t) => {
    const store = await engine.store(t);
    const { clock, mints } = await prepare(store);
    for (const byte of [1, 2, 3, 4, 5]) {
      mints.save({ mint: name(byte), facts: facts(name(byte)), keys: [], slot: 1, readAtMs: clock.now() });
      await clock.advance(1_000);
    }
    await mints.flush();
    await mints.prune(0);
    const left = await mints.load([1, 2, 3, 4, 5].map(name), 0);
    assert.deepEqual(left.map(({ mint }) => mint).sort(), [3, 4, 5].map(name).sort());
  });
});
