import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type CompressedAccountRow, u64Bytes } from '../../../plugins/compression/store/tables.ts';
import { encode, encode32, encode64 } from '../../../src/lib/base58.ts';
import type { Store } from '../../../src/ports/store.ts';
import { createMethodBed } from '../../helpers/compression-methods.ts';
import {
  accountRow,
  createCompressionTables,
  insertRows,
  keyOf,
  setHead,
  signatureOf,
  tokenRow,
  treeRow,
} from '../../helpers/compression-rows.ts';
import { eachStore, type StoreEngine } from '../../helpers/store.ts';

const NO_KEY = '11111111111111111111111111111111';
const ADDRESS = keyOf(60);
const NEXT = keyOf(1, 3);
const OWNER = keyOf(10);
const MOST = 2n ** 64n - 1n;

/** An address that has changed twice, in trees of both kinds. */
function changes(): CompressedAccountRow[] {
  const data = { discriminator: Buffer.alloc(8, 255), data: Buffer.from('some data'), data_hash: keyOf(6) };
  return [
    accountRow(keyOf(41), {
      address: ADDRESS,
      spent: 1,
      slot_created: 5,
      created_by: signatureOf(1),
      slot_spent: 6,
      spent_by: signatureOf(2),
      nullifier: keyOf(7),
      tx_hash: keyOf(8),
    }),
    accountRow(keyOf(42), {
      ...data,
      address: ADDRESS,
      tree: 2,
      leaf_index: 4_000_000_000,
      lamports: u64Bytes(MOST),
      seq: null,
      queued: 1,
      slot_created: 6,
      created_by: signatureOf(2),
    }),
    accountRow(keyOf(43), { tree: 4, leaf_index: 3, lamports: u64Bytes(9n), seq: 12 }),
  ];
}

async function bedOf(engine: StoreEngine, t: TestContext) {
  const store = await engine.store(t);
  await createCompressionTables(store);
  return { store, bed: createMethodBed(store) };
}

async function filled(engine: StoreEngine, t: TestContext) {
  const { store, bed } = await bedOf(engine, t);
  await insertRows(store, {
    compression_trees: [
      treeRow(1),
      treeRow(2, { type: 3, next_tree: NEXT }),
      treeRow(3, { key: NEXT, type: 3, queue: keyOf(2, 3) }),
      treeRow(4, { queue: null, next_tree: keyOf(77) }),
    ],
    compression_accounts: changes(),
    compression_token_accounts: [
      tokenRow(keyOf(42), { amount: u64Bytes(MOST), state: 1, delegate: keyOf(30), tlv: Buffer.of(1, 2, 3) }),
      tokenRow(keyOf(41), { spent: 1, amount: u64Bytes(5n) }),
    ],
    compression_token_balances: [{ owner: OWNER, mint: keyOf(20), amount: u64Bytes(MOST) }],
    compression_balances: [{ owner: OWNER, lamports: u64Bytes(MOST) }],
    compression_blocks: [
      { slot: 5, block_time: 50 },
      { slot: 6, block_time: null },
    ],
  });
  await setHead(store, 9);
  return { store, bed };
}

interface Value<T = unknown> {
  readonly context: { readonly slot: number };
  readonly value: T;
}

