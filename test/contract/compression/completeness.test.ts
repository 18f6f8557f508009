/** Answers that may lack accounts say so: trees without their history, and ranges of slots that are not indexed. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { CompressionDb } from '../../../plugins/compression/store/tables.ts';
import { encode32 } from '../../../src/lib/base58.ts';
import type { ChainReader } from '../../../src/plugin/plugin.ts';
import { createMethodBed } from '../../helpers/compression-methods.ts';
import {
  accountRow,
  createCompressionTables,
  insertRows,
  keyOf,
  setHead,
  treeRow,
} from '../../helpers/compression-rows.ts';
import { createManualClock } from '../../helpers/manual-clock.ts';
import { eachStore } from '../../helpers/store.ts';

const OWNER = encode32(keyOf(10));
const LISTS: readonly (readonly [name: string, params: object])[] = [
  ['getCompressedAccountsByOwner', { owner: OWNER }],
  ['getCompressedAccountsByOwnerV2', { owner: OWNER }],
  ['getCompressedTokenAccountsByOwner', { owner: OWNER }],
  ['getCompressedTokenAccountsByDelegateV2', { delegate: OWNER }],
  ['getCompressedTokenBalancesByOwner', { owner: OWNER }],
  ['getCompressedBalanceByOwner', { owner: OWNER }],
  ['getCompressedMintTokenHolders', { mint: OWNER }],
  ['getCompressionSignaturesForOwner', { owner: OWNER }],
  ['getMultipleCompressedAccounts', { hashes: [OWNER] }],
  ['getCompressedAccount', { hash: OWNER }],
];

eachStore('completeness of lists', (engine) => {
  test('every list names the state trees whose history is missing, and no other tree', async (t) => {
    const store = await engine.store(t);
    await createCompressionTables(store);
    const clock = createManualClock();
    let gaps = 0;
    const chain = { status: () => ({ openGaps: gaps }) } as unknown as ChainReader;
    const bed = createMethodBed(store, { clock, chain });
    const setStatus = async (id: number, status: string) => {
      await store.write(async ({ db }) => {
        await (db as CompressionDb).updateTable('compression_trees').set({ status }).where('id', '=', id).execute();
      });
      await clock.advance(1_000);
    };
    await insertRows(store, {
      // An address tree holds no accounts, and a concurrent tree those of assets.
      compression_trees: [
        treeRow(1),
        treeRow(2),
        treeRow(3, { type: 2, status: 'gap' }),
        treeRow(4, { type: 0, status: 'gap' }),
      ],
      compression_accounts: [accountRow(keyOf(30))],
    });
    await setHead(store, 5);
    for (const [name, params] of LISTS) assert.deepEqual(await bed.headers(name, params), {}, name);
    await setStatus(2, 'gap');
    for (const [name, params] of LISTS)
      assert.deepEqual(await bed.headers(name, params), { 'x-incomplete-trees': encode32(keyOf(1, 2)) }, name);
    await setStatus(1, 'diverged');
    gaps = 2;
    await clock.advance(1_000);
    const both = {
      'x-incomplete-trees': `${encode32(keyOf(1, 1))}, ${encode32(keyOf(1, 2))}`,
      'x-missing-ranges': '2',
    };
    for (const [name, params] of LISTS) assert.deepEqual(await bed.headers(name, params), both, name);
    gaps = 0;
    await setStatus(1, 'ok');
    await setStatus(2, 'ok');
    for (const [name, params] of LISTS) assert.deepEqual(await bed.headers(name, params), {}, name);
  });

  test('many trees are counted, and a change with a new slot shows at once', async (t) => {
    const store = await engine.store(t);
    await createCompressionTables(store);
    const bed = createMethodBed(store, { clock: createManualClock() });
    await insertRows(store, { compression_trees: Array.from({ length: 11 }, (_, at) => treeRow(at + 1)) });
    await setHead(store, 5);
    assert.deepEqual(await bed.headers('getCompressedBalanceByOwner', { owner: OWNER }), {});
    await store.write(async ({ db }) => {
      await (db as CompressionDb).updateTable('compression_trees').set({ status: 'gap' }).execute();
    });
    await setHead(store, 6);
    const named = (await bed.headers('getCompressedBalanceByOwner', { owner: OWNER }))['x-incomplete-trees'];
    const first = Array.from({ length: 8 }, (_, at) => encode32(keyOf(1, at + 1)));
    assert.equal(named, [...first, 'and 3 more'].join(', '));
  });
});
