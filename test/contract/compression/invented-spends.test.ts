/** Invented spends: after its tree was read again the account is unspent; real spends stay. */
import assert from 'node:assert/strict';
import { suite, type TestContext, test } from 'node:test';
import { openBooks } from '../../../plugins/compression/indexing/block-books.ts';
import { revertUnverifiedSpends } from '../../../plugins/compression/indexing/corrections.ts';
import type { DecodedBlock } from '../../../plugins/compression/indexing/decode-block.ts';
import {
  type CompressedAccountRow,
  type CompressionDb,
  READ,
  SPENT,
  u64Bytes,
  verifyNote,
} from '../../../plugins/compression/store/tables.ts';
import type { NewTree } from '../../../plugins/compression/trees/tree-book.ts';
import type { Store } from '../../../src/ports/store.ts';
import type { TransactionEvent } from '../../../src/solana/compression/events.ts';
import { readEverything } from '../../helpers/compression.ts';
import {
  bent,
  busyWorld,
  hashing,
  type Lie,
  liedTo,
  readTrees,
  STATE_V1,
  STATE_V2,
  treeOf,
  wholeState,
} from '../../helpers/compression-lies.ts';
import {
  accountRow,
  createCompressionTables,
  insertRows,
  keyOf,
  signatureOf,
  tokenRow,
} from '../../helpers/compression-rows.ts';
import { createMemoryLog } from '../../helpers/memory-log.ts';
import { eachStore, sqliteStore } from '../../helpers/store.ts';

type Stores = readonly [honest: Store, store: Store];
type Input = TransactionEvent['inputs'][number];

async function accountsOf(store: Store, { key }: NewTree): Promise<CompressedAccountRow[]> {
  const { id } = await treeOf(store, key);
  return await (store.read as CompressionDb)
    .selectFrom('compression_accounts')
    .selectAll()
    .where('tree', '=', id)
    .orderBy('leaf_index')
    .execute();
}

/** The first unspent account. */
const victimOf = async (honest: Store, tree: NewTree): Promise<CompressedAccountRow> =>
  (await accountsOf(honest, tree)).find(({ spent }) => spent === SPENT.no)!;

const rowOf = async (store: Store, { hash }: CompressedAccountRow): Promise<CompressedAccountRow> =>
  await (store.read as CompressionDb)
    .selectFrom('compression_accounts')
    .selectAll()
    .where('hash', '=', hash)
    .executeTakeFirstOrThrow();

const inputOf = ({ hash, leaf_index }: CompressedAccountRow, place: number): Input => ({
  hash,
  queued: { tree: STATE_V2.key, leafIndex: leaf_index, queueIndex: BigInt(place) },
});

/** At one index of the nullifier queue the input is changed by `change`. */
const atPlace =
  (place: number, change: (input: Input) => readonly Input[]): Lie =>
  (event) =>
    event.kind !== 'transaction'
      ? event
      : {
          ...event,
          inputs: event.inputs.flatMap((input) =>
            input.queued?.queueIndex === BigInt(place) ? change(input) : [input],
          ),
        };

async function lieAboutV2([honest, store]: Stores, isBeside: boolean) {
  const { world, truth } = await busyWorld(honest);
  const place = truth.parts.nullifiers[0]!.from;
  const victim = await victimOf(honest, STATE_V2);
  const lie = atPlace(place, (input) => [...(isBeside ? [input] : []), inputOf(victim, place)]);
  const bed = await liedTo(store, honest, world, lie);
  assert.equal((await rowOf(store, victim)).spent, SPENT.yes);
  await bed.check();
  assert.deepEqual((await treeOf(store, STATE_V2.key)).reason, 'queue');
  return { bed, victim, world };
}

async function proveAsHonest([honest, store]: Stores): Promise<void> {
  assert.deepEqual(await wholeState(store), await wholeState(honest));
  for (const tree of await readTrees(store)) assert.equal(tree.status, 'ok');
  assert.equal((await readEverything(store, ['compression_notes'])).compression_notes?.length ?? 0, 0);
}

