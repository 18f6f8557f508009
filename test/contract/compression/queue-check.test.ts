/** Wrong or missing queue values of V2 trees, in generated histories: found by the hash chains of the queues or by a root, and repaired. */
import assert from 'node:assert/strict';
import { suite, type TestContext, test } from 'node:test';
import type { QueueKind } from '../../../plugins/compression/chain/queue-check.ts';
import type { Store } from '../../../src/ports/store.ts';
import {
  ADDRESS_V2,
  type Bed,
  bent,
  busyWorld,
  type Lie,
  liedTo,
  readTrees,
  STATE_V2,
  treeOf,
  wholeState,
} from '../../helpers/compression-lies.ts';
import { byCase } from '../../helpers/run-part.ts';
import { eachStore, sqliteStore } from '../../helpers/store.ts';

/** The wrong value, by the index of the first queued value. */
const LIES: readonly (readonly [string, QueueKind, (from: number) => Lie, string])[] = [
  [
    'an account that waits has another hash',
    'outputs',
    (from) => (event) =>
      event.kind !== 'transaction'
        ? event
        : {
            ...event,
            outputs: event.outputs.map((output) =>
              output.treeType === STATE_V2.type && output.leafIndex === from
                ? { ...output, hash: bent(output.hash) }
                : output,
            ),
          },
    'diverged',
  ],
  [
    'a nullifier is made of another transaction',
    'nullifiers',
    (from) => (event) =>
      event.kind === 'transaction' && event.inputs.some(({ queued }) => queued?.queueIndex === BigInt(from))
        ? { ...event, txHash: bent(event.txHash) }
        : event,
    'diverged',
  ],
  [
    'an address is another one',
    'addresses',
    (from) => (event) =>
      event.kind !== 'transaction'
        ? event
        : {
            ...event,
            newAddresses: event.newAddresses.map((one) =>
              one.queueIndex === BigInt(from) ? { ...one, address: bent(one.address) } : one,
            ),
          },
    'diverged',
  ],
  [
    'an address is left out',
    'addresses',
    (from) => (event) =>
      event.kind !== 'transaction'
        ? event
        : { ...event, newAddresses: event.newAddresses.filter(({ queueIndex }) => queueIndex !== BigInt(from)) },
    'gap',
  ],
];

type Stores = readonly [honest: Store, store: Store];

async function proveLie([honest, store]: Stores, [, kind, lieAt, status]: (typeof LIES)[number]): Promise<void> {
  const { world, truth } = await busyWorld(honest);
  const bed: Bed = await liedTo(store, honest, world, lieAt(truth.parts[kind][0]!.from));
  const key = (kind === 'addresses' ? ADDRESS_V2 : STATE_V2).key;
  await bed.check();
  const { status: found, reason } = await treeOf(store, key);
  assert.deepEqual([found, reason], [status, status === 'gap' ? 'history' : 'queue']);
  await proveHealed(bed, [honest, store]);
}

async function proveBatch([honest, store]: Stores, kind: (typeof BATCHES)[number]): Promise<void> {
  const { world } = await busyWorld(honest);
  let lies = 0;
  const bed = await liedTo(store, honest, world, (event) => {
    if (event.kind !== kind || lies > 0) return event;
    lies += 1;
    return { ...event, newRoot: bent(event.newRoot) };
  });
  assert.equal(lies, 1);
  const key = (kind === 'addressAppend' ? ADDRESS_V2 : STATE_V2).key;
  const { status, reason } = await treeOf(store, key);
  assert.deepEqual([status, reason], ['diverged', 'root']);
  await proveHealed(bed, [honest, store]);
}

async function proveHealed(bed: Bed, [honest, store]: Stores): Promise<void> {
  await bed.heal();
  assert.deepEqual(bed.asked, ['near']);
  assert.deepEqual(await wholeState(store), await wholeState(honest));
  for (const tree of await readTrees(store)) assert.equal(tree.status, 'ok');
}

const BATCHES = ['append', 'batchNullify', 'addressAppend'] as const;

eachStore('queues against the chain', (engine) => {
  const stores = async (t: TestContext): Promise<Stores> => [await engine.store(t), await engine.store(t)];

  test('correct queues are not changed', async (t) => {
    const [honest, store] = await stores(t);
    const { world } = await busyWorld(honest);
    const bed = await liedTo(store, honest, world, (event) => event);
    await bed.check();
    for (const { status } of await readTrees(store)) assert.equal(status, 'ok');
    assert.deepEqual(bed.log.lines, []);
  });

  test('a lie: refused, read again, right', async (t) => proveLie(await stores(t), LIES[0]!));
});

byCase([...LIES.slice(1), ...BATCHES], (cases) =>
  suite('lies about what waits: refused, read again, right', () => {
    const stores = async (t: TestContext): Promise<Stores> => [await sqliteStore(t), await sqliteStore(t)];
    for (const one of cases) {
      if (typeof one === 'string')
        test(`the event of a batch is another one (${one})`, async (t) => proveBatch(await stores(t), one));
      else test(one[0], async (t) => proveLie(await stores(t), one));
    }
  }),
);