eachStore('records of compressed accounts', (engine) => {
  test('an account as both versions show it, its numbers bare', async (t) => {
    const { bed } = await filled(engine, t);
    const hash = encode32(keyOf(42));
    const fixed = `"hash":"${hash}","address":"${encode32(ADDRESS)}","data":{"discriminator":${MOST},"data":"${Buffer.from('some data').toString('base64')}","dataHash":"${encode32(keyOf(6))}"},"owner":"${encode32(OWNER)}","lamports":${MOST}`;
    assert.equal(
      await bed.text('getCompressedAccount', { hash }),
      `{"context":{"slot":9},"value":{${fixed},"tree":"${encode32(keyOf(1, 2))}","leafIndex":4000000000,"seq":null,"slotCreated":6}}`,
    );
    const context = (tree: Uint8Array, queue: Uint8Array) =>
      `"treeType":3,"tree":"${encode32(tree)}","queue":"${encode32(queue)}","cpiContext":null`;
    assert.equal(
      await bed.text('getCompressedAccountV2', [{ hash }]),
      `{"context":{"slot":9},"value":{${fixed},"leafIndex":4000000000,"seq":null,"slotCreated":6,"proveByIndex":true,"merkleContext":{${context(keyOf(1, 2), keyOf(2, 2))},"nextTreeContext":{${context(NEXT, keyOf(2, 3))}}}}}`,
    );
  });

  test('unknown facts of trees are reported as such', async (t) => {
    const { bed } = await filled(engine, t);
    const { value } = await bed.call<Value<{ merkleContext: object; seq: number }>>('getCompressedAccountV2', {
      hash: encode32(keyOf(43)),
    });
    const nothing = { queue: NO_KEY, cpiContext: null };
    assert.deepEqual(value.merkleContext, {
      treeType: 1,
      tree: encode32(keyOf(1, 4)),
      ...nothing,
      nextTreeContext: { treeType: 1, tree: encode32(keyOf(77)), ...nothing },
    });
    assert.equal(value.seq, 12);
  });

  test('an address is its newest change; spent and unknown accounts are null', async (t) => {
    const { bed } = await filled(engine, t);
    const address = encode32(ADDRESS);
    const [spent, current, unknown] = [keyOf(41), keyOf(42), keyOf(99)].map((hash) => encode32(hash));
    const hashOf = async (params: object) =>
      (await bed.call<Value<{ hash: string } | null>>('getCompressedAccount', params)).value?.hash ?? null;
    assert.equal(await hashOf({ address }), current);
    // The address goes first.
    assert.equal(await hashOf({ address, hash: unknown }), current);
    assert.equal(await hashOf({ hash: spent }), null);
    assert.equal(await hashOf({ hash: unknown }), null);
    for (const version of ['', 'V2']) {
      const many = await bed.call<Value<{ items: ({ hash: string } | null)[] }>>(
        `getMultipleCompressedAccounts${version}`,
        { hashes: [unknown, current, spent, current] },
      );
      assert.deepEqual(
        many.value.items.map((item) => item?.hash ?? null),
        [null, current, null, current],
      );
      const byAddress = await bed.call<Value<{ items: ({ hash: string } | null)[] }>>(
        `getMultipleCompressedAccounts${version}`,
        { addresses: [address, encode32(keyOf(61))], hashes: null },
      );
      assert.deepEqual(
        byAddress.value.items.map((item) => item?.hash ?? null),
        [current, null],
      );
    }
  });

  test('balances are the unspent ones, and 0 where there is nothing', async (t) => {
    const { store, bed } = await filled(engine, t);
    const [spent, current] = [keyOf(41), keyOf(42)].map((hash) => encode32(hash));
    const textOf = async (name: string, params: object) => (await bed.text(name, params)).split('"value":')[1];
    for (const name of ['getCompressedBalance', 'getCompressedAccountBalance']) {
      assert.equal(await textOf(name, { hash: current }), `${MOST}}`);
      assert.equal(await textOf(name, { address: encode32(ADDRESS) }), `${MOST}}`);
      assert.equal(await textOf(name, { hash: spent }), '0}');
    }
    assert.equal(await textOf('getCompressedBalanceByOwner', { owner: encode32(OWNER), extra: 1 }), `${MOST}}`);
    assert.equal(await textOf('getCompressedBalanceByOwner', { owner: spent }), '0}');
    const tokens = 'getCompressedTokenAccountBalance';
    assert.equal(await textOf(tokens, { hash: current }), `{"amount":${MOST}}}`);
    assert.equal(await textOf(tokens, { hash: spent }), '{"amount":0}}');
    assert.equal(await textOf(tokens, { address: encode32(OWNER) }), `{"amount":${MOST}}}`);
    assert.equal(await textOf(tokens, { address: spent }), '{"amount":0}}');
    await insertRows(store, { compression_token_balances: [{ owner: OWNER, mint: keyOf(21), amount: u64Bytes(1n) }] });
    assert.match(await bed.refusal(tokens, { address: encode32(OWNER) }), /^-32603 the sum of the amounts/);
  });

  test('the tokens of an owner of many mints', async (t) => {
    const { store, bed } = await filled(engine, t);
    const owner = keyOf(13);
    const rows = Array.from({ length: 2_500 }, (_, mint) => [owner, keyOf(21, mint), u64Bytes(2n)] as const);
    await store.write(async (tx) => {
      await tx.insertMany('compression_token_balances', ['owner', 'mint', 'amount'], rows);
    });
    const { value } = await bed.call<Value>('getCompressedTokenAccountBalance', { address: encode32(owner) });
    assert.deepEqual(value, { amount: 5_000 });
  });

  test('a token account', async (t) => {
    const { bed } = await filled(engine, t);
    const { value } = await bed.call<Value<{ items: object[] }>>('getCompressedTokenAccountsByDelegateV2', {
      delegate: encode32(keyOf(30)),
    });
    const account = (await bed.call<Value>('getCompressedAccountV2', { hash: encode32(keyOf(42)) })).value;
    const tokenData = {
      mint: encode32(keyOf(20)),
      owner: encode32(OWNER),
      amount: Number(MOST),
      delegate: encode32(keyOf(30)),
      state: 'frozen',
      tlv: 'AQID',
    };
    assert.deepEqual(value.items, [{ account, tokenData }]);
  });

  test('the transaction that created an account, then the one that spent it', async (t) => {
    const { bed } = await filled(engine, t);
    const items = async (hash: Uint8Array) =>
      (await bed.call<Value<{ items: object[] }>>('getCompressionSignaturesForAccount', { hash: encode32(hash) }))
        .value;
    const created = { signature: encode64(signatureOf(1)), slot: 5, blockTime: 50 };
    const spent = { signature: encode64(signatureOf(2)), slot: 6, blockTime: 0 };
    assert.deepEqual(await items(keyOf(41)), { items: [created, spent] });
    assert.deepEqual(await items(keyOf(42)), { items: [spent] });
    const refusal = await bed.refusal('getCompressionSignaturesForAccount', { hash: encode32(keyOf(99)) });
    assert.equal(refusal, '-32000 Record Not Found: Account not found');
  });

  test('filters look at the data, also far down the list; a slice cuts what is shown', async (t) => {
    const { store, bed } = await filled(engine, t);
    const owner = keyOf(11);
    // One query looks at 4096 rows: those on both sides of its end match too.
    const matching = [0, 4_095, 4_096, 4_097, 8_191, 8_192, 8_999];
    await insertMany(store, owner, 9_000, matching);
    const bytes = encode(Buffer.from('mark'));
    const params = { owner: encode32(owner), filters: [{ memcmp: { offset: 2, bytes } }] };
    const name = 'getCompressedAccountsByOwnerV2';
    type Page = Value<{ items: { leafIndex: number; data: { data: string } }[]; cursor: string | null }>;
    const whole = (await bed.call<Page>(name, params)).value;
    assert.deepEqual([whole.items.map(({ leafIndex }) => leafIndex), whole.cursor], [matching, null]);
    const found: number[] = [];
    for (let cursor: string | null = null, first = true; first || cursor !== null; first = false) {
      const page: Page['value'] = (await bed.call<Page>(name, { ...params, limit: 1, cursor })).value;
      found.push(...page.items.map(({ leafIndex }) => leafIndex));
      cursor = page.cursor;
    }
    assert.deepEqual(found, matching);
    const sliced = await bed.call<Page>(name, { ...params, dataSlice: { offset: 2, length: 4 } });
    assert.deepEqual(
      sliced.value.items.map(({ data }) => Buffer.from(data.data, 'base64').toString()),
      matching.map(() => 'mark'),
    );
    const beyond = await bed.call<Page>(name, { ...params, dataSlice: { offset: 900, length: 4 } });
    assert.equal(beyond.value.items[0]?.data.data, '');
    const both = { memcmp: { offset: 0, bytes: encode(Buffer.from('a')) } };
    assert.deepEqual((await bed.call<Page>(name, { ...params, filters: [...params.filters, both] })).value.items, []);
    // Without data there is nothing that could match.
    const none = { owner: encode32(OWNER), filters: [{ memcmp: { offset: 0, bytes: '' } }] };
    assert.deepEqual(
      (await bed.call<Page>(name, none)).value.items.map(({ leafIndex }) => leafIndex),
      [4_000_000_000],
    );
  });

  test('a page continues after an account that was spent since', async (t) => {
    const { store, bed } = await filled(engine, t);
    const owner = keyOf(12);
    const rows = [1, 2, 3].map((leaf) => accountRow(keyOf(80, leaf), { owner, leaf_index: leaf }));
    await insertRows(store, { compression_accounts: rows });
    type Page = Value<{ items: { leafIndex: number }[]; cursor: string | null }>;
    const params = { owner: encode32(owner), limit: 2 };
    const first = (await bed.call<Page>('getCompressedAccountsByOwner', params)).value;
    await store.write(async ({ db }) => {
      await db.updateTable('compression_accounts').set({ spent: 1 }).where('hash', '=', keyOf(80, 2)).execute();
    });
    const second = await bed.call<Page>('getCompressedAccountsByOwner', { ...params, cursor: first.cursor });
    assert.deepEqual(second.value, { items: [second.value.items[0]], cursor: null });
    assert.equal(second.value.items[0]?.leafIndex, 3);
    for (const cursor of [encode32(keyOf(99)), encode32(keyOf(42))])
      assert.equal(
        await bed.refusal('getCompressedAccountsByOwner', { ...params, cursor }),
        '-32602 Invalid cursor',
        'an account that is unknown, or of another owner',
      );
  });

  test('an empty index is no empty answer', async (t) => {
    const { bed } = await bedOf(engine, t);
    const key = encode32(OWNER);
    const params: Readonly<Record<string, object>> = {
      getMultipleCompressedAccounts: { hashes: [key] },
      getMultipleCompressedAccountsV2: { hashes: [key] },
      getCompressedTokenAccountsByDelegate: { delegate: key },
      getCompressedTokenAccountsByDelegateV2: { delegate: key },
      getCompressedMintTokenHolders: { mint: key },
      getCompressionSignaturesForAddress: { address: key },
    };
    const without = new Set(['getLatestCompressionSignatures', 'getLatestNonVotingSignatures']);
    for (const name of bed.names) {
      if (name.startsWith('getTransaction')) continue;
      const isEmpty = without.has(name) || name.startsWith('getIndexer');
      const given =
        params[name] ?? (isEmpty ? {} : /Balance$|Account(V2)?$/.test(name) ? { hash: key } : { owner: key });
      assert.equal(await bed.refusal(name, given), '-32002 nothing has been indexed yet', name);
    }
  });

  test('minContextSlot waits for its slot, not for ever', async (t) => {
    const { store, bed } = await filled(engine, t);
    const params = { owner: encode32(OWNER), minContextSlot: 12 };
    const waiting = bed.call<Value>('getCompressedBalanceByOwner', params);
    await sleep(50);
    await setHead(store, 12);
    assert.equal((await waiting).context.slot, 12);
    const refusal = await bed.refusal('getCompressedBalanceByOwner', { ...params, minContextSlot: 13 });
    assert.equal(refusal, '-32002 slot 13 has not been indexed yet (at 12)');
    // A revert that was not noticed yet.
    await bed.call<Value>('getCompressedBalanceByOwner', { owner: encode32(OWNER), minContextSlot: 12 });
    await setHead(store, 11);
    const late = await bed.refusal('getCompressedBalanceByOwner', { owner: encode32(OWNER), minContextSlot: 12 });
    assert.equal(late, '-32002 slot 12 has not been indexed yet (at 11)');
  });
});

async function insertMany(store: Store, owner: Uint8Array, count: number, matching: readonly number[]): Promise<void> {
  const rows = Array.from({ length: count }, (_, leaf) =>
    accountRow(keyOf(70, leaf), {
      owner,
      leaf_index: leaf,
      discriminator: Buffer.alloc(8),
      data_hash: keyOf(6),
      data: Buffer.from(matching.includes(leaf) ? 'xxmarkxx' : 'nothing!'),
    }),
  );
  const columns = Object.keys(rows[0] ?? {}) as (keyof CompressedAccountRow)[];
  await store.write(async (tx) => {
    await tx.insertMany(
      'compression_accounts',
      columns,
      rows.map((row) => columns.map((column) => row[column])),
    );
  });
}