/** An account of the owner is made, and the account is spent. */
function laterBlock(slot: number, account: CompressedAccountRow, place: number): DecodedBlock {
  const made = keyOf(77, 1);
  const output = {
    account: { owner: account.owner, lamports: 7n, address: null, data: null },
    hash: made,
    leafIndex: 50,
    tree: STATE_V2.key,
    treeOrQueue: STATE_V2.key,
    treeType: 3,
    wallet: null,
    seq: null,
  };
  const event: TransactionEvent = {
    kind: 'transaction',
    version: 2,
    inputs: [inputOf(account, place)],
    outputs: [output],
    newAddresses: [],
    txHash: keyOf(5),
    missesQueueIndexes: [],
  };
  const transactions = [{ signature: signatureOf(9), events: [event], faults: [] }];
  return { slot, blockTime: null, transactions, others: [], newTrees: [], foreign: [] };
}

const withoutSpends = (block: DecodedBlock): DecodedBlock => ({
  ...block,
  transactions: block.transactions.map((one) => ({
    ...one,
    events: one.events.map((event) => (event.kind === 'transaction' ? { ...event, inputs: [] } : event)),
  })),
});

async function proveUnspent(both: Stores, isBeside: boolean): Promise<void> {
  const { bed, victim } = await lieAboutV2(both, isBeside);
  await bed.heal();
  assert.equal((await rowOf(both[1], victim)).spent, SPENT.no);
  assert.ok(bed.log.lines.some(({ message }) => message?.includes('was never spent') === true));
  await proveAsHonest(both);
}

eachStore('spends that were invented', (engine) => {
  const stores = async (t: TestContext): Promise<Stores> => [await engine.store(t), await engine.store(t)];

  test('an account of a V2 tree, in addition to the real one', async (t) => proveUnspent(await stores(t), true));

  test('an account of a V1 tree that is read again from its beginning', async (t) => {
    const both = await stores(t);
    const [honest, store] = both;
    const { world } = await busyWorld(honest);
    const victim = await victimOf(honest, STATE_V1);
    const leaf = (await accountsOf(honest, STATE_V1)).at(-1)!;
    let isTold = false;
    const bed = await liedTo(store, honest, world, (event) => {
      if (event.kind !== 'transaction') return event;
      const invented = isTold ? [] : [{ hash: victim.hash, queued: null }];
      isTold = true;
      const outputs = event.outputs.map((output) =>
        output.treeType === STATE_V1.type && output.leafIndex === leaf.leaf_index
          ? { ...output, hash: bent(output.hash) }
          : output,
      );
      return { ...event, inputs: [...event.inputs, ...invented], outputs };
    });
    assert.equal((await rowOf(store, victim)).spent, SPENT.yes);
    await bed.check();
    assert.equal((await treeOf(store, STATE_V1.key)).status, 'diverged');
    await bed.heal();
    assert.deepEqual(bed.asked, ['whole']);
    assert.equal((await rowOf(store, victim)).spent, SPENT.no);
    await proveAsHonest(both);
  });

  test('tokens come back too; what the tree itself has replaced stays spent', async (t) => {
    const store = await engine.store(t);
    await createCompressionTables(store);
    const [spent, replaced] = [keyOf(30, 1), keyOf(30, 2)];
    const doubt = { spent: SPENT.unverified, slot_spent: 8, spent_by: signatureOf(8) };
    const lamports = u64Bytes(5n);
    await insertRows(store, {
      compression_accounts: [
        accountRow(spent, { ...doubt, lamports }),
        accountRow(replaced, { ...doubt, lamports, leaf_index: 1, nullified: 1 }),
      ],
      compression_token_accounts: [
        tokenRow(spent, { spent: 1, amount: u64Bytes(3n) }),
        tokenRow(replaced, { spent: 1 }),
      ],
      compression_notes: [{ name: verifyNote(1), value: READ }],
    });
    const amend = async (tx: Parameters<typeof revertUnverifiedSpends>[0], change: (books: never) => Promise<void>) => {
      const books = openBooks(tx, hashing);
      await change(books as never);
      await books.flush();
    };
    await store.write((tx) => revertUnverifiedSpends(tx, { amend }, createMemoryLog()));
    const db = store.read as CompressionDb;
    const rows = await db.selectFrom('compression_accounts').selectAll().orderBy('leaf_index').execute();
    assert.deepEqual(
      rows.map((row) => [row.spent, row.slot_spent]),
      [
        [SPENT.no, null],
        [SPENT.yes, 8],
      ],
    );
    const tokens = await db.selectFrom('compression_token_accounts').select('spent').orderBy('hash').execute();
    assert.deepEqual(
      tokens.map((row) => row.spent),
      [0, 1],
    );
    const [sum] = await db.selectFrom('compression_balances').selectAll().execute();
    assert.deepEqual(Buffer.from(sum!.lamports), Buffer.from(lamports));
    const [held] = await db.selectFrom('compression_token_balances').selectAll().execute();
    assert.deepEqual(Buffer.from(held!.amount), Buffer.from(u64Bytes(3n)));
  });
});

suite('spends that were invented, and blocks meanwhile', () => {
  const stores = async (t: TestContext): Promise<Stores> => [await sqliteStore(t), await sqliteStore(t)];

  test('an account of a V2 tree, in place of the real one', async (t) => proveUnspent(await stores(t), false));

  test('a block spends it in between, and is reverted when all is settled', async (t) => {
    const both = await stores(t);
    const { bed, victim, world } = await lieAboutV2(both, true);
    await bed.round();
    assert.equal((await rowOf(both[1], victim)).spent, SPENT.unverified);
    const slot = world.blocks.at(-1)!.slot + 2;
    await bed.apply(laterBlock(slot, victim, 60), false);
    assert.equal((await rowOf(both[1], victim)).spent, SPENT.yes);
    for (let round = 0; round < 3; round += 1) await bed.round();
    assert.equal((await rowOf(both[1], victim)).spent, SPENT.yes);
    await bed.revert(slot);
    await bed.heal();
    await proveAsHonest(both);
  });

  test('its owner receives something in between in a block that is reverted', async (t) => {
    const both = await stores(t);
    const { bed, victim, world } = await lieAboutV2(both, true);
    await bed.round();
    const slot = world.blocks.at(-1)!.slot + 2;
    await bed.apply(withoutSpends(laterBlock(slot, victim, 60)), false);
    for (let round = 0; round < 3; round += 1) await bed.round();
    assert.equal((await rowOf(both[1], victim)).spent, SPENT.no);
    await bed.revert(slot);
    await proveAsHonest(both);
  });

  test('an account that never was goes beneath a block that gives its owner something and is taken back', async (t) => {
    const both = await stores(t);
    const [honest, store] = both;
    const { world, truth } = await busyWorld(honest);
    const leaf = truth.parts.outputs[0]!.from;
    const [told] = (await accountsOf(honest, STATE_V2)).filter((row) => row.leaf_index === leaf);
    const bed = await liedTo(store, honest, world, (event) =>
      event.kind !== 'transaction'
        ? event
        : {
            ...event,
            outputs: event.outputs.map((output) =>
              output.treeType === STATE_V2.type && output.leafIndex === leaf
                ? { ...output, hash: bent(output.hash), account: { ...output.account, lamports: 5_000n } }
                : output,
            ),
          },
    );
    await bed.check();
    await bed.look();
    const slot = world.blocks.at(-1)!.slot + 2;
    await bed.apply(withoutSpends(laterBlock(slot, told!, 60)), false);
    await bed.heal();
    await bed.revert(slot);
    await proveAsHonest(both);
  });
});
